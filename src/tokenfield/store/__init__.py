"""Runs on disk: zarr folders, written whole or not at all, and checked before anything is read from them.

- `places`: a folder takes the name of another, whatever happens on the way
- `arrays`: arrays with names, axes and attributes as a Zarr 3 folder, and nothing else that such a folder could hold
- `earlier`: the format that was written before
- `runs`: a run as arrays and attributes, and back
"""
