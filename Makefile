# dev-hops: `make` or `make help` lists what there is.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
ARGS ?=
UNIT := tests/unit

.PHONY: help install lock up down test check test-gevent chaos bench contract-test image image-test chart-test shape docs

help:  ## This list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F'\t' '{printf "  make %-14s %s\n", $$1, $$2}'

$(VENV)/.installed: pyproject.toml requirements-dev.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

install: $(VENV)/.installed  ## .venv with everything, pinned and hashed

lock:  ## Pin again after a change of the dependencies (needs uv)
	uv pip compile pyproject.toml --quiet --universal --generate-hashes --no-header --extra clickhouse -o requirements.lock
	uv pip compile pyproject.toml --quiet --universal --generate-hashes --no-header --all-extras -c requirements.lock -o requirements-dev.lock

up: install  ## Run everything on this machine and sync this repository (ARGS="--git PATH --detach")
	@$(BIN)/dev-hops up $(ARGS)

down: install  ## Stop what `make up ARGS=--detach` started
	@$(BIN)/dev-hops down $(ARGS)

check: install  ## Format, lint, types, imports, unit tests: before each commit
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -q $(UNIT) $(ARGS)

test: install  ## Every test that needs no Docker and no network
	$(BIN)/pytest $(ARGS)
	$(MAKE) --no-print-directory test-gevent

test-gevent: install  ## The unit tests again, in a gevent-patched interpreter
	$(BIN)/python -m gevent.monkey $(BIN)/pytest -q -p no:randomly $(UNIT)

bench: install  ## Benchmarks beside their peers, JSON in bench/results
	$(BIN)/python bench/git_sync.py $(ARGS)

shape: install  ## The size and structure of the code, as figures
	$(BIN)/python bench/shape.py $(ARGS)
