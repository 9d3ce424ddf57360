# Two commands do everything: `make demo` and `make test`. Both set up what they need.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.set-up
PIPELINE_STAMP := $(VENV)/.set-up-pipeline
LOCAL_STAMP := $(VENV)/.set-up-pipeline-local
DOCS_STAMP := $(VENV)/.set-up-docs
CLASSES_STAMP := $(VENV)/.spark-classes
# What is compiled once is not compiled anew by each of the hundreds of commands that tests start.
unexport PYTHONDONTWRITEBYTECODE
JOBS ?= 2
# A worker that a test ends is a failure; xdist hangs when it replaces one (its issue 1378).
# One worker keeps a core busy, the others wait for containers (tests/conftest.py).
TEST_WORKERS ?= 3
WORKERS := -n $(TEST_WORKERS) --max-worker-restart=0
export HIGHWATER_CLUSTERS_AT_ONCE ?= $(TEST_WORKERS)
PYTEST_ARGS ?=
# Of each preset: from seed 1 on, and from a seed that is the commit's. That seed also settles which
# third of the costly tests a commit runs (tests/in_turn.py).
SCHEDULES ?= 50
FRESH_SCHEDULES ?= 50
FRESH_SEED ?= $(shell printf '1%08d' 0x$$(git rev-parse --short=6 HEAD 2>/dev/null || echo 0))
FULL_SCHEDULES ?= 1000
# A file that keeps which tests passed: a run of test-full that was ended goes on behind them.
GO_ON ?=
HOSTILE_MINUTES ?= 60
FUZZ_MINUTES ?= 60
FUZZ_ARGS ?=
MUTATE_ARGS ?=
BENCH_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup setup-pipeline engine images wheel demo test test-full test-oldest lint unit clean
.PHONY: docs fuzz mutate clients client-suites
.PHONY: bench bench-groups bench-simulator bench-faults bench-kafka bench-pipeline bench-hostile bench-scale

help: ## Show this list.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(STAMP) ## Create .venv with the locked packages and highwater itself.

$(STAMP): locks/dev.txt pyproject.toml scripts/set-up
	@PYTHON=$(PYTHON) scripts/set-up $(VENV)
	@touch $@

setup-pipeline: $(CLASSES_STAMP) ## Likewise, with Spark for the pipeline (1 GB more).

$(PIPELINE_STAMP): locks/pipeline.txt $(STAMP)
	@PYTHON=$(PYTHON) scripts/set-up $(VENV) pipeline
	@touch $@

# `make setup-pipeline` installs these packages as well.
$(LOCAL_STAMP): locks/pipeline-local.txt $(STAMP)
	@PYTHON=$(PYTHON) scripts/set-up $(VENV) pipeline-local
	@touch $@

$(CLASSES_STAMP): $(PIPELINE_STAMP)
	@echo "set-up: Spark's classes are recorded once: a minute now, ten seconds less each time" >&2
	@$(BIN)/python -m highwater_pipeline.class_archive
	@touch $@

$(DOCS_STAMP): locks/docs.txt $(STAMP)
	@PYTHON=$(PYTHON) scripts/set-up $(VENV) docs
	@touch $@

engine: ## Make sure that a Docker engine answers.
	@scripts/docker-engine

images: setup engine ## Build the images that are missing, before a test has to wait for one.
	@$(BIN)/highwater images build --all

wheel: setup ## Make the wheel that other projects install, in dist/.
	@rm -rf dist
	@$(BIN)/python -m hatchling build -t wheel

docs: $(DOCS_STAMP) ## Make the documentation's site in site/; a link or anchor that leads nowhere fails.
	@scripts/make-site

demo: setup ## Bring up a cluster, kill its leader and its controller, prove that nothing was lost.
	@scripts/docker-engine || echo "no Docker engine is to be had: the simulator plays the demo" >&2
	@$(BIN)/highwater demo
	@$(MAKE) --no-print-directory $(LOCAL_STAMP)
	@$(BIN)/highwater pipeline run runs/latest || [ $$? = 2 ]

SCHEMA := $(BIN)/check-jsonschema --builtin-schema
STAGES := harness/highwater/ci_stage/templates

lint: $(PIPELINE_STAMP) $(DOCS_STAMP) ## Check formatting, rules, types, imports, generated files, the schemas of CIs' files and the docs' site.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	scripts/generate-proto --check
	scripts/generate-docs --check
	$(SCHEMA) vendor.github-workflows $(STAGES)/github.yml .github/workflows/nightly.yml
	$(SCHEMA) vendor.gitlab-ci --data-transform gitlab-ci $(STAGES)/gitlab.yml
	$(SCHEMA) vendor.github-issue-forms .github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/request.yml
	$(SCHEMA) vendor.compose-spec compose/compose.yaml compose/overlays/*.yaml
	scripts/make-site

unit: setup-pipeline ## Run the tests that need no containers.
	$(BIN)/pytest $(WORKERS) -m "not docker" $(PYTEST_ARGS)

# Spark's classes are not recorded for it: that takes longer than its one session saves.
test: ## Run every check, and every test but two thirds of the costly ones, which other commits run.
	@scripts/test-tools
	@$(MAKE) --no-print-directory -j2 lint images
	HIGHWATER_REQUIRE_DOCKER=1 HIGHWATER_SCHEDULES=$(SCHEDULES) \
	  HIGHWATER_FRESH_SCHEDULES=$(FRESH_SCHEDULES) HIGHWATER_FRESH_SEED=$(FRESH_SEED) \
	  $(BIN)/pytest $(WORKERS) $(PYTEST_ARGS)

test-full: ## Likewise, with the full matrix in containers and more schedules.
	@scripts/test-tools --full
	@$(MAKE) --no-print-directory -j3 lint images setup-pipeline
	HIGHWATER_REQUIRE_DOCKER=1 HIGHWATER_SCHEDULES=$(FULL_SCHEDULES) \
	  HIGHWATER_FRESH_SCHEDULES=$(FULL_SCHEDULES) HIGHWATER_FRESH_SEED=$(FRESH_SEED) \
	  $(BIN)/pytest $(WORKERS) --full $(if $(GO_ON),--go-on $(GO_ON)) $(PYTEST_ARGS)

OLDEST := .venv-oldest/bin/python

# Deprecations are of newer libraries beside old ones. kafka-python's internals are the tests' own.
test-oldest: setup ## Run the harness's and the checker's unit tests with the oldest libraries that a user may have.
	$(BIN)/uv venv --quiet --clear --seed --python $(BIN)/python .venv-oldest
	$(BIN)/uv pip install --quiet --python $(OLDEST) --resolution lowest-direct -r pyproject.toml
	$(BIN)/uv pip install --quiet --python $(OLDEST) editables hatchling hypothesis prometheus-client \
	  pytest pytest-timeout pytest-xdist pyyaml
	$(BIN)/uv pip install --quiet --python $(OLDEST) --no-build-isolation --no-deps -e .
	$(OLDEST) -m pytest -m "not docker" -o filterwarnings=default $(PYTEST_ARGS) tests/unit/adapters \
	  tests/unit/checker tests/unit/harness tests/unit/wire/test_control_codec.py

fuzz: setup ## Feed nodes hostile input for FUZZ_MINUTES; goes on where it was stopped.
	$(BIN)/python -m tests.fuzz run --minutes $(FUZZ_MINUTES) --jobs $(JOBS) $(FUZZ_ARGS)

mutate: setup ## Change node code in small ways, one at a time; what no test notices is listed.
	$(BIN)/python -m tests.mutate $(MUTATE_ARGS)

clients: setup engine ## Run what each stock client does, and record it for docs/reference/clients.md.
	@scripts/test-tools
	HIGHWATER_RECORD_CLIENTS=1 $(BIN)/pytest -n 0 --full $(PYTEST_ARGS) \
	  tests/integration/test_every_stock_client.py; code=$$?; scripts/generate-docs; exit $$code

client-suites: setup engine ## Run the own tests of kafka-python and librdkafka against a cluster.
	$(BIN)/python -m tests.client_suites

bench: setup engine ## Measure the simulator, then bring-up, failover, throughput, latency and memory.
	$(BIN)/python -m bench.simulator
	$(BIN)/python -m bench $(BENCH_ARGS)

bench-simulator: setup ## Measure the simulator alone; no Docker.
	$(BIN)/python -m bench.simulator

bench-faults: setup engine ## How long each fault takes on containers, and what a run costs.
	$(BIN)/python -m bench.faults

bench-hostile: setup engine ## What others notice of each hostile client; then an hour of all, with faults.
	$(BIN)/python -m bench.hostile --each
	$(BIN)/python -m bench.hostile --minutes $(HOSTILE_MINUTES)

bench-pipeline: setup-pipeline ## What checks and campaigns cost, beside DuckDB, polars and a process pool; no Docker.
	$(BIN)/python -m bench.pipeline
	$(BIN)/python -m bench.pipeline.campaign_cost

bench-kafka: setup engine ## Likewise, beside Apache Kafka with the same client and settings.
	$(BIN)/python -m bench --kafka $(BENCH_ARGS)

bench-groups: setup engine ## Commits, rebalances and the load of a group coordinator, beside Apache Kafka.
	$(BIN)/python -m bench.groups --kafka

bench-scale: setup engine ## A broker and a controller die with thousands of partitions, simulated and beside Apache Kafka.
	$(BIN)/python -m bench.scale_simulated
	$(BIN)/python -m bench.scale --kafka

clean: ## Remove clusters, caches and .venv; images stay (highwater images prune).
	@if [ -x $(BIN)/highwater ] && scripts/docker-engine --check 2>/dev/null; then \
	  $(BIN)/highwater down --all; fi
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist site
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
