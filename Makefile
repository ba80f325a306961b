# Every target is one command; `make` lists them.

.DEFAULT_GOAL := help
.PHONY: help demo check test lint book release bench bench-full report report-full peers soak fuzz

tickcast = cargo run --release --bin tickcast --
java = interop/java/target/tickcast-interop.jar
peers = $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)/peers
# ETA's codec takes part where the jar is, the peers where they are in the PATH or in the directory of `make peers`.
# Growth of the cost of a message is judged once figures are committed (`tickcast bench cost --against crates/lab/bench/cost.json --update`).
cost = $(addprefix --against ,$(wildcard crates/lab/bench/cost.json))
bench = PATH="$(peers):$$PATH" $(tickcast) bench
# What a report says of the program; a program that was built without it names its version alone.
built = BUILD_COMMIT=$$(git describe --always --dirty 2>/dev/null)
all = --tls crates/io/net/testdata/tls $(addprefix --eta ,$(wildcard $(java)))

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## the whole system in one process on a recorded market; ARGS="--speed 10 --loop" for example
	$(tickcast) demo $(ARGS)

check: ## before a commit, in minutes: what lint checks, and the unit tests of all crates
	@tools/check.sh

test: ## all checks and tests, as they decide on a change; installs what is missing
	@tools/test.sh

lint: ## format, clippy, documentation, pages, dependency policy
	@tools/lint.sh

book: ## the documents as a book, target/book/html; installs mdBook if it is missing
	@tools/book.sh

release: ## what a version is handed out as, target/dist, each piece tried; ARGS=--try from a tree that is not ready
	@tools/release.sh $(ARGS)

bench: ## figures of this machine, in minutes, beside the peers that are there
	$(bench) cost $(cost)
	$(bench) all $(all) --runs 3 --seconds 0.5

bench-full: ## figures worth writing down
	$(bench) cost $(cost)
	$(bench) all $(all) --full --runs 7 --seconds 4

report: ## a page with figures of this machine beside published ones, target/report/report.html, in about ten minutes
	rm -rf target/report/quick
	$(built) $(bench) --out target/report/quick all $(all) --runs 5 --seconds 0.5
	$(built) $(tickcast) report target/report/quick --to target/report/report

report-full: ## the same with all published rates and sizes, in hours; goes on where it was interrupted
	$(built) $(bench) --out target/report/full all $(all) --full --runs 5 --seconds 10
	$(built) $(tickcast) report target/report/full --to target/report/report-full

peers: ## installs what `make bench` measures beside Tickcast: Aeron, ZeroMQ, nats-server
	@tools/peers.sh $(peers)

soak: ## random tests for long, from new seeds; RUNS=1000 CASES=20000
	@tools/soak.sh

fuzz: ## fuzz targets for long, with libFuzzer where it is; TARGETS="rwf_map" RUNS=10000000
	@tools/fuzz.sh
