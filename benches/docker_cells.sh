#!/bin/sh
# Runs 24 no-op cells in Docker, four at a time, against a plain shell loop of `docker` commands that does the same work,
# in one go: wall time of both, and the CPU time of both without the daemon's.
#
#   cargo build --release && benches/docker_cells.sh [ROUNDS]
#
# One cell is: a container for the agent with a workspace of two files, one command in it, the workspace copied out;
# then a fresh container with what was copied out, one test command in it; both containers removed.
set -eu

image=refrain-test/busybox:1 cells=24 at_once=4

# One cell by hand: called by xargs below, with the number of the cell.
if [ "${1:-}" = one ]; then
    limits="--cap-drop ALL --security-opt no-new-privileges --init --pids-limit 4096"
    # shellcheck disable=SC2086 # several words on purpose
    agent=$(docker create $limits "$image" sleep 1000)
    docker start "$agent" > /dev/null
    docker cp "$here/project/tasks/noop/seed/." "$agent:/work"
    docker exec "$agent" sh -c 'cd /work && echo done >> a.txt'
    docker cp "$agent:/work/." "$here/out.$2"
    # shellcheck disable=SC2086
    judge=$(docker create $limits "$image" sleep 1000)
    docker start "$judge" > /dev/null
    docker cp "$here/out.$2/." "$judge:/work"
    docker exec "$judge" sh -c 'cd /work && test -f a.txt'
    docker rm -fv "$agent" "$judge" > /dev/null
    rm -rf "$here/out.$2"
    exit
fi

cd "$(dirname "$0")/.."
rounds=${1:-3}
refrain=${REFRAIN:-$PWD/${CARGO_TARGET_DIR:-target}/release/refrain}
here=$(mktemp -d)
export here
trap 'rm -rf "$here"' EXIT INT TERM
scripts/test-images.sh

mkdir -p "$here/project/runs" "$here/project/tasks/noop/seed"
echo one > "$here/project/tasks/noop/seed/a.txt"
echo two > "$here/project/tasks/noop/seed/b.txt"
cat > "$here/project/tasks/noop/task.yaml" << 'TASK'
id: noop
name: Nothing to do
track: swe
difficulty: easy
description: One command.
repo_url: ./seed
task_prompt: Do nothing.
test_command: test -f a.txt
TASK
cat > "$here/project/runs/noop.yaml" << RUN
name: noop
harnesses: [{ name: echo, adapter: command, config: { command: "echo done >> a.txt; echo done" } }]
models: [{ name: none }]
tasks: [noop]
repeats: $cells
parallel_runs: $at_once
runtime: docker
docker_image: $image
RUN

by_hand() { seq $cells | xargs -n 1 -P $at_once benches/docker_cells.sh one; }

with_refrain() {
    rm -rf "$here/project/.refrain" "$here/project/refrain.db"*
    "$refrain" run "$here/project/runs/noop.yaml" > "$here/said" 2>&1 || { cat "$here/said" >&2 && return 1; }
}

round=1
while [ $round -le "$rounds" ]; do
    for way in by_hand with_refrain; do
        # The second line of `times` is that of the children, without this shell.
        (
            began=$(date +%s%N)
            $way
            wall=$((($(date +%s%N) - began) / 1000000))
            times > "$here/times"
            echo "round $round: $way: $wall ms; user and system CPU of the clients: $(sed -n 2p "$here/times")"
        )
    done
    round=$((round + 1))
done
