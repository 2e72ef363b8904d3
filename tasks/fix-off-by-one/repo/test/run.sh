#!/bin/sh
# TAP tests of logpage.
cd "$(dirname "$0")/.." || exit 1
scratch=$(mktemp -d) && trap 'rm -rf "$scratch"' EXIT
printf 'l1\nl2\nl3\nl4\nl5\nl6\n' > "$scratch/six"
n=0
failed=0

is() { # is NAME EXPECTED ACTUAL
    n=$((n + 1))
    if [ "$2" = "$3" ]; then
        echo "ok $n - $1"
    else
        failed=1
        echo "not ok $n - $1"
        printf '# expected: %s\n# got: %s\n' "$(echo "$2" | tr '\n' ' ')" "$(echo "$3" | tr '\n' ' ')"
    fi
}

is "the first page starts with the first line" "l1" "$(sh bin/logpage "$scratch/six" 1 3 | head -n 1)"
is "the first page has as many lines as asked for" "3" "$(sh bin/logpage "$scratch/six" 1 3 | grep -c '')"
is "pages do not overlap" "l4
l5
l6" "$(sh bin/logpage "$scratch/six" 2 3)"
is "full pages are counted" "2" "$(sh bin/logpage --count "$scratch/six" 3)"
echo "1..$n"
exit $failed
