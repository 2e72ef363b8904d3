#!/bin/sh
# Hidden TAP tests of stencil's defaults; run from the root of the repository.
scratch=$(mktemp -d) && trap 'rm -rf "$scratch"' EXIT
printf 'user=root\nblank=\nodd={{user}}\npath=/a&b\\c\n' > "$scratch/values"
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

fill() { printf '%s\n' "$1" | sh bin/stencil "$scratch/values" 2> /dev/null; }

is "default of a missing name" "port 8080" "$(fill 'port {{port|8080}}')"
is "default with spaces" "a plain text, with commas" "$(fill '{{port|a plain text, with commas}}')"
is "value wins over default" "root" "$(fill '{{user|nobody}}')"
is "empty value with default" "[x]" "$(fill '[{{blank|x}}]')"
is "empty default" "[]" "$(fill '[{{port|}}]')"
is "default with one brace" "{a}" "$(fill '{{port|{a}}}')"
is "default with a bar" "a|b" "$(fill '{{port|a|b}}')"
is "several on a line" "root:1:2" "$(fill '{{user|u}}:{{a|1}}:{{b|2}}')"
is "empty value without default" "[]" "$(fill '[{{blank}}]')"
is "values are put in as they are" "{{user}} /a&b\\c" "$(fill '{{odd}} {{path}}')"
is "no name, no replacement" "{{ user }} {{}}" "$(fill '{{ user }} {{}}')"
fill '{{port}}' > /dev/null
is "a missing name without default is an error" "1" "$?"
echo "1..$n"
exit $failed
