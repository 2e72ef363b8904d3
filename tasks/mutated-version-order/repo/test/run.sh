#!/bin/sh
# TAP tests of verlatest.
cd "$(dirname "$0")/.." || exit 1
n=0
failed=0

latest() { # latest NAME EXPECTED VERSION...
    name=$1
    expected=$2
    shift 2
    n=$((n + 1))
    got=$(printf '%s\n' "$@" | sh bin/verlatest)
    if [ "$expected" = "$got" ]; then
        echo "ok $n - $name"
    else
        failed=1
        echo "not ok $n - $name"
        printf '# expected: %s\n# got: %s\n' "$expected" "$got"
    fi
}

latest "patch decides" 1.0.2 1.0.1 1.0.2 1.0.0
latest "numbers compare as numbers" 1.10.0 1.9.0 1.10.0 1.2.0
latest "a release comes after its pre-release" 2.0.0 2.0.0 2.0.0-rc.1
latest "other lines are left out" v1.0.0 main v1.0.0 1.0
echo "1..$n"
exit $failed
