#!/usr/bin/env python3
"""Plays one script to whatever agent asks: a model provider on 127.0.0.1, for runs with a real agent and no key.

    python3 -B scripts/e2e/play_script.py --script runs/fake-provider.script.json --port-file PORT --log LOG

Which turn is played follows from the conversation itself (how many replies it holds already), so retried requests and
conversations side by side each get their own turn. `run` of a turn becomes a call of the tool that the agent has for
commands. Every answer is one JSON line of the log, with the tokens that were served.
"""

import argparse
import json
import os
import sys
import threading

import provider
from cases import SUBMIT, command
from wires import NOTHING

SIDE = {"text": "A title", "usage": {**NOTHING, "input": 10, "output": 2}}


class Script:
    """The turns to play."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.turns = json.load(file)["turns"]
        if not self.turns:
            raise ValueError("no turns")

    def next(self, steps, tools):
        """The name of the cell, and the turn that a request asks for; one without tools is beside the conversation."""
        if not tools:
            return "script", SIDE
        number = min(sum(1 for step in steps if step is None), len(self.turns) - 1)
        turn = self.turns[number]
        # The last turn ends it: for an agent that has to say so by a command, by that.
        line = turn.get("run") or (SUBMIT if list(tools) == ["bash"] else None)
        reply = {"text": turn["text"], "usage": {**NOTHING, **turn["usage"]}}
        return "script", {**reply, "call": command(tools, line) if line else None}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--script", required=True, help="JSON file with the turns to play")
    parser.add_argument("--log", required=True, help="file that gets one JSON line per answer")
    parser.add_argument("--port-file", required=True, help="file that gets the port once the server listens")
    parser.add_argument("--key-env", required=True, help="variable with the key that requests must bear")
    options = parser.parse_args()
    try:
        plays, log = Script(options.script), provider.Log(options.log)
    except (OSError, ValueError, KeyError) as error:
        print(f"play_script: cannot use the script or the log: {error}", file=sys.stderr)
        return 2
    url = provider.start(plays, log, os.environ[options.key_env], refuses_strangers=True)
    with open(options.port_file, "w", encoding="utf-8") as file:
        file.write(f"{url.rpartition(':')[2]}\n")
    threading.Event().wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
