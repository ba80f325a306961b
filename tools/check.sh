#!/usr/bin/env bash
# What is checked before each commit: all that `make lint` checks, the tests of its tools, and the unit tests of all
# crates, which take 20 seconds once they are built. It installs nothing and needs Rust and Python alone; `make test`
# uses the same profile, so that nothing is built twice.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/steps.sh
. tools/lint_steps.sh
lint_steps
step "tests of the tools" python3 -m unittest discover -s tools
step "unit tests" cargo test --locked --profile ci --workspace --lib --bins
steps_summary
