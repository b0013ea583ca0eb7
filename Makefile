# `make` or `make help` tells what there is.

STORE ?= memory:
ARGS ?=
CARGO ?= cargo
TOOLS := target/tools
BUF := $(TOOLS)/node_modules/.bin/buf

# The redis-server of everything below. If it cannot be had, make fails, and does not go on with the one that is installed.
ifneq ($(TEST_SERVER),)
export PATH := $(or $(shell tests/tools/server $(TEST_SERVER)),$(error no server $(TEST_SERVER) to test with)):$(PATH)
endif

.DEFAULT_GOAL := help
.PHONY: help run cli build check test test-clients test-client outside soak drills planted torture torture-all fuzz bench bench-scaling bench-libraries bench-quick demo demo-scheduler lint lint-go lint-python lint-node fmt clippy doc buf deny ops portable portable-check portable-foreign deb dist check-dist package book proto-baseline proto-go proto-node openapi setup tools

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The tests run the rules by the million, and have them optimized; the first lock does not wait for that.
QUICKLY = $(if $(PROFILE),--profile $(PROFILE),--config profile.dev.package.leasehold-core.opt-level=0)

run: ## Build quickly and serve on 127.0.0.1:7420; STORE=redis://127.0.0.1:6379 keeps the locks in Redis, ARGS="…" adds flags, PROFILE=release optimizes
	$(CARGO) run --locked $(QUICKLY) -p leasehold-server -- --store $(STORE) $(ARGS)

cli: ## Build the command line, target/debug/leasehold, with what make run has built; PROFILE=release optimizes
	$(CARGO) build --locked $(QUICKLY) -p leasehold

setup: ## Install redis-server, which the tests need, or say that it is missing
	@tests/tools/setup

tools: setup $(BUF) ## Install what all checks need, or say what to install
	@tests/tools/clients
	@ops/setup
	@tests/tools/deny setup

build: ## Build every program and every test
	@tests/tools/run

# The tiers, from the quickest. CONTRIBUTING.md says when to use which; tests/README.md has the programs, and their seconds.
RULES := model properties simulation histories
SUITES := stores service locks operators faults scripts cli hot_path rust_client stock scheduler
check: fmt clippy ## Check format and lints, and run the unit tests and the rules, while you work
	@tests/tools/run $(RULES) units

test: setup ## Run every test of the coordinator, the stores and the Rust client, against real Redis servers and processes
	@tests/tools/run $(RULES) $(SUITES) libraries=rust:: units doc

# Some tests of one program: make suite-locks TESTS=resume::
suite-%: setup
	@SHOWN=yes tests/tools/run $*

# The libraries of other languages: test-clients takes all of them, and torture none, unless they are named.
LIBRARIES ?=
test-clients: build ## Run the tests of the other libraries, the page, the book, and clients of other protocols; LIBRARIES="go python node java"
	@for library in $(or $(LIBRARIES),go python node java); do $(MAKE) --no-print-directory test-client LIBRARY=$$library || exit 1; done
	@$(MAKE) --no-print-directory outside

# The library's lints, its own tests, and the conformance scenarios with it.
test-client: build
	@$(if $(filter java,$(LIBRARY)),,$(MAKE) --no-print-directory lint-$(LIBRARY))
	@$(if $(filter go,$(LIBRARY)),tests/tools/go,client/$(LIBRARY)/check) test
	@SHOWN=yes tests/tools/run libraries=$(LIBRARY)

# Browsers, curl, PHP and clients of Connect and gRPC-Web. What is missing here is skipped, and said to be. Two of them run alone: the
# public suite has cases in which a client must read a refusal while it still sends, and the page counts frames a second.
outside:
	@tests/tools/clients packages
	@SHOWN=yes TESTS="--skip connect_conformance --skip page" tests/tools/run outside
	@SHOWN=yes tests/tools/run outside=connect_conformance
	@SHOWN=yes tests/tools/run outside=page
	@flock $(TARGET_DIR)/python.lock tests/tools/clients python grpcurl
	@$(TARGET_DIR)/python/bin/python docs/book/check

lint-go: ## Check the Go client, where Go is installed
	@tests/tools/go fmt
	@tests/tools/go vet

lint-python: ## Check formatting, lints and types of the Python client
	@client/python/check lint

lint-node: ## Check formatting, lints and types of the Node client
	@client/node/check lint

# A suite has them in a module of this name: they need long waits, load or statistics. They run one by one, on an optimized build.
SOAKS = $(sort $(patsubst clients,rust_client,$(shell grep -rlw "mod soak" tests --include=*.rs | grep -v fixtures | cut -d/ -f2)))
SOAK ?= full
soak: setup ## Run the tests that measure, load the machine or wait for long, one by one, on a quiet machine; SOAK=short shortens them, SOAKS="locks stores" chooses
	@SHOWN=yes PROFILE=measured SOAK=$(SOAK) tests/tools/run $(SOAKS)

drills: setup ## Bring real Redis servers into each state that docs/operations.md lists, and compare what operators are told with the page
	@SHOWN=yes SOAK=full RUST_TEST_THREADS=8 TESTS="drills:: --nocapture" tests/tools/run operators

planted: ## Plant one fault after the other in the real code, and check that the simulation finds each
	$(CARGO) test --locked --workspace --features leasehold-rules/planted --test simulation -- --nocapture planted::

# A planted fault is in programs of its own, so that nobody runs them by mistake.
PLANTED ?=
TARGET_DIR = $(abspath $(or $(CARGO_TARGET_DIR),target))
TORTURE_TARGET = $(TARGET_DIR)$(if $(PLANTED),/planted)
TORTURE_FEATURES = $(if $(PLANTED),leasehold-server/planted$(comma)leasehold-torture/planted)
TORTURE = PROGRAMS_UNDER_TEST=$(TORTURE_TARGET)/debug $(TORTURE_TARGET)/debug/torture $(if $(SEED),--seed $(SEED)) $(if $(TLS),--tls $(TLS)) $(if $(PLANTED),--planted $(PLANTED)) $(foreach library,$(LIBRARIES),--library "$(library)=$(TORTURE_$(library))")
TORTURE_BUILD = $(CARGO) build --locked --workspace --bins $(if $(PLANTED),--target-dir $(TORTURE_TARGET) --features $(TORTURE_FEATURES))
PYTHON = env PYTHONPATH=$(CURDIR)/client/python/src $(TARGET_DIR)/python-client/bin/python $(CURDIR)/client/python
TORTURE_go = $(TARGET_DIR)/torture-go
TORTURE_python = $(PYTHON)/tests/torture.py
TORTURE_node = node $(TARGET_DIR)/node-client/test/torture.js
JAVA_CONFORMANCE = $(CURDIR)/client/java/conformance/target
# A short life: to begin quickly matters more than to run quickly.
TORTURE_java = java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp $(JAVA_CONFORMANCE)/classes:$$(cat $(JAVA_CONFORMANCE)/classpath) dev.leasehold.conformance.Torture
comma := ,
# A store that is not asked for is one Redis server.
torture: setup $(addprefix torture-client-,$(LIBRARIES)) ## Kill, stop, cut and fail over real processes, and check what all of them believed; MINUTES=10 SEED=n STORE=memory|single|sentinel|cluster|quorum TLS=yes|no LIBRARIES="go python node java"; PLANTED=fault shows that it finds one
	$(TORTURE_BUILD)
	$(TORTURE) --minutes $(or $(MINUTES),10) --store $(if $(filter memory:,$(STORE)),single,$(STORE))

# Most of the time is waiting: several stores have room beside each other on two cores.
STORES ?= cluster sentinel quorum single memory
torture-all: setup ## Do that with a store of each kind, JOBS=2 at a time; MINUTES=2 SEED=n STORES="single cluster"; a line of counts each
	$(TORTURE_BUILD)
	@$(MAKE) --no-print-directory --keep-going --jobs=$(or $(JOBS),2) --output-sync=target $(addprefix torture-,$(STORES))

torture-client-go:
	cd client/go && go build -o $(TORTURE_go) ./internal/torture

torture-client-python:
	client/python/check environment

torture-client-node:
	client/node/check build

torture-client-java:
	mvn --quiet --batch-mode --file client/java --projects conformance --also-make package -DskipTests -Dmaven.javadoc.skip -Dmaven.source.skip

torture-%:
	@$(TORTURE) --minutes $(or $(MINUTES),2) --store $* --brief

fuzz: ## Feed every reader and machine with what coverage finds new, SECONDS each; SECONDS=60 SEED=n TARGET=session|resume|wire|config|jwt|redis_reply
	@tests/fuzz/run SECONDS=$(or $(SECONDS),60) $(if $(SEED),SEED=$(SEED)) $(if $(TARGET),TARGET=$(TARGET))

# What is measured is built as what is published.
MEASURED_BUILD = $(CARGO) build --locked --workspace --profile dist $(addprefix --bin ,leasehold leasehold-server test-echo)
BENCH = PROGRAMS_UNDER_TEST=$(TARGET_DIR)/dist $(CARGO) bench --locked --workspace --profile dist --bench

bench: setup ## Measure beside etcd, rslock and what gRPC and Redis allow, and write docs/benchmarks.md and docs/scaling.md (40 minutes, on a quiet machine)
	@tests/peers/setup
	$(CARGO) build --locked --release --manifest-path tests/peers/Cargo.toml --target-dir target/peers
	$(MEASURED_BUILD)
	LEASEHOLD_PEERS=$(CURDIR)/target/peers/release/peers $(BENCH) rivals
	$(MAKE) bench-scaling

bench-scaling: setup ## Measure the model of costs, check what it predicts, and write docs/scaling.md (a quarter of an hour, on a quiet machine)
	$(MEASURED_BUILD)
	$(BENCH) scaling

JAVA_BENCHMARK = $(CURDIR)/client/java/benchmark/target
bench-libraries: setup ## Measure the client libraries beside those that they stand beside in each language, and write docs/client-benchmarks.md (a quarter of an hour, on a quiet machine)
	@tests/peers/setup
	cd client/go/benchmark && go build -o $(TARGET_DIR)/benchmark-go .
	client/python/check environment
	client/node/check benchmark
	mvn --quiet --batch-mode --file client/java --activate-profiles benchmark --projects benchmark --also-make package -DskipTests -Dmaven.javadoc.skip -Dmaven.source.skip
	$(MEASURED_BUILD)
	LEASEHOLD_LIBRARIES="$$(printf '%s\n' 'go=$(TARGET_DIR)/benchmark-go' 'python=$(PYTHON)/benchmarks/benchmark.py' \
		'node=node $(CURDIR)/client/node/benchmark/benchmark.mjs' \
		"java=java -cp $(JAVA_BENCHMARK)/classes:$$(cat $(JAVA_BENCHMARK)/classpath) dev.leasehold.benchmark.Benchmark")" \
		$(BENCH) libraries

bench-quick: setup ## Check that every part of the benchmark works, in a minute or two; the figures say nothing
	$(CARGO) build --locked --workspace --bins
	@tests/benches/check

demo: setup ## Sell a limited stock with and without locks, while workers are killed
	$(CARGO) build --locked --bins
	$(CARGO) run --locked --bin leasehold-example-stock

demo-scheduler: setup ## Run jobs at each tick by an elected leader, while leaders are killed, stopped and deposed
	$(CARGO) build --locked --bins
	$(CARGO) run --locked --bin leasehold-example-scheduler

lint: fmt clippy lint-go lint-python lint-node doc buf deny ## Check formatting, lints, documentation, protobuf files and dependencies

# Each crate is published with the licences.
fmt:
	@for copy in $(wildcard */LICENSE-* */*/LICENSE-*); do cmp "$$copy" "$${copy##*/}" || exit 1; done
	@tests/tools/words
	@tests/tools/circles
	@tests/tools/features
	@tests/tools/mutants --check
	$(CARGO) fmt --all --check

clippy:
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

doc: ## Build the documentation
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps

book: ## Build the book of docs/ in target/book/html, and check its links
	@flock $(TARGET_DIR)/python.lock tests/tools/clients python mdbook
	@$(TARGET_DIR)/python/bin/python docs/book/build $(TARGET_DIR)/tools/bin/mdbook

$(BUF):
	npm install --silent --no-fund --no-audit --prefix $(TOOLS) @bufbuild/buf@1

buf: $(BUF) ## Lint the protobuf files and check that nothing was broken for existing clients
	$(BUF) lint proto
	$(BUF) breaking proto --against proto/baseline.binpb

proto-baseline: $(BUF) ## Record the protobuf files as what clients rely on from now on
	$(BUF) build proto -o proto/baseline.binpb

proto-go: $(BUF) ## Generate the Go client's code from the protobuf files
	client/go/generate

proto-node: $(BUF) ## Generate the Node client's code from the protobuf files
	client/node/generate

openapi: ## Write server/openapi.json anew from the protobuf files
	@LEASEHOLD_WRITE_OPENAPI=1 TESTS=the_document_is_that_of_the_proto_files tests/tools/run service

ops: setup ## Check what operators are given: metrics, alerts, dashboard, runbooks, Helm chart, packages (as root: installs and removes them)
	@for check in ops/check-*; do "$$check" || exit 1; done

portable: setup ## Run on Linux the code for macOS and other Unixes, with the suites that it concerns
	@tests/tools/portable suites

portable-check:
	@tests/tools/portable check

portable-foreign: ## Check the code for macOS and FreeBSD, where rustup can get their standard libraries
	@tests/tools/portable foreign

deb: ## Build the Debian packages in target/debian
	@ops/debian/build

dist: ## Build what a release consists of, in target/published (two optimized builds)
	@ops/dist/setup
	@ops/dist/build

check-dist: ## Check what make dist built, as root: on a bare Debian, and the image in its own file system
	@ops/dist/setup
	@ops/dist/check

# The others have `publish = false`.
PUBLISHED := leasehold leasehold-client leasehold-core leasehold-doctor leasehold-load leasehold-proto leasehold-server leasehold-store
package: ## Pack the published crates, and build each from its package (as long as a build from nothing)
	$(CARGO) package --locked $(addprefix --package=,$(PUBLISHED))

deny: ## Check licences, sources and bans of the dependencies
	@tests/tools/deny
