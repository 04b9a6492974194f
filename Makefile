# "make help" lists the targets.

GO ?= go

# What "make bench" runs and how often: make bench BENCH=Acquire COUNT=10
BENCH ?= .
COUNT ?= 1

# What "make bench-peers" gets: make bench-peers PEERS='-scenario contended -rounds 9'
PEERS ?=

# How many random programs "make test-long" compares, from which seed on, and by
# which seed it checks how many cases of each property:
# make test-long PROGRAMS=1000 SEED=20001 CHECKS=100000 CURATOR_SEED=random
# HISTORIES of all recipes together take two hours of one processor.
PROGRAMS ?= 10000
SEED ?= 1
CHECKS ?= 5000
HISTORIES ?= 100000
CURATOR_SEED ?= random
PROPERTIES := ./internal/testkit/seeds ./listen ./retry ./framework/... ./recipes/... ./testing/zkserver

# How long "make nemesis" has faults, and what else it gets:
# make nemesis DURATION=30m NEMESIS='-report /tmp/run'
DURATION ?= 90s
NEMESIS ?=

# What "make mutants" gets, and how many random changes "make mutants-random" makes, in which
# packages, and by which seed: those of PKG, or those that differ from the last commit but one.
# make mutants MUTANTS='-run lease'; make mutants-random N=20 PKG='recipes/fence recipes/shared'
MUTANTS ?=
N ?= 50
PKG ?=

# The modules beside the main one: the workshop and the command, whose tests take longest, and the others.
WORKSHOP := testing/internal
COMMAND := cmd/curatorctl
MODULES := $(WORKSHOP) $(COMMAND) $(filter-out $(WORKSHOP) $(COMMAND),$(shell .ci/modules))
EXPERIMENTAL := recipes/x

# Packages wait more than they compute: three with four tests each keep two processors busy. With more
# at a time, a server does not always answer within the second that a test allows. The packages that take
# longest come first, or the last of them would run alone. Each test program but those of the workshop has one processor:
# Go's race detector crashes now and then when two threads run timers of one bubble of testing/synctest (https://go.dev/issue/78156).
TEST_ALL := test -race -shuffle=on -p 3 -parallel 4 -timeout 40m
ONE_PROCESSOR := -exec 'env GOMAXPROCS=1'
TEST := $(TEST_ALL) $(ONE_PROCESSOR)
LONGEST := ./recipes/locks ./framework ./testing/zkserver ./recipes/leader ./recipes/cache

LINTER := tools/bin/golangci-lint
ACTIONLINT := tools/bin/actionlint-v1.7.12

.DEFAULT_GOAL := help
.PHONY: help deps test test-short test-long lint fmt bench bench-peers bench-readme bench-growth mutants mutants-random nemesis api release

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

deps: ## name the Debian packages that the tests need and lack, and install them
	@.ci/install-deps

# "make test" uses the same seeds each time; "make test-long" and "make nemesis" draw
# random ones. Their findings become cases, see internal/testkit/seeds.
# "make test" has the small sizes. "make test-long" has all variants of each hardship, twenty trials
# of each trouble, six minutes of a campaign instead of 15 seconds, and 20,000 watches over a slow link instead of 5,000.
# Each client of a test allocates 1.5 MB and ends soon, so that by default Go collects garbage for half of the time.
test test-short: export GOGC = 400
# A program with the race detector sleeps for a second at its end, and tests end hundreds of such programs.
test test-short: export GORACE = atexit_sleep_ms=50
test: deps ## run all tests, with real ZooKeeper servers and the race detector; "deps" comes first
	$(GO) -C $(WORKSHOP) $(TEST_ALL) ./...
	for module in $(filter-out $(WORKSHOP),$(MODULES)); do $(GO) -C $$module $(TEST) ./... || exit 1; done
	$(GO) $(TEST) $(LONGEST) ./...
	$(GO) test -run '^TestSeed$$' ./testing/zksim # not with the race detector, which has goroutines run in random order
	$(GO) -C $(COMMAND) test ./internal/world -histories=300 # those above are 30, as the race detector has them take four times as long

test-short: ## run the tests of the library that need no Java, check the documents, and print how many faults were tried
	cells=$$(mktemp) && trap 'cat $$cells; rm -f $$cells' EXIT && CURATOR_CELLS=$$cells $(GO) $(TEST) -short $(LONGEST) ./... \
		&& $(GO) -C $(COMMAND) $(TEST) -short ./... \
		&& $(GO) -C $(EXPERIMENTAL) $(TEST) -short ./... \
		&& $(GO) -C $(WORKSHOP) $(TEST_ALL) -short ./measure

test-long: ## check properties and models by random seeds, CHECKS=n CURATOR_SEED=n; compare more programs with ZooKeeper, PROGRAMS=n SEED=n; kazoo's own tests; 10,000 increments and long contests of Go and of Java; a campaign with TLS and fsync; the benchmark with every peer; each trouble of a lock twenty times; 200 kills and pauses of a fleet of jobs, and 200 kills in the care of a guard; the page in a browser, and its memory; 100,000 partitions; the recipes on a server like ClickHouse Keeper; fifty clients through a rolling reconfiguration; HISTORIES=n simulations of all recipes together
	@.ci/install-deps long
	$(GO) -C $(COMMAND) test -race -v -run '^TestBrowser|^TestContentionOfMany' -timeout 20m ./internal/page -browser=chromium-headless-shell -locks=10000
	$(GO) -C $(COMMAND) test -v -run '^TestServeMemory$$' -timeout 20m . -served-locks=100000
	CURATOR_SEED=$(CURATOR_SEED) CURATOR_CHECKS=$(CHECKS) $(GO) test -short -race $(ONE_PROCESSOR) -shuffle=on -timeout 60m $(PROPERTIES)
	CURATOR_SEED=$(CURATOR_SEED) CURATOR_CHECKS=$(CHECKS) $(GO) -C $(EXPERIMENTAL) test -short -race $(ONE_PROCESSOR) -shuffle=on -timeout 60m ./...
	$(GO) -C $(WORKSHOP) test -v -run '^TestKazoosOwnTests$$' -timeout 10m ./interop -kazoos-own
	$(GO) -C $(WORKSHOP) test -v -run '^TestValuesIncrementsOfBothSides$$' -timeout 20m ./interop -increments=10000
	$(GO) -C $(WORKSHOP) test -v -run 'Contest$$' -timeout 20m ./interop -turns=250
	$(GO) -C $(WORKSHOP) test -v -run '^TestBench$$' -timeout 20m ./bench -every-peer
	$(GO) -C $(WORKSHOP) test -v -run '^TestCampaign$$' -timeout 20m ./nemesis -campaign=6m
	$(GO) test -v -run '^TestRandomProgramsAsApache$$' -timeout 60m ./testing/zkserver -programs=$(PROGRAMS) -seed=$(SEED)
	$(GO) test -v -run '^TestRandomHistories' -timeout 60m ./testing/zkserver -own-histories=$(PROGRAMS) -real-histories=200 -seed=$(SEED)
	GOGC=800 CURATOR_PARTITION_SCALE=100000,5,embedded $(GO) -C $(EXPERIMENTAL) test -v -run '^TestScaleWhat' -timeout 20m ./partition
	for kind in KEEPER FOLLOWER; do for module in . $(EXPERIMENTAL); do \
		env CURATOR_$$kind=1 $(GO) -C $$module test -short -timeout 60m $$([ $$module = . ] && echo ./recipes/... || echo ./...) || exit 1; done; done
	CURATOR_CHECKS=200 $(GO) test -race $(ONE_PROCESSOR) -skip 'Hardships|EveryFault' -timeout 60m ./recipes/locks
	CURATOR_CHECKS=200 $(GO) -C $(EXPERIMENTAL) test -v -run '^TestKillsAndPausesOfFive$$' -timeout 20m ./schedule
	CURATOR_CHECKS=200 $(GO) -C $(COMMAND) test -v -run '^TestGuardUnderKills$$' -timeout 20m .
	CURATOR_SEED=$(CURATOR_SEED) $(GO) test -v -run '^TestSimulation$$' -timeout 60m ./recipes -histories=$(CHECKS)
	CURATOR_SEED=$(CURATOR_SEED) $(GO) -C $(COMMAND) test -v -run '^TestWorld$$' -timeout 5h ./internal/world -histories=$(HISTORIES)
	CURATOR_CHECKS=1 $(GO) test -race $(ONE_PROCESSOR) -v -run '^TestRollingReconfigurationLosesNothing$$' -timeout 10m ./recipes/leader
	CURATOR_CANDIDATES=1000 $(GO) test -race $(ONE_PROCESSOR) -v -run '^TestScaleChangeAmongManyWakesTwo$$' -timeout 10m ./recipes/leader
	CURATOR_FRESH_WRITES=10000 $(GO) test -v -run '^TestFreshOverTwoServers$$' -timeout 10m ./recipes/cache

lint: $(LINTER) $(ACTIONLINT) ## check the code, its formatting, go.mod and the workflow
	$(ACTIONLINT)
	$(LINTER) run ./...
	$(GO) vet ./...
	$(GO) mod tidy -diff
	for module in $(MODULES); do $(GO) -C $$module mod tidy -diff && (cd $$module && $(CURDIR)/$(LINTER) run ./... && $(GO) vet ./...) || exit 1; done
	$(GO) fix -diff ./...
	for module in $(WORKSHOP) $(COMMAND) $(EXPERIMENTAL); do $(GO) -C $$module fix -diff ./... || exit 1; done

api: ## compare the exported names with those of the newest release
	@.ci/api

release: ## commit and tag a release in this clone, VERSION=v0.1.0, and print what to push; it sends nothing
	@.ci/release $(VERSION)

fmt: $(LINTER) ## format the code as lint wants it
	$(LINTER) fmt ./...

bench: ## run the benchmarks, and see how many simulated histories a second there are, BENCH=regexp COUNT=n
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) ./...
	GOMAXPROCS=1 $(GO) test -v -run '^TestSimulation$$/$(BENCH)' -parallel 1 ./recipes -histories=50 | grep ' a second'

bench-peers: ## measure the locks beside the locks of other libraries, PEERS=flags
	@.ci/install-deps bench
	$(GO) -C $(WORKSHOP)/bench run . $(PEERS)

bench-readme: ## measure what the tables of one lock and of single requests show, a quarter of an hour on a quiet machine, and write them again
	@.ci/install-deps bench
	$(GO) -C $(WORKSHOP)/bench run . -update README.md -peers self,self-handoff,curator,zklock,kazoo,raw \
		-scenario uncontended,contended,one-process,queue
	$(GO) -C $(WORKSHOP)/bench run . -update README.md -peers self-verbs,raw-verbs,java-verbs -rounds 12 -duration 300ms \
		-scenario get,exists,set,create,bulk-get,bulk-exists,bulk-set

bench-growth: deps ## measure what sessions, locks, waiters, instances, cache nodes and watches cost a server
	$(GO) -C $(WORKSHOP)/bench run . -growth 10,100,1000,3000,5000

mutants: deps ## break the code on purpose and check that tests notice, MUTANTS=flags
	$(GO) -C $(WORKSHOP) run ./mutants $(MUTANTS)

mutants-random: deps ## make random changes and list those that no quick test of their package notices, N=n PKG=folders SEED=n
	$(GO) -C $(WORKSHOP) run ./mutants -random $(N) -seed $(SEED) $(PKG)

nemesis: deps ## inject faults at random and check the locks, DURATION=time NEMESIS=flags
	$(GO) -C $(WORKSHOP) run ./nemesis -duration $(DURATION) $(NEMESIS)

# The linter is built from the versions that tools/ pins, so that its
# dependencies stay out of go.mod and all machines run the same version.
$(LINTER): tools/go.mod tools/go.sum
	$(GO) -C tools build -buildvcs=false -o bin/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@

# It needs another version of a dependency than the linter, so tools/ cannot pin both.
$(ACTIONLINT):
	GOBIN=$(CURDIR)/tools/bin $(GO) install github.com/rhysd/actionlint/cmd/actionlint@$(subst tools/bin/actionlint-,,$@)
	mv tools/bin/actionlint $@
