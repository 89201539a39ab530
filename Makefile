# gpsuite: `make help` lists the targets

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PEERS := .venv-peers
FAMILIES := $(notdir $(wildcard conf/experiment/*))
FAMILIES := $(filter-out %.yaml,$(FAMILIES))
SMOKE := results/.smoke
# a process needs up to 1.5 GB, most of it TensorFlow
TEST_PROCESSES ?= 2
SAMPLE ?= 300
SEED ?= 0
# folders or files for make mutants; empty: all methods and models
MUTATED ?=

# every recipe starts many processes: compile each module once, whatever the caller's setting
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.PHONY: help setup peers quickstart test test-slow mutants lint types smoke bench browser report redraw reproduce publish dist clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z%-]+:.*## / {printf "  %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@for family in $(FAMILIES); do printf '  %-20s %s\n' reproduce-$$family "the paper's settings, $$family only"; done

setup: $(INSTALLED) ## make the environment .venv from the pinned, hashed requirements

$(INSTALLED): scripts/requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' \
	  || { echo "gpsuite needs Python 3.11: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement scripts/requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

peers: $(PEERS)/.installed ## make the environment .venv-peers of the libraries that gpsuite bench peers runs (5 GB)

$(PEERS)/.installed: scripts/requirements-peers.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' \
	  || { echo "the peers need Python 3.11: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/pip install --quiet --disable-pip-version-check --require-hashes --requirement $<
	@touch $@

quickstart: setup ## set up, then one answer of each of four guarantees on embedded data, and their page
	$(BIN)/gpsuite run experiment=tour stops=4
	@echo "tables: results/*/*/*/tables    figures: results/*/*/*/figures    the fifth stop trains networks: gpsuite run experiment=tour"

test: setup ## fast tests; needs neither network nor data
	$(BIN)/python -m pytest --numprocesses=$(TEST_PROCESSES) --dist=worksteal -m "not slow and not network"

test-slow: setup ## soundness, coverage and kill tests; resumes after an interruption
	$(BIN)/python -m pytest -m "slow or guarantee" --resume --timeout=3600; code=$$?; [ $$code -eq 5 ] || exit $$code

mutants: setup ## share of random small faults in methods and models that the fast tests notice; resumes, SAMPLE=, SEED=
	$(BIN)/python -m tests.mutation --processes=$(TEST_PROCESSES) --sample=$(SAMPLE) --seed=$(SEED) $(MUTATED)

lint: setup ## style, format and direction of imports
	$(BIN)/ruff check gpsuite tests scripts
	$(BIN)/ruff format --check gpsuite tests scripts
	$(BIN)/lint-imports

types: setup ## mypy, strict
	$(BIN)/mypy

smoke: setup ## the smallest run of every experiment, in one process
	$(BIN)/gpsuite run -m 'experiment=glob(*)' scale=smoke parallel=serial results_dir=$(SMOKE)

bench: setup ## time ours against baselines and the LAPACK/BLAS floor
	$(BIN)/gpsuite bench

browser: setup ## open the page in Chromium, where one is installed
	$(BIN)/python -m pytest -m browser tests/reporting

report: setup ## redraw the HTML page over all results
	$(BIN)/gpsuite report

redraw: setup ## draw every published run again from its records, without computing, and compare with what is published
	$(BIN)/python scripts/redraw.py || [ $$? -eq 1 ] # data may be missing, which is said
	$(BIN)/gpsuite report

reproduce: redraw ## redraw what is published (minutes), then compute what is missing of the papers' settings (days)
	$(BIN)/gpsuite run -m 'experiment=glob(*)' scale=paper
	$(BIN)/gpsuite report

reproduce-%: setup
	$(BIN)/gpsuite run -m 'experiment=glob($*/*)' scale=paper
	$(BIN)/gpsuite report

publish: setup ## copy finished results to results/published
	$(BIN)/gpsuite publish $(FAMILIES)

dist: setup ## build the source distribution and, from it, the wheel; the version is that of gpsuite/__init__.py
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist

clean: ## remove caches and smoke results; keep records, results and data
	rm -rf $(SMOKE) dist .mutants .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find gpsuite tests -name __pycache__ -type d -prune -exec rm -rf {} +
