# `make` or `make help` tells what there is.

STORE ?= memory:
ARGS ?=
CARGO ?= cargo
TOOLS := target/tools
BUF := $(TOOLS)/node_modules/.bin/buf

.DEFAULT_GOAL := help
.PHONY: help run build test lint-python lint-node soak planted torture torture-all fuzz bench bench-scaling bench-libraries bench-quick demo demo-scheduler lint fmt clippy vet doc buf deny ops portable portable-foreign deb dist check-dist package book proto-baseline proto-go proto-node openapi setup tools

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## Build and serve on 127.0.0.1:7420; STORE=redis://127.0.0.1:6379 keeps the locks in Redis, ARGS="…" adds flags
	$(CARGO) run --locked --release -p leasehold-server -- --store $(STORE) $(ARGS)

setup: ## Install what the tests need (redis-server, curl, jq, PHP, a JDK, Maven), or say what to install
	@tests/tools/setup

tools: setup $(BUF) ## Install what all checks need, or say what to install
	@tests/tools/clients
	@ops/setup
	@tests/tools/deny setup

build: ## Build every program and every test
	$(CARGO) build --locked --workspace --bins --tests --examples

test: setup build ## Run every test that proves correctness and finishes soon, against real Redis servers and processes
	$(CARGO) test --locked --workspace --lib --bins --examples
	$(CARGO) test --locked --workspace --doc
	$(MAKE) --jobs=3 --output-sync=target $(addprefix suite-,$(filter-out page,$(SUITES))) json
	$(MAKE) --jobs=2 --output-sync=target $(addprefix suite-,$(BUSY))
	$(MAKE) suite-page

lint-python: ## Check formatting, lints and types of the Python client
	@client/python/check lint

lint-node: ## Check formatting, lints and types of the Node client
	@client/node/check lint

soak: setup build ## Run the tests that need long waits, load or statistics (on a quiet machine); SOAK=short shortens them, as CI does
	$(MAKE) $(addprefix soak-,$(MEASURED)) $(if $(filter full,$(SOAK)),soak-json)
	$(MAKE) --jobs=$(if $(filter short,$(SOAK)),4,1) --output-sync=target $(addprefix soak-,sentinel $(filter-out $(MEASURED) sentinel,$(SOAKS)))

# A suite has its soak tests in a module of this name. Some suites have no others, and some measure the machine or take all of it. The
# longest of those that run beside each other is sentinel: it begins first.
SOAK ?= full
SOAKS := $(sort $(shell grep -rlw "mod soak" tests/tests | cut -d/ -f3))
SOAK_ONLY := abuse
MEASURED := abuse deadlocks elections faults queue simulation tls watching
# All suites, the longest first. Tests wait most of their time: three suites run at a time, and eight tests of each.
LONGEST := model clients differential access properties e2e faults secrets client quorum lost_messages
FOUND := $(wildcard */tests/*.rs */*/tests/*.rs) $(patsubst %/main.rs,%,$(wildcard */tests/*/main.rs */*/tests/*/main.rs))
SUITES := $(LONGEST) $(filter-out $(LONGEST) $(SOAK_ONLY),$(sort $(basename $(notdir $(FOUND)))))

# The models say how many states they explored, and the simulation which transitions it took.
suite-model soak-simulation: SHOWN := --show-output

# These compute and wait for nothing. They have the processors when no other suite wants them, so that those find their holds renewed in time.
suite-model suite-properties: RUNNER := $(shell chrt --idle 0 true 2>/dev/null && echo "--config 'target.\"cfg(unix)\".runner=\"chrt --idle 0\"'")

# Those that keep a processor busy, for which the holders in other suites would not be renewed in time. The page counts frames a second: it
# runs alone.
BUSY := python java node go book

suite-%:
	RUST_TEST_THREADS=8 $(CARGO) $(RUNNER) test --locked --workspace --test $* -- $(SHOWN) --skip soak::

# The table of permissions, the limits and the requests out of bounds once more, with every call in JSON.
json:
	PROTOCOL=json $(CARGO) test --locked --workspace --test access -- table::
	PROTOCOL=json RUST_TEST_THREADS=8 $(CARGO) test --locked --workspace --test e2e -- bad_input:: limits

# Where there is no Go, it says that it is skipped.
suite-go:
	@tests/tools/go test

# The same for Python.
suite-python:
	@client/python/check test

suite-node:
	@client/node/check test

# The code blocks of docs/.
suite-book:
	@flock $(TARGET_DIR)/python.lock tests/tools/clients python grpcurl
	@$(TARGET_DIR)/python/bin/python docs/book/check

# Not beside the suite clients, which builds in the same folder.
suite-java:
	@client/java/check test

soak-%:
	SOAK=$(SOAK) $(CARGO) test --locked --workspace --test $* -- $(SHOWN) soak::

# The abuses that can be said in JSON. To say it takes more of the machine than in binary, which the short form is too short for.
soak-json:
	PROTOCOL=json SOAK=$(SOAK) $(CARGO) test --locked --workspace --test abuse -- soak::together

planted: ## Plant one fault after the other in the real code, and check that the simulation finds each
	$(CARGO) test --locked --workspace --features leasehold-simulation/planted --test simulation -- --nocapture planted::

# A planted fault is in programs of its own, so that nobody runs them by mistake.
PLANTED ?=
TARGET_DIR = $(abspath $(or $(CARGO_TARGET_DIR),target))
TORTURE_TARGET = $(TARGET_DIR)$(if $(PLANTED),/planted)
TORTURE_FEATURES = $(if $(PLANTED),leasehold-server/planted$(comma)leasehold-torture/planted)
TORTURE = $(if $(PLANTED),LEASEHOLD_TEST_FEATURES=$(TORTURE_FEATURES)) $(TORTURE_TARGET)/debug/torture $(if $(SEED),--seed $(SEED)) $(if $(TLS),--tls $(TLS)) $(if $(PLANTED),--planted $(PLANTED)) $(foreach library,$(LIBRARIES),--library "$(library)=$(TORTURE_$(library))")
TORTURE_BUILD = $(CARGO) build --locked --workspace --bins $(if $(PLANTED),--target-dir $(TORTURE_TARGET) --features $(TORTURE_FEATURES))
# Clients on these libraries take part beside the others: LIBRARIES="go python node java".
LIBRARIES ?=
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

# Most of the time is waiting: two stores have room beside each other on two cores.
torture-all: setup ## Do that with a store of each kind, two at a time; MINUTES=2 SEED=n; a line of counts each
	$(TORTURE_BUILD)
	@$(MAKE) --no-print-directory --keep-going --jobs=2 --output-sync=target $(addprefix torture-,cluster sentinel quorum single memory)

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

# As tests/fixtures/binaries.rs builds them.
MEASURED_PROGRAMS := --workspace $(addprefix --bin ,leasehold leasehold-server test-echo)

bench: setup ## Measure beside etcd, rslock and what gRPC and Redis allow, and write docs/benchmarks.md and docs/scaling.md (40 minutes, on a quiet machine)
	@tests/peers/setup
	$(CARGO) build --locked --release --manifest-path tests/peers/Cargo.toml --target-dir target/peers
	$(CARGO) build --locked --release $(MEASURED_PROGRAMS)
	LEASEHOLD_PEERS=$(CURDIR)/target/peers/release/peers $(CARGO) bench --locked --workspace --bench rivals
	$(MAKE) bench-scaling

bench-scaling: setup ## Measure the model of costs, check what it predicts, and write docs/scaling.md (a quarter of an hour, on a quiet machine)
	$(CARGO) build --locked --release $(MEASURED_PROGRAMS)
	$(CARGO) bench --locked --workspace --bench scaling

JAVA_BENCHMARK = $(CURDIR)/client/java/benchmark/target
bench-libraries: setup ## Measure the client libraries beside those that they stand beside in each language, and write docs/client-benchmarks.md (a quarter of an hour, on a quiet machine)
	@tests/peers/setup
	cd client/go/benchmark && go build -o $(TARGET_DIR)/benchmark-go .
	client/python/check environment
	client/node/check benchmark
	mvn --quiet --batch-mode --file client/java --activate-profiles benchmark --projects benchmark --also-make package -DskipTests -Dmaven.javadoc.skip -Dmaven.source.skip
	$(CARGO) build --locked --release $(MEASURED_PROGRAMS)
	LEASEHOLD_LIBRARIES="$$(printf '%s\n' 'go=$(TARGET_DIR)/benchmark-go' 'python=$(PYTHON)/benchmarks/benchmark.py' \
		'node=node $(CURDIR)/client/node/benchmark/benchmark.mjs' \
		"java=java -cp $(JAVA_BENCHMARK)/classes:$$(cat $(JAVA_BENCHMARK)/classpath) dev.leasehold.benchmark.Benchmark")" \
		$(CARGO) bench --locked --workspace --bench libraries

bench-quick: setup ## Check that every part of the benchmark works, in a minute or two; the figures say nothing
	@tests/benches/check

demo: setup ## Sell a limited stock with and without locks, while workers are killed
	$(CARGO) build --locked -p leasehold-server --bins
	$(CARGO) run --locked -p leasehold-example-stock

demo-scheduler: setup ## Run jobs at each tick by an elected leader, while leaders are killed, stopped and deposed
	$(CARGO) build --locked -p leasehold-server --bins
	$(CARGO) run --locked -p leasehold-example-scheduler

lint: fmt clippy vet lint-python lint-node doc buf deny ## Check formatting, lints, documentation, protobuf files and dependencies

# Each crate is published with the licences.
fmt:
	@for copy in $(wildcard */LICENSE-* */*/LICENSE-*); do cmp "$$copy" "$${copy##*/}" || exit 1; done
	@tests/tools/words
	@tests/tools/circles
	@tests/tools/go fmt
	$(CARGO) fmt --all --check

clippy:
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

vet: ## Check the Go client, where Go is installed
	@tests/tools/go vet

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
	LEASEHOLD_WRITE_OPENAPI=1 $(CARGO) test --workspace --test connect the_document_is_that_of_the_proto_files

ops: setup ## Check what operators are given: metrics, alerts, dashboard, runbooks, Helm chart, packages (as root: installs and removes them)
	@for check in ops/check-*; do "$$check" || exit 1; done

portable: setup ## Run on Linux the code for macOS and other Unixes, with the suites that it concerns
	@tests/tools/portable suites

portable-foreign: ## Check the code for macOS and FreeBSD, where rustup can get their standard libraries
	@tests/tools/portable foreign

deb: ## Build the Debian packages in target/debian
	@ops/debian/build

dist: ## Build what a release consists of, in target/dist (two release builds)
	@ops/dist/setup
	@ops/dist/build

check-dist: ## Check what make dist built, as root: on a bare Debian, and the image in its own file system
	@ops/dist/setup
	@ops/dist/check

# The others have `publish = false`.
PUBLISHED := leasehold leasehold-client leasehold-core leasehold-doctor leasehold-load leasehold-proto leasehold-server leasehold-store
package: ## Pack the published crates, and build each from its package (as long as a release build)
	$(CARGO) package --locked $(addprefix --package=,$(PUBLISHED))

deny: ## Check licences, sources and bans of the dependencies
	@tests/tools/deny
