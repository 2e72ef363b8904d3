#!/bin/sh
# Runs one real agent from the npm registry, through the gateway, against the scripted provider and checks what Refrain
# recorded.
#
# Needs node, npm and python3. REFRAIN names the program to use; without it the release build is made and used.
# The agent is installed once, below .refrain/tools, in the version that runs/fake-provider.yaml names.
set -eu
cd "$(dirname "$0")/.."
root=$(pwd)

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

tools=$root/.refrain/tools
version=$(sed -n 's/^    version: "\(.*\)"$/\1/p' runs/fake-provider.yaml)
mkdir -p "$tools/home"
installed() { HOME=$tools/home "$tools/node_modules/.bin/claude" --version 2> /dev/null || true; }
case $(installed) in
"$version "*) ;;
*)
    echo "fake-provider: installing version $version of the agent" >&2
    npm install --prefix "$tools" --no-fund --no-audit --loglevel=error "@anthropic-ai/claude-code@$version" >&2
    case $(installed) in
    "$version "*) ;;
    *)
        echo "fake-provider: the agent does not say it is version $version: $(installed)" >&2
        exit 3
        ;;
    esac
    ;;
esac

scratch=$(mktemp -d)
python3 -B scripts/provider.py --script runs/fake-provider.script.json --log "$scratch/served" \
    --port-file "$scratch/port" &
provider=$!
trap 'kill "$provider" 2> /dev/null || true; rm -rf "$scratch"' EXIT
while [ ! -s "$scratch/port" ]; do
    kill -0 "$provider" || exit 3
    sleep 0.1
done

# A name of its own for each time, because a finished run would be skipped.
run=fake-provider-$(date -u +%Y%m%dT%H%M%SZ)-$$
export FAKE_PROVIDER_KEY=not-a-real-key-0000
PATH=$tools/node_modules/.bin:$PATH
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
