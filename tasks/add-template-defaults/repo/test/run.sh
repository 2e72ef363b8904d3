#!/bin/sh
# TAP tests of stencil.
cd "$(dirname "$0")/.." || exit 1
scratch=$(mktemp -d) && trap 'rm -rf "$scratch"' EXIT
printf '# people\nname=Ada\ncity=London\nnote=\n' > "$scratch/values"
n=0
failed=0

is() { # is NAME EXPECTED TEMPLATE
    n=$((n + 1))
    got=$(printf '%s\n' "$3" | sh bin/stencil "$scratch/values" 2>&1)
    if [ "$2" = "$got" ]; then
        echo "ok $n - $1"
    else
        failed=1
        echo "not ok $n - $1"
        printf '# expected: %s\n# got: %s\n' "$2" "$got"
    fi
}

is "a name becomes its value" "Hello Ada!" "Hello {{name}}!"
is "two names on a line" "Ada in London" "{{name}} in {{city}}"
is "a missing name is an error" "stencil: no value for zip" "{{zip}}"
is "a default stands in for a missing name" "near nowhere" "near {{zip|nowhere}}"
is "a value that is there wins over the default" "Hello Ada" "Hello {{name|you}}"
is "an empty value counts as missing when there is a default" "note: none" "note: {{note|none}}"
echo "1..$n"
exit $failed
