# The main process of a container: waits, and ends when its host has given no sign of life for a whole lease.
# It counts its own sleeps and reads no clock, so a clock that jumps ends nothing.
# Arguments: the file that the host rewrites, the seconds of one sleep, the sleeps of a lease.
trap 'exit 0' TERM
last='' left=$3
while [ "$left" -gt 0 ]; do
    sleep "$2" & wait $!
    now=''
    read -r now < "$1" 2> /dev/null
    if [ "$now" = "$last" ]; then left=$((left - 1)); else last=$now left=$3; fi
done
