# Runs one command and reports its end. Comes over standard input, after the variables that it needs:
#   refrain_nonce     what tells this script's own words from the command's
#   refrain_id        the command, as in REFRAIN_COMMAND
#   refrain_token     the host's own, or nothing for the one that has made the container
#   refrain_spool     where its output is kept (a path without its suffix), or nothing to send it on directly
#   refrain_input     a file for its standard input, or nothing
#   refrain_folder    where it runs
#   refrain_path      where its program is looked for
#   refrain_variables a function that exports its variables
# and its words as arguments. Standard output and standard error carry the output; between it stand lines of the
# script's own: the byte 036, the nonce, and what it has to say.

refrain_say() {
    printf '\036refrain %s %s\n' "$refrain_nonce" "$*"
}

# The command cannot be started.
refrain_refuse() {
    refrain_say "refused $*" >&4
    exit 125
}

# Finds the program in refrain_file, as exec would, so that none of the shell's own commands takes its place.
refrain_find() {
    refrain_refused=absent
    case $1 in */*) refrain_try "$1"; return ;; esac
    refrain_rest=$refrain_path:
    while [ -n "$refrain_rest" ]; do
        refrain_dir=${refrain_rest%%:*} refrain_rest=${refrain_rest#*:}
        [ -z "$refrain_dir" ] || ! refrain_try "$refrain_dir/$1" || return 0
    done
    return 1
}

refrain_try() {
    if [ -d "$1" ]; then refrain_refused=directory; return 1; fi
    if [ ! -e "$1" ]; then return 1; fi
    if [ ! -x "$1" ]; then refrain_refused=mode; return 1; fi
    refrain_file=$1
}

# Reads how often processes were killed for want of memory, whether the limit was ever met, and the limit.
refrain_memory() {
    refrain_ooms=0 refrain_hits=0 refrain_most=max
    refrain_events=/sys/fs/cgroup/memory.events
    if [ -r "$refrain_events" ]; then
        refrain_counts=$refrain_events refrain_limit=/sys/fs/cgroup/memory.max
    else
        refrain_counts=/sys/fs/cgroup/memory/memory.oom_control refrain_limit=/sys/fs/cgroup/memory/memory.limit_in_bytes
    fi
    while read -r refrain_key refrain_value; do
        case $refrain_key in
            oom) refrain_hits=$refrain_value ;;
            oom_kill) refrain_ooms=$refrain_value ;;
        esac
    done 2> /dev/null < "$refrain_counts"
    read -r refrain_most 2> /dev/null < "$refrain_limit"
    # The first version's count of failures stays 0 on some kernels; its peak does not lie.
    if [ ! -r "$refrain_events" ] && read -r refrain_peak < /sys/fs/cgroup/memory/memory.max_usage_in_bytes; then
        [ "$refrain_peak" -lt $((refrain_most - 1048576)) ] || refrain_hits=1
    fi
}

# Sends on what has been added to the log. Both descriptors are shared with all who read the log here, so each byte is
# sent once. The polite signal, which goes to everybody, must not cut a byte off.
refrain_drain() {
    (trap '' TERM; exec cat <&8 >&3)
    (trap '' TERM; exec cat <&9 >&4)
}

refrain_poll() {
    exec 5<&- 6>&- 7>&-
    trap '' HUP INT QUIT TERM
    trap 'refrain_over=1' USR1
    refrain_over='' refrain_nap='' refrain_silent=0 refrain_last=''
    while [ -z "$refrain_over" ]; do
        refrain_drain
        read -r refrain_key refrain_out < /proc/self/fdinfo/8
        read -r refrain_key refrain_err < /proc/self/fdinfo/9
        refrain_silent=$((refrain_silent + 1))
        [ "$refrain_out $refrain_err" = "$refrain_last" ] || refrain_silent=0 refrain_last="$refrain_out $refrain_err"
        # A session that says nothing for a while must not look busy.
        if [ "$refrain_silent" -lt 10 ]; then refrain_pause=0.2; else refrain_pause=1; fi
        sleep "$refrain_pause" 3>&- 4>&- 8<&- 9<&- & refrain_nap=$!
        wait "$refrain_nap" || [ -n "$refrain_over" ] || sleep 1
    done
    kill -KILL "$refrain_nap"
}

# Waits a moment for processes that end by themselves: a shell does not wait for all that it has started.
refrain_settle() {
    read -r refrain_now refrain_rest < /proc/uptime
    refrain_until=${refrain_now%.*}${refrain_now#*.}
    refrain_until=$((refrain_until + 25))
    while refrain_any; do
        read -r refrain_now refrain_rest < /proc/uptime
        [ "${refrain_now%.*}${refrain_now#*.}" -lt "$refrain_until" ] || return 0
    done
    return 1
}

refrain_open() {
    # A failing `exec` would end the shell, so each file is tried first.
    if [ -n "$refrain_spool" ] && { :; } >> "$refrain_spool.out" 2>> "$refrain_spool.err"; then
        exec 6>> "$refrain_spool.out" 7>> "$refrain_spool.err" 8< "$refrain_spool.out" 9< "$refrain_spool.err"
    else
        refrain_spool=''
        exec 6>&3 7>&4
    fi
    if [ -z "$refrain_input" ]; then
        exec 5< /dev/null
    elif { :; } < "$refrain_input"; then
        exec 5< "$refrain_input"
    else
        refrain_refuse input
    fi
}

refrain_main() {
    refrain_fence || exit 125
    trap : HUP INT QUIT PIPE TERM
    exec 3>&1 4>&2 2> /dev/null
    refrain_wrapper=$$ refrain_poller=none refrain_sh=/bin/sh
    [ -x /bin/sh ] || refrain_sh=sh
    refrain_open
    cd -- "$refrain_folder" || refrain_refuse folder
    refrain_find "$1" || refrain_refuse "$refrain_refused"
    shift
    refrain_memory
    refrain_before=$refrain_ooms
    if [ -n "$refrain_spool" ]; then
        refrain_poll & refrain_poller=$!
    fi
    read -r refrain_from refrain_rest < /proc/uptime
    refrain_say "begun wrapper=$$ poller=$refrain_poller" >&4

    # A shell of its own waits for the program: what it says of the program's end, on its own standard error, tells a
    # death by signal from an exit code that looks like one. (A bash that is called `sh` says nothing.)
    refrain_word=$(
        refrain_variables 2> /dev/null
        exec "$refrain_sh" -c 'trap : HUP INT QUIT TERM; exec 2>&1
            [ -z "$BASH_VERSION" ] || { (set +o posix) && set +o posix; }
            (exec "$@" <&5 >&6 2>&7 3>&- 4>&- 5<&- 6>&- 7>&- 8<&- 9<&-); echo " $?"' refrain "$refrain_file" "$@"
    )
    read -r refrain_to refrain_rest < /proc/uptime
    refrain_status=${refrain_word##* } refrain_said=${refrain_word%" $refrain_status"} refrain_how=exit
    case $refrain_status in
        '' | *[!0-9]*) refrain_status=255 refrain_how=unknown ;;
        # No shell says anything of these two.
        130 | 141) refrain_how=signal ;;
        *) [ "$refrain_status" -le 128 ] || [ -z "$refrain_said" ] || refrain_how=signal ;;
    esac
    refrain_killed=0
    if refrain_settle; then refrain_kill; fi
    refrain_memory
    refrain_report
}

# Says how it ended: first in the file that outlives a lost connection, then, behind the last output, to the host.
refrain_report() {
    refrain_sizes='none none'
    if [ -n "$refrain_spool" ]; then
        refrain_sizes=$(exec stat -L -c %s /proc/self/fd/8 /proc/self/fd/9)
    fi
    set -- $refrain_sizes
    refrain_end="ended status=$refrain_status how=$refrain_how killed=$refrain_killed from=$refrain_from to=$refrain_to"
    refrain_end="$refrain_end ooms=$((refrain_ooms - refrain_before)) hits=$refrain_hits"
    refrain_end="$refrain_end limit=$refrain_most out=${1:-none} err=${2:-none}"
    if [ -n "$refrain_spool" ]; then
        refrain_say "$refrain_end" > "$refrain_spool.end"
        kill -USR1 "$refrain_poller"
        while kill -0 "$refrain_poller"; do wait "$refrain_poller"; done
        refrain_drain
    fi
    refrain_say over >&3
    refrain_say "$refrain_end" >&4
    exit "$refrain_status"
}
