#!/usr/bin/env bash
# Makes the book, target/book/html. mdBook is built from crates.io once if it is neither in the PATH nor in the target directory.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
PATH=$PATH:$target/mdbook/bin
if ! command -v mdbook >/dev/null; then
    echo "mdBook is not there; building it takes some minutes" >&2
    cargo install mdbook --locked --no-default-features --features search --root "$target/mdbook" || {
        echo "book: mdBook could not be built; install mdbook (https://rust-lang.github.io/mdBook) and have it in the PATH." >&2
        echo "The pages can be read as they are: docs/README.md" >&2
        exit 1
    }
fi
mkdir -p "$target/book"
tools/book.py "$target/book"
mdbook build "$target/book" --dest-dir "$target/book/html"
echo "$target/book/html/index.html"
