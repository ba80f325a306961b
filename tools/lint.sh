#!/usr/bin/env bash
# Format, lints, documentation, dependency policy: all that needs no running. Warnings are errors.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/steps.sh
. tools/lint_steps.sh
lint_steps
steps_summary
