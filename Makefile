# iolens. Two commands to begin with: `make demo` (the main job) and `make test`.
# Each does its own set-up on a fresh Debian machine with Rust, Node and a C compiler.

SHELL := /bin/bash
CARGO ?= cargo
PYTHON_ENV := target/venv
LOG := target/test.log

.PHONY: help demo build test package package-test container-test metrics-test calibrate lint clippy doc schema bench bpf bpf-check kernels faults soak diagnose go go-bench python python-spark web clean

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: demo-time build ## record a small bursty load on this disk and explain it
	./target/release/iolens demo

.PHONY: demo-time
demo-time:
	@[ -x target/release/iolens ] || echo "The first build takes 5 to 15 minutes (2 CPUs); the demo itself half a minute."

build: web ## the program, target/release/iolens; its debug information beside it (iolens.debug)
	$(CARGO) build --release --locked -p iolens
	@ci/split-debug.sh target/release/iolens

web: ## the report's page: web/dist
	@ci/setup.sh web
	@if command -v npm >/dev/null; then ci/web.sh; else \
	  echo "npm is missing: the program is built without the HTML report (install Node.js and npm for it)"; fi

# Tests that need no root, no device and no Python, to run after every edit.
FAST_TESTS := --lib --test rooms --test iostat --test abi --test integration --test figures

test: web ## all tests; if the machine lacks something, the test is skipped with a message. FAST=1: only those without root
ifdef FAST
	@echo "Fast tests: a few minutes, the first time 10 more to build them (2 CPUs)."
	$(CARGO) test --workspace --locked $(FAST_TESTS)
else
	@echo "All tests: about 15 minutes on 2 CPUs, the first time 5 to 10 more to build them. FAST=1 takes a few minutes."
	@ci/setup.sh test
	@ci/venv.sh $(PYTHON_ENV)
	@mkdir -p target
	@CARGO="$(CARGO)" ci/logged.sh $(LOG) ci/all-tests.sh $(PYTHON_ENV); status=$$?; ci/totals.sh $(LOG) && exit $$status
endif

package: web ## a .deb, a static tar.gz, a container image's files and the wheel of the Python package: target/package/. ARCH=arm64 for that
	@ci/setup.sh $(if $(filter-out amd64,$(ARCH)),cross-$(ARCH))
	CARGO="$(CARGO)" ARCH="$(ARCH)" packaging/build.sh

package-test: package ## install the .deb in a clean Debian root, record, query, purge: nothing remains
	@ci/setup.sh package
	packaging/test.sh

container-test: package ## the container image and the DaemonSet: schema, flags; built, run as another user than root, recording
	@ci/setup.sh container
	@[ -x target/venv-container/bin/python ] || { python3 -m venv target/venv-container && \
	  target/venv-container/bin/pip install -q --disable-pip-version-check kubernetes-validate pyyaml; }
	target/venv-container/bin/python packaging/container/test.py target/package

metrics-test: build ## the metrics of serve compared with the real node_exporter, in a real Prometheus: dashboard and alerts
	@ci/setup.sh metrics
	packaging/metrics_test.py target/release/iolens

calibrate: ## how often findings are wrong and right, over simulated recordings; writes the tables of docs/calibration.md (minutes). IOLENS_SEED=N: other recordings, no tables
	IOLENS_FULL=1 IOLENS_DOCS=$(CURDIR)/docs/calibration.md \
	IOLENS_ORIGIN="Commit $$(git describe --always --dirty --exclude='*'), $$(date -u +%Y-%m-%d)." \
	  $(CARGO) test --release --locked -p iolens-core --test integration calibrate:: -- --nocapture --test-threads=1

lint: clippy ## formatting and clippy, warnings are errors; the fuzz targets compile
	$(CARGO) fmt --all --check
	$(CARGO) check --manifest-path fuzz/Cargo.toml --locked --target-dir target/fuzz

clippy:
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

doc: ## the API documentation, broken links are errors
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

schema: web ## the JSON schemas of what the program prints (docs/schema/), the page's types made from them, and the stored columns
	IOLENS_WRITE_SCHEMA=1 $(CARGO) test --workspace --locked --lib --test rooms -- present::schema store::tests::documentation every_file
	cd web && npm run --silent types

bench: build ## speed compared with similar tools; see docs/measurements.md
	@ci/setup.sh bench
	bench/run.sh

bpf: ## rebuild the BPF objects (checked in) with the pinned clang
	@ci/setup.sh bpf
	crates/observe/bpf/build.sh

bpf-check: ## do the checked-in objects match their sources?
	@ci/setup.sh bpf
	crates/observe/bpf/build.sh --check

ifeq ($(ARCH),arm64)
kernels: web
	@ci/setup.sh kernels kernels-arm64 cross-arm64
	@ci/venv.sh $(PYTHON_ENV)
	CARGO="$(CARGO)" ci/static-build.sh arm64
	$(PYTHON_ENV)/bin/python ci/kernels/kernels.py --arch arm64 --binary target/aarch64-unknown-linux-gnu/release/iolens \
	  --docs docs/kernels.md $(KERNEL)
else
kernels: build ## other kernels in QEMU: do they record exactly? docs/kernels.md. KERNEL=6.1 for one, ARCH=arm64 for those of that
	@ci/setup.sh kernels
	@ci/venv.sh $(PYTHON_ENV)
	$(PYTHON_ENV)/bin/python ci/kernels/kernels.py --docs docs/kernels.md $(KERNEL)
endif

faults: build ## serve with clock changes, suspend, a disk that turns read-only (in QEMU), and twenty kills
	@ci/setup.sh kernels
	@ci/venv.sh $(PYTHON_ENV)
	$(PYTHON_ENV)/bin/python ci/kernels/kernels.py --serve $(KERNEL)
	IOLENS_FULL=1 $(CARGO) test --locked --workspace --test e2e -- serve_faults --nocapture

soak: build ## two hours of serve under a mixed load with viewers: memory, descriptors, threads, size on disk
	@ci/setup.sh bench
	bench/soak.py

diagnose: ## does it name who made whom wait? Scenarios on a programmed disk, resumable. DIAGNOSE="NAME... --load medium --seed 1" for a part
	@ci/setup.sh diagnose
	$(CARGO) build --workspace --locked
	python3 bench/diagnosis $(or $(DIAGNOSE),--load light medium heavy --seed 1 2 3)

go: ## the Go module (go/, docs/signal.md): vet, tests, race detector, other systems
	@ci/go.sh

go-bench: ## the Go module's cost compared with opening, scanning and parsing each file
	cd go && PATH=$$PATH:/usr/local/go/bin go test -run '^$$' -bench . -count 3

python: ## the Python package: style, types, tests; builds its wheel (target/wheel), installs and tries it
	@ci/python.sh $(PYTHON_ENV) -q
	@packaging/wheel_test.sh target/wheel

python-spark: ## the package's queries on a Spark cluster of one master and two workers (minutes)
	@ci/setup.sh spark
	@ci/python.sh $(PYTHON_ENV) -q -m spark

clean: ## remove what was built
	$(CARGO) clean
	rm -rf web/node_modules web/dist
