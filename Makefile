# The two commands of the README are `make demo` and `make test`. Each installs everything
# that it needs on a machine with only Python 3.11+ and pip.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SEEDS ?= 0 1 2 3 4
# CONSTRAINTS=/dev/null installs the newest versions.
CONSTRAINTS ?= constraints.txt

# uv unpacks wheels with all cores, while pip uses one. uv ignores pip's settings, so it
# gets pip's find-links (folders of wheels). pip installs if it has an index-url, or if uv
# fails; it is upgraded first, because pip 23.0 (Python 3.11.2) finds no solution for the
# development tools. Modules are compiled at their first import.
define install
	@echo "Installing $(1) into $(VENV), from PyPI: about $(2) on disk."
	@links=$$($(BIN)/pip config list | sed -n "s/.*\.find-links='\(.*\)'/\1/p" | paste -sd' ' -); \
	if $(BIN)/pip config list | grep '\.index-url=' >/dev/null || \
	  ! $(BIN)/pip install --quiet --constraint $(CONSTRAINTS) uv || \
	  ! UV_FIND_LINKS="$$(echo $$links | tr ' ' ',')" \
	    $(BIN)/uv pip install --quiet --python $(BIN)/python --constraint $(CONSTRAINTS) $(1); \
	then $(BIN)/pip install --quiet --constraint $(CONSTRAINTS) --upgrade pip && \
	  $(BIN)/pip install --quiet --no-compile --constraint $(CONSTRAINTS) $(1); fi
endef

# Measured by benchmarks/install.py.
DEMO_GB := 0.8 GB
ALL_GB := 3.5 GB
DEV_GB := 8.6 GB
comma := ,

.DEFAULT_GOAL := help
.PHONY: help install demo compare docs test test-long check lint types unit dist clean

help:
	@echo "make install   everything except the development tools ($(ALL_GB)), into $(VENV); VENV=DIR for another"
	@echo "               environment, EXTRA=cuda or EXTRA=tpu for a machine with a GPU or TPU"
	@echo "make demo      install jax, report, serve ($(DEMO_GB)), train configs/d3st_aug.gin, print the report"
	@echo "make test      install with test tools ($(DEV_GB)), lint, types, all tests but the long ones"
	@echo "make test-long install with test tools, long tests: many draws, real data, normal compilation"
	@echo "make docs      install with MkDocs, build the site of docs/ into site/"
	@echo "make dist      sources and wheels of the three distributions into dist/, checked by twine"
	@echo "make compare   D3ST with every set of training schemas, seeds $(SEEDS): runs/compare_d3st.html"

# jaxaug is on no index, so its extras are installed from here.
install:
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(call install,-e ./runtime -e ./papers -e '.[all$(EXTRA:%=,%)]',$(ALL_GB))
	touch $(VENV)/run.stamp

$(VENV)/run.stamp: Makefile pyproject.toml runtime/pyproject.toml papers/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(call install,-e ./runtime -e ./papers -e '.[all]',$(ALL_GB))
	touch $@

$(VENV)/demo.stamp: pyproject.toml runtime/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(call install,-e ./runtime -e '.[jax$(comma)report$(comma)serve]',$(DEMO_GB))
	touch $@

$(VENV)/dev.stamp: pyproject.toml runtime/pyproject.toml papers/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(call install,-e ./runtime -e ./papers -e '.[dev]',$(DEV_GB))
	touch $@

$(VENV)/docs.stamp: pyproject.toml runtime/pyproject.toml papers/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(call install,-e ./runtime -e ./papers -e '.[docs]',$(DEMO_GB))
	touch $@

# A stopped run (SIGTERM) fails, so that no report is printed for it.
demo: export T5X_STOPPED_STATUS = 75
demo: $(VENV)/demo.stamp
	$(BIN)/python -m t5x.train --gin_file=configs/d3st_aug.gin
	$(BIN)/jaxaug report runs/d3st_aug

compare: $(VENV)/run.stamp
	PATH="$(abspath $(BIN)):$$PATH" benchmarks/compare.sh $(SEEDS)

# MkDocs would print a warning about its future version 2.
docs: $(VENV)/docs.stamp
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

test check: $(VENV)/dev.stamp lint types unit

lint:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types:
	$(BIN)/mypy --num-workers 2

PYTEST := $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

unit:
	$(PYTEST)

# Networks again, compiled with the default optimizations of XLA and all checks of Flax.
PLAINLY := tests/runtime/network tests/models/layers

test-long: $(VENV)/dev.stamp
	$(PYTEST) -m long
	JAXAUG_TEST_PLAINLY=1 $(PYTEST) -m "" $(PLAINLY)

# Sources and wheels for an index, with the checks of PyPI.
dist:
	rm -rf build runtime/build papers/build dist && $(PYTHON) -m venv build/venv
	build/venv/bin/pip install --quiet build twine
	for home in . runtime papers; do build/venv/bin/python -m build --outdir dist $$home || exit; done
	build/venv/bin/twine check --strict dist/*

clean:
	rm -rf $(VENV) build runtime/build papers/build dist runs site .mypy_cache .pytest_cache .ruff_cache
