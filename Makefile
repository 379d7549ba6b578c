# make demo: set everything up and watch 1,000 tokens cluster on the sphere.
# make test: set everything up and pass every test.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup demo test test-full lint types bench docs clean

setup: .venv/.ready

.venv/.ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("tokenfield needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[all]'
	touch $@

demo: setup
	$(BIN)/tokenfield demo --out out/demo

# Most of a test's time goes into compiling programs that run once, so XLA is asked to optimize little; test-full runs what ships.
test: setup
	JAX_DISABLE_MOST_OPTIMIZATIONS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

test-full: setup
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'slow or not slow'

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/pyright

bench: setup
	$(BIN)/python -m benchmarks

docs: setup
	$(BIN)/python docs/make_figures.py
	$(BIN)/python docs/models.py

clean:
	rm -rf .venv out .pytest_cache .ruff_cache
