# Needs Python 3.11 or later and make; everything else is installed into .venv by the first target that needs it.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

PYTHONS := python3.13 python3.12 python3.11 python3
BIN := .venv/bin
ORACLES := mistral templates llama_server llama_budget agent_llama sdk_types javascript proxy_clients proxy_fuzz dashboard replay_page
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check --no-input install

.PHONY: help run test test-long check bench bench-peers bench-proxy bench-replay oracles peers clean

help: ## show these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

run: .venv/installed ## check, govern, repair and replay the sessions in examples/
	@PATH="$(CURDIR)/$(BIN):$$PATH" examples/tour

test: .venv/installed-test ## run the tests (a few minutes on two cores)
	@$(BIN)/python -m pytest -n 2

test-long: .venv/installed-test ## run them with many more examples a property (hours)
	@HYPOTHESIS_PROFILE=long $(BIN)/python -m pytest -n 2

check: .venv/installed-check ## lint, types, and which module may import which
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache --no-logo

bench: .venv/installed-test ## what governing costs, against writing the same messages as JSON
	@$(BIN)/python bench/cold.py
	@$(BIN)/python bench/session.py

bench-peers: .oracles/peers/installed ## the same jobs done by other libraries, in one run (seven to ten minutes)
	@PYTHONPATH=tests:oracles:peers .oracles/peers/bin/python bench/peers.py

bench-proxy: .venv/installed-test ## the proxy beside LiteLLM's and mitmproxy, 1,000 streams, a soak (eight minutes)
	@$(BIN)/python bench/proxy_load.py

bench-replay: .venv/installed-test ## the tables of docs/replay.md anew (five to ten minutes)
	@$(BIN)/python bench/replay.py table

oracles: .venv/installed-oracles ## what programs nobody here wrote say of legato's output (docs/oracles.md)
	@status=0; for oracle in $(ORACLES); do PYTHONPATH=tests:tests/proxy:tests/agent:tests/replay:oracles $(BIN)/python oracles/$$oracle.py || status=1; done; exit $$status

peers: .oracles/peers/installed ## damaged histories through legato and four others that repair them
	@PYTHONPATH=tests:oracles .oracles/peers/bin/python peers/fuzz.py

clean: ## remove .venv, caches and builds
	rm -rf .venv .oracles dist build .hypothesis .mypy_cache .pytest_cache .ruff_cache

# What is installed is as new as pyproject.toml, or it is installed again.

.venv/bin/activate:
	@for python in $(PYTHONS); do \
		if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
			echo "making .venv with $$("$$python" --version)"; \
			exec "$$python" -m venv .venv; \
		fi; \
	done; \
	echo "legato needs Python 3.11 or later; none of these is one: $(PYTHONS)" >&2; \
	exit 1

.venv/installed: .venv/bin/activate pyproject.toml
	@echo "installing legato into .venv"
	@$(PIP) --upgrade 'pip>=25.1'
	@$(PIP) --editable .
	@touch $@

.venv/installed-test: .venv/installed
	@echo "installing what the tests need"
	@$(PIP) --group test
	@touch $@

.venv/installed-check: .venv/installed-test
	@echo "installing what the checks need"
	@$(PIP) --group check
	@touch $@

.venv/installed-oracles: .venv/installed
	@echo "installing the oracles"
	@$(PIP) --group oracles
	@touch $@

.oracles/peers/installed: .venv/bin/activate pyproject.toml
	@echo "installing the peers"
	@$(BIN)/python -m venv .oracles/peers
	@.oracles/peers/bin/python -m pip -qq install --upgrade 'pip>=25.1'
	@.oracles/peers/bin/python -m pip -qq install --group peers --editable .
	@touch $@
