# Everything runs in the project's own virtual environment, made here on first use.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# make demo SESSION=recording.jsonl EXIT=1 PORT=8765
SESSION ?=
EXIT ?=
PORT ?=
# make test ARGS="tests/config -k lookup"
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help demo serve test bench check lock clean

help:
	@echo "make demo     replay a session with and without this server (SESSION=path, EXIT=1, PORT=n)"
	@echo "make serve    start the server (PORT=n)"
	@echo "make test     run the tests (ARGS=...)"
	@echo "make bench    measure"
	@echo "make check    style, types, import rules"
	@echo "make lock     rewrite the lock files from what is installed in $(VENV)"

$(READY): requirements-dev.lock Makefile
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed; name one with PYTHON=/path/to/python"; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
		|| { echo "The venv module is missing (Debian: apt-get install python3-venv)"; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.lock
	@touch $@

demo: $(READY)
	$(BIN)/python manage.py demo $(if $(SESSION),--session "$$SESSION") $(if $(EXIT),--exit) $(if $(PORT),--port $(PORT))

serve: $(READY)
	$(BIN)/python manage.py serve $(if $(PORT),--port $(PORT))

test: $(READY)
	$(BIN)/python -m pytest $(ARGS)

bench: $(READY)
	$(BIN)/python manage.py bench $(ARGS)

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy magiccontext/engine magiccontext/config
	$(BIN)/lint-imports --no-logo

lock: $(READY)
	$(BIN)/python .ci/lock.py

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
