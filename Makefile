# Every target is one command; `make` lists them.

.DEFAULT_GOAL := help
.PHONY: help demo test lint bench bench-full soak fuzz

tickcast = cargo run --release --bin tickcast --
java = interop/java/target/tickcast-interop.jar

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## the whole system in one process on a recorded market; ARGS="--speed 10 --loop" for example
	$(tickcast) demo $(ARGS)

test: ## all checks and tests, as they decide on a change; installs what is missing
	@tools/test.sh

lint: ## format, clippy, documentation, dependency policy
	@tools/lint.sh

bench: ## figures of this machine, in minutes
	$(tickcast) bench all --runs 3 --seconds 2

bench-full: ## figures worth writing down
	$(tickcast) bench all --runs 7 --seconds 4
	@[ ! -f $(java) ] || $(tickcast) bench rwf --runs 9 --eta $(java)

soak: ## random tests for long, from new seeds; RUNS=1000 CASES=20000
	@tools/soak.sh

fuzz: ## fuzz targets for long, with libFuzzer where it is; TARGETS="rwf_map" RUNS=10000000
	@tools/fuzz.sh
