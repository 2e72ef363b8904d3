#!/bin/sh
# Hidden TAP tests of `kv delete`; run from the root of the repository.
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
    fi
}

reset() { printf 'a.b=1\naxb=2\na=3\nba.b=4\nc=a.b=5\n' > "$KV_FILE"; }

reset
sh bin/kv set new 6 > /dev/null 2>&1
is "set and get still work" "2 6" "$(sh bin/kv get axb) $(sh bin/kv get new)"
reset
sh bin/kv delete a.b > /dev/null 2>&1
is "delete succeeds" "0" "$?"
is "only that key is gone" "axb=2
a=3
ba.b=4
c=a.b=5" "$(cat "$KV_FILE")"
reset
sh bin/kv delete zzz > /dev/null 2>&1
is "delete of a missing key exits 1" "1" "$?"
reset
before=$(cat "$KV_FILE")
sh bin/kv delete zzz > /dev/null 2>&1
is "delete of a missing key changes nothing" "$before" "$(cat "$KV_FILE")"
echo 'last=1' > "$KV_FILE"
sh bin/kv delete last > /dev/null 2>&1
is "the last key can be deleted" "0 0" "$? $(grep -c '' "$KV_FILE")"
reset
chmod 600 "$KV_FILE"
sh bin/kv delete a > /dev/null 2>&1
is "the file keeps its mode" "-rw------- 4" "$(ls -l "$KV_FILE" | cut -c1-10) $(grep -c '' "$KV_FILE")"
sh bin/kv delete axb > /dev/null 2>&1
sh bin/kv delete zzz > /dev/null 2>&1
is "nothing else is left in the folder" "store 3" "$(ls -A "$scratch") $(grep -c '' "$KV_FILE")"
rm "$KV_FILE"
sh bin/kv delete a > /dev/null 2>&1
is "without a file delete exits 1" "1" "$?"
sh bin/kv delete 'no key' > /dev/null 2>&1
is "delete of a bad key is a usage error" "2" "$?"
echo "1..$n"
exit $failed
