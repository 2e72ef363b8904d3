# Tries whether an address answers, with the first program of the image that can.
# Arguments: host, port, base URL. Exit code: 0 it answers, 99 nothing to try with, else it does not.
unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY
have() { command -v "$1" > /dev/null 2>&1; }
if have curl; then
    exec curl -sS -m 10 -o /dev/null "$3/"
elif have python3; then
    exec python3 -I -c 'import socket, sys
try: socket.create_connection((sys.argv[1], int(sys.argv[2])), 10)
except OSError as error: sys.exit(str(error))' "$1" "$2"
elif have node; then
    exec node -e 'const s = require("net").connect(+process.argv[2], process.argv[1], () => process.exit(0));
        s.on("error", e => { console.error(e.message); process.exit(1) });
        setTimeout(() => { console.error("timed out"); process.exit(1) }, 10000)' "$1" "$2"
elif have bash; then
    exec bash -c 'exec 3<> "/dev/tcp/$1/$2"' bash "$1" "$2"
elif have nc; then
    printf 'GET / HTTP/1.0\r\n\r\n' | nc -w 10 "$1" "$2" | grep -q HTTP
else
    exit 99
fi
