echo 1..1
cat leak.txt
cat leak.txt >&2
echo ok 1 - sang
