# The one front door: it needs Python 3.11+ and make, and makes the rest by itself.
.DEFAULT_GOAL := help

# The first of these that is 3.11 or newer.
PYTHON ?= $(shell for p in python3 python3.12 python3.11 python3.13; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
READY := .venv/.ready
UV_VERSION := 0.13.7
LOCK := --generate-hashes --no-header --no-annotate --no-emit-index-url -q
# uv does not read pip's settings: hand it the index and certificates of this site, if it has any.
export UV_DEFAULT_INDEX ?= $(if $(PYTHON),$(shell $(PYTHON) -m pip config get global.index-url 2>/dev/null))
ifeq ($(strip $(UV_DEFAULT_INDEX)),)
unexport UV_DEFAULT_INDEX
endif

.PHONY: help setup run quick test check fix bench soak lowest docs lock clean

help: ## List these commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-6s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## Make .venv with everything that is pinned (a second run takes no time)

$(READY): pyproject.toml constraints.txt tools/uv.txt
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11 or newer on PATH. Install one, or say make PYTHON=/path/to/python3.12"; exit 1; }
	@test -x $(BIN)/python && { $(BIN)/python -c 'import uv' || $(BIN)/python -c 'import pip'; } 2>/dev/null || { rm -rf .venv; $(PYTHON) -m venv .venv || \
		{ echo "error: $(PYTHON) cannot make a virtual environment. On Debian: apt install python3-venv"; exit 1; }; }
	@$(BIN)/python -c 'import uv' 2>/dev/null || $(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r tools/uv.txt
	@echo "installing pinned packages into .venv"
	@# Every file must have a pinned hash. An editable install cannot have one: it comes last, alone, built by the pinned hatchling.
	@$(BIN)/uv pip install --python $(BIN)/python --require-hashes -r constraints.txt
	@$(BIN)/uv pip install --python $(BIN)/python --no-deps --no-build-isolation -q -e .
	@touch $@

run: $(READY) ## The main job: all of it once, on real servers, in frazil-demo (one part: make run ARGS="--only tables,load")
	@$(BIN)/frazil demo $(ARGS)

quick: $(READY) ## ruff, mypy, unit tests and the core contracts, in less than two minutes: while you work
	@$(BIN)/python -m tools.stages --quick

test: $(READY) ## Everything that CI checks, with the time of each stage
	@$(BIN)/python -m tools.stages

check: $(READY) ## ruff and mypy
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

fix: $(READY) ## Format, and mend what ruff can mend
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

bench: $(READY) ## Every benchmark, next to its peer; writes docs/benchmarks.md (one alone: python -m benchmarks.NAME --quick)
	@$(BIN)/python -m benchmarks --record docs/benchmarks.json ; code=$$? ; $(BIN)/python -m tools.docs && exit $$code

soak: $(READY) ## Campaigns and property tests at full size; prints the seed that repeats a failure (a part: make soak ARGS=tests/faults)
	@$(BIN)/python -m pytest --full $(if $(SEED),--seed $(SEED)) $(ARGS)

lowest: $(READY) ## Unit tests of libraries, commands and catalog with the lowest versions of libraries that pyproject.toml allows
	@$(BIN)/python -m tools.lowest

docs: $(READY) ## Write the generated pages of docs/, and build the documentation site into site/
	@$(BIN)/python -m tools.docs && $(BIN)/python -m tools.site

lock: $(READY) ## Compile constraints.txt from pyproject.toml: exact versions and hashes (no download addresses)
	@$(BIN)/uv pip compile pyproject.toml --all-extras --group dev --universal --python-version 3.11 $(LOCK) -o constraints.txt
	@echo "uv==$(UV_VERSION)" | $(BIN)/uv pip compile - --no-deps --universal --python-version 3.11 $(LOCK) -o tools/uv.txt

clean: ## Remove .venv and the caches of the tools (not .frazil: that may be data)
	@rm -rf .venv build/docs site .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis
