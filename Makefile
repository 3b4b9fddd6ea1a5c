# `make demo` and `make test` are all that a fresh machine with Python 3.11 and make needs.
PYTHON ?= python3.11
BIN := .venv/bin
TESTED := 3.11

.PHONY: demo test test-long torture lint format docs audit install

demo: .venv/.installed
	$(BIN)/assay run sweep=demo

test: .venv/.installed-all
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal

test-long: .venv/.installed-all
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal -m "long or not long"

# Kills, full disks and damage over the demos; about an hour. Not in CI. Mounts need root: docs/reliability.md
torture: .venv/.installed-all
	$(BIN)/python -m scripts.torture --kills 100 --seed 0 --minutes 90

lint: .venv/.installed-all
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check --compact-diff Snakefile

format: .venv/.installed-all
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/snakefmt Snakefile

docs: .venv/.installed-all
	$(BIN)/zensical build --clean --strict

# Strict: a library that cannot be looked up is a failure, as all are without a network.
audit: .cache/audit/bin/pip-audit
	.cache/audit/bin/pip-audit --requirement constraints.txt --no-deps --disable-pip --strict --progress-spinner off

.cache/audit/bin/pip-audit:
	$(PYTHON) -m venv .cache/audit
	.cache/audit/bin/python -m pip install --quiet pip-audit

install: .venv/.installed-all

.venv/bin/python:
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) not found: assay is tested on Python $(TESTED); give another with make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -c 'import sys; v = "%d.%d" % sys.version_info[:2]; v == "$(TESTED)" or print(f"note: assay is tested on Python $(TESTED); this is {v}, which may or may not work")'
	$(PYTHON) -m venv .venv

.venv/.installed: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	@touch $@

.venv/.installed-all: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[crowd,vlm,cluster,docs,dev]"
	@touch $@ .venv/.installed
