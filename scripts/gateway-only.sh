#!/bin/sh
# Runs real agents, each in a container that reaches nothing but the gateway, and looks for the provider's key wherever the
# containers or the runs could have left it. The provider is the scripted one, and refuses requests without the key.
#
#   scripts/gateway-only.sh [HARNESS...]
#
# Needs node, npm, python3, docker and the test images (scripts/test-images.sh). REFRAIN names the program to use; without
# it the release build is made and used.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- claude-code codex opencode

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

scratch=$(mktemp -d)
trap 'kill ${provider:-} ${watcher:-} 2> /dev/null || true; rm -rf "$scratch"' EXIT
FAKE_PROVIDER_KEY=sk-test-$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')
export FAKE_PROVIDER_KEY

# image_of HARNESS PROGRAM: makes an image with the agent's program in it, and prints its name. Nothing can be installed
# where nothing is reached.
image_of() {
    version=$(sed -n 's/^verified = "\([0-9.]*\).*/\1/p' "harnesses/$1/harness.toml")
    image=refrain-test/$1:$version
    if ! docker image inspect "$image" > /dev/null 2>&1; then
        executable=$(python3 -B scripts/e2e/agents.py --program "$1")
        made=$(docker create --network none refrain-test/debian:1 sh)
        docker cp "$executable" "$made:/usr/local/bin/$2" > /dev/null
        docker commit "$made" "$image" > /dev/null
        docker rm "$made" > /dev/null
    fi
    echo "$image"
}

# watch RUN FOLDER: while the agent works, keeps what the daemon tells of its container, the variables of every process in
# it, and its files.
watch() {
    while :; do
        for id in $(docker ps -q --filter "label=refrain.run=$1"); do
            docker inspect "$id" >> "$2/inspect" 2> /dev/null || true
            # Neither of the two users may look into the processes and files of the other.
            for user in 0 1000; do
                docker exec -u "$user" "$id" sh -c 'cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline' \
                    >> "$2/processes" 2> /dev/null || true
                docker exec -u "$user" "$id" tar -cf - /refrain/home /refrain/tmp /refrain/log /work /etc /tmp \
                    >> "$2/files" 2> /dev/null || true
            done
            docker logs "$id" >> "$2/log" 2>&1 || true
        done
        sleep 0.2
    done
}

# try HARNESS PROGRAM PROVIDER MODEL BASE VARIABLE REPORTS: one agent solves a task; VARIABLE has what stands for the key.
try() {
    image=$(image_of "$1" "$2")
    place=$scratch/$1
    run=gateway-only-$1-$$
    mkdir -p "$place/seen"
    python3 -B scripts/e2e/play_script.py --script runs/fake-provider.script.json --log "$place/served" \
        --port-file "$place/port" --key-env FAKE_PROVIDER_KEY &
    provider=$!
    while [ ! -s "$place/port" ]; do
        kill -0 "$provider" || exit 3
        sleep 0.1
    done
    watch "$run" "$place/seen" &
    watcher=$!

    "$REFRAIN" run runs/gateway-only.yaml --set "name=$run" --set "docker_image=$image" \
        --set "harnesses.0.name=$1" --set "harnesses.0.adapter=$1" \
        --set "models.0.name=$4" --set "models.0.provider=$3" \
        --set "models.0.config.base_url=http://127.0.0.1:$(cat "$place/port")$5" \
        --set "workdir=$place/state" --set "results_db=$place/refrain.db" > "$place/said" 2>&1 || {
        cat "$place/said" >&2
        exit 1
    }
    kill "$watcher" "$provider" 2> /dev/null
    "$REFRAIN" results "$run" --db "$place/refrain.db" --json > "$place/results"
    echo "$1:"
    python3 -B scripts/compare_tokens.py "$place/results" "$place/served" "$7"

    grep -q '"NetworkMode": "none"' "$place/seen/inspect"
    # The agent was seen at its work, with what it has in the place of the key.
    grep -q -a "$6=" "$place/seen/processes"
    grep -q -a refrain/home/ "$place/seen/files"
    python3 -B scripts/find_secret.py --env FAKE_PROVIDER_KEY "$place/seen" "$place/state" "$place/refrain.db" \
        "$place/said"
}

for harness in "$@"; do
    case $harness in
    claude-code) try claude-code claude anthropic claude-sonnet-4-5 "" ANTHROPIC_API_KEY equal ;;
    codex) try codex codex openai gpt-5 /v1 CODEX_API_KEY equal ;;
    # Its report leaves out the title that it asks for.
    opencode) try opencode opencode anthropic claude-sonnet-4-5 /v1 ANTHROPIC_API_KEY flagged ;;
    *)
        echo "gateway-only: \`$harness\` is no agent that is tried here" >&2
        exit 2
        ;;
    esac
done
