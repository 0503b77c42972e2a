# Copyright The sandbox-agent Authors
# SPDX-License-Identifier: Apache-2.0

# `make` alone lists the targets. A fresh Debian machine with Go and Node needs
# no other preparation: each target installs what it lacks (as root, with apt)
# and says what it installs.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

GO ?= go
# How long each fuzz target runs in `make fuzz-short`.
FUZZTIME ?= 20s
# How many random histories `make test-model` plays.
MODEL_SEQUENCES ?= 1000000
# What the binaries call themselves: the tag, or the commit after the last one.
VERSION ?= $(shell packaging/build --version)

MODULE := github.com/sandbox-agent/sandbox-agent
TOOLS := $(CURDIR)/.tools/bin
BUF := $(CURDIR)/tools/node_modules/.bin/buf
BROWSER := $(CURDIR)/test/browser/node_modules/playwright-core/package.json
RUST := sdk/rust
TS := sdk/typescript
APIDOC := $(TOOLS)/protoc-gen-apidoc
PLUGINS := $(TOOLS)/protoc-gen-go $(TOOLS)/protoc-gen-go-grpc $(APIDOC)
SCRIPTS = $(shell grep -rlE '^\#!.*\b(ba)?sh\b' --exclude-dir={.git,.tools,node_modules,target,bin,dist,testdata} .)
# Where tests keep their files: memory, where there is some, since the store's
# tests wait for each commit to be on disk.
SCRATCH := $(firstword $(wildcard /dev/shm) $(TMPDIR) /tmp)
# Everything but the suites that need binaries, namespaces or a server.
UNIT = $$($(GO) list ./... | grep -v '^$(MODULE)/test/') ./test/rig ./test/model ./test/scenario

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^##@ / { line[++n] = substr($$0, 5) } \
	  /^[a-z0-9-]+:.*## / { line[++n] = $$1; what[n] = $$2; if (length($$1) > wide) wide = length($$1) } \
	  END { for (i = 1; i <= n; i++) if (what[i]) printf "  make %-*s  %s\n", wide, line[i], what[i]; else print "\n" line[i] }' $(firstword $(MAKEFILE_LIST))

##@ Use

.PHONY: build
build: ## static binaries into bin/
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false \
		-ldflags '-s -w -X $(MODULE)/internal/buildinfo.Version=$(VERSION)' -o bin/ ./cmd/...

.PHONY: packages
packages: $(TOOLS)/nfpm ## .deb, .rpm and .apk, and the binaries in them, into dist/
	VERSION='$(VERSION)' packaging/build dist

.PHONY: images
images: packages setup-containers ## container images of agent and gateway (podman)
	VERSION='$(VERSION)' packaging/containers/build dist/bin

.PHONY: demo
demo: build setup-e2e ## two sandboxes, two real servers, every state through the real CLI
	$(GO) run ./test/demo

.PHONY: demo-codex
demo-codex: build setup-e2e ## the same with the Codex app-server from npm (400 MB)
	npm install --prefix .tools/codex --no-save --no-audit --no-fund --ignore-scripts @openai/codex
	$(GO) run ./test/demo codex

##@ Test

# SQLite in Go is C that was translated, which nobody here would mend; looking
# for races in it makes the tests of the store three times as slow. Much of the
# time is waiting, for timers and the network: more packages at once than there
# are processors. A race found at a test's end is told within 50 ms.
.PHONY: test
test: setup-race ## unit tests under the race detector
	TMPDIR=$(SCRATCH) GORACE=atexit_sleep_ms=50 $(GO) test -race -gcflags=modernc.org/sqlite/lib=-race=false -p 4 $(UNIT)

.PHONY: e2e
e2e: build setup-e2e ## end-to-end tests on the real binaries in real namespaces
	$(GO) test -count=1 -parallel 32 -v -skip '$(RELAYS)' ./test/e2e/...

# Relays move gigabytes and fill slow links: beside the tests that watch the
# clock they would be the fault.
RELAYS := ^Test(D14|Relay|GatewayStopsWithRelays)

.PHONY: e2e-relay
e2e-relay: build setup-e2e ## relays and routing: bytes by hash, aborts, slow links
	$(GO) test -count=1 -v -run '$(RELAYS)' ./test/e2e

.PHONY: test-postgres
test-postgres: setup-postgres ## the store's tests on a throwaway PostgreSQL
	test/postgres.sh $(GO) test -count=1 ./gateway/store/...

.PHONY: e2e-balancer
e2e-balancer: build setup-postgres setup-balancer ## rolling restarts behind a real HAProxy, on a throwaway PostgreSQL
	test/postgres.sh $(GO) test -count=1 -v ./test/balancer

.PHONY: e2e-docs
e2e-docs: build setup-e2e ## the quick start word for word, and every command and link of the documents
	$(GO) test -count=1 -v ./test/docs

.PHONY: e2e-metrics
e2e-metrics: build setup-metrics ## the metrics' page, promtool, and a real Prometheus
	$(GO) test -count=1 -v ./test/metrics

.PHONY: test-packages
test-packages: packages setup-packages ## what is in the packages, lintian, and that a second build is the same
	@again=$$(mktemp -d); trap 'rm -rf "$$again"' EXIT; VERSION='$(VERSION)' packaging/again "$$again"; \
	PACKAGES_DIR="$(CURDIR)/dist" PACKAGES_AGAIN="$$again" $(GO) test -count=1 -v ./test/packages

.PHONY: e2e-systemd
e2e-systemd: $(TOOLS)/nfpm setup-systemd ## the packages on machines with a real systemd, one alone and three on a bridge (root)
	test/systemd.sh

.PHONY: e2e-containers
e2e-containers: build setup-containers ## the images in podman; the agent as process 1 (root)
	$(GO) test -count=1 -v ./test/containers

.PHONY: test-model
test-model: ## a million (MODEL_SEQUENCES) random histories held to the contract's reference
	MODEL_SEQUENCES=$(MODEL_SEQUENCES) $(GO) test -count=1 -timeout 0 -v ./test/model

.PHONY: e2e-browser
e2e-browser: build setup-browser $(BROWSER) ## the status page, and real applications by their URLs, in Chromium
	$(GO) test -count=1 -v ./test/browser

.PHONY: e2e-openshell
e2e-openshell: build setup-e2e setup-openshell ## the published OpenShell client on this gateway, and docs/openshell.md (pip)
	$(GO) test -count=1 -v ./test/openshell

.PHONY: sdk-typescript
sdk-typescript: $(TS)/node_modules/.ready $(BUF) ## the TypeScript SDK: its generated code is current, strict types, tests
	@scratch=$$(mktemp -d); trap 'rm -rf "$$scratch"' EXIT; cd $(TS); \
	PATH="$$PWD/node_modules/.bin:$$PATH" $(BUF) generate ../../api --template buf.gen.yaml --path ../../api/openshell --path ../../api/sandbox -o "$$scratch"; \
	diff -r "$$scratch/src/gen" src/gen || { echo "sdk/typescript/src/gen is not what the protos generate (make generate)"; exit 1; }
	npm test --prefix $(TS)

.PHONY: sdk-rust
sdk-rust: setup-race ## the Rust SDK: its generated code is current, format, lints, tests, documentation, package (cargo)
	cd $(RUST); cargo fmt --all --check
	cd $(RUST); cargo test --quiet --workspace
	cd $(RUST); cargo check --quiet --lib # without the feature that tests have
	cd $(RUST); cargo clippy --quiet --workspace --all-targets -- -D warnings
	cd $(RUST); RUSTDOCFLAGS='-D warnings' cargo doc --quiet --no-deps --all-features -p sandbox-agent
	cd $(RUST); cargo package --quiet --no-verify --allow-dirty -p sandbox-agent

.PHONY: conformance
conformance: build setup-e2e $(TS)/node_modules/.ready ## one list of behaviour, driven through the Go SDK, the CLI, TypeScript and Rust
	npm run --silent build --prefix $(TS)
	cargo build --quiet --manifest-path sdk/rust/Cargo.toml --example conformance
	CONFORMANCE_REQUIRE=1 $(GO) test -count=1 -timeout 20m -parallel 4 -v ./test/conformance

.PHONY: examples
examples: build setup-race setup-e2e ## every page in examples/, followed word for word (450 MB of npm packages)
	$(GO) test -count=1 -timeout 15m -v -skip Image ./test/examples

# For this machine alone.
.PHONY: examples-systemd
examples-systemd: export FORMATS = deb
examples-systemd: export ARCHES = $(shell $(GO) env GOHOSTARCH)
examples-systemd: build packages setup-systemd ## the page of examples/systemd-image: an image is built and booted (root)
	$(GO) test -count=1 -v -run SystemdImage ./test/examples

.PHONY: examples-image
examples-image: build setup-containers ## the page of examples/codex-app-server/image.md: built and run with podman (root)
	$(GO) test -count=1 -v -run CodexImage ./test/examples

.PHONY: fuzz-short
fuzz-short: ## every fuzz target for FUZZTIME (20s)
	.ci/fuzz $(FUZZTIME)

.PHONY: bench
bench: build ## benchmarks of the packages, then of the running parts
	$(GO) test -run '^$$' -bench . -benchmem $$(grep -rl --include='*_test.go' '^func Benchmark' . | xargs -n1 dirname | sort -u)
	$(GO) run ./test/bench

##@ Change

.PHONY: check
check: check-format check-generate check-tidy check-vet check-static check-arch check-wire check-shell check-units ## format, generated code, vet, staticcheck, house rules, units

.PHONY: fmt
fmt: $(TOOLS)/gofumpt ## format the Go files
	$(TOOLS)/gofumpt -w .

.PHONY: generate
generate: $(PLUGINS) $(BUF) $(TS)/node_modules/.ready ## Go, TypeScript and docs/api.md from the protos
	cd api && PATH="$(TOOLS):$$PATH" $(BUF) generate
	cd api && PATH="$(TOOLS):$$PATH" $(BUF) generate --template buf.docs.yaml
	npm run --silent generate --prefix $(TS)

.PHONY: sdk-rust-generate
sdk-rust-generate: setup-race ## Rust from the protos (cargo)
	cd $(RUST); cargo run --quiet -p xtask

.PHONY: tools
tools: $(PLUGINS) $(BUF) $(TOOLS)/gofumpt $(TOOLS)/staticcheck ## build the tools that check and generate need

.PHONY: setup
setup: ## install the Debian packages that any target needs
	.ci/setup race check e2e postgres balancer metrics packages systemd containers browser openshell

.PHONY: clean
clean: ## remove what was built
	rm -rf bin dist .tools $(RUST)/target tools/node_modules test/browser/node_modules $(TS)/node_modules $(TS)/dist examples/*/{node_modules,dist,target}

# The parts of `make check`, each of which can be run alone.

.PHONY: check-format
check-format: $(TOOLS)/gofumpt
	@wrong=$$($(TOOLS)/gofumpt -l .); [ -z "$$wrong" ] || { echo "not formatted (make fmt):"; echo "$$wrong"; exit 1; }

# The Go code and the API reference are generated anew, beside the tree, and
# must be what is checked in: nothing missing, nothing left over.
.PHONY: check-generate
check-generate: $(PLUGINS) $(BUF)
	@$(GO) -C tools vet ./...
	@$(GO) -C tools test ./...
	@scratch=$$(mktemp -d); trap 'rm -rf "$$scratch"' EXIT; \
	cp -r api "$$scratch/"; find "$$scratch/api" -name '*.pb.go' -delete; cd "$$scratch/api"; \
	$(BUF) lint; PATH="$(TOOLS):$$PATH" $(BUF) generate; \
	diff -r "$$scratch/api" "$(CURDIR)/api" || { echo "api/ is not what its protos generate (make generate)"; exit 1; }; \
	PATH="$(TOOLS):$$PATH" $(BUF) generate --template buf.docs.yaml; \
	diff "$$scratch/docs/api.md" "$(CURDIR)/docs/api.md" || { echo "docs/api.md is not what the protos generate (make generate)"; exit 1; }

.PHONY: check-tidy
check-tidy:
	$(GO) mod tidy -diff
	$(GO) -C tools mod tidy -diff

.PHONY: check-vet
check-vet:
	$(GO) vet ./...

.PHONY: check-static
check-static: $(TOOLS)/staticcheck
	$(TOOLS)/staticcheck ./...

.PHONY: check-arch
check-arch:
	$(GO) test -count=1 ./internal/arch

# The vectors and the inventory of the wire need no binaries.
.PHONY: check-wire
check-wire:
	$(GO) test -count=1 -run 'Inventory|Vector|Compare' ./test/conformance

.PHONY: check-shell
check-shell: setup-check
	shellcheck $(SCRIPTS)

# How much a service could do that it need not: 0 is nothing, 10 all.
.PHONY: check-units
check-units: setup-check
	systemd-analyze security --offline=yes --no-pager --threshold=14 systemd/sandbox-agent.service >/dev/null
	systemd-analyze security --offline=yes --no-pager --threshold=19 systemd/sandbox-gateway.service >/dev/null

.PHONY: setup-race setup-check setup-e2e setup-postgres setup-balancer setup-metrics setup-packages setup-systemd setup-containers setup-browser setup-openshell
setup-race setup-check setup-e2e setup-postgres setup-balancer setup-metrics setup-packages setup-systemd setup-containers setup-browser setup-openshell: setup-%:
	@.ci/setup $*

# Tools are built from the versions that tools/go.mod and tools/package.json pin.

$(TOOLS)/protoc-gen-go: PKG := google.golang.org/protobuf/cmd/protoc-gen-go
$(TOOLS)/protoc-gen-go-grpc: PKG := google.golang.org/grpc/cmd/protoc-gen-go-grpc
$(TOOLS)/gofumpt: PKG := mvdan.cc/gofumpt
$(TOOLS)/staticcheck: PKG := honnef.co/go/tools/cmd/staticcheck
$(TOOLS)/nfpm: PKG := github.com/goreleaser/nfpm/v2/cmd/nfpm
$(filter-out $(APIDOC),$(PLUGINS)) $(TOOLS)/gofumpt $(TOOLS)/staticcheck $(TOOLS)/nfpm: tools/go.mod tools/go.sum
	@echo "building $(PKG)"
	@$(GO) build -C tools -buildvcs=false -o $@ $(PKG)
	@touch $@

$(APIDOC): tools/go.mod tools/go.sum $(filter-out %_test.go,$(wildcard tools/protoc-gen-apidoc/*.go))
	@echo "building $(@F)"
	@$(GO) build -C tools -buildvcs=false -o $@ ./$(@F)
	@touch $@

$(BUF): tools/package.json tools/package-lock.json
	npm ci --prefix tools --ignore-scripts --no-audit --no-fund
	@touch $@

$(BROWSER): test/browser/package.json test/browser/package-lock.json
	npm ci --prefix test/browser --ignore-scripts --no-audit --no-fund
	@touch $@

$(TS)/node_modules/.ready: $(TS)/package.json $(TS)/package-lock.json
	npm ci --prefix $(TS) --ignore-scripts --no-audit --no-fund
	@touch $@
