# One word per task; `make help` lists them. Needs Python 3.11 or newer and make: everything else is fetched once,
# checked against requirements.lock and stream/demo/localkafka/*.sha256, and kept in .venv and ~/.cache/spotsieve.

SHELL := /bin/sh
CONFIG ?= spotsieve.toml
ARGS ?=
# Of the whole suite; each has a broker of its own (0.4 GB), and mostly waits for it.
PROCESSES ?= 2
VENV := .venv
PY := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed
PEERS := $(VENV)/.peers
FUZZ := $(VENV)/.fuzz

.PHONY: help demo test check bench quality soak exact fuzz run broker setup lock clean
.DEFAULT_GOAL := help

help: ## list the tasks
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | awk -F '\t' '{ printf "make %-8s %s\n", $$1, $$2 }'

demo: setup ## start a real Kafka, send a small crawl through the filter, show what was dropped and why
	@$(VENV)/bin/spotsieve demo $(ARGS)

test: setup ## the whole test suite, on a real Kafka (ARGS="tests/unit -k simhash" for a part)
	@$(PY) -m pytest $(if $(ARGS),$(ARGS),-n $(PROCESSES) --dist loadfile --no-loadscope-reorder)

check: $(INSTALLED) ## lint, format, types, import rules
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy
	@$(VENV)/bin/lint-imports

bench: setup ## the speed measurements of README, as a table and as JSON
	@$(PY) -m tests.measure.bench $(ARGS)

quality: $(PEERS) ## docs/quality.md: every labelled set, ablations, thresholds, robustness, peers in the same run
	@$(PY) -m tests.measure.quality $(ARGS)

soak: setup ## docs/soak.md: 300,000 pages through two workers that are killed again and again (minutes, 5 GB of disk)
	@$(PY) -m tests.measure.soak $(ARGS)

exact: setup ## docs/exactness.md: exact schemes against brute force, 100,000 random cases each and every set (minutes)
	@$(PY) -m tests.measure.exact $(ARGS)

fuzz: $(FUZZ) ## docs/fuzz.md: every reader of foreign bytes, guided by coverage, for 10 minutes (ARGS="--minutes 60")
	@$(PY) -m tests.measure.fuzz $(ARGS)

run: $(INSTALLED) ## the filter service (CONFIG=spotsieve.toml)
	@$(VENV)/bin/spotsieve run -c $(CONFIG) $(ARGS)

broker: setup ## a real Kafka on 127.0.0.1:9092 in the foreground, for playing (ARGS="--port 0 --dir DIR")
	@$(PY) -m spotsieve.stream.demo.localkafka $(ARGS)

setup: $(INSTALLED) ## the environment in .venv and Kafka in the cache; the tasks above do this themselves
	@$(PY) -m spotsieve.stream.demo.localkafka --prepare

$(INSTALLED): requirements.lock pyproject.toml deploy/install.sh
	@sh deploy/install.sh $(VENV)

$(FUZZ): $(INSTALLED) requirements-fuzz.lock
	@echo "spotsieve set-up: installing what guides make fuzz into $(VENV)"
	@$(PY) -m pip install --disable-pip-version-check --no-input --quiet --require-hashes -r requirements-fuzz.lock || \
		echo "spotsieve set-up: it is not to be had here; inputs are mutated without it"
	@touch $(FUZZ)

$(PEERS): $(INSTALLED) requirements-peers.lock
	@echo "spotsieve set-up: installing the peers of make quality into $(VENV)"
	@$(PY) -m pip install --disable-pip-version-check --no-input --quiet --require-hashes -r requirements-peers.lock
	@touch $(PEERS)

lock: $(INSTALLED) ## resolve the newest allowed dependencies into requirements*.lock
	@$(PY) -m pip install -q 'uv>=0.5'
	@$(VENV)/bin/uv pip compile -q pyproject.toml --all-extras --group dev $(LOCK_OPTIONS) -o requirements.lock
	@$(VENV)/bin/uv pip compile -q pyproject.toml -c requirements.lock $(LOCK_OPTIONS) -o requirements-run.lock
	@$(VENV)/bin/uv pip compile -q --group build -c requirements.lock $(LOCK_OPTIONS) -o requirements-build.lock
	@$(VENV)/bin/uv pip compile -q --group fuzz -c requirements.lock $(LOCK_OPTIONS) -o requirements-fuzz.lock
	@$(VENV)/bin/uv pip compile -q --group peers -c requirements.lock $(LOCK_OPTIONS) -o requirements-peers.lock
LOCK_OPTIONS := --upgrade --universal --generate-hashes --python-version 3.11 --no-emit-index-url --no-header

clean: ## remove .venv and everything generated (not the cache in ~/.cache/spotsieve)
	@rm -rf $(VENV) build dist out *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
