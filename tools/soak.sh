#!/usr/bin/env bash
# Random tests for long: each run begins at other seeds. A failure prints the command that repeats it.
#   RUNS    runs of each simulated system (1000), ten times as many of the reliable transports, a tenth of real processes
#   CASES   cases of each property test (20000)
#   KILLS   processes killed while they use shared memory (10000)
#   CROWD   seconds of 2,000 clients that misbehave at a running system (1800)
#   FROM    first seed (the time)
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
runs=${RUNS:-1000} cases=${CASES:-20000} from=${FROM:-$(date +%s)} kills=${KILLS:-10000}
. tools/steps.sh

tests() {
    cargo test --locked --profile ci "$@"
}

# All of the unsafe code that Miri can run: it knows no sockets, locks on files, or shared mappings.
miri() {
    if ! cargo +nightly miri --version >/dev/null 2>&1; then
        echo "no nightly tool chain with Miri: skipped"
        return
    fi
    MIRIFLAGS=-Zmiri-disable-isolation CARGO_TARGET_DIR=$target/miri \
        cargo +nightly miri test --locked -p tickcast-net --lib -- \
        shm::tests::ring ring::tests udp::receive xdp::memory
}

# Figures as lines of JSON: 5 % loss at a million messages a second, a receiver that is stopped.
scenarios() {
    if [ "$(id -u)" -ne 0 ]; then
        echo "not root: skipped"
        return
    fi
    cargo build --locked --profile ci --bin tickcast
    TICKCAST=$target/ci/tickcast python3 interop/netns/scenarios.py all
}

# Processes in Rust, C and Python. The tests of the package make the environment that has it.
processes() {
    CARGO_TARGET_DIR=$target PROFILE=ci bindings/python/test.sh test_messages
    RUNS=$((runs / 10 + 1)) CARGO_TARGET_DIR=$target PROFILE=ci \
        "$target/python-package/bin/python" -m unittest discover -s interop/processes
}

# First what each kind of client does to the latency of one that behaves, then all of them together.
crowd() {
    cargo build --locked --profile ci --bin tickcast
    export TICKCAST=$target/ci/tickcast
    python3 interop/crowd/soak.py --fairness --seed "$from"
    python3 interop/crowd/soak.py --clients 2000 --seconds "${CROWD:-1800}" --seed "$from"
}

echo "RUNS=$runs CASES=$cases KILLS=$kills FROM=$from"
step "rings (loom)" env RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR="$target/loom" LOOM_MAX_PREEMPTIONS=5 \
    cargo test --locked --profile ci -p tickcast-net --lib -- ring:: shm::model
step "each ordering of the rings weakened (loom)" python3 tools/weaken.py
step "rings (Miri)" miri
SHM_KILLS=$kills step "shared memory under kill -9" tests -p tickcast-net --test shm_kill -- --nocapture
export FROM=$from
RUNS=$runs step "source distributor and P2PS under faults" tests -p tickcast-sim
RUNS=$((runs * 100)) step "whole topologies under faults" tests -p tickcast-topology --test topology
RUNS=$((runs * 10)) step "reliable transports under faults" tests -p tickcast-lbt --test sim --test fuzz
RUNS=$runs TOPICS=10000 step "whole contexts under faults" tests -p tickcast-messaging --test world -- --nocapture
step "processes in every language" processes
PROPTEST_CASES=$cases step "properties" tests -p tickcast-rwf -p tickcast-rdm -p tickcast-rssl -p tickcast-config --tests
step "loss and stopped receivers on real sockets" scenarios
step "a crowd that misbehaves" crowd
steps_summary
