#!/usr/bin/env bash
# Fuzzes every target for long: with libFuzzer, guided by the branches that are taken and under the address sanitizer,
# where there is a nightly tool chain and a C++ compiler; else by random changes on the stable one.
#   TARGETS  names (all; `cargo run -p tickcast-fuzz -- list` tells them)
#   RUNS     executions of each target (10000000)
#   SEED     where the random numbers begin (the time)
#   MODE     libfuzzer or stable (libfuzzer where it is possible)
# A finding is printed with its input; `tickcast-fuzz line` turns it into a seed that every later test executes.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
runs=${RUNS:-10000000} seed=${SEED:-$(date +%s)}
corpus=$target/fuzz/corpus
. tools/steps.sh

cargo build --locked --profile ci -p tickcast-fuzz
stable=$target/ci/tickcast-fuzz
read -ra targets <<<"${TARGETS:-$("$stable" list | awk '{ printf "%s ", $1 }')}"

libfuzzer_is_possible() {
    cargo +nightly --version >/dev/null 2>&1 && command -v c++ >/dev/null
}

host() {
    rustc -vV | sed -n 's/^host: //p'
}

# What cargo-fuzz would set; it need not be installed.
build_libfuzzer() {
    local flags="--cfg fuzzing -Zsanitizer=address -Cpasses=sancov-module -Ccodegen-units=1"
    flags+=" -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
    flags+=" -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"
    RUSTFLAGS=$flags CARGO_TARGET_DIR=$target/fuzz \
        cargo +nightly build --release --manifest-path crates/lab/fuzz/libfuzzer/Cargo.toml --target "$(host)"
}

# The corpus stays between runs, so that each begins where the last one ended.
libfuzzer() {
    local name=$1 longest
    longest=$("$stable" list | awk -v name="$name" '$1 == name { print $2 }')
    "$stable" unpack "$name" "$corpus/$name"
    mkdir -p "$target/fuzz/artifacts"
    FUZZ_TARGET=$name "$target/fuzz/$(host)/release/targets" "$corpus/$name" -runs="$runs" -seed="$((seed % 4294967295))" \
        -max_len="$longest" -rss_limit_mb=2048 -timeout=10 -verbosity=0 -print_final_stats=1 \
        -artifact_prefix="$target/fuzz/artifacts/$name-"
}

mode=${MODE:-$(libfuzzer_is_possible && echo libfuzzer || echo stable)}
echo "repeat with: MODE=$mode RUNS=$runs SEED=$seed TARGETS='${targets[*]}' make fuzz"
[ "$mode" != libfuzzer ] || step "libFuzzer" build_libfuzzer
for name in "${targets[@]}"; do
    case $mode in
        libfuzzer) step "$name" libfuzzer "$name" ;;
        stable) step "$name" "$stable" run "$name" "$runs" "$seed" ;;
        *) echo "MODE=$mode is neither libfuzzer nor stable" >&2; exit 2 ;;
    esac
done
steps_summary
