# Keeps the relay running beside the container's main process, as root without capabilities: no agent can end it.
# Arguments: the relay's command line in one word, then the words of the main process.
unset LD_PRELOAD LD_AUDIT
refrain_relay=$1
shift
# The words are the host's own and hold no spaces. Who dies, for want of memory, is started again.
while :; do $refrain_relay; sleep 1; done > /dev/null &
exec "$@"
