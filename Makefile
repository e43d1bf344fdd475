# Every way to build, run and check Everstep. `make help` lists them.

CARGO ?= cargo
# The planted-bug suite and the others share one set of third-party crates: always name the whole workspace.
WORKSPACE := --workspace --locked
SEEDS ?= 20000
# The benchmark, beside the server that it measures.
LAB := $(or $(CARGO_TARGET_DIR),target)/release/everstep-lab
# The duration of the Schemathesis run.
SECONDS ?= 30
FUZZ_SECONDS ?= 60

.PHONY: help run console console-check dist test test-long check fmt lint lint-deploy unit sdk planted schemathesis generators sim fuzz bench trace deny tools databases browser clients

help: ## Show this list.
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: console ## Build the server and start it on http://127.0.0.1:7373; data in ./data, or in PostgreSQL at EVERSTEP_DATABASE_URL.
	$(CARGO) run --release --locked -p everstep -- serve

# `cargo` never calls npm: this target builds the console, and the build script of everstep-api includes the result.
console: ## Build the web console, if a file of it has changed.
	@if command -v npm >/dev/null; then scripts/console.sh; else echo "npm is missing: the server is built without the console" >&2; fi

console-check: ## Check the sources of the console: types, lint, messages, tests.
	@cd console && { [ node_modules/.package-lock.json -nt package-lock.json ] && [ -d node_modules/vitest ] || npm ci --silent; }
	cd console && npm run --silent check && npm test --silent

dist: console ## Build the binary as it is published: target/dist/everstep.
	$(CARGO) build --profile dist --locked -p everstep

test: tools databases browser console lint lint-deploy unit sdk planted schemathesis generators trace ## Everything that continuous integration runs.

test-long: test sim fuzz deny ## `test`, then the long simulation, a minute of random rules, three minutes of Schemathesis, the licence check and neighbours under attack.
	scripts/schemathesis.sh 180
	$(CARGO) test --release --locked -p everstep-engine --test neighbours

check: tools console-check ## The quick part of `test`: formatting, and what the compiler, clippy and the console's checks say.
	$(CARGO) fmt --all --check
	$(CARGO) clippy $(WORKSPACE) --all-targets -- -D warnings

fmt: tools ## Format all code.
	$(CARGO) fmt --all

bench: ## Measure this machine, and check the figures against the budgets.
	$(CARGO) build --release --locked -p everstep -p everstep-lab
	$(LAB) bench --check bench/budgets.toml
	$(LAB) bench --store postgres --check bench/budgets.toml
	$(LAB) bench machine --check bench/budgets.toml
	$(LAB) bench machine --store postgres --check bench/budgets.toml
	$(LAB) bench store --check bench/budgets.toml
	$(LAB) bench store --store postgres --check bench/budgets.toml
	cd sdks/typescript && npm ci && npm run build
	$(LAB) bench code --check bench/budgets.toml
	$(LAB) bench code --store postgres --check bench/budgets.toml

sim: ## Simulate SEEDS=20000 runs of the engine with crashes, duplicates and outages.
	$(CARGO) run --release --locked -p everstep-lab -- sim --seeds $(SEEDS)

fuzz: ## Evaluate random rules of JSON Logic on random data for FUZZ_SECONDS=60.
	FUZZ_SECONDS=$(FUZZ_SECONDS) $(CARGO) test --release --locked -p everstep-core --test suite -- --ignored rules_are_fuzzed

trace: ## Check that every requirement claimed in docs/trace.toml is held by a test that exists.
	$(CARGO) test $(WORKSPACE) --quiet --test trace -- --nocapture

schemathesis: ## Ask a server for SECONDS=30 what its OpenAPI document allows, and what it does not.
	$(CARGO) build $(WORKSPACE) --bin everstep
	scripts/schemathesis.sh $(SECONDS)

generators: ## Give the OpenAPI document to generators of clients and to linters, and use two of the clients.
	$(CARGO) build $(WORKSPACE) --bin everstep
	scripts/generators.sh

deny: ## Check the licences and sources of all dependencies.
	@command -v cargo-deny >/dev/null || { echo "cargo-deny is missing: cargo install --locked cargo-deny" >&2; exit 1; }
	cargo-deny --locked check bans licenses sources

lint: check

lint-deploy: ## Check the files of deploy/ with the linters that are installed.
	scripts/lint-deploy.sh

# The engine's own suites run on SQLite, and once more on PostgreSQL.
unit: databases browser clients console
	CARGO=$(CARGO) node scripts/suites.mjs $(WORKSPACE)

# The SDK alone; the scenarios of sdks/conformance, which `unit` plays, test it with servers.
sdk: clients
	cd sdks/typescript && npm test && npm run --silent test:pack

# The simulator must find every bug of the list: each is planted in turn.
planted:
	$(CARGO) test $(WORKSPACE) --features everstep-testkit/planted-bugs --test simulation --test contract_sqlite planted

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
clients:
	@command -v curl >/dev/null || { echo "curl is missing: install it" >&2; exit 1; }
	@command -v npm >/dev/null || { echo "Node.js is missing: install version 20 or later, with npm" >&2; exit 1; }
	@cd crates/everstep/tests/live/client && npm ci --silent
	@cd console && { [ -d node_modules/playwright-core ] || npm ci --silent; }
	@cd sdks/typescript && npm ci --silent && npm run --silent build
