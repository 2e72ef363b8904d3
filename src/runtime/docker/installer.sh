# The main process of a container that something is installed in.
# Arguments: the most seconds it may take, should nobody else end it; the installer's text; NAME=VALUE ….
bound=$1 script=$2
shift 2
HOME=/root
export HOME
for pair in "$@"; do export "$pair"; done
cd / || exit
sh -c "$script" refrain-install < /dev/null &
work=$!
{ sleep "$bound"; kill -9 $$; } > /dev/null 2>&1 &
wait "$work"
