# iolens. Two commands to begin with: `make demo` (the main job) and `make test`.
# Each does its own set-up on a fresh Debian machine with Rust, Node and a C compiler.

SHELL := /bin/bash
CARGO ?= cargo
PYTHON_ENV := target/venv
LOG := target/test.log

.PHONY: help demo build test lint doc bench bpf bpf-check web clean

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: build ## record a small breathing load on this disk and explain it
	./target/release/iolens demo

build: web ## the program: target/release/iolens
	$(CARGO) build --release --locked -p iolens

web: ## the report's page: web/dist
	@ci/setup.sh web
	@if command -v npm >/dev/null; then ci/web.sh; else \
	  echo "npm is missing: the program is built without the HTML report (install Node.js and npm for it)"; fi

test: web ## all tests; those that need what the machine lacks skip aloud
	@ci/setup.sh test
	@ci/venv.sh $(PYTHON_ENV)
	@mkdir -p target
	@set -o pipefail; { \
	  $(CARGO) test --workspace --locked --no-fail-fast -- --show-output --test-threads=2 && \
	  ci/web-test.sh; } 2>&1 | tee $(LOG); status=$$?; ci/totals.sh $(LOG) && exit $$status

lint: ## formatting and clippy, warnings are errors
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

doc: ## the API documentation, broken links are errors
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

bench: build ## speed side by side with the peers; see docs/measurements.md
	@ci/setup.sh bench
	bench/run.sh

bpf: ## rebuild the kernel half's objects (checked in) with the pinned clang
	@ci/setup.sh bpf
	crates/observe/bpf/build.sh

bpf-check: ## do the checked-in objects match their sources?
	@ci/setup.sh bpf
	crates/observe/bpf/build.sh --check

clean: ## remove what was built
	$(CARGO) clean
	rm -rf web/node_modules web/dist
