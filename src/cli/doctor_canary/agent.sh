# The canary's agent: prints the key that it was given in every form that a real one might, and writes it to a file.
name=$(env | sed -n 's/^\(REFRAIN_CANARY_[A-Z]*\)=.*/\1/p' | head -n 1)
eval "key=\$$name"
forms() {
    printf 'plain %s end\n' "$key"
    printf 'base64 %s end\n' "$(printf %s "$key" | base64 | tr -d '\n')"
    printf 'base64 of a pair %s end\n' "$(printf 'u:%s' "$key" | base64 | tr -d '\n')"
    printf 'hex %s end\n' "$(printf %s "$key" | od -An -v -tx1 | tr -d ' \n')"
    printf 'url %s end\n' "$(printf %s "$key" | sed -e 's/%/%25/g' -e 's/"/%22/g' -e 's/+/%2B/g' -e 's/=/%3D/g' \
        -e 's/\\/%5C/g' -e 's/&/%26/g' -e 's/ /%20/g' | awk '{printf "%s%s", sep, $0; sep = "%0A"}')"
    printf '{"json": "%s"}\n' "$(printf %s "$key" | sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' \
        | awk '{printf "%s%s", sep, $0; sep = "\\n"}')"
}
halves() {
    printf 'in two pieces '
    printf %s "$key" | head -c 20
    sleep 0.3
    printf %s "$key" | tail -c +21
    printf ' end\n'
}
forms
halves
echo 'on standard error' >&2
forms >&2
halves >&2
forms > leak.txt
printf 'named\n' > "$(printf %s "$key" | tr '\n' '-')"
# What is left out of a workspace is named in the record.
mkfifo "$(printf %s "$key" | tr '\n' '-').pipe"
printf 'done with %s\n' "$key"
