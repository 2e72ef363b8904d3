#!/bin/sh
# Hidden TAP tests of csvtotal; run from the root of the repository.
n=0
failed=0

total() { # total NAME EXPECTED COLUMN LINE...
    name=$1
    expected=$2
    column=$3
    shift 3
    n=$((n + 1))
    got=$(printf '%s\n' "$@" | sh bin/csvtotal "$column" 2> /dev/null)
    if [ "$expected" = "$got" ]; then
        echo "ok $n - $name"
    else
        failed=1
        echo "not ok $n - $name"
    fi
}

total "comma in quotes" 3.00 price 'item,price' '"Cable, 2 m",3.00'
total "two commas in quotes" 4.50 price 'item,price' '"a, b, c",4.50'
total "quoted field after the column" 6.00 price 'price,item' '6.00,"x, y"'
total "doubled quotes" 2.50 price 'item,price' '"a ""b, c"" d",2.50'
total "quoted number" 9.00 price 'item,price' 'pen,"4.50"' 'ink,"4.50"'
total "quoted column name" 1.00 'price, net' 'item,"price, net"' 'pen,1.00'
total "empty quoted field" 1.00 price 'item,price' '"",1.00' 'pen,""'
total "plain fields" 3.00 price 'item,price' 'a,1.00' 'b,2.00'
total "negative numbers" -0.50 price 'item,price' 'a,1.00' 'b,-1.50'
total "empty field counts as 0" 1.00 price 'item,price' 'a,' 'b,1.00'
total "no column of that name" "" cost 'item,price' 'a,1'
echo "1..$n"
exit $failed
