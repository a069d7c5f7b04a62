# `make` lists what there is to do. CI runs the same targets.

SHELL := bash
GO    ?= go
K6    ?= k6

# More for a target: make run ARGS="--listen :8080", make test PKGS=./queue/...
ARGS ?=
PKGS ?= ./...

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

# An installed golangci-lint is used when it is of this version.
LINT_VERSION := v2.15.0

.DEFAULT_GOAL := help
.PHONY: help run build test fuzz fuzz-http bench bench-micro lint vuln licences fmt cover prove chaos load bench-observability bench-memory bench-instances bench-coupons bench-orders bench-isolation \
	pictures screenshots k6-blackfriday k6-full-flow k6-spike k6-cascade k6-coupon-rush k6-order-payment k6-arrivals

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build ## build and serve the embedded default: no Redis, no MySQL
	@exec bin/sluice serve $(ARGS)

build: ## build bin/sluice
	@CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/ ./cmd/...

# Most tests wait for servers most of the time: three of a package at once keep two cores
# busy, and more of them make each other late.
AT_ONCE ?= 3

# Run at the end, alone and without the race detector. The simulations would take several
# times longer with it, and what they put together is raced by the tests of its own
# packages. The browser's tests drive processes that are built without it, and beside
# other tests everything in a browser is late.
PLAIN := /admission/simulation$$|/browser$$

test: ## run the tests, with the race detector where there is a C compiler
	@missing=$$(mktemp); race=-race; \
	if [ "$$($(GO) env CGO_ENABLED)" != 1 ] || ! command -v $$($(GO) env CC) >/dev/null; then \
		race=; echo 'the race detector was off: it needs cgo and a C compiler' >> $$missing; \
	fi; \
	export SLUICE_TEST_MISSING=$$missing; status=0; \
	all=$$($(GO) list $(PKGS)) || exit 1; \
	raced=$$(grep -vE '$(PLAIN)' <<<"$$all"); plain=$$(grep -E '$(PLAIN)' <<<"$$all"); \
	if [ -n "$$raced" ]; then $(GO) test -count=1 -timeout 20m -parallel $(AT_ONCE) $$race $$raced || status=1; fi; \
	if [ -n "$$plain" ]; then $(GO) test -count=1 -timeout 20m -p 1 $$plain || status=1; fi; \
	if [ -s $$missing ]; then \
		echo; echo '=================== LEFT OUT OF THIS RUN ==================='; \
		sort -u $$missing | sed 's/^/  * /'; \
		echo '============================================================'; \
	fi; \
	rm -f $$missing; exit $$status

# One of them: make prove PROOF=Steps
PROOF ?=

prove: ## the promises at full size, on a real Redis and MariaDB: half an hour on an idle machine
	$(GO) test -tags prove -count=1 -timeout 60m -run '^TestProve$(PROOF)' -v ./cmd/sluice

# Another course of things, an hour of them: make chaos SEED=7 DURATION=1h VISITORS=20000
SEED             ?= 1
DURATION         ?= 150s
VISITORS         ?= 2000
ON_REDIS_FAILURE ?=
REPORT           ?= chaos.md

chaos: ## two instances, Redis and MariaDB are killed, frozen and restarted under a crowd, by the SEED; writes chaos.md
	SEED='$(SEED)' DURATION='$(DURATION)' VISITORS='$(VISITORS)' ON_REDIS_FAILURE='$(ON_REDIS_FAILURE)' REPORT='$(abspath $(REPORT))' \
		$(GO) test -tags prove -count=1 -timeout 0 -v -run '^TestChaos$$' ./cmd/sluice

# Some steps, or all of them small: make load ONLY=spike,arrivals SCALE=0.02
ONLY  ?=
SCALE ?= 1
LOAD  ?= load

load: build ## every load scenario, each on stores of its own; writes load/report.html and report.md; a quarter of an hour
	SLUICE_REQUIRE_SERVICES=1 $(GO) test -count=1 -timeout 0 -v -run '^TestLoad$$' ./benchmarks/load \
		-report '$(abspath $(LOAD))' -bin '$(CURDIR)/bin' -k6 '$(K6)' -scale '$(SCALE)' -only '$(ONLY)'

# Each target of go test -fuzz for FUZZTIME, one after the other: make fuzz FUZZ=FuzzCSV
FUZZTIME ?= 10s
FUZZ ?= .

fuzz: ## look for inputs that break a parser, FUZZTIME for each
	@$(GO) list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}' ./... | while read -r folder; do \
		for target in $$(cat "$$folder"/*_test.go | sed -n 's/^func \(Fuzz[A-Za-z0-9]*\)(f \*testing.F).*/\1/p' | grep -E '$(FUZZ)'); do \
			echo "$$target"; $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) "$$folder" </dev/null || exit 1; \
		done; \
	done

# The promise: make fuzz-http REQUESTS=1000000. Again: make fuzz-http ARGS="-http.seed S"
REQUESTS ?=
fuzz-http: DURATION = 60s

fuzz-http: ## fire bent requests at a running sluice, embedded and on Redis and MariaDB, for DURATION or REQUESTS
	$(GO) test -count=1 -timeout 180m -run '^TestFuzzHTTP$$' -v ./cmd/sluice \
		$(if $(REQUESTS),-http.requests $(REQUESTS),-http.duration $(DURATION)) $(ARGS)

# For benchstat, two runs into two files: make bench OUT=before.txt. A profile of one path:
# make bench ARGS="-paths position-far -cpuprofile cpu.prof"
OUT ?= bench.txt

bench: ## every path over HTTP beside a constant answer and plain go-redis, 1,000 to 1,000,000 waiting: 5 minutes; writes docs/benchmarks.md
	$(GO) test -count=1 -timeout 30m -run '^TestPaths$$' -v ./benchmarks -full -docs $(CURDIR)/docs -out $(abspath $(OUT)) $(ARGS)

bench-micro: ## run the Go benchmarks: make bench-micro PKGS=./web
	$(GO) test -run '^$$' -bench . -benchmem $(PKGS) $(ARGS)

bench-observability: ## what metrics, the log of requests and tracing cost a poll: 3 minutes; writes the table of docs/benchmarks.md
	$(GO) test -count=1 -timeout 30m -run '^TestObservability$$' -v ./benchmarks -full -docs $(CURDIR)/docs $(ARGS)

bench-memory: ## what each of 10,000 to 1,000,000 who wait costs in Redis and in a process; writes the table of docs/benchmarks.md
	$(GO) test -count=1 -timeout 60m -run '^TestMemory$$' -v ./benchmarks -full -docs $(CURDIR)/docs $(ARGS)

bench-instances: ## one, two and four instances on one Redis, without nginx and behind it: CPU per poll; writes the table of docs/benchmarks.md
	$(GO) test -count=1 -timeout 30m -run '^TestInstances$$' -v ./benchmarks -full -docs $(CURDIR)/docs $(ARGS)

# More rounds: make bench-coupons ARGS="-rounds 5"
bench-coupons: ## our ways to give out coupons beside the published ones; writes the table and picture of docs/benchmarks.md
	$(GO) test -count=1 -timeout 30m -run '^TestCoupons$$' -v ./benchmarks -full -docs $(CURDIR)/docs $(ARGS)

bench-orders: ## orders over HTTP, in groups and one by one; writes the table of docs/benchmarks.md
	$(GO) test -count=1 -timeout 30m -run '^TestOrders$$' -v ./benchmarks -full -docs $(CURDIR)/docs $(ARGS)

# Other rates: make bench-isolation ARGS="-isolation.polls 4000"
bench-isolation: ## the queue beside as many orders as the service can make, and beside as much of the processors taken otherwise; writes the table of docs/benchmarks.md
	$(GO) test -count=1 -timeout 30m -run '^TestIsolation$$' -v ./benchmarks -full -rounds 5 -docs $(CURDIR)/docs $(ARGS)

lint: ## check formatting, vet, and the rules of .golangci.yml
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not gofmt'ed (make fmt):"; echo "$$unformatted"; exit 1; fi
	$(GO) vet -tags prove ./...
	@if golangci-lint version 2>/dev/null | grep -qF '$(LINT_VERSION:v%=%)'; then \
		golangci-lint run; \
	else \
		$(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION) run; \
	fi

vuln: ## look for known vulnerabilities; VULN_REQUIRED=1 fails where their database cannot be reached
	@.ci/vuln

licences: ## list the licences of all modules in docs/licences.md, and check them
	@.ci/licences write

fmt: ## format the Go code
	gofmt -w .

cover: ## measure the tests' coverage
	$(GO) test -count=1 -coverprofile=coverage.out -coverpkg=./... $(PKGS)
	@$(GO) tool cover -func=coverage.out | tail -1
	@echo 'by line: $(GO) tool cover -html=coverage.out'

pictures: ## play the simulation; write the pictures and the table of docs/control.md
	$(GO) run ./admission/simulation/pictures docs

screenshots: ## every page in every state, narrow and wide, light and dark, in screenshots/; the README's in docs/img
	@rm -rf screenshots
	$(GO) test -count=1 -run '^TestEmbedded$$' ./browser -screenshots $(CURDIR)/screenshots

k6-blackfriday: ## 1,000 users enter within 5 s and poll for 30 s, against a running sluice
	$(K6) run k6/blackfriday.js

k6-full-flow: ## 100 users enter, poll, and order, against a running sluice
	$(K6) run k6/full_flow.js

k6-spike: ## 1,000 users within one second, against a running sluice
	$(K6) run k6/spike.js

k6-cascade: ## polls beside saturated slow orders; see k6/README.md for the service it needs
	$(K6) run k6/cascade.js

k6-coupon-rush: ## 10,000 users claim one of 5,000 coupons at one moment; see k6/README.md for the service it needs
	$(K6) run k6/coupon_rush.js

k6-order-payment: ## 700 users order and pay in a closed loop for a minute; see k6/README.md for the service it needs
	$(K6) run k6/order_payment.js

k6-arrivals: ## 10,000 enter a second for 30 s, against a running sluice
	$(K6) run k6/arrivals.js
