# Processes of one command, told from /proc with nothing but the shell's own commands: where the limit of processes is
# reached, nothing can be forked any more.

# Tells whether the host that has sent this (refrain_token) still has the container. One that is killed may have asked for
# what the daemon starts only once another host has taken over.
refrain_fence() {
    refrain_now=''
    read -r refrain_now 2> /dev/null < /refrain/owner
    [ "$refrain_now" = "$refrain_token" ]
}

# Reads the state, the parent and the user of a process. Fails if it is gone.
refrain_look() {
    refrain_state='' refrain_parent='' refrain_user=''
    while read -r refrain_key refrain_value refrain_rest; do
        case $refrain_key in
            State:) refrain_state=$refrain_value ;;
            PPid:) refrain_parent=$refrain_value ;;
            Uid:) refrain_user=$refrain_value; return 0 ;;
        esac
    done 2> /dev/null < "/proc/$1/status"
    return 1
}

# Tells whose a process is by the variable that it was started with: `mine`, `theirs` or nothing. Of a process that
# becomes another one meanwhile a part is read, so only a whole value counts.
refrain_owner() {
    refrain_owned=''
    while read -r refrain_line || [ -n "$refrain_line" ]; do
        case $refrain_line in
            *"REFRAIN_COMMAND=$refrain_id"*) refrain_owned=mine; return 0 ;;
            *REFRAIN_COMMAND=????????????????????????????????*) refrain_owned=theirs ;;
        esac
    done 2> /dev/null < "/proc/$1/environ"
}

# Lists in refrain_members the living processes of the command refrain_id, without those of its wrapper (refrain_wrapper
# and what that has started itself, refrain_poller and what that has started). Without an id everything is a member.
# A process that has wiped its variables belongs to whom its parent belongs to; one whose parents are gone as well is
# a member where no other command runs.
refrain_scan() {
    refrain_members='' refrain_theirs=' ' refrain_unknown='' refrain_mine=' '
    for refrain_entry in /proc/[0-9]*; do
        refrain_pid=${refrain_entry#/proc/}
        [ "$refrain_pid" != $$ ] && refrain_look "$refrain_pid" || continue
        [ "$refrain_user" = "$refrain_self" ] || continue
        case $refrain_state in [ZXx]) continue ;; esac
        case $refrain_pid in "$refrain_wrapper") continue ;; esac
        case $refrain_parent in "$refrain_wrapper" | "$refrain_poller") continue ;; esac
        if [ -z "$refrain_id" ]; then refrain_mine="$refrain_mine$refrain_pid "; continue; fi
        refrain_above=$refrain_parent
        refrain_owner "$refrain_pid"
        case $refrain_owned in
            mine) refrain_mine="$refrain_mine$refrain_pid " ;;
            theirs) refrain_theirs="$refrain_theirs$refrain_pid " ;;
            # Without a parent and without the variable: an exec of the host's own.
            *) [ "$refrain_above" = 0 ] || refrain_unknown="$refrain_unknown $refrain_pid:$refrain_above" ;;
        esac
    done
    refrain_again=1
    while [ -n "$refrain_again" ]; do
        refrain_again='' refrain_left=''
        for refrain_pair in $refrain_unknown; do
            case $refrain_mine in *" ${refrain_pair#*:} "*)
                refrain_mine="$refrain_mine${refrain_pair%:*} " refrain_again=1; continue ;;
            esac
            case $refrain_theirs in *" ${refrain_pair#*:} "*)
                refrain_theirs="$refrain_theirs${refrain_pair%:*} " refrain_again=1; continue ;;
            esac
            refrain_left="$refrain_left $refrain_pair"
        done
        refrain_unknown=$refrain_left
    done
    refrain_members=$refrain_mine
    if [ "$refrain_theirs" = ' ' ]; then
        for refrain_pair in $refrain_unknown; do refrain_members="$refrain_members${refrain_pair%:*} "; done
    fi
    [ "$refrain_members" != ' ' ]
}

# Tells whether there are members. A process that forks and ends while the others are listed is missed once, but not
# its child the second time.
refrain_any() {
    refrain_scan || refrain_scan
}

# Kills the members, and counts them in refrain_killed. All are stopped before any is killed: a process that forks
# faster than it is found would otherwise outrun its killer.
refrain_kill() {
    refrain_killed=0 refrain_seen=' ' refrain_round=0
    while refrain_any && [ "$refrain_round" -lt 200 ]; do
        refrain_round=$((refrain_round + 1)) refrain_more=1 refrain_stopped=' '
        while [ -n "$refrain_more" ]; do
            refrain_more=''
            for refrain_pid in $refrain_members; do
                case $refrain_stopped in *" $refrain_pid "*) continue ;; esac
                refrain_stopped="$refrain_stopped$refrain_pid " refrain_more=1
                kill -STOP "$refrain_pid" 2> /dev/null
            done
            [ -z "$refrain_more" ] || refrain_scan || break
        done
        for refrain_pid in $refrain_stopped; do
            kill -KILL "$refrain_pid" 2> /dev/null
            case $refrain_seen in *" $refrain_pid "*) continue ;; esac
            refrain_seen="$refrain_seen$refrain_pid " refrain_killed=$((refrain_killed + 1))
        done
    done
}

refrain_look $$
refrain_self=$refrain_user
