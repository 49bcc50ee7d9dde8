# Everything runs in .venv, which is made on first use. Needs Python >= 3.10, make and git.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
USER_STAMP := .venv/.installed-for-users
# The oldest PyTorch that pyproject.toml allows, and where to find its wheel (pip's own index if empty).
OLDEST_TORCH ?= 2.6.0
OLDEST_INDEX ?=

.PHONY: install demo test test-oldest test-slurm slurm-programs test-browser browser test-wheel docs lint types unit coverage bench clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	@touch $@

# What a user installs, without the tools of developers.
$(USER_STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[all]"
	@touch $@

## a real search on the embedded digits, in about a minute; prints and draws the cell, and writes a page of the run
demo: $(USER_STAMP)
	$(BIN)/archgrad search --space nasbench201 --channels 8 --cells 1 --data digits --epochs 30 --threads 1
	@echo "the page of this run:"; $(BIN)/archgrad report "$$(ls -td runs/*/ | head -1)" -o runs/report.html

test: lint types unit

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

# Two processes of one thread each: the steps are small, and threads wait for each other longer than they compute.
# Each begins with one half of the tests, so that tests of one file share what they prepare.
unit: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses 2 --dist worksteal

## the tests with the oldest PyTorch, in an environment of their own
test-oldest: .venv-oldest/.installed
	OMP_NUM_THREADS=1 .venv-oldest/bin/pytest --numprocesses 2 --dist worksteal

.venv-oldest/.installed: pyproject.toml
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet $(if $(OLDEST_INDEX),--index-url $(OLDEST_INDEX)) "torch==$(OLDEST_TORCH)"
	.venv-oldest/bin/python -m pip install --quiet --editable ".[dev]" "torch==$(OLDEST_TORCH)"
	@touch $@

## small studies on a real Slurm of one node, which is started for them and stopped by its process ids
test-slurm: $(STAMP) slurm-programs
	OMP_NUM_THREADS=1 $(BIN)/python tests/slurm/one_node.py $(abspath $(BIN))/pytest -q tests/slurm/slurm_study.py

# Debian's packages, where root may install them; otherwise one_node.py says what is missing.
slurm-programs:
	@if [ "$$(id -u)" = 0 ] && ! (command -v munged && command -v slurmctld && command -v slurmd && command -v sbatch) > /dev/null; then \
		apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y slurm-wlm munge; fi

## the pages in a real Chromium; SCREENSHOTS=FOLDER keeps pictures of them
test-browser: $(STAMP) browser
	ARCHGRAD_SCREENSHOTS=$(SCREENSHOTS) $(BIN)/pytest -q tests/browser/browser_pages.py

browser:
	@if [ "$$(id -u)" = 0 ] && ! (command -v chromium || command -v chromium-browser || command -v google-chrome) > /dev/null; then \
		apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y chromium; fi

## the wheel, installed and used in an empty environment outside of this folder
test-wheel: $(STAMP)
	OMP_NUM_THREADS=1 .ci/test-wheel $(BIN)/python

## the site in site/, without network; a warning or a link that leads nowhere is an error. `python -m http.server -d site` serves it
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 OMP_NUM_THREADS=1 $(BIN)/mkdocs build --quiet --strict
	$(BIN)/python docs/_site/check_site.py site

## the same with the lines that no test reaches, which takes half as long again
coverage: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses 2 --dist worksteal --cov=archgrad --cov-report=term:skip-covered

## time and memory of supernets, hypergradients, methods, regularizers, diagnostics, recomputed cells, processes and engines; takes an hour
bench: $(STAMP)
	for name in supernets hypergradients methods regularizers diagnostics memory processes engines pages; do \
		$(BIN)/python -m benchmarks.$$name --json benchmarks/$$name.json || exit 1; done

clean:
	rm -rf .venv .venv-oldest .pytest_cache .mypy_cache .ruff_cache .coverage build site src/*.egg-info
