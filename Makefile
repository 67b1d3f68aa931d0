# One command per intent. `make demo` shows the product at work, `make test` runs the tests; both set everything up first.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ROWS ?=

.PHONY: help setup demo test test-all test-old-spark test-pythons lint format mixed-groups soak spark-soak transaction-soak bench bench-client bench-spark bench-shapes bench-delay crash outage full-disk spark-kills hostile loop-share fuzz docs interop lock packages mechanisms mutants mutation coverage clean

help: ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /\1\t/' | expand -t 12

setup: $(VENV)/.ready $(VENV)/.compiled $(VENV)/.java ## .venv with pinned dependencies and bin/sprocketmq; Java 17 if it can be installed

$(VENV)/.ready: requirements.lock pyproject.toml scripts/setup-python
	@PYTHON=$(PYTHON) VENV=$(VENV) scripts/setup-python
	@touch $@

# Half of a server's start would else be compiling: installers leave that out, and PYTHONDONTWRITEBYTECODE forbids it later.
$(VENV)/.compiled: $(VENV)/.ready $(shell find src -name '*.py')
	@$(BIN)/python -m compileall -q src
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -c 'import sprocketmq.cli.main, sprocketmq.cli.serve.servers, sprocketmq.store.log.record_batch' 2>/dev/null || true
	@touch $@

$(VENV)/.java: scripts/setup-java | $(VENV)/.ready
	@scripts/setup-java && touch $@ || true

demo: setup ## a year of flights through broker, consumers and Spark (ROWS=5000 makes it short)
	@$(BIN)/sprocketmq demo $(if $(ROWS),--rows $(ROWS))

# Two workers, one for each core that the tests are timed with; docs/decisions/0011 says who runs what. WORKERS=0 is one test after the other.
PYTEST := $(BIN)/python -m pytest -n $(or $(WORKERS),2) --durations=15 --durations-min=1

test: setup ## all tests without Apache's servers, Spark with one session: a test of each of its rows
	@$(PYTEST) --ignore=tests/interop -m "not spark or smoke" $(PYTEST_ARGS)

test-all: setup ## all tests
	@$(PYTEST) $(PYTEST_ARGS)

test-old-spark: setup ## the tests of Spark with PySpark 4.2, in an environment of its own (SPARK=4.2.0 is another version)
	@SPARK=$(SPARK) scripts/test-old-spark $(PYTEST_ARGS)

test-pythons: $(VENV)/.ready ## unit tests and those inside one process with every Python 3.11 to 3.14 that is at hand (TESTS=tests/unit/wire is some of them)
	@PYTHONS="$(PYTHONS)" scripts/test-pythons $(TESTS)

lint: $(VENV)/.ready ## ruff, mypy --strict, import-linter
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

format: $(VENV)/.ready ## let ruff put the code in shape
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: setup ## our broker and Apache RocketMQ 5.4.0 side by side, our client and others, our Spark source and Kafka's, as ratios
	@$(BIN)/python bench/broker_bench.py $(BENCH_ARGS)
	@$(BIN)/python bench/send_forms.py
	@$(BIN)/python bench/client_bench.py $(CLIENT_BENCH_ARGS)
	@$(BIN)/python bench/spark_bench.py $(SPARK_BENCH_ARGS)

bench-client: setup ## our client, Java's and two Python peers side by side (BENCH_ARGS=--quick for a look)
	@$(BIN)/python bench/client_bench.py $(BENCH_ARGS)

bench-spark: setup ## our Spark source and sink beside Spark's Kafka connector (BENCH_ARGS=--quick for a look)
	@$(BIN)/python bench/spark_bench.py $(BENCH_ARGS)

bench-shapes: setup ## how fast the Spark source decodes messages of each kind of producer, beside our own uniform ones
	@$(BIN)/python bench/shapes_bench.py $(BENCH_ARGS)

bench-delay: setup ## how late delayed messages come, with 100,000 of them waiting
	@$(BIN)/python bench/delay_bench.py $(BENCH_ARGS)

interop: setup ## our servers beside Apache's; SPROCKETMQ_WRITE_PAGE=1 writes docs/compatibility.md anew
	@SPROCKETMQ_REQUIRE_PEERS=1 $(BIN)/python -m pytest tests/interop $(PYTEST_ARGS)

mixed-groups: setup ## groups of Java and Python members through 200 joins, leaves and kills, judged by their history (STEPS=20 makes it short)
	@SPROCKETMQ_REQUIRE_PEERS=1 SPROCKETMQ_STORM_STEPS=$(or $(STEPS),200) $(BIN)/python -m pytest tests/interop/test_mixed_storm.py -s $(PYTEST_ARGS)

soak: setup ## 1,000 rebalances under load and 24 hours of the manual clock, order and memory watched (REBALANCES=50 HOURS=1 makes it short)
	@SPROCKETMQ_REBALANCES=$(or $(REBALANCES),1000) SPROCKETMQ_SIMULATED_HOURS=$(or $(HOURS),24) $(BIN)/python -m pytest tests/inproc/client/test_client_long_runs.py --durations=0 $(PYTEST_ARGS)

spark-soak: setup ## an hour of streaming at a steady rate, rows failing at random, judged to the row (MINUTES=3 makes it short)
	@$(BIN)/python bench/spark_soak.py --minutes $(or $(MINUTES),60) $(SOAK_ARGS)

transaction-soak: setup ## a month of micro-batches (100,000) of a transactional Spark stream, without Spark: memory flat, a batch as quick as that of a young stream beside it (BATCHES=3000 makes it short)
	@SPROCKETMQ_MICRO_BATCHES=$(or $(BATCHES),100000) $(BIN)/python -m pytest -s tests/system/spark/test_month_of_batches.py $(PYTEST_ARGS)

crash: setup ## 500 kills under a mixed load, each followed by an audit (KILLS=20 makes it short)
	@$(BIN)/python bench/kill_storm.py --kills $(or $(KILLS),500) $(CRASH_ARGS)

outage: setup ## name servers and brokers, ours and Apache's, frozen, killed, cut off, slow, silent for 20 minutes beside clients, judged (MINUTES=1 makes it short, SERVERS=ours needs no Java)
	@$(BIN)/python bench/outage.py --minutes $(or $(MINUTES),20) $(if $(SERVERS),--servers $(SERVERS)) $(OUTAGE_ARGS)

full-disk: setup ## disks (ext4, XFS, tmpfs; needs root) that run full at random moments under a broker, judged to the message (ROUNDS=3 makes it short)
	@SPROCKETMQ_FULL_DISK_ROUNDS=$(or $(ROUNDS),20) $(BIN)/python -m pytest tests/system/broker/test_full_disk.py -k under_load -s $(PYTEST_ARGS)

spark-kills: setup ## driver, executors and workers of three Spark streams on a standalone cluster killed at 200 random moments, then everything judged (KILLS=10 makes it short)
	@SPROCKETMQ_SPARK_KILLS=$(or $(KILLS),200) $(BIN)/python -m pytest tests/system/spark/test_kill_moments.py -s $(PYTEST_ARGS)

hostile: setup ## ten million hostile frames beside honest clients (FRAMES=100000 makes it short)
	@$(BIN)/python bench/hostile_frames.py --frames $(or $(FRAMES),10000000) $(HOSTILE_ARGS)

loop-share: setup ## how long each request and task holds the loop of a broker with large tables
	@$(BIN)/python bench/loop_share.py $(LOOP_ARGS)

fuzz: setup ## decoders, expressions, store and configuration files against made-up input (SECONDS_EACH=60)
	@$(BIN)/python bench/fuzz_long.py --seconds $(or $(SECONDS_EACH),60)

docs: $(VENV)/.ready ## guides and the reference generated from docstrings, into docs/_build/html
	@$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

mutants: $(VENV)/.ready ## break each mechanism on purpose and see its test fail
	@$(BIN)/python tests/mutants/check.py $(MUTANTS)

mutation: $(VENV)/.ready ## break modules of core and wire line by line, and see which changes their unit tests miss (MODULES="wire/records/properties core/consume/flow_control")
	@scripts/mutation $(MODULES)

coverage: setup ## branches that unit tests, those inside one process and recorded frames go through; fails below 92 %, core and wire below 98 % (TESTS=tests/unit/wire is some of them)
	@rm -f .coverage .coverage.*
	@$(BIN)/python -m coverage run -m pytest -n $(or $(WORKERS),2) -q -m "not spark" $(or $(TESTS),tests/unit tests/inproc tests/golden)
	@$(BIN)/python -m coverage combine -q
	@$(BIN)/python -m coverage report --include='src/sprocketmq/core/*,src/sprocketmq/wire/*' --fail-under=98 | tail -1
	@$(BIN)/python -m coverage report

mechanisms: setup ## run the public API alone, and see that it goes through each mechanism of docs/mechanisms.md
	@$(BIN)/python scripts/mechanisms-reached $(PYTEST_ARGS)

lock: $(VENV)/.ready ## pin the dependencies anew
	@$(BIN)/uv pip compile pyproject.toml --extra dev --extra docs --universal --python-version 3.11 --upgrade \
		--no-emit-index-url --no-emit-find-links --no-header --no-annotate --generate-hashes -q -o requirements.lock

packages: $(VENV)/.ready ## source distribution and wheel into dist, checked as an index checks them
	@rm -rf dist
	@$(BIN)/python -m hatchling build -t sdist -d dist
	@cd dist && tar xzf *.tar.gz && cd */ && $(abspath $(BIN))/python -m hatchling build -t wheel -d ..
	@rm -rf dist/*/
	@$(BIN)/python -m twine check --strict dist/*

clean: ## remove what the commands above made
	rm -rf $(VENV) dist build docs/_build docs/reference demo-out .pytest_cache .mypy_cache .ruff_cache
