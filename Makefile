# make demo is the first thing to try; make help lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
export CGO_ENABLED := 0
# What was built from the same sources in another folder is not built again. CI
# runs its tests all the same.
export GOFLAGS := -trimpath $(GOFLAGS)
GO := go
# make lint vets all packages.
TEST := $(GO) test $(if $(CI),-count=1) -vet=off -timeout 15m

.PHONY: help build packages setup demo demo-libvirt demo-install test race lint prove mutate bench-engine bench-design bench-git bench-redfish bench-libvirt bench-configure bench-install bench-ha bench-pr bench-recover bench-web clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

build: ## build the programs into bin/
	@mkdir -p bin
	$(GO) build -o bin/ ./cmd/...
	@mkdir -p bin/agents
	@for arch in amd64 arm64; do \
		GOOS=linux GOARCH=$$arch $(GO) build -buildvcs=false -ldflags "-s -w" -o bin/agents/slipway-helper-linux-$$arch ./cmd/slipway-helper; \
	done
	GOOS=linux GOARCH=amd64 $(GO) build -buildvcs=false -ldflags "-s -w" -o bin/agents/slipway-agent-linux-amd64 ./cmd/slipway-agent

# Equal sources give equal octets: all times are SOURCE_DATE_EPOCH, or the commit's.
packages: ## build .deb, .rpm, archives and an OCI image into bin/
	@$(GO) run -C packaging . --out $(CURDIR)/bin $(if $(ARCH),--arch $(ARCH))

setup: ## install what the tests need, from Debian and npm
	@./setup.sh

demo: build ## a whole site in your terminal, in under two minutes (KEEP=1 leaves it running, WEB=1 shows it in your browser too, WEB=approve has you approve there)
	@./setup.sh demo
	@bin/slipway-demo $(if $(WEB),--web $(if $(filter approve,$(WEB)),--approve),$(if $(KEEP),--keep))

demo-libvirt: build ## virtual machines on a real libvirt, in about four minutes; as root
	@./setup.sh demo-libvirt
	@bin/slipway-demo --libvirt

demo-install: build ## two blank servers, emulated, that become what their design says, in half an hour; as root
	@./setup.sh demo-install
	@bin/slipway-demo --install

# Guests that a processor is emulated for need all of it: they boot when nothing else
# is tested.
GUESTS := TestVirtualMachines|TestVirtualMachinesInTrouble|TestFirstBootThatFails

# CI has half an hour. There a twelfth of the tests of what takes longest run, which follows from the sources
# (tests/drawn.sh); `make prove` runs all of them. What is left out is printed: -skip names it. So is one of
# the guests.
LONG := ./engine ./engine/design ./sinks/agent ./sinks/github ./sinks/libvirt ./sinks/redfish ./tests/e2e ./tests/e2e/week ./tests/editor ./tests/github ./tests/inside ./tests/install ./tests/model $(addprefix ./sinks/agent/inside/,base config disk image network packages)
PARTS := $(if $(CI),12,1)

# Many tests wait for servers, so that one package more than there are cores runs
# at a time.
test: setup ## all tests; with CI set, a twelfth of those that take longest
	@seed=$$(tests/drawn.sh); part=$${PART:-$$(($$seed % $(PARTS)))}; \
		$(if $(CI),echo "of the long tests those of PART=$$part; the stories of ./engine begin with SLIPWAY_FIRST_SEED=$$seed";) \
		set -x; SLIPWAY_PART=$$part/$(PARTS) SLIPWAY_FIRST_SEED=$$seed $(TEST) -p $$(($$(nproc) + 1)) \
		-skip "^($(GUESTS)$$(tests/part.sh $$part $(PARTS) $(LONG)))\$$" ./...
	guests='$(GUESTS)'; $(if $(CI),guests=$$(echo "$$guests" | cut -d '|' -f $$(($${PART:-$$(tests/drawn.sh)} % 3 + 1)));) \
		$(TEST) -timeout 25m -parallel 2 -run "^($$guests)$$" ./tests/e2e

# Packages and tests without goroutines are left out: what is pure, and what bounds
# the cost of designs, and what a browser does. So are the longest of the stories, of which twenty are told. Of
# the tests of ./engine one in RACES is run, drawn by the sources; `make prove` runs
# all of them.
RACES := 16
race: setup ## the engine's tests with the race detector, with CI set a part of the most
	part=$${RACE_PART:-$$(($$(tests/drawn.sh) % $(RACES)))}; echo "of the tests of ./engine those of RACE_PART=$$part"; \
	CGO_ENABLED=1 $(TEST) -race -skip "^(TestBombsAreFindings|TestEntriesAreBounded|TestLayersThatMultiplyAreBounded|TestFormat.*|TestTheFirstStories|TestStoriesThatOnceFailed|TestNoMachineIsInterruptedWithoutEndForOneDesign|TestWhatApprovesNothing|TestBrowser.*|TestProve[^P].*$$(tests/part.sh $$part $(RACES) engine))$$" \
		$$($(GO) list ./engine/... | grep -vE '/engine/(site|window|plan|present|say|retry|design/rule|bios|item|ledger|placement|firstboot|sitekey|serve|driver)$$') ./sinks/metrics ./sinks/notify

lint: ## formatting, vet, staticcheck
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "run gofmt -w on the files above"; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	cd packaging && $(GO) vet ./... && $$($(GO) -C .. tool -n staticcheck) ./...

prove: build ## what takes long: properties, rollouts in virtual time, soaks and crash points
	@./setup.sh
	$(MAKE) test PARTS=1
	$(MAKE) race RACES=1
	SLIPWAY_PROVE=1 $(GO) test -timeout 240m -run '^TestProve' -v ./engine
	SLIPWAY_PROVE=1 $(GO) test -timeout 60m -run '^TestBrowser' -v ./engine/web
	SLIPWAY_PROVE=1 $(GO) test -timeout 240m -run 'Prove' -v ./tests/...
	SLIPWAY_PROVE=1 $(GO) test -timeout 60m -run '^TestProve' -v ./sinks/commit
	SLIPWAY_PROVE=1 $(GO) test -timeout 60m -run '^TestMergesOfRandomHistoriesAreGits$$' -v ./engine/repo
	SLIPWAY_PROVE=1 $(GO) test -timeout 240m -run '^TestProve' ./sinks/redfish
	SLIPWAY_PROVE=1 $(GO) test -timeout 60m -run '^(TestDamagedPages|TestKilledRecordsAreNotDamaged)$$' -v ./engine/record
	SLIPWAY_PROVE=1 $(GO) test -timeout 60m -run '^TestProve' -v ./sinks/agent/inside/...
	SLIPWAY_PROVE=1 $(GO) test -timeout 60m -run '^(TestLaw|TestBombsEnd)' ./engine/design
	cd tests/sops && $(GO) test -timeout 60m -v ./...

# About two hours on two cores. -survivors tries only what no test has caught yet.
mutate: ## how many mistakes in what decides about destruction the tests notice
	@$(GO) run ./tests/mutate -least 0.95 $(MUTATE)

bench-engine: build ## the engine's figures
	@$(GO) run ./tests/bench/engine

bench-design: build ## the figures of evaluating designs, beside the cue command
	@$(GO) run ./tests/bench/design

bench-git: setup ## the figures of following a repository
	@$(GO) test ./sources/git -run '^$$' -bench '^BenchmarkIdlePoll$$' -benchtime 1x | grep '^bench:'

bench-redfish: setup build ## the figures of speaking to BMCs, beside Ironic, which it installs
	@tests/bench/redfish/setup.sh
	@$(GO) run ./tests/bench/redfish

bench-libvirt: setup ## the figures of 200 virtual machines on one hypervisor
	@$(GO) test ./tests/bench/libvirt -run '^$$' -bench '^Benchmark200$$' -benchtime 1x | grep '^bench:'

bench-configure: build ## how installed systems are configured, beside Ansible, which it installs; as root
	@tests/bench/configure/setup.sh
	@$(GO) run ./tests/bench/configure

bench-install: build ## serving, DHCP, a storm of boots and writing images, beside nginx, dnsmasq and zstd, which it installs; as root
	@tests/bench/install/setup.sh
	@$(GO) run ./tests/bench/install $(if $(ONLY),-only $(ONLY)) $(if $(QUICK),-quick)

bench-web: ## the page of a site of 10,000 nodes: how long it takes, and what open pages cost
	@$(GO) test ./engine/web -run '^$$' -bench '^Benchmark(FirstPage|OpenPages)$$' -benchtime 1x | grep '^bench:'

bench-ha: build ## how soon another host leads, and what three members cost over one host (QUICK=1 for a small site)
	@$(GO) run ./tests/bench/ha $(if $(ONLY),-only $(ONLY)) $(if $(QUICK),-quick)

bench-pr: build ## how soon a push to a pull request is commented on
	@$(GO) run ./tests/bench/pr

bench-recover: build ## how soon the machines of an incident are off, and the incident all clear, in about three minutes (QUICK=1 for a small site)
	@$(GO) run ./tests/bench/recover $(if $(QUICK),-quick)

clean: ## remove what was built
	rm -rf bin
