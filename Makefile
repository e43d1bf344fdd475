# Every way to build, run and check Everstep. `make help` lists them.

CARGO ?= cargo
# All commands share one set of third-party crates: always name the whole workspace.
WORKSPACE := --workspace --locked
# The suites spend most of their time in these two crates: optimized, the suite of the core needs 47 s of processor time
# instead of 127 s. Plain `cargo test` compiles both faster, for people who change them. Without the tables of lines the
# programs compile and link faster; a failed assertion names its line without them.
OPTIMIZED := --config profile.dev.package.everstep-core.opt-level=1 --config profile.dev.package.everstep-engine.opt-level=1 \
	--config profile.dev.debug=false
# The test programs contain the bugs that the simulator must find, so that one build serves all suites. A bug acts only
# on a thread that plants it. `make run`, `make dist` and clippy build without these bugs.
TESTS := $(WORKSPACE) --features everstep-testkit/planted-bugs $(OPTIMIZED)
SEEDS ?= 20000
# The benchmark, beside the server that it measures.
RELEASE := $(abspath $(or $(CARGO_TARGET_DIR),target)/release)
LAB := $(RELEASE)/everstep-lab
# The binary that is published.
DIST := $(abspath $(or $(CARGO_TARGET_DIR),target)/dist)
# How often `make test-long` plays the scenarios of the console, and how long it follows a busy run there.
REPEATS ?= 20
MINUTES ?= 10
# The duration of the Schemathesis run, which `make test` plays beside the suites.
SECONDS ?= 60
FUZZ_SECONDS ?= 60
# Whether the packages in a folder are those of its lock file.
HAS_MODULES := [ node_modules/.package-lock.json -nt package-lock.json ]

.PHONY: help run console console-check console-long console-modules dist test test-long check fmt clippy lint-deploy programs unit suites suites-alone sdk planted schemathesis generators generator-programs sim fuzz bench trace deny tools databases browser clients

help: ## Show this list.
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: console ## Build the server and start it on http://127.0.0.1:7373; data in ./data, or in PostgreSQL at EVERSTEP_DATABASE_URL.
	$(CARGO) run --release --locked -p everstep -- serve

# `cargo` never calls npm: this target builds the console, and the build script of everstep-api includes the result.
console: ## Build the web console, if a file of it has changed.
	@if command -v npm >/dev/null; then scripts/console.sh; else echo "npm is missing: the server is built without the console" >&2; fi

console-check: console-modules ## Check the sources of the console: types, lint, messages, tests.
	cd console && npm run --silent check && npm test --silent

dist: console ## Build the binary as it is published: target/dist/everstep.
	$(CARGO) build --profile dist --locked -p everstep
	@case "$$($(DIST)/everstep --version --verbose)" in *"console: "[0-9a-f]*) ;; \
		*) echo "the console is not in this build: install Node.js 20 or later, with npm" >&2; exit 1 ;; esac

# Two commands at a time. First the compiler, beside the tests that need no server and the downloads; then the suites,
# which mostly wait, beside the programs that use the server or the compiler, with a lower priority, so that the tests do
# not time out; at last the suites that measure time.
test: tools databases browser console-modules ## Everything that continuous integration runs.
	$(CARGO) fmt --all --check
	@scripts/beside.sh '$(MAKE) --no-print-directory console programs' '$(MAKE) --no-print-directory sdk console-check lint-deploy generator-programs'
	@scripts/beside.sh '$(MAKE) --no-print-directory suites' 'nice -n 10 $(MAKE) --no-print-directory schemathesis generators clippy'
	@$(MAKE) --no-print-directory suites-alone

test-long: test sim fuzz deny console-long ## `test`, then the long simulation, a minute of random rules, three minutes of Schemathesis, the licence check, neighbours under attack and `console-long`.
	scripts/schemathesis.sh 180
	$(CARGO) test --release --locked -p everstep-engine --test neighbours
	$(CARGO) test --release --locked -p everstep --test neighbours

console-long: databases browser console-modules console ## Play the scenarios of the console REPEATS=20 times, and follow a busy run for MINUTES=10.
	EVERSTEP_CONSOLE_REPEATS=$(REPEATS) $(CARGO) test $(TESTS) --test console
	$(CARGO) build --release --locked -p everstep
	cd console && EVERSTEP_BINARY=$(RELEASE)/everstep EVERSTEP_SPEED_MINUTES=$(MINUTES) npm run --silent speed -- -t a_followed_busy_run

check: tools console-check ## The quick part of `test`: formatting, clippy, and the checks of the console.
	$(CARGO) fmt --all --check
	@$(MAKE) --no-print-directory clippy

clippy:
	$(CARGO) clippy $(WORKSPACE) --all-targets -- -D warnings

fmt: tools ## Format all code.
	$(CARGO) fmt --all

bench: console console-modules browser ## Measure this machine, and check the figures against the budgets.
	$(CARGO) build --release --locked -p everstep -p everstep-lab
	$(LAB) bench --check bench/budgets.toml
	$(LAB) bench --store postgres --check bench/budgets.toml
	$(LAB) bench machine --check bench/budgets.toml
	$(LAB) bench machine --store postgres --check bench/budgets.toml
	$(LAB) bench store --check bench/budgets.toml
	$(LAB) bench store --store postgres --check bench/budgets.toml
	$(LAB) bench events --check bench/budgets.toml
	$(LAB) bench events --store postgres --check bench/budgets.toml
	$(LAB) bench follow,stats,lists --check bench/budgets.toml
	$(LAB) bench follow,stats,lists --store postgres --check bench/budgets.toml
	$(LAB) bench sweep --check bench/budgets.toml
	$(LAB) bench sweep --seconds 2 --records 400000 --store postgres --check bench/budgets.toml
	$(LAB) bench neighbours --check bench/budgets.toml
	$(LAB) bench neighbours --store postgres --check bench/budgets.toml
	cd sdks/typescript && npm ci && npm run build
	$(LAB) bench code --check bench/budgets.toml
	$(LAB) bench code --store postgres --check bench/budgets.toml
	cd console && EVERSTEP_BINARY=$(RELEASE)/everstep npm run --silent speed

sim: ## Simulate SEEDS=20000 runs of the engine with crashes, duplicates and outages.
	$(CARGO) run --release --locked -p everstep-lab -- sim --seeds $(SEEDS)

fuzz: ## Evaluate random rules of JSON Logic on random data for FUZZ_SECONDS=60.
	FUZZ_SECONDS=$(FUZZ_SECONDS) $(CARGO) test --release --locked -p everstep-core --test suite -- --ignored rules_are_fuzzed

trace: ## Check that every requirement claimed in docs/trace.toml is held by a test that exists.
	$(CARGO) test $(TESTS) --quiet --test trace -- --nocapture

schemathesis: ## Send to a server for SECONDS=60 requests that its OpenAPI document allows, and requests that it does not.
	$(CARGO) build $(TESTS) --bin everstep
	scripts/schemathesis.sh $(SECONDS)

generators: ## Give the OpenAPI document to generators of clients and to linters, and use two of the clients.
	$(CARGO) build $(TESTS) --bin everstep
	scripts/generators.sh

# The downloads of the two targets above.
generator-programs:
	@scripts/schemathesis.sh --install
	@scripts/generators.sh --install

deny: ## Check the licences and sources of all dependencies.
	@command -v cargo-deny >/dev/null || { echo "cargo-deny is missing: cargo install --locked cargo-deny" >&2; exit 1; }
	cargo-deny --locked check bans licenses sources

lint-deploy: ## Check the files of deploy/ with the linters that are installed.
	scripts/lint-deploy.sh

# Builds all test programs, and the server that some of them start.
programs: console
	$(CARGO) test $(TESTS) --no-run

# The suites of all crates. The engine's own suites run on SQLite, and once more on PostgreSQL.
unit: suites
	@$(MAKE) --no-print-directory suites-alone

suites: databases browser clients console
	CARGO=$(CARGO) node scripts/suites.mjs beside $(TESTS)

# The suites that measure time, and those tests again that failed in `suites`.
suites-alone:
	CARGO=$(CARGO) node scripts/suites.mjs alone $(TESTS)

# The SDK alone; the scenarios of sdks/conformance, which `unit` plays, test it with servers. Not beside `unit`: the test
# of the package removes the build of the SDK and writes it again.
sdk: clients
	cd sdks/typescript && npm test && npm run --silent test:pack
	@for file in bench/peers/*.mjs bench/peers/*/*.mjs; do node --check "$$file" || exit 1; done

# The simulator must find every bug of the list: each is planted in turn. `unit` contains these tests.
planted:
	$(CARGO) test $(TESTS) --test simulation --test contract_sqlite planted

# Reports missing tools before anything is built; installs those that rustup can.
tools:
	@command -v $(CARGO) >/dev/null || { echo "cargo is missing: install Rust, https://rustup.rs" >&2; exit 1; }
	@command -v cc >/dev/null || { echo "a C compiler is missing: install gcc or clang (SQLite and QuickJS are C)" >&2; exit 1; }
	@$(CARGO) fmt --version >/dev/null 2>&1 || rustup component add rustfmt
	@$(CARGO) clippy --version >/dev/null 2>&1 || rustup component add clippy

# PostgreSQL and PgBouncer, which the tests start. Installs them as root, otherwise prints what to install.
databases:
	@scripts/databases.sh

# Chromium, with which the tests open the console. Installs it as root, otherwise prints what to install.
browser:
	@scripts/browser.sh

# curl, with which the tests execute the commands of the documents, and programs for Node.js: the stock Socket.IO client,
# and workers of the TypeScript SDK.
clients: console-modules
	@command -v curl >/dev/null || { echo "curl is missing: install it" >&2; exit 1; }
	@cd crates/everstep/tests/live/client && { $(HAS_MODULES) || npm ci --silent; }
	@cd sdks/typescript && { $(HAS_MODULES) || npm ci --silent; } && npm run --silent build

# The packages of the console with its checks and its scenarios. `make console` alone installs fewer.
console-modules:
	@command -v npm >/dev/null || { echo "Node.js is missing: install version 20 or later, with npm" >&2; exit 1; }
	@cd console && { $(HAS_MODULES) && [ -d node_modules/vitest ] || { npm ci --silent && touch node_modules/.stamp; }; }
