# Ends a command, or all of them, and says how many processes it has killed and how many are left.
# Arguments: `term`, `kill` or `count`, the command or nothing for all, its wrapper and the wrapper's poller or nothing, and
# the token of the host.
refrain_token=$5
refrain_fence || exit 125
refrain_id=$2 refrain_wrapper=$3 refrain_poller=$4 refrain_killed=0
case $1 in
    # The wrapper lives on: it has the end to report.
    term) refrain_scan && for refrain_pid in $refrain_members; do kill -TERM "$refrain_pid" 2> /dev/null; done ;;
    kill) refrain_kill ;;
esac
refrain_any
set -- $refrain_members
echo "killed $refrain_killed left $#"
