#!/bin/sh
# Hidden TAP tests of logpage; run from the root of the repository.
scratch=$(mktemp -d) && trap 'rm -rf "$scratch"' EXIT
n=0
failed=0

is() { # is NAME EXPECTED ACTUAL
    n=$((n + 1))
    if [ "$2" = "$3" ]; then
        echo "ok $n - $1"
    else
        failed=1
        echo "not ok $n - $1"
    fi
}

i=1
while [ $i -le 25 ]; do
    echo "line $i"
    i=$((i + 1))
done > "$scratch/log"
: > "$scratch/empty"
printf 'a\nb\nc' > "$scratch/unterminated"

is "first page" "line 1
line 2
line 3
line 4" "$(sh bin/logpage "$scratch/log" 1 4)"
is "middle page" "line 9
line 10
line 11
line 12" "$(sh bin/logpage "$scratch/log" 3 4)"
is "short last page" "line 25" "$(sh bin/logpage "$scratch/log" 7 4)"
is "page beyond the end" "" "$(sh bin/logpage "$scratch/log" 8 4)"
is "ten lines by default" "10" "$(sh bin/logpage "$scratch/log" 2 | grep -c '')"
all=$(for page in 1 2 3 4 5 6 7 8 9; do sh bin/logpage "$scratch/log" $page 3; done)
is "every line is on exactly one page" "$(cat "$scratch/log")" "$all"
is "count with a short last page" "7" "$(sh bin/logpage --count "$scratch/log" 4)"
is "count without a short last page" "5" "$(sh bin/logpage --count "$scratch/log" 5)"
is "count of an empty file" "0" "$(sh bin/logpage --count "$scratch/empty" 5)"
is "last line without a newline" "2" "$(sh bin/logpage --count "$scratch/unterminated" 2)"
sh bin/logpage "$scratch/log" > /dev/null 2>&1
is "a missing page number is a usage error" "2" "$?"
echo "1..$n"
exit $failed
