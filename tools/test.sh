#!/usr/bin/env bash
# All that decides whether a change is good. One profile, `ci`, serves lints, documentation, tests and the program that
# the system tests run, so that crates of others are compiled once.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin
target=${CARGO_TARGET_DIR:-$PWD/target}
# The tests of the program itself build it.
tickcast=$target/ci/tickcast
. tools/steps.sh
. tools/lint_steps.sh

python_tests() {
    python3 -m unittest discover -s "$1"
}

# The target directory is another because the flags are: the tests' own crates stay as they are.
loom() {
    RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=$target/loom cargo test --locked --profile ci -p tickcast-net --lib -- ring:: shm::model
}

java_tools() {
    (cd interop/java && mvn -B -q package)
}

python_package() {
    CARGO_TARGET_DIR=$target PROFILE=ci bindings/python/test.sh
}

# In the environment that the tests of the package have made.
process_tests() {
    CARGO_TARGET_DIR=$target PROFILE=ci "$target/python-package/bin/python" -m unittest discover -s interop/processes
}

# They wait more than they work: two at a time take half as long. Each network is one of its own.
running_system() {
    TICKCAST=$tickcast tools/side_by_side.py --jobs 2 \
        interop/netns interop/java/tests interop/crowd interop/system
}

step "what is missing" tools/install.sh
lint_steps
step "tests of the tools" python_tests tools
step "tests" cargo test --locked --profile ci --workspace
# About two minutes of a core.
RUNS=8000 step "reliable transports under faults" cargo test --locked --profile ci -p tickcast-lbt --test sim
# Some 80 s of a core.
RUNS=12000 step "whole topologies under faults" cargo test --locked --profile ci -p tickcast-topology --test topology -- any_topology
step "rules left out are noticed" cargo test --locked --profile ci -p tickcast-topology --features planted-bugs --test planted
step "every interleaving of the rings (loom)" loom
step "wire judge" python_tests interop
step "reckoning of final images" python_tests interop/reckon
step "Python package" python_package
step "processes in every language" process_tests
step "Java tools" java_tools
step "networks, Java tools against other software, a crowd that misbehaves, the running system" running_system
steps_summary
if [ "$(id -u)" -ne 0 ]; then
    echo "not root: the tests in network namespaces were skipped"
fi
