#!/bin/sh
# Measures the gateway beside LiteLLM's proxy: the same client, the same scripted provider, in one run.
#
#   benches/gateway_peer.sh
#
# The peer is installed from PyPI into a virtual environment in the user's cache, once. It runs as it comes, with one
# worker, no database and no logging.
set -eu

cd "$(dirname "$0")/.."
home=${XDG_CACHE_HOME:-$HOME/.cache}/refrain-bench/litellm
if [ ! -x "$home/bin/litellm" ]; then
    python3 -m venv "$home"
    "$home/bin/pip" install --quiet 'litellm[proxy]'
fi
"$home/bin/pip" list 2> /dev/null | grep -i '^litellm '
REFRAIN_BENCH_PEER=$home/bin/litellm cargo bench --bench gateway -- peer
