#!/bin/sh
# Runs the fuzz targets of fuzz/: scripts/fuzz.sh [SECONDS [TARGET...]]; each target gets SECONDS (60), one after the other.
#
# Needs cargo-fuzz (`cargo install cargo-fuzz`) and a C++ compiler, but no nightly: RUSTC_BOOTSTRAP lets the stable compiler
# take the flags of the sanitizer. Not part of scripts/test.sh and of CI, which build nothing that needs such flags.
set -eu
cd "$(dirname "$0")/.."

cargo fuzz --version > /dev/null 2>&1 || {
    echo "fuzz.sh: cargo-fuzz is missing; install it with \`cargo install cargo-fuzz\`" >&2
    exit 2
}
export RUSTC_BOOTSTRAP=1

# seed TARGET FILE...: gives a target what the repository has of its kind to start from.
seed() {
    corpus=fuzz/corpus/$1
    mkdir -p "$corpus"
    shift
    for file in "$@"; do
        [ -f "$file" ] && cp "$file" "$corpus/$(echo "$file" | tr / -)"
    done
}

seed value_conversion
seed manifest_parsing orchestrators/*/orchestrator.toml harnesses/*/harness.toml
seed run_and_task_yaml runs/*.yaml tasks/*/task.yaml
seed gateway_protocol tests/fixtures/gateway/answers.jsonl
seed harness_lines tests/transcripts/*/*/stdout

seconds=${1:-60}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- value_conversion manifest_parsing run_and_task_yaml harness_lines gateway_protocol
for target in "$@"; do
    echo "== $target"
    leaks=1
    # mlua counts references by an empty allocation and keeps a pointer to its end, which looks like a leak.
    [ "$target" != value_conversion ] || leaks=0
    # What takes longer than five seconds, or more than 2 GB, is a finding too.
    cargo fuzz run "$target" -- -max_total_time="$seconds" -timeout=5 -rss_limit_mb=2048 -max_len=4096 \
        -detect_leaks=$leaks -print_final_stats=1
done
