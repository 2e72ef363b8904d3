#!/bin/sh
# Runs one real agent from the npm registry, through the gateway, against the scripted provider and checks what Refrain
# recorded.
#
# Needs node, npm and python3. REFRAIN names the program to use; without it the release build is made and used.
# The agent is installed once, below .refrain/tools, in the version that its harness was verified with.
set -eu
cd "$(dirname "$0")/.."

for tool in node npm python3; do
    command -v "$tool" > /dev/null || {
        echo "fake-provider: $tool is missing; install it and run this again" >&2
        exit 3
    }
done
if [ -z "${REFRAIN:-}" ]; then
    cargo build --release --quiet
    REFRAIN=${CARGO_TARGET_DIR:-target}/release/refrain
fi

tools=$(python3 -B scripts/e2e/agents.py claude-code)
scratch=$(mktemp -d)
export FAKE_PROVIDER_KEY=not-a-real-key-0000
python3 -B scripts/e2e/play_script.py --script runs/fake-provider.script.json --log "$scratch/served" \
    --port-file "$scratch/port" --key-env FAKE_PROVIDER_KEY &
provider=$!
trap 'kill "$provider" 2> /dev/null || true; rm -rf "$scratch"' EXIT
while [ ! -s "$scratch/port" ]; do
    kill -0 "$provider" || exit 3
    sleep 0.1
done

# A name of its own for each time, because a finished run would be skipped.
run=fake-provider-$(date -u +%Y%m%dT%H%M%SZ)-$$
PATH=$tools:$PATH
export PATH
"$REFRAIN" run runs/fake-provider.yaml --set "name=$run" \
    --set "models.0.config.base_url=http://127.0.0.1:$(cat "$scratch/port")"
# The provider's key stays with the host: nothing that is kept holds it.
if grep -rqF "$FAKE_PROVIDER_KEY" .refrain/runs refrain.db*; then
    echo "fake-provider: the key is in what the run has left" >&2
    exit 1
fi
"$REFRAIN" results "$run" --json > "$scratch/results"
python3 -B scripts/compare_tokens.py "$scratch/results" "$scratch/served"
