"""Many members over a grid of parameters, on Dask: kept as they finish, gone on with after whatever stopped them.

- `ranges`, `grid`: the values of parameters, and the groups of members that are computed together
- `study`: how a member follows from its parameters, in a spec or in Python
- `observables`, `group`: what is kept of members; one group, computed
- `folder`: the sweep on disk
- `runners`, `worker`: who computes
- `front`: `sweep`
"""

from tokenfield.sweeps.front import load_sweep as load_sweep
from tokenfield.sweeps.front import sweep as sweep
