# `make demo` and `make test` set up everything they need in .venv.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check format bench clean

demo: .venv/ready
	$(BIN)/dpsample demo

test: check
	$(BIN)/pytest -n auto --dist loadgroup

check: .venv/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: .venv/ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: .venv/ready
	$(BIN)/python benchmarks/scheme.py
	$(BIN)/python benchmarks/release.py
	$(BIN)/python benchmarks/answers.py
	$(BIN)/python benchmarks/accuracy.py --quick
	$(BIN)/python benchmarks/accuracy.py --coverage --quick
	$(BIN)/python benchmarks/spark.py

.venv/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "dpsample needs Python 3.11 or later; found $$($(PYTHON) --version). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build
