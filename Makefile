# make check: everything that CI runs.
.PHONY: build deb release release-check cluster check test race models cover fuzz faults shadow-faults bench bench-http bench-cluster bench-candidates floods differential side-by-side lint measure screenshots simulate simulate-reverts

build:
	go build -o bin/ ./cmd/allot ./cmd/allot-migrate ./cmd/allot-bench

# Three servers of one ledger on this machine, in the foreground: REST at PORT,
# PORT+1 and PORT+2; data, logs and process ids in DIR.
DIR ?= cluster
PORT ?= 8778
cluster: build
	@exec .ci/cluster $(DIR) $(PORT)

# dist/allot_VERSION_ARCH.deb for this machine, with the unit, man page and completions.
deb:
	.ci/package/build deb

# deb, rpm and tar.gz for linux amd64 and arm64, SBOMs and checksums, in dist/:
# the same commit gives the same bytes.
release:
	.ci/package/build release

# Whether two releases of this commit have the same bytes; 15 minutes.
release-check:
	.ci/package/build check

check: lint race models

lint:
	go tool -modfile=.ci/tools/go.mod golangci-lint run

# How large the project is: what may grow has to earn it.
measure:
	@.ci/measure

test:
	go test ./...

race:
	go test -race -timeout 40m ./...

# Models, random worlds and seeds of the simulator with all of their cases, of which the race detector leaves time for
# some; and the packages of ALSO.
models:
	go test -timeout 40m ./cmd/simulate/... ./commands ./commands/placing ./commands/processes ./projector ./projector/candidates \
		./api/baremetal ./api/placement ./api/present ./api/wire ./ledger/blocks $(ALSO)

# Statements that tests run, in percent of each package; 15 minutes.
cover:
	.ci/cover

# Each decoder for FUZZTIME.
FUZZTIME ?= 30s
fuzz:
	go test ./ledger -run '^$$' -fuzz FuzzDecodeCommit -fuzztime $(FUZZTIME)
	go test ./ledger -run '^$$' -fuzz FuzzDecodeState -fuzztime $(FUZZTIME)
	go test ./ledger/proof -run '^$$' -fuzz FuzzParse -fuzztime $(FUZZTIME)
	go test ./ledger/archive -run '^$$' -fuzz FuzzRead -fuzztime $(FUZZTIME)
	go test ./snapshots -run '^$$' -fuzz FuzzDecode -fuzztime $(FUZZTIME)
	go test ./api/natsapi -run '^$$' -fuzz FuzzDecode -fuzztime $(FUZZTIME)
	go test ./api/placement -run '^$$' -fuzz FuzzRequest -fuzztime $(FUZZTIME)
	go test ./api/baremetal -run '^$$' -fuzz FuzzRequest -fuzztime $(FUZZTIME)
	go test ./api/policy -run '^$$' -fuzz FuzzLoad -fuzztime $(FUZZTIME)

# Faults as often as docs/reliability.md says, and its table; 10 minutes. Power cuts and full disks need root.
faults:
	ALLOT_FAULTS=all go test ./cmd/allot ./ledger/... ./projector/... -count 1 -v -timeout 60m \
		-run 'Damage|PowerCut|Kill|Full|Silent|Network|Repair|Scrub|Torn' > faults.log || (grep -v '^=== ' faults.log | tail -100; exit 1)
	@echo '| fault | times | outcome |'; echo '|---|---|---|'; sed -n 's/^.*FAULT //p' faults.log

# A cluster of real servers on simulated machines: make simulate takes new seeds until it is stopped, SEEDS=1000 FROM=1
# some, and SEED=N plays one again, tells its story and looks for the faults that matter.
simulate:
	go run ./cmd/simulate $(if $(SEED),-seed $(SEED)) $(if $(FROM),-from $(FROM)) $(if $(SEEDS),-seeds $(SEEDS))

# Takes each mend of cmd/simulate/reverts back, and plays SEEDS seeds (2,000) until one fails; hours. REVERT=NAME: that one.
simulate-reverts:
	.ci/simulate-reverts

# Faults of Placement, its database, Allot and the proxy between them under load, ten times each, and what clients missed.
# It needs Debian's mariadb-server, python3-placement, python3-pymysql, uwsgi-core and uwsgi-plugin-python3.
shadow-faults:
	ALLOT_FAULTS=all go test ./cmd/allot-migrate -count 1 -v -timeout 120m -run 'TestShadow' > shadow-faults.log \
		|| (grep -v '^=== ' shadow-faults.log | tail -100; exit 1)
	@sed -n 's/^.*FAULT //p' shadow-faults.log

# Compare ratios within one run; absolute figures hold for one machine and day.
bench:
	go test ./commands/writer ./projector -run '^$$' -bench . -benchmem -timeout 30m

# The same random requests to Allot and to OpenStack Placement 8.0.0.
differential:
	.ci/differential 20000

# How others are served beside 16 hostile clients with a login, the table of
# docs/performance.md; a minute, on a machine with nothing else to do.
floods:
	go build -o bin/ ./cmd/allot ./cmd/allot-bench && bin/allot-bench floods

# CPU of a request over HTTP, before (BASE) and after in turns, and what has which
# share of it; 5 minutes.
BASE ?= HEAD~1
bench-http:
	.ci/bench-http $(BASE)

# Three replicas beside one server; 4 minutes.
bench-cluster:
	.ci/bench-cluster

# Allocation candidates over HTTP, by size and shape of the world and of the request.
bench-candidates:
	go test ./api/placement -run '^$$' -bench Candidates -timeout 30m

# Pictures of the console in docs/img, and of every page at 1400 and 420 pixels and dark in docs/img/pages, of a ledger
# that is made for them. It fails if text is cut off, a uuid shown for what has a name, or axe finds something.
# Needs chromium and npm.
screenshots:
	npm ci --silent --prefix cmd/allot/testdata/console
	mkdir -p docs/img
	ALLOT_SCREENSHOTS=$(CURDIR)/docs/img go test ./cmd/allot -run TestConsoleScreenshots -count 1 -v

# Beside OpenStack Placement with MariaDB; writes docs/performance.md.
side-by-side:
	.ci/side-by-side
