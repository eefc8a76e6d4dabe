# The two commands of the README are `make demo` and `make test`. Each installs everything
# that it needs on a machine with only Python 3.11+ and pip.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SEEDS ?= 0 1 2 3 4

# uv unpacks wheels with all cores, while pip uses one. uv ignores pip's settings, so it
# gets pip's find-links (folders of wheels). pip installs if it has an index-url, or if uv
# fails; it is upgraded first, because pip 23.0 (Python 3.11.2) finds no solution for the
# development tools. Modules are compiled at their first import.
define install
	@links=$$($(BIN)/pip config list | sed -n "s/.*\.find-links='\(.*\)'/\1/p" | paste -sd' ' -); \
	if $(BIN)/pip config list | grep -q '\.index-url=' || \
	  ! $(BIN)/pip install --quiet --constraint constraints.txt uv || \
	  ! UV_FIND_LINKS="$$(echo $$links | tr ' ' ',')" \
	    $(BIN)/uv pip install --quiet --python $(BIN)/python --constraint constraints.txt $(1); \
	then $(BIN)/pip install --quiet --constraint constraints.txt --upgrade pip && \
	  $(BIN)/pip install --quiet --no-compile --constraint constraints.txt $(1); fi
endef

.DEFAULT_GOAL := help
.PHONY: help install demo compare docs test test-long check lint types unit clean

help:
	@echo "make install   everything except the development tools, into $(VENV); VENV=DIR for another"
	@echo "               environment, EXTRA=cuda or EXTRA=tpu for a machine with a GPU or TPU"
	@echo "make demo      install, train configs/d3st_aug.gin, print the report"
	@echo "make test      install with test tools, lint, types, all tests but the long ones"
	@echo "make test-long install with test tools, long tests: many random draws, normal compilation"
	@echo "make docs      install with MkDocs, build the site of docs/ into site/"
	@echo "make compare   D3ST with every set of training schemas, seeds $(SEEDS): runs/compare_d3st.html"

# jaxaug is on no index, so its extras are installed from here.
install:
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(call install,-e ./runtime -e ./papers -e '.[all$(EXTRA:%=,%)]')
	touch $(VENV)/run.stamp

$(VENV)/run.stamp: Makefile pyproject.toml runtime/pyproject.toml papers/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(call install,-e ./runtime -e ./papers -e '.[all]')
	touch $@

$(VENV)/dev.stamp: pyproject.toml runtime/pyproject.toml papers/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(call install,-e ./runtime -e ./papers -e '.[dev]')
	touch $@

$(VENV)/docs.stamp: pyproject.toml runtime/pyproject.toml papers/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(call install,-e ./runtime -e ./papers -e '.[docs]')
	touch $@

# A stopped run (SIGTERM) fails, so that no report is printed for it.
demo: export T5X_STOPPED_STATUS = 75
demo: $(VENV)/run.stamp
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
	JAXAUG_TEST_PLAINLY=1 $(PYTEST) $(PLAINLY)

clean:
	rm -rf $(VENV) runs site .mypy_cache .pytest_cache .ruff_cache
