#!/bin/sh
# Runs one real agent in a container that reaches nothing but the gateway, and looks for the provider's key wherever the
# container or the run could have left it. The provider is the scripted one, and refuses requests without the key.
#
# Needs node, npm, python3, docker and the test images (scripts/test-images.sh). REFRAIN names the program to use; without
# it the release build is made and used.
set -eu
cd "$(dirname "$0")/.."
root=$(pwd)

for tool in node npm python3 docker; do
    command -v "$tool" > /dev/null || {
        echo "gateway-only: $tool is missing; install it and run this again" >&2
        exit 3
    }
done
if [ -z "${REFRAIN:-}" ]; then
    cargo build --release --quiet
    REFRAIN=${CARGO_TARGET_DIR:-target}/release/refrain
fi

# The agent's program in an image of its own: nothing can be installed where nothing is reached.
tools=$root/.refrain/tools
version=$(sed -n 's/^    version: "\(.*\)"$/\1/p' runs/fake-provider.yaml)
image=refrain-test/claude-code:$version
if ! docker image inspect "$image" > /dev/null 2>&1; then
    mkdir -p "$tools"
    if [ ! -x "$tools/node_modules/.bin/claude" ]; then
        npm install --prefix "$tools" --no-fund --no-audit --loglevel=error "@anthropic-ai/claude-code@$version" >&2
    fi
    made=$(docker create --network none refrain-test/debian:1 sh)
    docker cp --follow-link "$tools/node_modules/.bin/claude" "$made:/usr/local/bin/claude" > /dev/null
    docker commit "$made" "$image" > /dev/null
    docker rm "$made" > /dev/null
fi

scratch=$(mktemp -d)
FAKE_PROVIDER_KEY=sk-ant-test-$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')
export FAKE_PROVIDER_KEY
python3 -B scripts/provider.py --script runs/fake-provider.script.json --log "$scratch/served" \
    --port-file "$scratch/port" --key-env FAKE_PROVIDER_KEY &
provider=$!
trap 'kill $provider ${watcher:-} 2> /dev/null || true; rm -rf "$scratch"' EXIT
while [ ! -s "$scratch/port" ]; do
    kill -0 "$provider" || exit 3
    sleep 0.1
done

# While the agent works: what the daemon tells of its container, the variables of every process in it, and its files.
run=gateway-only-$$
mkdir "$scratch/seen"
watch() {
    while :; do
        for id in $(docker ps -q --filter "label=refrain.run=$run"); do
            docker inspect "$id" >> "$scratch/seen/inspect" 2> /dev/null || true
            # Neither of the two users may look into the processes and files of the other.
            for user in 0 1000; do
                docker exec -u "$user" "$id" sh -c 'cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline' \
                    >> "$scratch/seen/processes" 2> /dev/null || true
                docker exec -u "$user" "$id" tar -cf - /refrain/home /refrain/tmp /refrain/log /work /etc /tmp \
                    >> "$scratch/seen/files" 2> /dev/null || true
            done
            docker logs "$id" >> "$scratch/seen/log" 2>&1 || true
        done
        sleep 0.2
    done
}
watch &
watcher=$!

"$REFRAIN" run runs/gateway-only.yaml --set "name=$run" --set "docker_image=$image" \
    --set "workdir=$scratch/state" --set "results_db=$scratch/refrain.db" \
    --set "models.0.config.base_url=http://127.0.0.1:$(cat "$scratch/port")" > "$scratch/said" 2>&1 || {
    cat "$scratch/said" >&2
    exit 1
}
kill "$watcher" 2> /dev/null
"$REFRAIN" results "$run" --db "$scratch/refrain.db" --json > "$scratch/results"
python3 -B scripts/compare_tokens.py "$scratch/results" "$scratch/served"

grep -q '"NetworkMode": "none"' "$scratch/seen/inspect"
# The agent was seen at its work, with what it has in the place of the key.
grep -q -a ANTHROPIC_API_KEY= "$scratch/seen/processes"
grep -q -a refrain/home/ "$scratch/seen/files"
python3 -B scripts/find_secret.py --env FAKE_PROVIDER_KEY "$scratch/seen" "$scratch/state" "$scratch/refrain.db" "$scratch/said"
