# Agent Pareto. `make help` lists the targets.
#
# The environment is made with Python's own venv and pip from requirements.lock; nothing else need be installed.
# Another interpreter: `make clean`, then `make PYTHON=/path/to/python3.12 …`.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# The first Python that is new enough; `python3` where there is none, for the message in .venv/.made.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; exit; }; \
	done; echo python3)
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet --quiet --no-input

.PHONY: help run test test-slow bench lint format lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

run: .venv/.made ## build the default lake into ./lake and print its summary
	@$(BIN)/agent-pareto build --out lake

test: .venv/.made ## run the tests on all cores; PYTEST_ARGS="-k name" picks some
	@$(BIN)/python -m pytest --numprocesses auto --dist loadfile $(PYTEST_ARGS)

test-slow: .venv/.made ## run the tests that take 6 s or more each (killed builds, a schedule, a cluster)
	@$(BIN)/python -m pytest -m slow --numprocesses auto --dist loadfile $(PYTEST_ARGS)

bench: .venv/.made ## run the benchmarks; prints figures and ratios; BENCH_ARGS are passed on
	@$(BIN)/python -m tests.bench $(BENCH_ARGS)

lint: .venv/.made ## ruff, formatting and strict types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: .venv/.made ## let ruff mend style and formatting
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

lock: ## renew requirements.lock from pyproject.toml; UPGRADE=1 takes the newest versions
	@$(check-python)
	@tool=$$(mktemp -d) && trap 'rm -rf "$$tool"' EXIT && \
	echo "resolving into requirements.lock …" && \
	$(PYTHON) -m venv "$$tool" && \
	"$$tool/bin/python" -m pip --disable-pip-version-check --quiet --quiet install uv && \
	"$$tool/bin/uv" pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --generate-hashes \
		--extra dev --extra dask --extra s3 --custom-compile-command "make lock" $(if $(UPGRADE),--upgrade) \
		--output-file requirements.lock pyproject.toml

clean: ## remove the environment, caches and build products; ./lake stays
	@rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

define check-python
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	echo "Agent Pareto needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1 | head -1)." \
	"Install one, or name it: make PYTHON=/path/to/python3.12 …" >&2; exit 1; }
endef

# Written last, so that a half-made environment is made anew; made anew too when its inputs change.
.venv/.made: requirements.lock pyproject.toml
	@$(check-python)
	@echo "setting up .venv with $$($(PYTHON) --version) …"
	@rm -rf .venv
	@$(PYTHON) -m venv .venv || { echo "Could not make .venv: on Debian and Ubuntu install python3-venv." >&2; exit 1; }
	@$(PIP) install --require-hashes --requirement requirements.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@
