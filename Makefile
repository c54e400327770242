# Every task of a checkout. `make` alone lists them; a line's ## comment is its description.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
RUN := $(VENV)/bin
STAMP := $(VENV)/.installed
WORKERS ?= 4
# Modules are compiled once and kept, whatever this machine's habit: the tests start a thousand processes.
unexport PYTHONDONTWRITEBYTECODE
PACKAGES := segments ingest query server siltstone migrations

# $(call step,NAME,COMMAND) runs COMMAND and prints how long it took. COMMAND must hold no comma.
step = start=$$SECONDS; echo "== $(1)"; $(2); echo "== $(1): $$((SECONDS - start)) s"

.PHONY: help install servers check check-types check-rest integration-parts integration-whole test fast nightly simulate chaos bench quickstart serve migrate requirements clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' Makefile

install: $(STAMP) ## create .venv with pinned packages and the project in it

# pip checks uv's hash, uv checks everybody else's; the project itself is linked, not copied.
$(STAMP): requirements/bootstrap.txt requirements/dev.txt pyproject.toml
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON=...")'
	@test -x $(RUN)/python || { echo "making $(VENV)"; "$(PYTHON)" -m venv $(VENV); }
	@echo "installing packages into $(VENV): a minute or two the first time"
	@test -x $(RUN)/uv || $(RUN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/bootstrap.txt
	@$(RUN)/uv pip sync -q --require-hashes --python $(RUN)/python requirements/dev.txt
	@$(RUN)/uv pip install -q --python $(RUN)/python --no-deps --no-build-isolation --editable .
	@touch $@
	@echo "installed into $(VENV)"

servers: install ## bring what the integration tests start: PostgreSQL, Kafka, an S3 server
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || \
	  { test "$$(id -u)" = 0 || { echo "PostgreSQL is missing: sudo apt-get install postgresql"; exit 1; }; \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq postgresql; }
	@$(RUN)/python tests/servers/servers.py

check: install ## lint, format, types, import contracts, tidiness, documents
	@$(MAKE) --no-print-directory -j 2 --output-sync=target check-types check-rest

check-types: install # takes as long as all the rest, so they run side by side
	@$(call step,mypy,$(RUN)/mypy)

# Collecting every test finds what no longer imports, and leaves all of them compiled for the runs to come.
check-rest: install
	@$(call step,ruff check,$(RUN)/ruff check .)
	@$(call step,ruff format,$(RUN)/ruff format --check .)
	@$(call step,import contracts,$(RUN)/lint-imports --no-cache)
	@$(call step,collection,out=$$($(RUN)/python -m pytest -qq -n 0 -m "" --collect-only) || { echo "$$out"; exit 1; })
	@$(call step,tidiness and documents,$(RUN)/python -m pytest -q tests/test_tidy.py tests/test_docs.py)

fast: install ## the fast tests: no servers, no network
	@$(call step,fast tests,$(RUN)/python -m pytest -q -n $(WORKERS) --dist worksteal)

test: install check ## everything but nightly and benchmarks; installs what is missing
	@$(call step,servers,$(MAKE) --no-print-directory servers)
	@$(call step,fast tests,$(RUN)/python -m pytest -q -n $(WORKERS) --dist worksteal)
	@$(MAKE) --no-print-directory -j 2 integration-parts integration-whole

# Both leave the processors idle for most of their time: they wait for servers, leases and faults. Each starts servers
# of its own, on ports of its own.
PARTS := tests/contract tests/crash tests/simulation tests/unit
INTEGRATION := $(RUN)/python -m pytest -q -m "integration and not slow and not benchmark"

# Stream, store and storage contracts, more simulated worlds; told at their end, so that the other's dots stay whole.
integration-parts: install
	@start=$$SECONDS; told=$$($(INTEGRATION) $(PARTS) 2>&1) && code=0 || code=$$?; \
	  echo; echo "== integration tests of parts, ended with $$code"; echo "$$told"; \
	  echo "== integration tests of parts: $$((SECONDS - start)) s"; exit $$code

integration-whole: install # the service, its processes, its clients, chaos
	@$(call step,integration tests of the whole,$(INTEGRATION) $(PARTS:%=--ignore=%))

nightly: install servers ## the long tests: many seeds, long chaos
	@$(call step,properties,$(RUN)/python -m pytest -q -m "hypothesis and not integration and not slow" \
	  --hypothesis-profile nightly --timeout 3600)
	@$(call step,nightly,$(RUN)/python -m pytest -q -m "slow and not benchmark" --timeout 3600)

simulate: install ## replay the protocol: SEED=7 prints one trace, SEEDS=500 runs many
	@$(RUN)/python -m tests.simulation $(if $(SEED),--seed $(SEED)) $(if $(SEEDS),--seeds $(SEEDS)) $(ARGS)

chaos: install servers ## break real processes and servers: MINUTES=60 SEED=1, seeds from SEED on share the minutes
	@$(RUN)/python -m tests.chaos $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED)) $(ARGS)

bench: install servers ## measure: rows per second, memory, latencies
	@$(RUN)/python -m pytest -q -s -m benchmark --timeout 3600 tests/benchmarks

quickstart: install ## start everything on this machine, load a stream, query it
	@$(RUN)/siltstone quickstart $(ARGS)

serve: install ## run the service: ARGS="--config FILE --roles ..."
	@$(RUN)/siltstone serve $(ARGS)

migrate: install ## bring the metadata database to this version's schema
	@$(RUN)/siltstone migrate $(ARGS)

requirements: install ## resolve requirements/*.in again into hashed pins (UPGRADE=--upgrade)
	@for name in bootstrap build runtime image dev; do \
	  UV_CUSTOM_COMPILE_COMMAND="make requirements" $(RUN)/uv pip compile -q --generate-hashes $(UPGRADE) \
	    --python-version 3.11 requirements/$$name.in -o requirements/$$name.txt; done

clean: ## remove the environment and every cache of this checkout
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
