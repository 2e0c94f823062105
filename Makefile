# dev-hops: `make` or `make help` lists what there is.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
ARGS ?=
UNIT := tests/unit
WORKERS ?= 4
IMAGE ?= dev-hops
# The network of this machine, so that a build reaches what this machine reaches: a proxy or a mirror on loopback included.
BUILD_NETWORK ?= host

.PHONY: help install install-clickhouse lock up down test descriptions contract-test upgrade-test e2e check test-gevent chaos chaos-short soak bench bench-worker bench-dispatch bench-gate bench-github bench-credentials bench-hpa bench-idle shape docs lint image image-test compose-test chart-test

help:  ## This list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F'\t' '{printf "  make %-14s %s\n", $$1, $$2}'

$(VENV)/.installed: pyproject.toml requirements-dev.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

install: $(VENV)/.installed  ## .venv with everything but ClickHouse's engine, pinned and hashed

$(VENV)/.installed-clickhouse: $(VENV)/.installed requirements-chdb.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-chdb.lock
	@touch $@

install-clickhouse: $(VENV)/.installed-clickhouse  ## ClickHouse's engine for the tests that need it (470 MB)

lock:  ## Pin again after a change of the dependencies (needs uv)
	uv pip compile pyproject.toml --quiet --universal --generate-hashes --no-header --extra clickhouse -o requirements.lock
	uv pip compile pyproject.toml --quiet --universal --generate-hashes --no-header --extra embedded --extra clickhouse --extra demo --extra bench --extra dev -c requirements.lock -o requirements-dev.lock
	uv pip compile pyproject.toml --quiet --universal --generate-hashes --no-header --extra chdb -c requirements-dev.lock -o requirements-chdb.lock

up: install  ## Run everything on this machine and sync this repository (ARGS="--git PATH --detach")
	@$(BIN)/dev-hops up $(ARGS)

down: install  ## Stop what `make up ARGS=--detach` started
	@$(BIN)/dev-hops down $(ARGS)

lint: install  ## Format, lint, types, imports
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint  ## The same and the unit tests: before each commit
	$(BIN)/pytest -q $(UNIT) $(ARGS)

test: install  ## Unit and integration tests on embedded stores, then the unit tests under gevent
	$(BIN)/pytest -q -n $(WORKERS) tests/unit tests/contract tests/integration $(ARGS)
	$(MAKE) --no-print-directory test-gevent

descriptions: install  ## The whole official descriptions that the fakes are held against, from npm into .cache
	$(BIN)/python -m tests.payloads.github.fetch

contract-test: descriptions  ## The fakes against the whole official descriptions
	$(BIN)/pytest -q tests/contract $(ARGS)

upgrade-test: install  ## The program before the newest revision, its tests on the schema after it
	$(BIN)/pytest -q -s tests/upgrade $(ARGS)

e2e: install  ## `dev-hops up` as a newcomer uses it, from start to Ctrl-C
	$(BIN)/pytest -q -n 2 tests/end_to_end $(ARGS)

test-gevent: install  ## The unit tests again, in a gevent-patched interpreter
	$(BIN)/python -m gevent.monkey $(BIN)/pytest -q $(UNIT)

chaos: install  ## Long outages, kills, leaks and deadlocks on real workers and stores: half an hour and more
	$(BIN)/pytest -q -s tests/chaos $(ARGS)

chaos-short: install  ## Thirty kills over the points of dispatch, a hundred thousand steps of the gate: two minutes
	$(BIN)/pytest -q -s -n 2 tests/chaos/dispatch tests/chaos/gate -k short $(ARGS)

soak: install  ## Mixed load with a Redis restart, a kill and renewals (ARGS="--minutes 30")
	$(BIN)/python -m bench.soak $(ARGS)

bench: install  ## The benchmark of a git sync beside git alone, JSON in bench/results
	$(BIN)/python -m bench.git_sync $(ARGS)

bench-worker: install  ## Each promise of the profile on stock Celery and on ours, JSON in bench/results (ARGS="--quick")
	$(BIN)/python -m bench.worker $(ARGS)

bench-dispatch: install  ## Due schedules to runs and messages, ours and other schedulers, JSON in bench/results (ARGS="--quick")
	$(BIN)/python -m bench.dispatch $(ARGS)

bench-gate: install  ## The rate-limit gate beside other limiters on a mock provider, JSON in bench/results (ARGS="--markdown")
	$(BIN)/python -m bench.gate $(ARGS)

bench-github: install  ## Pull requests of a fake GitHub into Postgres, beside perceval, JSON in bench/results (ARGS="--quick")
	$(BIN)/python -m bench.github_sync $(ARGS)

bench-credentials: install  ## Opening sealed rows beside Fernet and a derived key, a rotation under load, JSON in bench/results
	$(BIN)/python -m bench.credentials $(ARGS)

shape: install  ## The size and structure of the code, as figures
	$(BIN)/python -m bench.shape $(ARGS)

docs: install  ## Write the generated pages of docs/reference again
	$(BIN)/python docs/generate.py

bench-hpa: install  ## The autoscaler's signals and behaviours, simulated, JSON in bench/results (ARGS="--markdown")
	$(BIN)/python -m bench.hpa $(ARGS)

bench-idle: install  ## What each role takes while nothing is to be done, and how long its start takes, JSON in bench/results
	$(BIN)/python -m bench.idle $(ARGS)

image: requirements.lock  ## Build the image (needs Docker)
	docker build --network $(BUILD_NETWORK) --tag $(IMAGE) $(BUILD_ARGS) .

image-test: install image  ## Build the image and run it: roles, signals, kills, users, Flower (needs Docker)
	DEV_HOPS_IMAGE=$(IMAGE) $(BIN)/pytest -q -s tests/image $(ARGS)

compose-test: install image  ## Build the image and bring compose.yaml up: a sync, three workers, a kill, a pause (needs Docker)
	DEV_HOPS_IMAGE=$(IMAGE) $(BIN)/pytest -q -s -n 2 --dist loadfile tests/compose $(ARGS)

chart-test: install  ## Render the chart over a matrix of values and hold it against schemas and policies; alerts and dashboards
	$(BIN)/pytest -q -n 2 tests/chart $(ARGS)
