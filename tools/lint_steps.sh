# Steps of `make lint`, `make check` and `make test`; to be sourced behind steps.sh. What takes seconds comes first.

lint_steps() {
    step "format" cargo fmt --check
    step "pages, examples of crates" tools/documents.py
    step "pictures" tools/pictures.py check
    step "page of counters" tools/reference.py check
    step "dependency policy" tools/dependency_policy.py
    step "random tests print what repeats them" tools/random_tests.py
    step "circles of modules, spread types" tools/structure.py --check
    step "lints (clippy)" cargo clippy --locked --profile ci --workspace --all-targets -- -D warnings
    step "documentation" env RUSTDOCFLAGS="-D warnings" cargo doc --locked --profile ci --workspace --no-deps
}
