#!/bin/sh
# Runs the hostile suite under AddressSanitizer, the Luau VM included: scripts/sanitize.sh [TEST...] (script_hostile)
#
# Rust and C++ are both instrumented: the scripts attack the VM, which is C++. No nightly is needed: RUSTC_BOOTSTRAP lets
# the stable compiler take the flag. Built in a folder of its own, target/sanitize; the first build takes many minutes,
# which is why CI leaves it out.
set -eu
cd "$(dirname "$0")/.."

host=$(rustc -vV | sed -n 's/^host: //p')
export RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address" CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/sanitize"
# Only for the target: build scripts run without a sanitizer's runtime. The outlined checks of g++ call the same runtime.
export CXXFLAGS_"$(echo "$host" | tr - _)"="-fsanitize=address -fno-omit-frame-pointer"

[ $# -gt 0 ] || set -- script_hostile
for test in "$@"; do
    cargo test --no-default-features --features test-util --target "$host" --test "$test" -- --nocapture
done
