# Every target prepares its own environment from nothing: git, Python 3.11+, Node 20+ and the package registries.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

ifneq ($(origin PYTHON), undefined)
# A Python of your choice gets an environment of its own: make test PYTHON=python3.13
VENV := .venv/$(shell $(PYTHON) -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
else
VENV := .venv
endif
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
SAY := @printf '\033[2m—\033[0m %s\n'

.PHONY: help demo test test-all test-lowest test-newest lint pictures docs bench fuzz faults mutate mutate-general soak generate clean

help: ## What can be made here
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F'\t' '{printf "  make %-14s %s\n", $$1, $$2}'

$(VENV)/pip:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; none found on PATH (set PYTHON=/path/to/python3)"; exit 1; }
	$(SAY) "creating $(VENV) with $(PYTHON)"
	@$(PYTHON) -m venv $(VENV) || { echo "the venv module is missing: install your system's python3-venv package"; exit 1; }
	@touch $@

$(VENV)/user: $(VENV)/pip pyproject.toml constraints.txt
	$(SAY) "installing bridgehead (half a minute)"
	@$(PIP) --editable '.[static,bus,web]'
	@touch $@

$(VENV)/dev: $(VENV)/pip pyproject.toml constraints.txt
	$(SAY) "installing bridgehead, every extra and the test tools (about a minute)"
	@$(PIP) --editable '.[dev]'
	@touch $@

.venv/peers: $(VENV)/pip tests/peers/package.json
	@if command -v npm >/dev/null 2>&1; then \
	  printf '\033[2m—\033[0m %s\n' "installing the npm programs the tests drive (about 1 GB, once)"; \
	  mkdir -p .venv/npm && cp tests/peers/package.json .venv/npm/; \
	  npm install --prefix .venv/npm --no-audit --no-fund --no-package-lock --ignore-scripts --loglevel=error \
	    || echo "npm failed: tests against npm programs will be skipped, visibly"; \
	else echo "npm not found: tests against npm programs will be skipped, visibly"; fi
	@touch $@

.venv/ovos/ready: $(VENV)/pip tests/peers/ovos.txt
	$(SAY) "installing the OVOS programs the bus is tested with"
	@$(PYTHON) -m venv .venv/ovos
	@.venv/ovos/bin/python -m pip --disable-pip-version-check install --quiet --requirement tests/peers/ovos.txt \
	  || echo "pip failed: tests against OVOS will be skipped, visibly"
	@touch $@

.venv/synapse/ready: $(VENV)/pip tests/peers/synapse.txt
	$(SAY) "installing Synapse, the Matrix server that the bus is tested with"
	@$(PYTHON) -m venv .venv/synapse
	@.venv/synapse/bin/python -m pip --disable-pip-version-check install --quiet --requirement tests/peers/synapse.txt \
	  || { echo "pip failed: tests against Synapse will be skipped, visibly"; rm -rf .venv/synapse/bin; }
	@mkdir -p .venv/synapse && touch $@

.venv/wyoming/ready: $(VENV)/pip tests/peers/wyoming.txt
	$(SAY) "installing a Wyoming satellite and espeak-ng, with which the bus is spoken to"
	@$(PYTHON) -m venv .venv/wyoming
	@.venv/wyoming/bin/python -m pip --disable-pip-version-check install --quiet --no-deps --requirement tests/peers/wyoming.txt \
	  || { echo "pip failed: tests with a voice will be skipped, visibly"; rm -rf .venv/wyoming/bin; }
	@if command -v espeak-ng >/dev/null 2>&1; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
	  { apt-get update -qq && apt-get install -qq -y --no-install-recommends espeak-ng; } >/dev/null 2>&1 \
	    || echo "espeak-ng could not be installed: tests with a voice will be skipped, visibly"; \
	else echo "no espeak-ng found: tests with a voice will be skipped, visibly"; fi
	@mkdir -p .venv/wyoming && touch $@

.venv/flow-engines/ready: $(VENV)/pip bench/peers.txt
	$(SAY) "installing the engines that flows are measured against"
	@$(PYTHON) -m venv .venv/flow-engines
	@.venv/flow-engines/bin/python -m pip --disable-pip-version-check install --quiet --requirement bench/peers.txt \
	  || echo "pip failed: comparisons with DBOS and LangGraph will be left out, visibly"
	@touch $@

.venv/cosmic-ray/ready: $(VENV)/pip tools/cosmic-ray.txt
	$(SAY) "installing cosmic-ray, which breaks modules for the tests to notice"
	@$(PYTHON) -m venv .venv/cosmic-ray
	@.venv/cosmic-ray/bin/python -m pip --disable-pip-version-check install --quiet --requirement tools/cosmic-ray.txt
	@touch $@

.venv/hivemind/ready: $(VENV)/pip tests/peers/hivemind.txt
	$(SAY) "installing HiveMind-core, which the bus is measured against"
	@$(PYTHON) -m venv .venv/hivemind
	@.venv/hivemind/bin/python -m pip --disable-pip-version-check install --quiet --no-deps --requirement tests/peers/hivemind.txt \
	  || echo "pip failed: the bus will not be measured against HiveMind-core, visibly"
	@touch $@

.venv/browser: $(VENV)/pip
	@if command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
	  printf '\033[2m—\033[0m %s\n' "installing Chromium for the browser tests"; \
	  { apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium; } >/dev/null 2>&1 \
	    || echo "Chromium could not be installed: browser tests will be skipped, visibly"; \
	else echo "no Chromium found: browser tests will be skipped, visibly"; fi
	@touch $@

.venv/shells: $(VENV)/pip
	@if command -v zsh >/dev/null 2>&1 && command -v fish >/dev/null 2>&1; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
	  printf '\033[2m—\033[0m %s\n' "installing zsh and fish, whose completion is tested"; \
	  { apt-get update -qq && apt-get install -qq -y --no-install-recommends zsh fish; } >/dev/null 2>&1 \
	    || echo "zsh and fish could not be installed: tests of their completion will be skipped, visibly"; \
	else echo "no zsh or fish found: tests of their completion will be skipped, visibly"; fi
	@touch $@

.venv/docs/ready: $(VENV)/pip tools/docs.txt
	$(SAY) "installing mkdocs-material, which makes the documentation's pages"
	@$(PYTHON) -m venv .venv/docs
	@.venv/docs/bin/python -m pip --disable-pip-version-check install --quiet --requirement tools/docs.txt
	@touch $@

docs: .venv/docs/ready ## The documentation as a site in build/site; a broken link is an error
	@NO_MKDOCS_2_WARNING=1 .venv/docs/bin/mkdocs build --strict
	@echo "build/site/index.html"

pictures: $(VENV)/dev .venv/browser ## Draw the pictures of the documentation again, from real runs
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tools.pictures

demo: $(VENV)/user ## A first look, under two minutes on a bare machine
	@$(BIN)/python -m bridgehead.demo

PYTEST := $(BIN)/python -m pytest -n 3 --dist loadgroup --no-loadscope-reorder

ifdef PART
test: $(VENV)/dev ## ruff, mypy --strict and every test that needs only Python packages and git; PART=rigs for one folder of them
	$(SAY) "tests of $(PART)"
	@$(PYTEST) -m "not peer and not slow" tests/$(PART)
else
test: lint
	$(SAY) "tests"
	@$(PYTEST) -m "not peer and not slow"
endif

test-all: $(VENV)/dev .venv/peers .venv/ovos/ready .venv/synapse/ready .venv/wyoming/ready .venv/browser .venv/shells ## The other tests: real AI CLIs, browser, servers, faults; then a selection on every Python found (PYTHONS= names more)
	$(SAY) "tests with real programs"
	@$(PYTEST) -m "peer or slow" $(if $(PART),tests/$(PART))
	$(SAY) "a selection on every Python found"
	@$(BIN)/python -m tools.pythons $(PYTHONS)
	@$(MAKE) --no-print-directory test-lowest test-newest

test-lowest: $(VENV)/dev ## A selection and a review per language with the lowest versions that we declare
	$(SAY) "the lowest versions that we declare"
	@$(BIN)/python -m tools.installs lowest

test-newest: $(VENV)/dev ## The same with today's newest releases; reports what breaks and fails nothing
	$(SAY) "today's newest releases"
	@$(BIN)/python -m tools.installs newest

lint: $(VENV)/dev ## ruff and mypy --strict
	$(SAY) "ruff"
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(SAY) "mypy --strict"
	@$(BIN)/mypy

bench: $(VENV)/dev .venv/peers .venv/ovos/ready .venv/hivemind/ready .venv/flow-engines/ready ## Us and the peers in one run, ratios printed
	@$(BIN)/python -m bench

FUZZ_MINUTES ?= 20

fuzz: $(VENV)/dev ## Every parser of foreign text, guided by coverage (FUZZ_MINUTES=20 of CPU), and property tests with many more examples
	@PYTHONPATH=tests $(BIN)/python -m parsers.fuzz --minutes $(FUZZ_MINUTES)
	@HYPOTHESIS_PROFILE=fuzz $(BIN)/python -m pytest -q -m "not slow" -k "property or fuzz" --timeout 1800

faults: $(VENV)/dev ## Fail every system call of every kind of write, then look what the next command makes of it (about an hour)
	@PYTHONPATH=tests $(BIN)/python -m faults

mutate: $(VENV)/dev ## Break one line at a time, see whether a test notices (ONLY=pattern for some)
	@$(BIN)/python -m tools.mutate --only '$(ONLY)'

mutate-general: $(VENV)/dev .venv/cosmic-ray/ready ## The same with cosmic-ray's mutants of modules that only decide; scores
	@$(BIN)/python -m tools.mutate --general --only '$(ONLY)'

soak: $(VENV)/dev ## Ten minutes of load, watching memory
	@$(BIN)/python -m bench.soak

generate: $(VENV)/dev ## Write the JSON Schemas and the generated reference pages
	@$(BIN)/python -m tools.generate

clean: ## Remove everything made here
	@rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
