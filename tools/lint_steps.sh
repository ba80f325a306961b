# The steps of `make lint`, which are the first of `make test`. To be sourced after steps.sh.

lint_steps() {
    step "format" cargo fmt --check
    step "lints (clippy)" cargo clippy --locked --profile ci --workspace --all-targets -- -D warnings
    step "documentation" env RUSTDOCFLAGS="-D warnings" cargo doc --locked --profile ci --workspace --no-deps
    step "dependency policy" tools/dependency_policy.py
    step "circles of modules, spread types" tools/structure.py --check
}
