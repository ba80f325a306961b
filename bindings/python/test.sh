#!/usr/bin/env bash
# Builds the package with cargo profile PROFILE (ci), installs it into a virtual environment of its own as a user would,
# and runs its tests from there: test.sh [TEST]...
set -euo pipefail
cd "$(dirname "$0")"
target=${CARGO_TARGET_DIR:-$PWD/../../target}
environment=$target/python-package

[ -x "$environment/bin/python" ] || python3 -m venv "$environment"
# Cargo's output of the tests before is used again: no second build of what is below.
MATURIN_PEP517_ARGS="--profile ${PROFILE:-ci} --target-dir $target" \
    "$environment/bin/pip" install -q --disable-pip-version-check -r tests/requirements.txt "../python[numpy]"
cd tests
exec "$environment/bin/python" -m unittest "$@"
