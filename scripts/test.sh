#!/bin/sh
# Runs every test of this repository, or the steps that are named: scripts/test.sh [STEP...]
set -eu
cd "$(dirname "$0")/.."

steps="format architecture lints tests docs tasks strategies readme reference examples quickstart provider agents"

release() {
    cargo build --release --quiet
    REFRAIN=${CARGO_TARGET_DIR:-target}/release/refrain
    export REFRAIN
}

step_format() { cargo fmt --check; }

# First of the tests, because a wrong import is cheap to find and tells most.
step_architecture() { cargo test --quiet --all-features --test architecture; }

step_lints() {
    cargo clippy --quiet --lib --no-default-features -- -D warnings
    cargo clippy --quiet --all-targets -- -D warnings
    cargo clippy --quiet --all-targets --all-features -- -D warnings
}

step_tests() {
    if docker version > /dev/null 2>&1; then
        scripts/test-images.sh
    elif [ -n "${REFRAIN_REQUIRE_DOCKER:-}" ]; then
        echo "test.sh: no Docker daemon answers, and REFRAIN_REQUIRE_DOCKER is set" >&2
        return 1
    else
        echo "test.sh: no Docker daemon answers; its tests are skipped"
    fi
    if cargo nextest --version > /dev/null 2>&1; then
        cargo nextest run --all-features --no-fail-fast
        cargo test --quiet --doc --all-features
    else
        cargo test --quiet --all-features
    fi
}

# Links must hold whatever is switched on.
step_docs() {
    for features in --no-default-features --features=default --all-features; do
        RUSTDOCFLAGS="-D warnings" cargo doc --quiet --no-deps "$features"
    done
}

step_tasks() { scripts/check-tasks.sh; }

# The orchestrators that come with the program pass their own tests.
step_strategies() {
    release
    "$REFRAIN" check orchestrators
    "$REFRAIN" test orchestrators
}

# Every `cargo run` line of the README does what it says.
step_readme() {
    commands=$(grep -h '^cargo run ' README.md | sed 's/ *#.*//')
    [ -n "$commands" ] || { echo "README.md shows no command" >&2 && return 1; }
    echo "$commands" | while IFS= read -r line; do
        echo "-- $line"
        sh -c "$line" < /dev/null || exit 1
    done
}

# What is generated from the code is what the repository holds.
step_reference() {
    release
    "$REFRAIN" schema --check
}

step_examples() {
    for example in examples/*.rs; do
        [ -f "$example" ] || continue
        cargo run --quiet --all-features --example "$(basename "$example" .rs)" < /dev/null
    done
}

step_quickstart() {
    release
    scripts/quickstart.sh
}

step_provider() {
    release
    scripts/fake-provider.sh
    # Skipped where the Docker tests are.
    if docker version > /dev/null 2>&1; then
        scripts/test-images.sh
        scripts/gateway-only.sh
    elif [ -n "${REFRAIN_REQUIRE_DOCKER:-}" ]; then
        echo "test.sh: Docker is required" >&2
        return 1
    fi
}

# Every real agent, in every way that things go wrong. Installs the agents where they are not there yet.
step_agents() {
    release
    python3 -B scripts/e2e/matrix.py
}

# shellcheck disable=SC2086 # several words on purpose
[ $# -gt 0 ] || set -- $steps
for step in "$@"; do
    case " $steps " in
    *" $step "*) ;;
    *)
        echo "test.sh: no step \`$step\`; there are: $steps" >&2
        exit 2
        ;;
    esac
    echo "== $step"
    began=$(date +%s)
    "step_$step"
    echo "== $step passed in $(($(date +%s) - began)) s"
done
