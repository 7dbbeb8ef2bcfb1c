# Each goal sets up what it needs, as root on Debian 12 with cargo.

CARGO ?= cargo
# case-a and so on
CASES := $(patsubst cases/%.sh,case-%,$(wildcard cases/[a-e].sh))

.PHONY: run build check test test-cases test-deb test-kubernetes test-otel test-release lint install deb static static-arm64 release pictures cases $(CASES) bench-load simulate soak docs site

# Where cargo builds.
target := $(or $(CARGO_TARGET_DIR),target)

run: build ## Build, then run the demo: find the hot CPU, try the fix, prove it
	$(target)/release/rxlab demo

build:
	scripts/setup.sh run
	$(CARGO) build --release --locked --bin rxlab

# Capabilities of the machine and its kernel, and time.
expensive = netns,root,bpf,irqbalance,vm,minutes
# The others wait for half of their time.
threads = $(shell expr 2 '*' `nproc`)

check: lint ## Run the checks and tests that need no root, no kernel feature, no guest and no minutes; the others say so
	RXLAB_SKIP=$(expensive) RUST_TEST_THREADS=$(threads) scripts/test
	$(CARGO) test --locked --doc

test: ## Run the tests except the field cases; RXLAB_REQUIRE=netns turns skipped privileged tests into failures
	scripts/setup.sh test
	scripts/test
	$(CARGO) test --locked --doc

test-cases: ## Run the field cases as tests: they measure time, so on a machine with nothing else to do
	scripts/setup.sh cases
	$(CARGO) test --locked --test it -- cases:: --test-threads=1

lint: ## Run the checks that CI runs beside the tests
	scripts/setup.sh lint
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --all-targets -- -D warnings
	scripts/advisories

share = $(DESTDIR)/usr/local/share

install: build ## Install the program on this machine, with manual pages and completions
	install -D -m 755 $(target)/release/rxlab $(DESTDIR)/usr/local/bin/rxlab
	install -d $(share)/man/man1 $(share)/bash-completion/completions $(share)/zsh/site-functions \
	  $(share)/fish/vendor_completions.d
	$(target)/release/rxlab man $(share)/man/man1
	$(target)/release/rxlab completions bash >$(share)/bash-completion/completions/rxlab
	$(target)/release/rxlab completions zsh >$(share)/zsh/site-functions/_rxlab
	$(target)/release/rxlab completions fish >$(share)/fish/vendor_completions.d/rxlab.fish

deb: ## Make a Debian package: target/debian/rxlab_VERSION_ARCH.deb
	scripts/setup.sh run
	$(CARGO) build --profile dist --locked --bin rxlab
	scripts/deb $(target)/dist/rxlab $(target)/debian

# Named as the target, so that the flags are not those of build scripts and macros, which need shared libraries.
machine = $(shell rustc -vV | sed -n 's/^host: //p')

# Artefacts name no folder of the machine that they were built on: neither in messages nor in debug lines.
, := ,
cargo_home = $(or $(CARGO_HOME),$(HOME)/.cargo)
folders = $(CURDIR)=/rxlab $(abspath $(target))=/target $(cargo_home)=/cargo
elsewhere = CLANG=$(CURDIR)/scripts/clang-bpf CFLAGS='$(folders:%=-ffile-prefix-map=%)' \
  RUSTFLAGS='-C target-feature=+crt-static $(link) $(folders:%=--remap-path-prefix=%)'

# Half a megabyte less of relocations; the linker for ARM cannot.
static: link = $(if $(filter x86_64-%,$(machine)),-C link-arg=-Wl$(,)-z$(,)pack-relative-relocs)
static: ## Make one file that needs no shared library: target/static/rxlab, its debug lines in rxlab.debug
	scripts/setup.sh run
	$(elsewhere) $(CARGO) build --profile small --locked --target $(machine) --bin rxlab
	scripts/static $(target)/$(machine)/small/rxlab $(target)/static

arm = aarch64-unknown-linux-gnu
arm_libraries = $(abspath $(target))/arm64

static-arm64: ## Make that file for 64-bit ARM and try it in an emulator: target/static-arm64/rxlab
	scripts/setup.sh cross
	rustup target add $(arm)
	scripts/arm64 $(arm_libraries)
	$(elsewhere) CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
	  LIBBPF_SYS_EXTRA_CFLAGS=-I$(arm_libraries)/usr/include \
	  LIBBPF_SYS_LIBRARY_PATH=$(arm_libraries)/usr/lib/aarch64-linux-gnu \
	  $(CARGO) build --profile small --locked --target $(arm) --bin rxlab
	scripts/static $(target)/$(arm)/small/rxlab $(target)/static-arm64 aarch64-linux-gnu- qemu-aarch64-static

release: static static-arm64 ## Make all files of a release, signed: target/release-files (docs/release.md)
	scripts/setup.sh release
	scripts/advisories
	scripts/release $(target)/release-files $(target)/static/rxlab $(target)/static-arm64/rxlab $(arm_libraries)

test-release: static ## Make a release for this machine twice, install, upgrade, downgrade and remove what is in it, as root
	scripts/setup.sh release
	scripts/test-release $(target)/static/rxlab

test-deb: build ## Install, upgrade, remove and purge the package in a Debian 12 and a 13 with systemd of their own, as root
	scripts/setup.sh deb
	scripts/test-deb $(target)/release/rxlab
	RXLAB_DEBIAN=trixie scripts/test-deb $(target)/release/rxlab

test-kubernetes: ## Check chart and manifests of Kubernetes; needs Go 1.24
	scripts/setup.sh kubernetes
	scripts/test-kubernetes

test-otel: build ## Scrape the exporter with OpenTelemetry's collector, as deploy/otel says; needs Go 1.25
	scripts/test-otel $(target)/release/rxlab

cases: build ## Reproduce the five field cases and print their conclusions (docs/cases)
	scripts/setup.sh cases
	cases/run $(OPTIONS)

$(CASES): build ## Reproduce one field case; OPTIONS=--short takes less time
	scripts/setup.sh cases
	cases/run $(OPTIONS) $(subst case-,,$@)

bench-load: build ## Install the peers of `rxlab load` and compare all of them, on a quiet machine
	bench/load.sh

simulate: MINUTES ?= 10
simulate: ## Run an adversary on a simulated machine for MINUTES minutes
	$(CARGO) run --release --locked --package rxlab-simulation --bin world -- --minutes $(MINUTES)

soak: MINUTES ?= 30
soak: build ## Run what stays running for MINUTES minutes, as root, next to what disturbs it: nothing may grow or be left
	scripts/setup.sh soak
	bench/soak/run.py --program $(target)/release/rxlab --minutes $(MINUTES)

pictures: build ## Renew the pictures and the demo's output in docs, as root, on a machine with nothing else to do
	scripts/setup.sh pictures
	scripts/pictures $(target)/release/rxlab

docs: ## Regenerate the generated documents
	RXLAB_UPDATE_DOCS=1 $(CARGO) test --locked --lib --no-fail-fast

site: build ## Make the documents as a static site, with the captured machines, and check its links: target/site
	scripts/site "$$(lab/mdbook --build)" $(target)/release/rxlab $(target)/site
