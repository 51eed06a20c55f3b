# Everything a fresh machine needs is Python 3.11 or newer, pip and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DOCS_READY := $(VENV)/.docs-ready

.PHONY: install browser demo test quick lint docs bench bench-serve clean

install: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "uol needs Python 3.11 or newer: make PYTHON=python3.12 …" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@echo "Installing uol and all it can use into $(VENV): several gigabytes with torch, some minutes"
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e '.[all,dev]'
	@touch $@

# The tests of the page need Debian's Chromium; without it they are skipped.
browser: $(READY)
	@command -v chromium >/dev/null || { apt-get update && apt-get install -y --no-install-recommends chromium; }
	$(BIN)/python -m pytest tests/serve/test_server_page.py tests/study/test_server_page.py

demo: $(READY)
	$(BIN)/uol demo --out uol-demo

test: lint
	$(BIN)/python -m pytest -n 2 --dist loadscope --no-loadscope-reorder

quick: $(READY)
	$(BIN)/python -m pytest -n 2 --dist loadscope --no-loadscope-reorder -m "not slow"

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache

# Pages that are notebooks are run, and kept in build/notebooks until they change. Open build/docs/html/index.html.
docs: $(DOCS_READY)
	$(BIN)/python -m sphinx -b html -W --keep-going -q docs build/docs/html
	@echo "build/docs/html/index.html"

$(DOCS_READY): $(READY)
	$(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt -e '.[docs]'
	@touch $@

bench: $(READY)
	$(BIN)/python benchmarks/comparator.py
	$(BIN)/python benchmarks/bradley_terry.py
	$(BIN)/python benchmarks/image_cache.py
	$(BIN)/python benchmarks/scoring.py
	$(BIN)/python benchmarks/training.py

# Load and strange requests on loopback, some minutes each: for a machine that is not busy.
bench-serve: $(READY)
	$(BIN)/python benchmarks/serve_load.py
	$(BIN)/python benchmarks/serve_fuzz.py
	$(BIN)/python benchmarks/study_load.py
	$(BIN)/python benchmarks/study_fuzz.py

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
