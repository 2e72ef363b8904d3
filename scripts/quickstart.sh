#!/bin/sh
# Runs the quickstart, kills it with SIGKILL as soon as a cell is finished, runs it again, and checks every result.
#
# Needs python3. REFRAIN names the program to use; without it the release build is made and used.
set -eu
cd "$(dirname "$0")/.."
if [ -z "${REFRAIN:-}" ]; then
    cargo build --release --quiet
    REFRAIN=${CARGO_TARGET_DIR:-target}/release/refrain
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# A name of its own for each time, because what is finished is skipped.
run=quickstart-$(date -u +%Y%m%dT%H%M%SZ)-$$
"$REFRAIN" run runs/quickstart.yaml --set "name=$run" > "$scratch/first" 2>&1 &
first=$!
tries=0
while kill -0 "$first" 2> /dev/null && [ "$tries" -lt 100 ]; do
    "$REFRAIN" results "$run" --json > "$scratch/before" 2> /dev/null || true
    if grep -q exit_class "$scratch/before"; then break; fi
    tries=$((tries + 1))
    sleep 0.1
done
kill -9 "$first" 2> /dev/null || true
wait "$first" || true
"$REFRAIN" results "$run" --json > "$scratch/before"

"$REFRAIN" run runs/quickstart.yaml --set "name=$run"
"$REFRAIN" results "$run" --json > "$scratch/after"
python3 -B scripts/check_quickstart.py "$scratch/before" "$scratch/after"
