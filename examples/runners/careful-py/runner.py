#!/usr/bin/env python3
"""A session, then a second one that looks over the first, while time is left."""

import json
import os
import subprocess
import tempfile
import time


def session(prompt, label):
    """Holds a session and returns what is known of it. The prompt goes in by standard input: it may be long."""
    with tempfile.NamedTemporaryFile(suffix=".json") as result:
        call = ["refrain-session", "--label", label, "--json", result.name, "-"]
        subprocess.run(call, input=prompt.encode(), stdout=subprocess.DEVNULL, check=False)
        return json.load(open(result.name, encoding="utf-8"))


def seconds_left():
    return float(os.environ["REFRAIN_DEADLINE"]) - time.time()


task = os.environ["REFRAIN_PROMPT"]
first = session(task, "work")
print(f"work: {first['status']}, {first['usage']['output']} tokens")
if seconds_left() > int(os.environ["REFRAIN_PARAM_RESERVE_SECONDS"]):
    words = first["text"] or "nothing"
    second = session(f"{task}\n\nThis was done already, and said of it: {words}\nLook it over and mend it.", "look over")
    print(f"look over: {second['status']}")
