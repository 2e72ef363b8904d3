#!/bin/sh
# TAP tests of csvtotal.
cd "$(dirname "$0")/.." || exit 1
n=0
failed=0

is() { # is NAME EXPECTED COLUMN TEXT
    n=$((n + 1))
    got=$(printf '%s\n' "$4" | sh bin/csvtotal "$3" 2>&1)
    if [ "$2" = "$got" ]; then
        echo "ok $n - $1"
    else
        failed=1
        echo "not ok $n - $1"
        printf '# expected: %s\n# got: %s\n' "$2" "$got"
    fi
}

is "plain fields" "3.50" price "item,price
pen,1.25
ink,2.25"
is "a comma inside quotes" "12.00" price "item,price
\"Ink, black\",7.00
pen,5.00"
is "a text is an error" "csvtotal: line 2: not a number: free" price "item,price
pen,free"
echo "1..$n"
exit $failed
