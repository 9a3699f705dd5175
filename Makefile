# `make demo` and `make test` do everything, starting from Python, pip and make alone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := build/demo
QUICK := --set num_steps=300 --set evaluate_every=300 --set final_batches=20

.PHONY: demo test lint format benchmark clean

demo: $(VENV)/installed
	$(BIN)/gfn4rec data prepare synthetic-small --out $(DEMO)/data
	$(BIN)/gfn4rec data show $(DEMO)/data --count 3
	$(BIN)/gfn4rec simulator train $(DEMO)/data --out $(DEMO)/simulator
	rm -rf $(DEMO)/cf $(DEMO)/gfn
	$(BIN)/gfn4rec train online --data $(DEMO)/data --simulator $(DEMO)/simulator --policy cf $(QUICK) --out $(DEMO)/cf
	$(BIN)/gfn4rec train online --data $(DEMO)/data --simulator $(DEMO)/simulator --policy gfn $(QUICK) --out $(DEMO)/gfn
	$(BIN)/gfn4rec recommend $(DEMO)/gfn --user 1 --slates 2
	$(BIN)/gfn4rec evaluate $(DEMO)/cf $(DEMO)/gfn --temperature 1,0.5,0.25 --batches 20 --plot $(DEMO)/curves.png
	@echo && echo "Plot: $(DEMO)/curves.png. Next: $(BIN)/gfn4rec --help, or your own log, as README.md shows."

test: lint
	$(BIN)/python -m pytest

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
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	@touch $@

$(VENV)/installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing what is needed into $(VENV); this takes a minute or two."
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@ $(VENV)/installed
