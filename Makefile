# One word per task; `make help` lists them. Needs Python 3.11 to 3.14 and make: everything else is fetched once,
# checked against uv.lock and stream/demo/localkafka/*.sha256, and kept in .venv and ~/.cache/spotsieve.

SHELL := /bin/sh
CONFIG ?= spotsieve.toml
ARGS ?=
# How many processes run the whole suite. Each has a broker of its own (0.4 GB) and mostly waits for it: more than cores.
PROCESSES ?= 3
# The releases of Python that wheels are built for; empty: all that are supported.
PYTHONS ?=
# How many of its slowest tests a run names at its end; empty: none.
SLOWEST ?=
# The tests that show whether the Kafka driver works: pages through a real broker.
DRIVER_TESTS := tests/broker/test_pages_through.py tests/broker/test_odd_messages.py \
	tests/broker/test_outputs_sent.py tests/broker/test_driver.py tests/faults/test_lost_connections.py
VENV := .venv
PY := $(VENV)/bin/python
EXPORT := $(VENV)/bin/uv export --quiet --frozen --no-emit-project --no-header --no-annotate
INSTALLED := $(VENV)/.installed
PEERS := $(VENV)/.peers
FUZZ := $(VENV)/.fuzz

.PHONY: help demo test kernels unpatched newest guarantees check verdicts bench quality schemes papers soak roles rolesteps partitions memory large growth scale classic exact fuzz chart image dashboard sbom run broker setup wheel docs lock clean archives standards hostile kills simulation public text release manuals
.DEFAULT_GOAL := help

help: ## list these tasks
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | awk -F '\t' '{ printf "make %-10s %s\n", $$1, $$2 }'

demo: setup ## start a real Kafka, send a small crawl through the filter, show what was dropped and why
	@$(VENV)/bin/spotsieve demo $(ARGS)

test: setup ## run all tests but the long ones and those of `make kernels` on a real Kafka (ARGS="tests/unit -k simhash" runs a part, SLOWEST=20 names the slowest)
	@$(PY) -m pytest $(if $(SLOWEST),--durations=$(SLOWEST)) \
		$(if $(ARGS),$(ARGS),-m "not long and not compiles" -n $(PROCESSES) --dist loadfile --no-loadscope-reorder)

kernels: setup ## run the tests that compile kernels once more: with bounds checks, for other CPUs, edited, installed
	@$(PY) -m pytest -m compiles -n 2 --dist loadfile tests/properties/test_extreme_values.py \
		tests/unit/deploy/test_kernels.py tests/unit/text/test_text_cpu.py

unpatched: setup ## run the broker tests of the Kafka driver without the performance patches of aiokafka
	@AIOKAFKA_AS_SHIPPED=1 $(PY) -m pytest $(if $(ARGS),$(ARGS),$(DRIVER_TESTS))

newest: setup ## try the newest release of aiokafka, also outside the tested series, with the tests of the Kafka driver
	@rm -rf build/newest
	@$(PY) -m pip install --disable-pip-version-check --no-input --quiet --no-deps --target build/newest aiokafka
	@PYTHONPATH=build/newest $(PY) -c "import aiokafka; print('aiokafka', aiokafka.__version__, aiokafka.__file__)"
	@PYTHONPATH=build/newest $(PY) -m pytest $(if $(ARGS),$(ARGS),tests/unit/kafka $(DRIVER_TESTS))

guarantees: setup ## run all tests, the long ones too, and renew docs/measured/guarantees.md and docs/measured/crash-matrix.md
	@$(PY) -m pytest --renew-pages -n $(PROCESSES) --dist loadfile --no-loadscope-reorder

check: $(INSTALLED) ## check style, layout, types, import rules and the subjects of commits
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy
	@$(VENV)/bin/lint-imports
	@$(PY) -m pytest -q tests/unit/deploy/test_commits.py

verdicts: $(INSTALLED) ## compare every scheme's verdicts on the labelled sets with docs/measured/verdicts.json (ARGS="--write" renews it)
	@$(PY) -m bench.verdicts $(ARGS)

bench: setup $(PEERS) ## the speed measurements, as docs/measured/speed.md's table and as docs/measured/bench.json
	@$(PY) -m bench.speed $(ARGS)

quality: $(PEERS) ## measure every labelled set, ablations, thresholds, robustness and peers; write docs/measured/quality.md
	@$(PY) -m bench.quality $(ARGS)

manuals: $(INSTALLED) ## judge documentation packages of Debian, which it downloads, each as a host; write docs/measured/manuals.md
	@$(PY) -m bench.quality.manuals $(if $(ARGS),$(ARGS),build/manuals)

public: $(PEERS) ## compare the filter with its peers on NEWS-COPY, CORE and the labelled sets; write docs/measured/public.md
	@$(PY) -m bench.public $(ARGS)

text: $(PEERS) ## compare the main text of --text with other extractors on labelled sets; write docs/measured/text.md
	@$(PY) -m bench.quality.texts $(ARGS)

schemes: $(INSTALLED) ## run every scheme over its thresholds on every labelled set; write the tables of docs/measured/schemes.md
	@$(PY) -m bench.schemes $(ARGS)

papers: $(INSTALLED) ## measure the figures of the published papers again; write docs/measured/papers.md (ARGS="manku" for one)
	@$(PY) -m bench.papers $(ARGS)

soak: setup ## kill workers 1,000 times while pages flow, in about two hours; write docs/measured/soak.md (25 GB of disk)
	@$(PY) -m bench.soak $(ARGS)

roles: setup ## kill and freeze workers, shards and resolvers while 50,000 pages flow; write docs/measured/roles.md
	@$(PY) -m bench.roles $(ARGS)

rolesteps: setup ## kill and freeze a worker, a shard and a resolver after each step of their loops; write docs/measured/role-steps.md
	@$(PY) -m bench.roles.steps $(ARGS)

simulation: $(INSTALLED) ## simulate clusters with kills, freezes and resizes for two hours; write docs/measured/simulation.md (ARGS="--minutes 20")
	@$(PY) -m bench.simulation $(ARGS)

partitions: setup ## one worker with 1,000 partitions and a backlog over TLS; write docs/measured/partitions.md (10 GB of disk)
	@$(PY) -m bench.partitions $(ARGS)

memory: $(INSTALLED) ## the memory of a state of 20 million pages; write docs/measured/index-memory.md (6 GB of disk)
	@$(PY) -m bench.index_memory $(ARGS)

scale: setup ## measure the roles of a cluster and simulate it: docs/measured/sizing.md (ARGS=simulate: by the figures that are kept)
	@$(PY) -m bench.scale $(ARGS)

large: $(INSTALLED) ## a state of 30 million pages that exceeds its memory; write docs/measured/large-state.md (15 GB of disk)
	@$(PY) -m bench.large_state $(ARGS)

growth: $(INSTALLED) ## judge over states of 0.1 to 100 million pages, 60 where 90 GB are not free; fit a cost model; write docs/measured/growth.md; continues after a kill
	@$(PY) -m bench.large_state.growth $(ARGS)

classic: $(INSTALLED) ## crash matrix and broker faults on Kafka 3.9 with the classic coordinator; write docs/measured/kafka39.md
	@$(PY) -m bench.kafka39 $(ARGS)

exact: setup ## compare exact schemes with brute force, 100,000 random cases each and every set; write docs/measured/exactness.md
	@$(PY) -m bench.exact $(ARGS)

archives: $(INSTALLED) ## compare the reading of public WARC files with warcio and FastWARC; write docs/measured/archives.md (ARGS=CLONES)
	@$(PY) -m bench.published.archives $(ARGS)

standards: $(INSTALLED) ## run the tests that the web's standards publish; write docs/measured/standards.md (ARGS=CLONES)
	@$(PY) -m bench.published.standards $(ARGS)

hostile: $(INSTALLED) ## look-ups of `serve` under 2,000 hostile connections of each kind; write docs/measured/hostile-clients.md
	@$(PY) -m bench.hostile_clients $(ARGS)

kills: $(INSTALLED) ## kill every command that writes at random moments, and fill its disk; write docs/measured/command-kills.md
	@$(PY) -m bench.command_kills $(ARGS)

fuzz: $(FUZZ) ## feed every reader of foreign bytes with mutated input for 10 minutes; write docs/measured/fuzz.md (ARGS="--minutes 60")
	@$(PY) -m bench.fuzz $(ARGS)

chart: $(INSTALLED) ## check the Helm chart and render the manifests in deploy from it (Go builds helm once, in minutes)
	@$(PY) -m bench.deploy.chart $(ARGS)

image: setup ## build the image without a Docker engine, start it, write docs/measured/image.md (as root; buildah, mmdebstrap, bubblewrap)
	@$(PY) -m bench.deploy.image $(ARGS)

dashboard: $(INSTALLED) ## write deploy/grafana/dashboards/spotsieve.json from bench/deploy/dashboard
	@$(PY) -m bench.deploy.dashboard.write $(ARGS)

sbom: $(INSTALLED) ## list the packages of an installation with versions and hashes: out/sbom.cdx.json (CycloneDX)
	@mkdir -p out
	@$(EXPORT) --no-default-groups --extra fast --extra serve --output-file out/requirements-run.txt
	@$(VENV)/bin/cyclonedx-py requirements out/requirements-run.txt --pyproject pyproject.toml --output-reproducible -o out/sbom.cdx.json
	@echo "out/sbom.cdx.json"

run: $(INSTALLED) ## run the filter service (CONFIG=spotsieve.toml)
	@$(VENV)/bin/spotsieve run -c $(CONFIG) $(ARGS)

broker: setup ## run a real Kafka on 127.0.0.1:9092 in the foreground, to play with (ARGS="--port 0 --dir DIR")
	@$(PY) -m spotsieve.stream.demo.localkafka $(ARGS)

setup: $(INSTALLED) ## install the environment into .venv and fetch Kafka into the cache; the tasks above do this themselves
	@$(PY) -m compileall -q stream state # also where PYTHONDONTWRITEBYTECODE is set: without it a start takes a third longer
	@$(PY) -m spotsieve.stream.demo.localkafka --prepare

docs: $(INSTALLED) ## build the documentation site into build/site
	@$(PY) -m sphinx -W --keep-going -q -b html docs build/site && echo "build/site/index.html"

wheel: $(INSTALLED) ## build wheels with compiled kernels for Python 3.11 to 3.13 into dist (PYTHONS=3.12 for one; five minutes each)
	@$(PY) -m bench.deploy.wheels $(ARGS) -- $(PYTHONS)

release: $(INSTALLED) ## check version and CHANGELOG.md; build source distribution, wheels, SBOM and checksums into dist (ARGS=--trial)
	@$(PY) -m bench.deploy.release $(ARGS) -- $(PYTHONS)

$(INSTALLED): uv.lock deploy/uv.txt pyproject.toml deploy/install.sh
	@sh deploy/install.sh $(VENV)

$(FUZZ): $(INSTALLED)
	@echo "spotsieve set-up: installing what guides make fuzz into $(VENV)"
	@$(EXPORT) --only-group fuzz --output-file $(VENV)/fuzz.txt
	@$(PY) -m pip install --disable-pip-version-check --no-input --quiet --require-hashes -r $(VENV)/fuzz.txt || \
		echo "spotsieve set-up: it is not to be had here; inputs are mutated without it"
	@touch $(FUZZ)

$(PEERS): $(INSTALLED)
	@echo "spotsieve set-up: installing the peers of make bench, quality and public into $(VENV)"
	@$(EXPORT) --only-group peers --output-file $(VENV)/peers.txt
	@$(PY) -m pip install --disable-pip-version-check --no-input --quiet --require-hashes -r $(VENV)/peers.txt
	@touch $(PEERS)

lock: $(INSTALLED) ## resolve the newest allowed dependencies into uv.lock, and the newest uv into deploy/uv.txt
	@$(VENV)/bin/uv lock --upgrade --default-index https://pypi.org/simple
	@echo uv | $(VENV)/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header \
		--no-annotate --default-index https://pypi.org/simple -o $(VENV)/uv.txt -
	@{ head -n 1 deploy/uv.txt; cat $(VENV)/uv.txt; } > $(VENV)/uv.new && mv $(VENV)/uv.new deploy/uv.txt

clean: ## remove .venv and everything generated, but not the cache in ~/.cache/spotsieve
	@rm -rf $(VENV) build dist out *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
