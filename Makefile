# Each target does the set-up that is missing, then its job. What is set up is not done again.
#   make check                          assemble and prove every chapter
#   make check ARGS="05 06 --fresh"     arguments for `python tools/steps.py check`
#   make test ARGS="-k rope"            arguments for pytest
#   make serve ARGS="--port 8080"       arguments for `python -m minisgl`
#   make TORCH=cpu check                Linux: PyTorch's CPU build instead of the CUDA one
#   make PYTHON=/path/to/python3 check  another Python (3.11 or newer)

SHELL := /bin/bash
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check
STEPS := $(PY) tools/steps.py
ARGS ?=
TORCH ?=

IS_NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.14 python; do \
	$$p -c '$(IS_NEW_ENOUGH)' >/dev/null 2>&1 && { echo $$p; break; }; done)
TORCH_CPU := https://download.pytorch.org/whl/cpu

.DEFAULT_GOAL := help
.PHONY: help setup models check test serve site read clean

help:
	@echo "make check   prove every chapter: assemble it, run it, compare it with transformers"
	@echo "make test    ruff, mypy and pytest on the engine, the chapters and the tools"
	@echo "make serve   serve SmolLM2 to OpenAI clients, at http://127.0.0.1:1919/"
	@echo "make site    build the handbook into site/"
	@echo "make read    show the handbook on this machine, at http://127.0.0.1:8000/"
	@echo "make setup   only the virtual environment, the packages and the checkpoints"
	@echo "make clean   remove what can be made again, except .venv and models"
	@echo 'ARGS="..." goes to the command behind check, test or serve; TORCH=cpu takes PyTorch'"'"'s CPU build.'

setup: models

check: models
	@$(STEPS) check $(ARGS)

test: models
	@$(PY) -m ruff check .
	@$(PY) -m mypy tools minisgl
	@$(PY) -m pytest -q tests $(ARGS)

serve: models
	@$(PY) -m minisgl --model smollm2-135m $(ARGS)

site: models $(VENV)/.has-site
	@$(STEPS) site build

read: models $(VENV)/.has-site
	@$(STEPS) site serve

models: $(VENV)/.has-dev
	@$(STEPS) models make
	@$(STEPS) models fetch smollm2-135m || echo "Going on without smollm2-135m, the real model."

$(VENV)/.has-python:
	@$(if $(PYTHON),$(PYTHON),false) -c '$(IS_NEW_ENOUGH)' 2>/dev/null || { echo 'error: no Python 3.11 or newer was found; install one, or name it with make PYTHON=/path/to/python3.' >&2; exit 2; }
	@echo "Making $(VENV) with $(PYTHON)."
	@$(PYTHON) -m venv $(VENV) || { echo 'error: $(VENV) could not be made; on Debian or Ubuntu, install the package python3-venv.' >&2; exit 2; }
	@touch $@

$(VENV)/.has-dev: pyproject.toml constraints.txt $(VENV)/.has-python
	@echo "Installing packages into $(VENV); this is done once and takes some minutes."
ifeq ($(TORCH),cpu)
	@$(PIP) install --index-url $(TORCH_CPU) "torch>=2.11,<2.14"
endif
	@$(PIP) install -q -c constraints.txt -e ".[dev]"
	@touch $@

$(VENV)/.has-site: $(VENV)/.has-dev
	@echo "Installing what the handbook needs."
	@$(PIP) install -q -c constraints.txt -e ".[dev,site]"
	@touch $@

clean:
	@rm -rf .cache site .mypy_cache .ruff_cache .pytest_cache .hypothesis build *.egg-info
	@find minisgl steps tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
