# EStream Lab. `make` lists the targets.
#   PYTHON=python3.12   the interpreter that environments are made with (3.11 or newer)
#   LAB_ARGS="..."      more arguments for JupyterLab, such as --no-browser --port 8890
#   PYTEST_ARGS="..."   more arguments for every pytest run
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:

PYTHON ?= python3
LAB_ARGS ?=
PYTEST_ARGS ?=
LOCK_ARGS ?=

VENV := .venv
ORACLE := .venv-oracle
PEERS := .venv-peers
PY := $(VENV)/bin/python
# --no-compile: Python compiles what is imported when it is; most of what is installed never is
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check --no-input --no-compile
# a stamp per environment: set up again only when its lock changes
RUNTIME := $(VENV)/.runtime-installed
DEV := $(VENV)/.dev-installed
ORACLE_READY := $(ORACLE)/.installed
PEERS_READY := $(PEERS)/.installed
PYTEST := $(PY) -m pytest $(PYTEST_ARGS)

.PHONY: help install lab test test-full demo ui bench picture latency lint format typecheck lock counts oracle peers protocol faults clean
.PHONY: lane-unit lane-boundscheck lane-full lane-ui lane-oracle lane-peers

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

# ---- environments

define CHECK_PYTHON
command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) was not found: install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3.12" >&2; exit 1; }; \
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: $$($(PYTHON) -V 2>&1) is too old: Python 3.11 or newer is needed; name one: make PYTHON=/path/to/python3.12" >&2; exit 1; }; \
$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "make: $(PYTHON) cannot make virtual environments: install its venv module (Debian and Ubuntu: apt install python3-venv)" >&2; exit 1; }
endef

$(RUNTIME): requirements.lock
	@$(CHECK_PYTHON)
	$(PYTHON) -m venv --clear $(VENV)
	$(PY) $(PIP_INSTALL) --require-hashes -r requirements.lock
	$(PY) $(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

$(DEV): requirements-dev.lock $(RUNTIME)
	$(PY) $(PIP_INSTALL) --require-hashes -r requirements-dev.lock
	@touch $@

# PyPI's torch brings about 3 GB of accelerator libraries on Linux. Where pip's own configuration offers PyTorch's CPU
# build of the same release, that one is taken; the hash decides that it is the right file.
define INSTALL_TORCH # into the environment $(1)
$(1)/bin/python $(PIP_INSTALL) --no-deps --require-hashes -r oracle/torch-cpu.lock 2>/dev/null \
  || { echo "pip finds no CPU build of torch here: installing PyPI's (on Linux about 3 GB)"; \
       $(1)/bin/python $(PIP_INSTALL) --no-deps --require-hashes -r oracle/torch-pypi.lock; }
endef

$(ORACLE_READY): oracle/requirements.lock oracle/torch-cpu.lock oracle/torch-pypi.lock
	@$(CHECK_PYTHON)
	$(PYTHON) -m venv --clear $(ORACLE)
	$(call INSTALL_TORCH,$(ORACLE))
	$(ORACLE)/bin/python $(PIP_INSTALL) --no-deps --require-hashes -r oracle/requirements.lock
	$(ORACLE)/bin/python $(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	$(ORACLE)/bin/python -m pip check
	@touch $@

# llama.cpp for this very processor, with all of its instructions (and never from pip's cache, which may be another's);
# without the programs that nothing here runs
LLAMA_CPP_FLAGS := -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DLLAVA_BUILD=OFF -DLLAMA_BUILD_TESTS=OFF \
  -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_APP=OFF

$(PEERS_READY): peers/requirements.lock peers/llama-cpp.lock peers/llama_cpp.cmake peers/kt-kernel.lock \
    peers/kt_kernel_wheels.py oracle/torch-cpu.lock oracle/torch-pypi.lock
	@$(CHECK_PYTHON)
	@command -v c++ >/dev/null || { echo "make: llama.cpp is built from source: install a C++ compiler (Debian and Ubuntu: apt install g++)" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(PEERS)
	$(call INSTALL_TORCH,$(PEERS))
	$(PEERS)/bin/python $(PIP_INSTALL) --no-deps --require-hashes -r peers/requirements.lock
	PATH="$(abspath $(PEERS))/bin:$$PATH" \
	  CMAKE_ARGS="$(LLAMA_CPP_FLAGS) -DCMAKE_PROJECT_llama_cpp_INCLUDE='$$PWD/peers/llama_cpp.cmake'" \
	  $(PEERS)/bin/python $(PIP_INSTALL) --no-cache-dir --no-deps --no-build-isolation --no-binary llama-cpp-python --require-hashes -r peers/llama-cpp.lock
	echo "$(LLAMA_CPP_FLAGS); $$(c++ --version | head -n 1)" > $(PEERS)/llama-cpp-build.txt
	$(PEERS)/bin/python -m pip check
	$(PEERS)/bin/python peers/kt_kernel_wheels.py > $(PEERS)/ktransformers-absent.txt
	if [ -s $(PEERS)/ktransformers-absent.txt ]; then \
	  echo "the peer ktransformers is left out: $$(cat $(PEERS)/ktransformers-absent.txt)"; \
	else \
	  $(PEERS)/bin/python $(PIP_INSTALL) --no-deps --require-hashes -r peers/kt-kernel.lock; \
	fi
	@touch $@

install: $(RUNTIME) ## set up the environment in .venv, nothing else

oracle: $(ORACLE_READY) ## set up .venv-oracle: the reference implementation that tests compare with

peers: $(PEERS_READY) ## set up .venv-peers: what `estream bench` compares with (builds llama.cpp: some minutes)

# ---- use

# works offline: no look for news or newer releases; JupyterLab refuses to run as root unless told
QUIET_LAB := --LabApp.news_url= --LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate

lab: $(RUNTIME) ## open JupyterLab on the tour
	$(PY) -m jupyterlab $(QUIET_LAB) $(if $(filter 0,$(shell id -u)),--allow-root) $(LAB_ARGS) --ServerApp.root_dir=. --LabApp.default_url=/lab/tree/notebooks/00_tour.ipynb

STORE := build/tiny.estream

# packed again when the model or the code that packs has changed
$(STORE): $(RUNTIME) $(wildcard data/tiny_moe/checkpoint/* estream_lab/streaming/*.py estream_lab/kernels/*.py estream_lab/models/*.py)
	@mkdir -p build
	rm -rf $@
	$(VENV)/bin/estream pack data/tiny_moe/checkpoint -o $@ --quant q4_0

demo: $(STORE) ## pack the shipped model, run a prefill on it, write a report and a trace to out/
	@mkdir -p out
	$(VENV)/bin/estream prefill $(STORE) --prompt-file data/tiny_moe/heldout/text.txt --max-tokens 1024 \
	  --group-size 2 --banks 3 --trace out/demo.perfetto-trace --report out/demo.html

bench: $(RUNTIME) ## peak memory of one arena under models of growing size (needs a memory control group: root)
	$(VENV)/bin/estream bench scale --resident

# ---- tests (CONTRIBUTING.md tells what each lane holds)

test: lint typecheck lane-unit ## lint, types and the unit lane

test-full: lane-boundscheck lane-full lane-ui lane-oracle lane-peers ## the slow lanes: bounds checks, whole grids, browser, oracle, peers

ui: $(DEV) ## the browser tests alone
	$(PYTEST) tests/ui

lane-unit: $(DEV)
	$(PYTEST) --lane unit

# numba keeps compiled kernels by source, not by this setting: a cache of its own
lane-boundscheck: $(DEV)
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=build/numba-boundscheck $(PYTEST) --lane boundscheck tests/boundscheck tests/kernels tests/experts

lane-full: $(DEV)
	$(PYTEST) --lane full tests/full

lane-ui: $(DEV)
	$(PYTEST) --lane ui tests/ui

lane-oracle: $(ORACLE_READY)
	$(ORACLE)/bin/python -m pytest $(PYTEST_ARGS) --lane oracle tests/oracle

lane-peers: $(DEV) $(PEERS_READY)
	$(PYTEST) --lane peers tests/peers

# ---- development

protocol: $(DEV) ## explore the protocol exhaustively; prints the tables of docs/protocol.md
	$(PY) -m tools.protocol_table

faults: $(DEV) ## plant every fault at every phase; prints the table of outcomes
	$(PY) -m tools.fault_table

picture: $(DEV) ## make the README's picture again: the tour in a browser
	$(PY) -m tools.tour_picture docs/tour.png

latency: $(DEV) ## from a key on a lesson's slider to changed pixels, in a browser (measure when nothing else runs)
	@mkdir -p out
	$(PY) -m tools.slider_latency --json out/slider_latency.json

lint: $(DEV) ## ruff: findings and format
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

typecheck: $(DEV) ## mypy --strict
	$(PY) -m mypy

format: $(DEV) ## ruff: mend what can be mended, and format
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

lock: $(DEV) ## make the locks from pyproject.toml (LOCK_ARGS=--upgrade takes newer releases)
	$(PY) tools/lock.py $(LOCK_ARGS)
	$(PY) -m peers.lock $(LOCK_ARGS)

counts: ## record how many tests each lane passes, in tests/counts.toml
	$(MAKE) lane-unit lane-boundscheck lane-full lane-ui lane-oracle lane-peers PYTEST_ARGS=--write-count

clean: ## remove what was built (stores, reports, caches); environments stay
	rm -rf build out .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +
