SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
BIN := .venv/bin
# Twice the cores of a small machine: many tests wait for a server, a worker or a lock
PROCESSES ?= 4
# What `make chaos` writes, and how long `make soak` takes (120 is the quick form)
REPORT ?= var/chaos-report.md
SECONDS ?= 7200

# Product and tests are many short processes: each would compile all of it anew
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup run test test-unit test-browser test-shell test-servers test-chaos chaos soak bench lint verify fmt clean

help:  ## Print the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: .venv/installed  ## Make .venv and install all that requirements.lock names, checked by hash

# What runs the product is a third of what tests it: a newcomer waits for that alone. One list holds the
# versions of the other. A stamp holds its list's digest: a fresh checkout's file times say nothing.
.venv/installed: requirements.lock
.venv/running: requirements.production.lock
.venv/installed .venv/running:
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed") if sys.version_info < (3, 11) else None'
	@digest=$$(sha256sum $<); \
	if [ ! -x $(BIN)/python ] || [ "$$(cat $@ 2>/dev/null)" != "$$digest" ]; then \
		test -x $(BIN)/python || $(PYTHON) -m venv .venv; \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<; \
		echo "$$digest" > $@; \
	fi
	@touch $@

run: .venv/running  ## Start everything at http://127.0.0.1:8000/ (UP="--port 8001 --no-demo" for other ways)
	@exec $(BIN)/python manage.py up $(UP)

test: setup  ## Run the tests, all but the browser's and the long forms (ON=debian or ON=pgbouncer: on those servers)
	@AGENTPLATFORM_TEST_ON=$(ON) $(BIN)/pytest -n $(PROCESSES) --dist worksteal --ignore tests/browser \
		-m "not long and not shell and not chaos and not servers" $(ARGS)

test-unit: setup  ## Run the tests that need no database (seconds)
	@$(BIN)/pytest tests/unit $(ARGS)

test-browser: setup  ## Drive the pages in Chromium
	@$(BIN)/pytest tests/browser -m "not long" $(ARGS)

test-shell: setup  ## Let the worker in shell run a task to the end (needs curl, jq and openssl)
	@$(BIN)/pytest tests/worker/test_shell_worker.py -m shell $(ARGS)

test-servers: setup  ## Try pooler, brokers and the deployed programs on Debian's own servers
	@$(BIN)/pytest tests/production -m servers $(ARGS)

test-chaos: setup  ## Kill, stop and restart every part of a product under load, once or a few times each (a minute)
	@$(BIN)/pytest tests/chaos -m chaos $(ARGS)

chaos: setup  ## Run the long forms of the proofs, by the hundred, and write REPORT (two hours or more)
	@$(BIN)/python -m pytest -p tests.report --report $(REPORT) -m long $(ARGS)

soak: setup  ## Load a product of its own for SECONDS and fail when memory, tables or the outbox grow
	@$(BIN)/python tests/soak/run.py --seconds $(SECONDS)

bench: setup  ## Measure the speed of a product of its own, each figure beside the floor of the same run
	@$(BIN)/python tests/bench/run.py $(ARGS)

lint: setup  ## Check style, types, import rules, settings and migrations
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy .
	$(BIN)/lint-imports
	$(BIN)/python manage.py check
	$(BIN)/python manage.py makemigrations --check --dry-run
	$(BIN)/python manage.py lint_migrations

verify: setup  ## Generate the generated documents again; fail when they differ
	$(BIN)/python manage.py generate_docs --check

fmt: setup  ## Format the code and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## Remove caches; data in var/ stays
	rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
