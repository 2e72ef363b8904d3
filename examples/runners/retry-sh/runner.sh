#!/bin/sh
# Sessions until the check passes, at most as many as allowed.
prompt=$REFRAIN_PROMPT
number=1
while :; do
    # A session that fails is no end: the check says whether its work will do.
    refrain-session --label "try $number" "$prompt" || echo "session $number did not end well (exit code $?)"
    if output=$(sh -c "$REFRAIN_PARAM_CHECK" 2>&1); then
        echo "the check passes after $number session(s)"
        exit 0
    fi
    [ "$number" -lt "$REFRAIN_PARAM_MAX_SESSIONS" ] || break
    number=$((number + 1))
    prompt="$REFRAIN_PROMPT

The check fails:
$output"
done
# The hidden tests have the last word: work that does not pass the check is judged too.
echo "the check still fails after $number session(s)"
