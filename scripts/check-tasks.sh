#!/bin/sh
# Proves the task library without Refrain: scripts/check-tasks.sh [TASK...]
#
# For each task: the start (repo/ and the mutation) fails the hidden tests in just the declared ids, and the start with
# solution.patch passes the visible checks and all hidden tests, twice in a row. It reads the plain subset of YAML that
# this library keeps to: top-level keys, one-line commands, lists of one-line items.
set -u
cd "$(dirname "$0")/.." || exit 1

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
faults=0

# Tests run as an attempt would: a private home, no settings of whoever runs this.
unset RUST_BACKTRACE GIT_DIR GIT_WORK_TREE
export HOME="$scratch/home" GIT_CONFIG_NOSYSTEM=1
mkdir -p "$HOME"

fault() {
    faults=$((faults + 1))
    echo "FAULT $task: $1"
}

# scalar KEY: the value of a top-level key of task.yaml.
scalar() { sed -n "s/^$1: *//p" "$dir/task.yaml" | head -n 1; }

# items KEY: the items of a top-level list, one a line.
items() {
    awk -v key="$1:" '
        $0 == key { inside = 1; next }
        inside && /^  - / { print substr($0, 5); next }
        /^[^ #]/ { inside = 0 }' "$dir/task.yaml"
}

# start TREE: lays out what an agent is given.
start() {
    rm -rf "$1" && cp -R "$dir/repo" "$1" || exit 1
    patch=$(scalar mutation)
    [ -z "$patch" ] || apply "$1" "$patch"
}

# apply TREE PATCH: a patch that does not fit is a fault.
apply() {
    (cd "$1" && git init -q . && git apply --whitespace=nowarn "$dir/$2") || fault "$2 does not apply"
    rm -rf "$1/.git"
}

# hidden TREE OUT: runs the hidden tests on a copy of a tree; ids and results go to OUT.ids. Returns the exit code.
hidden() {
    rm -rf "$scratch/graded" && cp -R "$1" "$scratch/graded"
    cp -R "$dir/tests/." "$scratch/graded/"
    (cd "$scratch/graded" && sh -c "$(scalar test_command)") > "$2" 2>&1 < /dev/null
    code=$?
    sed -n -e 's/^\(not ok\|ok\) [0-9]* - /\1	/p' -e 's/^test \(.*\) \.\.\. ok$/ok	\1/p' \
        -e 's/^test \(.*\) \.\.\. FAILED$/not ok	\1/p' "$2" > "$2.ids"
    return $code
}

# expect RESULT OUT KEY WHEN: every id of a list has this result.
expect() {
    items "$3" | while IFS= read -r id; do
        grep -Fqx "$1	$id" "$2.ids" || echo "$id"
    done > "$scratch/wrong"
    while IFS= read -r id; do
        fault "$4: $3 '$id' is not '$1'"
    done < "$scratch/wrong"
}

# files TREE: tells whether every expected file is there.
files() {
    items expected_files | while IFS= read -r file; do
        [ -s "$1/$file" ] || exit 1
    done
}

# checks TREE: tells whether every visible check passes.
checks() {
    items checks > "$scratch/checks"
    while IFS= read -r check; do
        (cd "$1" && sh -c "$check") > "$scratch/check.out" 2>&1 < /dev/null || return 1
    done < "$scratch/checks"
}

check_task() {
    [ "$(scalar id)" = "$task" ] || fault "its id is '$(scalar id)'"
    [ -n "$(items checks)" ] || fault "it has no visible checks"
    start "$scratch/before"
    cp -R "$scratch/before" "$scratch/after" && apply "$scratch/after" solution.patch

    checks "$scratch/before" && fault "the visible checks pass at the start"
    if [ -n "$(scalar test_command)" ]; then
        hidden "$scratch/before" "$scratch/out" && fault "the hidden tests pass at the start"
        expect "not ok" "$scratch/out" fail_to_pass "at the start"
        expect "ok" "$scratch/out" pass_to_pass "at the start"
        for round in first second; do
            hidden "$scratch/after" "$scratch/out" || fault "the hidden tests fail with the solution ($round round)"
            expect "ok" "$scratch/out" fail_to_pass "with the solution"
            expect "ok" "$scratch/out" pass_to_pass "with the solution"
        done
        declared=$( (items fail_to_pass && items pass_to_pass) | sort)
        [ "$declared" = "$(cut -f 2 "$scratch/out.ids" | sort)" ] || fault "declared ids and tests that ran differ"
    else
        [ -n "$(items expected_files)" ] || fault "it has neither a test command nor expected files"
        files "$scratch/before" && fault "the expected files are there at the start"
        files "$scratch/after" || fault "the solution lacks an expected file"
    fi
    cp -R "$scratch/after" "$scratch/before.checks"
    checks "$scratch/after" || fault "the visible checks fail with the solution: $(cat "$scratch/check.out")"
    diff -r "$scratch/before.checks" "$scratch/after" > /dev/null || fault "the visible checks leave files behind"
    rm -rf "$scratch/before" "$scratch/after" "$scratch/before.checks"
}

root=$(pwd)
# shellcheck disable=SC2046 # ids hold no spaces
[ $# -gt 0 ] || set -- $(ls tasks)
for task in "$@"; do
    dir=$root/tasks/$task
    if [ ! -f "$dir/task.yaml" ]; then
        [ -d "$dir" ] && fault "there is no task.yaml"
        continue
    fi
    known=$faults
    check_task
    [ "$faults" -gt "$known" ] || echo "ok $task"
done
echo "$# tasks, $faults faults"
[ "$faults" -eq 0 ]
