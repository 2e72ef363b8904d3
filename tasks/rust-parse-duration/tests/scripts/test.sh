#!/bin/sh
# Runs the tests without a network and without leaving build output behind; arguments go to `cargo test`.
set -eu
cd "$(dirname "$0")/.."

# The proxies of rustup look for toolchains below HOME, which a sandbox may have replaced.
if [ -z "${RUSTUP_HOME:-}" ] && [ ! -d "$HOME/.rustup" ]; then
    account=$(eval "echo ~$(id -un)")
    if [ -d "$account/.rustup" ]; then
        export RUSTUP_HOME="$account/.rustup"
    fi
fi
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cargo test --offline --locked --target-dir "$build" "$@"
