# `make demo` and `make test` do everything, starting from Python, pip and make alone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := build/demo

.PHONY: demo test lint format benchmark clean

demo: $(VENV)/installed
	$(BIN)/gfn4rec data prepare synthetic-small --out $(DEMO)/data --force
	$(BIN)/gfn4rec data show $(DEMO)/data --count 3
	$(BIN)/gfn4rec reproduce data online --data $(DEMO)/data --out $(DEMO)/report
	@echo && echo "Open $(DEMO)/report/index.html. Next: $(BIN)/gfn4rec --help, or your own log, as README.md shows."

test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

benchmark: $(VENV)/installed-dev
	$(BIN)/python benchmarks/data.py

clean:
	rm -rf $(VENV) build

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("gfn4rec needs Python 3.11 or newer; name one, as in make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing what is needed into $(VENV); this takes a minute or two."
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[experiments]'
	@touch $@

$(VENV)/installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing what is needed into $(VENV); this takes a minute or two."
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@ $(VENV)/installed
