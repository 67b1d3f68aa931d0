# One command for each purpose. `make demo` runs a demonstration, `make test` the tests; both install everything first.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ROWS ?=

.PHONY: help setup setup-demo demo test test-all nightly test-old-spark test-pythons lint generate format mixed-groups soak spark-soak transaction-soak bench bench-random bench-client bench-spark bench-shapes bench-delay bench-proxy crash outage full-disk spark-kills change-kills hostile loop-share fuzz docs interop lock packages simulate planted-faults mutation coverage clean

help: ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /\1\t/' | expand -t 12

setup: $(VENV)/.ready $(VENV)/.compiled $(VENV)/.java $(VENV)/.tests ## install pinned dependencies and bin/sprocketmq into .venv, and where possible Java 17, Maven, chromium

$(VENV)/.ready: requirements.lock pyproject.toml scripts/setup-python
	@PYTHON=$(PYTHON) VENV=$(VENV) scripts/setup-python
	@touch $@ $(VENV)/.demo

$(VENV)/.demo: requirements.lock pyproject.toml scripts/setup-python
	@PYTHON=$(PYTHON) VENV=$(VENV) scripts/setup-python demo
	@touch $@

# Compiles all modules to bytecode. The installer does not, with PYTHONDONTWRITEBYTECODE nothing is written later, and without bytecode
# half of a server's start is compiling.
$(VENV)/.compiled: $(VENV)/.ready $(shell find src -name '*.py')
	@$(BIN)/python -m compileall -q src
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -c 'import sprocketmq.cli.main, sprocketmq.cli.serve.servers, sprocketmq.store.log.record_batch' 2>/dev/null || true
	@touch $@

$(VENV)/.java: scripts/setup-java
	@scripts/setup-java && mkdir -p $(VENV) && touch $@ || true

$(VENV)/.tests: scripts/setup-tests | $(VENV)/.java
	@scripts/setup-tests && touch $@ || true

setup-demo: $(VENV)/.demo $(VENV)/.java
	@:

demo: ## run a year of flights through broker, consumers and Spark (ROWS=5000 for a short run)
	@$(MAKE) --no-print-directory --jobs=2 setup-demo
	@$(BIN)/sprocketmq demo $(if $(ROWS),--rows $(ROWS)) $(DEMO_ARGS)

# Three worker processes; WORKERS=0 runs all tests in one process. docs/decisions/0011 says which tests are run when.
PYTEST := $(BIN)/python -m pytest -n $(or $(WORKERS),3) --durations=15 --durations-min=1

test: setup ## run the tests of a change: those that need no Apache server, and one Spark test for each Spark feature
	@SPROCKETMQ_EXAMPLES=few $(PYTEST) --ignore=tests/interop -m "not slow and not nightly and (not spark or smoke)" $(PYTEST_ARGS)

test-all: setup ## run the tests of a landing: with Apache's servers of one version, all of Spark, kills and browsers
	@$(PYTEST) -m "not nightly" $(PYTEST_ARGS)

nightly: setup ## run all other tests: Apache's other versions, storms, clusters (TESTS=tests/interop/test_client_proxy.py for a part), and an hour of the simulator
	@ended=0; SPROCKETMQ_REQUIRE_PEERS=1 $(PYTEST) -m nightly $(TESTS) $(PYTEST_ARGS) || ended=$$?; \
		$(if $(TESTS),,$(MAKE) --no-print-directory simulate MINUTES=$(or $(MINUTES),60) JOBS=2 || ended=$$?;) exit $$ended

test-old-spark: setup ## run the Spark tests with PySpark 4.2 in a separate environment (SPARK=4.2.0 for another version)
	@SPARK=$(SPARK) scripts/test-old-spark $(PYTEST_ARGS)

test-pythons: $(VENV)/.ready ## run the unit and in-process tests with each installed Python from 3.11 to 3.14 (TESTS=tests/unit/wire for some of them)
	@PYTHONS="$(PYTHONS)" scripts/test-pythons $(TESTS)

lint: $(VENV)/.ready ## run ruff, mypy --strict and import-linter
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

generate: $(VENV)/.ready ## write what is generated: blocking classes, types of options, tables and lists in docs, lines of the licence
	@$(BIN)/python scripts/spdx
	@$(BIN)/python scripts/generate

format: $(VENV)/.ready ## format the code with ruff
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: setup ## compare broker, client and Spark source with Apache RocketMQ 5.4.0, other clients and Spark's Kafka connector, as ratios
	@$(BIN)/python bench/broker_bench.py $(BENCH_ARGS)
	@$(BIN)/python bench/send_forms.py
	@$(BIN)/python bench/client_bench.py $(CLIENT_BENCH_ARGS)
	@$(BIN)/python bench/spark_bench.py $(SPARK_BENCH_ARGS)

bench-random: setup ## the rows of bench with messages that are drawn at random: sizes, tags, keys, properties, how many in a request
	@$(BIN)/python bench/broker_bench.py --at-random $(BENCH_ARGS)
	@$(BIN)/python bench/client_bench.py --at-random $(CLIENT_BENCH_ARGS)
	@$(BIN)/python bench/spark_bench.py --at-random $(SPARK_BENCH_ARGS)

bench-client: setup ## compare the client with Java's and with two other Python clients (BENCH_ARGS=--quick for a short run)
	@$(BIN)/python bench/client_bench.py $(BENCH_ARGS)

bench-spark: setup ## compare the Spark source and sink with Spark's Kafka connector (BENCH_ARGS=--quick for a short run)
	@$(BIN)/python bench/spark_bench.py $(BENCH_ARGS)

bench-shapes: setup ## measure how fast the Spark source decodes the messages of each kind of producer, relative to uniform messages
	@$(BIN)/python bench/shapes_bench.py $(BENCH_ARGS)

bench-delay: setup ## measure how late delayed messages are delivered while 100,000 of them wait
	@$(BIN)/python bench/delay_bench.py $(BENCH_ARGS)

interop: setup ## compare the servers with Apache's; SPROCKETMQ_WRITE_PAGE=1 writes docs/internals/compatibility.md
	@SPROCKETMQ_REQUIRE_PEERS=1 $(BIN)/python -m pytest tests/interop $(PYTEST_ARGS)

mixed-groups: setup ## run groups of Java and Python members through 200 joins, leaves and kills, and check what they consumed (STEPS=20 for a short run)
	@SPROCKETMQ_REQUIRE_PEERS=1 SPROCKETMQ_STORM_STEPS=$(or $(STEPS),200) $(BIN)/python -m pytest tests/interop/test_mixed_storm.py -s $(PYTEST_ARGS)

soak: setup ## run 1,000 rebalances under load and 24 hours of the manual clock, and check order and memory (REBALANCES=50 HOURS=1 for a short run)
	@SPROCKETMQ_REBALANCES=$(or $(REBALANCES),1000) SPROCKETMQ_SIMULATED_HOURS=$(or $(HOURS),24) $(BIN)/python -m pytest tests/inproc/client/test_client_long_runs.py --durations=0 $(PYTEST_ARGS)

spark-soak: setup ## run an hour of streaming with rows that fail at random, and check every row (MINUTES=3 for a short run)
	@$(BIN)/python bench/spark_soak.py --minutes $(or $(MINUTES),60) $(SOAK_ARGS)

transaction-soak: setup ## run 100,000 micro-batches (a month) of a transactional Spark stream, and check that memory and time of a batch do not grow (BATCHES=3000 for a short run)
	@SPROCKETMQ_MICRO_BATCHES=$(or $(BATCHES),100000) $(BIN)/python -m pytest -s tests/system/spark/test_month_of_batches.py $(PYTEST_ARGS)

bench-proxy: setup ## measure how soon a consumer behind Apache's proxy gets its first message and its first retry, next to Java's (BENCH_ARGS="--apache 5.5.0")
	@$(BIN)/python bench/proxy_bench.py $(BENCH_ARGS)

crash: setup ## kill the broker 500 times under a mixed load, and check the store after each kill (KILLS=20 for a short run)
	@$(BIN)/python bench/kill_storm.py --kills $(or $(KILLS),500) $(CRASH_ARGS)

outage: setup ## freeze, kill, slow down and disconnect name servers and brokers for 20 minutes, and check what clients notice (MINUTES=1 for a short run, SERVERS=ours without Java)
	@$(BIN)/python bench/outage.py --minutes $(or $(MINUTES),20) $(if $(SERVERS),--servers $(SERVERS)) $(OUTAGE_ARGS)

full-disk: setup ## fill a broker's disks (ext4, XFS, tmpfs; needs root) at random moments, and check every message (ROUNDS=3 for a short run)
	@SPROCKETMQ_FULL_DISK_ROUNDS=$(or $(ROUNDS),20) $(BIN)/python -m pytest tests/system/broker/test_full_disk.py -k under_load -s $(PYTEST_ARGS)

spark-kills: setup ## kill driver, executors and workers of three Spark streams at 200 random moments, and check every row (KILLS=10 for a short run)
	@SPROCKETMQ_SPARK_KILLS=$(or $(KILLS),200) $(BIN)/python -m pytest tests/system/spark/test_kill_moments.py -s $(PYTEST_ARGS)

change-kills: setup ## 100,000 random changes of a database through producers that crash into a table, with 20 kills of Spark and some of the broker (CHANGES=5000 KILLS=3 for a short run)
	@SPROCKETMQ_CHANGES=$(or $(CHANGES),100000) SPROCKETMQ_CHANGE_KILLS=$(or $(KILLS),20) $(BIN)/python -m pytest tests/system/spark/test_random_database.py -s $(PYTEST_ARGS)

hostile: setup ## send ten million hostile frames while normal clients work (FRAMES=100000 for a short run)
	@$(BIN)/python bench/hostile_frames.py --frames $(or $(FRAMES),10000000) $(HOSTILE_ARGS)

loop-share: setup ## measure how long each request and task occupies the loop of a broker with large tables
	@$(BIN)/python bench/loop_share.py $(LOOP_ARGS)

fuzz: setup ## run decoders, expressions, store and configuration files with random input (SECONDS_EACH=60)
	@$(BIN)/python bench/fuzz_long.py --seconds $(or $(SECONDS_EACH),60)

docs: $(VENV)/.ready ## build the documentation into docs/_build/html
	@$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

simulate: $(VENV)/.ready ## run random users of a simulated cluster in random weather (MINUTES=10 for fresh seeds; SEED=... SET="brokers=1; kinds=kills" for one again)
	@PYTHONHASHSEED=0 $(BIN)/python -m sprocketmq.testing.simulation $(if $(SEED),--seed $(SEED)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SET),--set "$(SET)") $(if $(SHRINK),--shrink $(SHRINK)) $(if $(JOBS),--jobs $(JOBS)) $(if $(SEEDS_OF),--seeds-of $(SEEDS_OF))

planted-faults: setup ## how long the simulator searches until it finds each known fault of the past (FAULT="zeros over records", MINUTES=60, JOBS=2)
	@$(BIN)/python bench/planted_faults.py $(if $(FAULT),"$(FAULT)") --minutes $(or $(MINUTES),60) --jobs $(or $(JOBS),1)

mutation: $(VENV)/.ready ## change functions one place at a time, and list the changes that no test notices (ROOMS="core/retry wire/text/fastjson.py", TESTS="tests/unit/core", EVERY=20)
	@$(BIN)/python scripts/mutation $(or $(ROOMS),core/retry) --every $(or $(EVERY),1) $(if $(TESTS),--tests $(TESTS))

coverage: setup ## measure the branch coverage of unit, in-process and golden tests; fails below 92 %, for core and wire below 98 % (TESTS=tests/unit/wire for some of them)
	@rm -f .coverage .coverage.*
	@$(BIN)/python -m coverage run -m pytest -n $(or $(WORKERS),2) -q -m "not spark" $(or $(TESTS),tests/unit tests/inproc tests/golden)
	@$(BIN)/python -m coverage combine -q
	@$(BIN)/python -m coverage report --include='src/sprocketmq/core/*,src/sprocketmq/wire/*' --fail-under=98 | tail -1
	@$(BIN)/python -m coverage report

lock: $(VENV)/.ready ## update the pinned dependencies
	@$(BIN)/uv pip compile pyproject.toml --extra dev --extra docs --universal --python-version 3.11 --upgrade \
		--no-emit-index-url --no-emit-find-links --no-header --no-annotate --generate-hashes -q -o requirements.lock

packages: $(VENV)/.ready ## build source distribution and wheel into dist, and check them with twine
	@rm -rf dist
	@$(BIN)/python -m hatchling build -t sdist -d dist
	@cd dist && tar xzf *.tar.gz && cd */ && $(abspath $(BIN))/python -m hatchling build -t wheel -d ..
	@rm -rf dist/*/
	@$(BIN)/python -m twine check --strict dist/*

clean: ## remove what the commands above created
	rm -rf $(VENV) dist build docs/_build docs/reference demo-out .pytest_cache .mypy_cache .ruff_cache
