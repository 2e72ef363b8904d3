#!/bin/sh
# TAP tests of kv.
cd "$(dirname "$0")/.." || exit 1
scratch=$(mktemp -d) && trap 'rm -rf "$scratch"' EXIT
KV_FILE=$scratch/store
export KV_FILE
n=0
failed=0

is() { # is NAME EXPECTED ACTUAL
    n=$((n + 1))
    if [ "$2" = "$3" ]; then
        echo "ok $n - $1"
    else
        failed=1
        echo "not ok $n - $1"
        printf '# expected: %s\n# got: %s\n' "$2" "$3"
    fi
}

sh bin/kv set color red
sh bin/kv set size 3
sh bin/kv set color blue
is "the last value counts" "blue" "$(sh bin/kv get color)"
sh bin/kv set a.b 1
sh bin/kv set axb 2
sh bin/kv delete a.b 2> /dev/null
is "delete removes a key" "" "$(sh bin/kv get a.b)"
is "delete leaves keys that look alike" "2" "$(sh bin/kv get axb)"
is "delete leaves other keys" "3" "$(sh bin/kv get size)"
echo "1..$n"
exit $failed
