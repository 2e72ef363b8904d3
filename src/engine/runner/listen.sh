# Waits for requests of refrain-session and says their names, each once.
# Argument: the folder. The bell is rung after a request has come, so none is overlooked between a look and a wait.
cd "$1" || exit 3
while :; do
    found=
    for request in new/*; do
        [ -d "$request" ] || continue
        name=${request#new/}
        mv "$request" "taken/$name" && echo "$name" && found=1
    done
    [ -z "$found" ] || exit 0
    # A bell that rings without a word is as good.
    read -r _ < bell || [ -p bell ] || exit 3
done
