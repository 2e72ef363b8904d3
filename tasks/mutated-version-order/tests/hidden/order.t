#!/bin/sh
# Hidden TAP tests of verlatest; run from the root of the repository.
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
    fi
}

latest "major above nine" 10.0.0 9.9.9 10.0.0
latest "minor above nine" v3.12.1 v3.9.7 v3.12.1 v3.2.40
latest "patch above nine" 0.0.100 0.0.99 0.0.100 0.0.20
latest "release after pre-release, release first" 1.4.0 1.4.0 1.4.0-rc.2
latest "release after pre-release, release last" 1.4.0 1.4.0-rc.2 1.4.0
latest "numbered pre-releases" 1.4.0-rc.10 1.4.0-rc.9 1.4.0-rc.10
latest "numbers before words" 1.0.0-alpha.beta 1.0.0-alpha.1 1.0.0-alpha.beta
latest "shorter pre-release first" 1.0.0-alpha.1 1.0.0-alpha.1 1.0.0-alpha
latest "words by alphabet" 1.0.0-rc 1.0.0-beta 1.0.0-rc 1.0.0-alpha
latest "with and without v" v2.0.0 1.9.9 v2.0.0
latest "no version at all" "" main latest 1.2
echo "1..$n"
exit $failed
