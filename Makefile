# Each goal does its own set-up, as root on Debian 12 with cargo.

CARGO ?= cargo

.PHONY: run build test lint install bench-load simulate docs

MINUTES ?= 10

run: build ## Build, then run the demo: find the hot CPU, try the fix, prove it
	target/release/rxlab demo

build:
	scripts/setup.sh run
	$(CARGO) build --release --locked

test: ## Run every test; RXLAB_REQUIRE=netns turns skipped privileged tests into failures
	scripts/setup.sh test
	$(CARGO) test --locked

lint: ## What CI checks before the tests
	scripts/setup.sh run
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --all-targets -- -D warnings

install: build ## Install the program for this machine
	install -D -m 755 target/release/rxlab $(DESTDIR)/usr/local/bin/rxlab

bench-load: build ## Install the peers of `rxlab load` and measure all of them, on a quiet machine
	bench/load.sh

simulate: ## Let an adversary loose on a simulated machine, for MINUTES minutes
	$(CARGO) run --release --locked --example world -- --minutes $(MINUTES)

docs: ## Write the generated documents anew
	RXLAB_UPDATE_DOCS=1 $(CARGO) test --locked --lib
