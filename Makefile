# Two commands: `make demo` and `make test`. Both make their own environment first.
PYTHON ?= python3
BIN = .venv/bin
export OMP_NUM_THREADS ?= 1

.PHONY: test demo lint env demo-env clean

test: env lint
	$(BIN)/python -m pytest -n 2

lint: env
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

demo: demo-env
	.venv-demo/bin/python examples/demo.py

env:
	@$(PYTHON) tools/setup_env.py .venv requirements-dev.txt

demo-env:
	@$(PYTHON) tools/setup_env.py .venv-demo examples/requirements.txt

clean:
	rm -rf .venv .venv-demo .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
