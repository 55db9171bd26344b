# Xoff's targets. `make help` lists them; every one that needs the machine prepared prepares it first.

SHELL := /bin/bash
PYTHON := .venv/bin/python
PYTEST_ARGS ?=
P4C_TESTDATA ?=
BMV2 ?=
BMV2_OPTIMISED ?=
P4C ?=
PROGRAMS ?=
DIFFERENTIAL_ARGS ?=
PTF_TESTS ?=
PTF_ARGS ?=
FUZZ_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-virtual test test-sanitized fuzz bench lint conformance p4c-testdata differential ptf clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r name text; do printf '  make %-14s %s\n' "$$name" "$$text"; done

setup: ## what is missing: Debian packages (as root), .venv, .venv-shell; a second call costs a moment
	@tools/setup.sh

demo: setup ## as root: a k=4 fat tree in Mininet, 20 P4 switches, a 16-rank ring AllReduce, a table and a report
	@.venv/bin/xoff demo

demo-virtual: setup ## without root: the same in one process, in simulated time at full rate, with a hash of its records
	@.venv/bin/xoff demo --clock virtual

test: setup ## every test as root; as a user those that need no root (PYTEST_ARGS="-k fattree" selects)
	@if [ "$$(id -u)" = 0 ]; then \
		exec $(PYTHON) -m pytest $(PYTEST_ARGS); \
	else \
		echo "left out: the tests marked root (Mininet, network namespaces); sudo make test runs them too"; \
		exec $(PYTHON) -m pytest -m "not root" $(PYTEST_ARGS); \
	fi

bench: export BMV2 := $(BMV2)
bench: export BMV2_OPTIMISED := $(BMV2_OPTIMISED)
test-sanitized: setup ## the same with the C of engine, NIC and programs under AddressSanitizer and UndefinedBehaviorSanitizer
	@if [ "$$(id -u)" = 0 ]; then \
		exec tools/sanitized.sh $(PYTHON) -m pytest --timeout 1500 $(PYTEST_ARGS); \
	else \
		exec tools/sanitized.sh $(PYTHON) -m pytest --timeout 1500 -m "not root" $(PYTEST_ARGS); \
	fi

fuzz: setup ## coverage-guided fuzzing from the corpora that are kept on: FUZZ_ARGS="engine nic --minutes 30"
	@$(PYTHON) -m tests.fuzz $(FUZZ_ARGS)

bench: setup ## measurements, as JSON in benchmarks/out/ and as tables: [BMV2=<simple_switch_grpc> BMV2_OPTIMISED=<another build>]
	@set -e; export XOFF_BUILD=wait; for script in $$(grep -l __main__ benchmarks/*.py); do \
		name=$$(basename $$script .py); echo "== $$name"; $(PYTHON) -m benchmarks.$$name; \
	done

lint: setup ## ruff and mypy
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check .
	@$(PYTHON) -m mypy

conformance: p4c-testdata setup ## p4c's own suite (STF, P4Info, must fail): P4C_TESTDATA=<p4c>/testdata
	@$(PYTHON) -m tests.conformance "$(P4C_TESTDATA)"

p4c-testdata:
	@test -n "$(P4C_TESTDATA)" || { echo "conformance: say where p4c's suite is: make conformance P4C_TESTDATA=<p4c>/testdata" >&2; exit 2; }
	@test -d "$(P4C_TESTDATA)/p4_16_samples" || { echo "conformance: $(P4C_TESTDATA) holds no p4_16_samples; it is the folder testdata of a p4c checkout" >&2; exit 2; }

differential: setup ## the native switch beside real BMv2: BMV2=<simple_switch_grpc> [P4C=<p4c-bm2-ss>] [PROGRAMS="FILE FOLDER"]
	@test -n "$(BMV2)" || { echo "differential: say where BMv2 is: make differential BMV2=<path to simple_switch_grpc>" >&2; exit 2; }
	@$(PYTHON) -m tests.differential "$(BMV2)" $(PROGRAMS) $(if $(P4C),--p4c "$(P4C)") $(DIFFERENTIAL_ARGS)

ptf: setup ## as root: PTF tests written for simple_switch_grpc, on the native switch: PTF_TESTS="<folder> <folder>"
	@test -n "$(PTF_TESTS)" || { echo "ptf: say where the tests are: make ptf PTF_TESTS=<folder below which runptf.sh files lie>" >&2; exit 2; }
	@$(PYTHON) -m tests.ptf $(PTF_TESTS) $(PTF_ARGS)

clean: ## what runs that crashed left behind (processes, interfaces, namespaces), and only that
	@if [ -x .venv/bin/xoff ]; then .venv/bin/xoff clean; else echo "clean: nothing was ever set up or run from here"; fi
