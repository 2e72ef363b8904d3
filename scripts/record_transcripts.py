#!/usr/bin/env python3
"""Records what the real agents print, through Refrain itself, as the fixtures of the tests.

    python3 scripts/record_transcripts.py [--only HARNESS[/CASE]] [--jobs N]

Needs REFRAIN (the program; default target/debug/refrain), AGENTS (a folder with one for each agent), and FAKE_PROVIDER (a
scripted provider, default ../shared/fake-provider/fake_provider.py). For each harness and case it plays a scenario, runs one
cell on the local runtime, and writes stdout, stderr, session (the file that the agent keeps), exit_code, end (how Refrain
saw it end), left (processes of it that were there when the run was over) and served (what the provider served) below
tests/transcripts/HARNESS/CASE. It prints what Refrain read beside what was served. Cases that take minutes run at the same
time.
"""

import argparse
import concurrent.futures
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "tests" / "transcripts"

TURNS = [
    {"text": "I will look at the program.", "calls": [{"read_file": "calc.py"}],
     "usage": {"input": 1000, "cache_write": 2000, "output": 50}},
    {"text": "add() subtracts; I fix it.",
     "calls": [{"replace": {"path": "calc.py", "old": "return a - b", "new": "return a + b"}}],
     "usage": {"input": 70, "cache_read": 3000, "cache_write": 30, "output": 140}},
    {"text": "Now I run it.", "calls": [{"run": "python3 calc.py"}],
     "usage": {"input": 33, "cache_read": 3030, "cache_write": 15, "output": 41}},
    {"text": "Fixed: add() now adds.", "usage": {"input": 11, "cache_read": 3100, "output": 13}},
]
SUBMIT = {"text": "I submit.", "calls": [{"run": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}],
          "usage": {"input": 11, "cache_read": 3100, "output": 13}}
EDIT = [{"text": "add() subtracts; I fix it.\n", "calls": TURNS[1]["calls"],
         "usage": {"input": 1000, "cache_write": 2000, "output": 140}}]


def fault(kind, **more):
    return {"fault": {"kind": kind, **more}}


def refusal(how):
    """What scripts/refusing_provider.py tells in each interface's own way."""
    return {"text": f"[{how}] I cannot help with that.", "usage": {"input": 120, "output": 12}}


# Name of the case -> what the provider does first, or in the middle.
CASES = {
    "plain": [],
    "unauthorized": [fault("unauthorized", times="always")],
    "rate_limited": [fault("rate_limited", times="always")],
    "rate_limited_twice": [fault("rate_limited", retry_after=1, times=2)],
    "overloaded": [fault("overloaded", times="always")],
    "context": [fault("context_length", times="always")],
    "cut": [{"text": "half an answer that breaks off", "usage": {"input": 500, "output": 20}} | fault("cut_stream", after_events=4)],
    # All of the answer's words, and not its end.
    "half": [{"text": "half an answer that breaks off", "usage": {"input": 500, "output": 20}} | fault("cut_stream", after_events=5)],
    "empty": [fault("empty_body", times="always")],
    "hang": [fault("hang", times="always")],
    "killed": [],
    "resumed": [],
    "refused": [refusal("refused")],
    # Held back by a filter; an interface that has none tells the same as in `refused`.
    "filtered": [refusal("filtered")],
    # The same by OpenAI's interfaces, for those that are tried with another one.
    "refused_openai": [refusal("refused")],
    "filtered_openai": [refusal("filtered")],
    # At the program's own limits.
    "turns": [],
    "cost": [],
    # With a model that no list of prices has.
    "unpriced": [],
}

# The settings of a harness in a case; a case that is named here is there for these harnesses alone.
SETTINGS = {
    "turns": {name: {"max_turns": "2"} for name in ("claude-code", "gemini-cli", "qwen-code", "mini-swe-agent")},
    "filtered": {name: {} for name in ("codex", "gemini-cli", "qwen-code")},
    "refused_openai": {"opencode": {}, "pi": {}, "mini-swe-agent": {}, "aider": {}, "copilot": {"provider_type": "openai"}},
    "filtered_openai": {"opencode": {}, "pi": {}, "mini-swe-agent": {}, "aider": {}, "copilot": {"provider_type": "openai"}},
    "cost": {"mini-swe-agent": {}},
    "half": {"qwen-code": {}},
    "unpriced": {"mini-swe-agent": {"cost_tracking": "ignore_errors"}, "pi": {}},
    "resumed": {name: {} for name in ("claude-code", "codex", "opencode", "gemini-cli", "qwen-code", "pi", "copilot")},
}

# Name of the harness -> how it is run here.
AGENTS = {
    "claude-code": {"bin": "claude", "model": "claude-sonnet-4-5", "provider": "anthropic", "base": ""},
    "codex": {"bin": "codex", "model": "gpt-5.4", "provider": "openai", "base": "/v1"},
    "opencode": {"bin": "opencode", "model": "claude-sonnet-4-5", "provider": "anthropic", "base": "/v1"},
    "gemini-cli": {"bin": "gemini", "model": "gemini-2.5-pro", "provider": "google", "base": ""},
    "qwen-code": {"bin": "qwen", "model": "qwen3-coder-plus", "provider": "openai", "base": "/v1"},
    "pi": {"bin": "pi", "model": "claude-sonnet-4-5", "provider": "anthropic", "base": "",
           # Its tool wants to be told how long it may take.
           "slowly": lambda command: {"tool": {"name": "bash", "arguments": {"command": command, "timeout": 300}}}},
    "copilot": {"bin": "copilot", "model": "claude-sonnet-4.5", "provider": "anthropic", "base": ""},
    "mini-swe-agent": {"bin": "mini-swe-agent", "model": "claude-sonnet-4-5", "provider": "anthropic", "base": "", "submits": True},
    "aider": {"bin": "aider", "model": "claude-sonnet-4-5", "provider": "anthropic", "base": "", "edits": True,
              "config": {"files": ["calc.py"]}},
}
# The variable that each agent's provider takes its key from; every value is made up.
KEYS = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY", "google": "GEMINI_API_KEY"}
TASK = """id: fix-add
task_prompt: Fix the bug in calc.py and run it.

test_command: python3 calc.py
timeout_seconds: 600
multi_session: true
"""
CALC = "def add(a, b):\n    return a - b\n\n\nif __name__ == \"__main__\":\n    assert add(2, 3) == 5, add(2, 3)\n    print(\"ok\")\n"
RESUMING = """local first = session(task.prompt)
local second = session("Say done.", { continue = first })
return { note = second.status }
"""


def agent_of(name, case):
    """The agent, in some cases with another provider."""
    other = {"provider": "openai", "model": "gpt-5.4", "base": "/v1"} if case.endswith("_openai") else {}
    return AGENTS[name] | other


def scenario(agent, case):
    ends = [SUBMIT] if agent.get("submits") else [TURNS[3]]
    turns = EDIT if agent.get("edits") else TURNS[:3] + ends
    more = CASES[case]
    if case == "cut" and agent["provider"] == "google":
        # Its stream has fewer events.
        more = [more[0] | fault("cut_stream", after_events=2)]
    if case in ("context", "cut", "half") and not agent.get("edits"):
        turns = turns[:2] + more + turns[2:]
    elif case == "killed" and agent.get("edits"):
        # It runs no commands: it is asked again for an edit that does not fit, and waits for that.
        call = {"replace": {"path": "calc.py", "old": "return a * b", "new": "return a + b"}}
        turns = [EDIT[0] | {"calls": [call]}, fault("hang", times="always")]
    elif case == "killed":
        slow = "python3 -c 'import time; time.sleep(300)'"
        call = agent.get("slowly", lambda command: {"run": command})(slow)
        turns = [{"text": "I run something slow.", "calls": [call], "usage": {"input": 100, "output": 20}}]
    elif case.startswith(("refused", "filtered")):
        turns = ([] if agent.get("edits") else TURNS[:1]) + more
        if case == "filtered" and agent["provider"] == "google":
            # A prompt that is blocked has no answer.
            turns[-1] = turns[-1] | {"usage": {"input": 120, "output": 0}}
    elif case == "cost":
        # More than it allows itself, in one answer.
        turns = [TURNS[0] | {"usage": {"input": 2_000_000, "output": 50}}] + turns[1:]
    elif case == "resumed":
        turns = turns + [{"text": "Done again.", "usage": {"input": 7, "cache_read": 4000, "output": 9}}]
    else:
        turns = more + turns
    play = {"turns": turns, "side_requests": {"models": ["*haiku*", "*flash-lite*"]}}
    if agent.get("edits"):
        play |= {"edit_style": "aider_diff", "side_requests": {"without_tools": False}}
    return play


def run_file(name, case, agent, base):
    # The longest that any of them asks again is close to five minutes.
    # One of them asks again without a pause for as long as it may.
    limit = 60 if case in ("killed", "hang") or (name, case) == ("opencode", "empty") else 420
    config = agent.get("config", {}) | SETTINGS.get(case, {}).get(name, {})
    model = "made-up-model-1" if case == "unpriced" else agent["model"]
    return {
        "name": f"record-{name}-{case}",
        "harnesses": [{"name": name, "adapter": str(ROOT / "harnesses" / name), "config": config}],
        "models": [{"name": model, "provider": agent["provider"], "api_key_env": KEYS[agent["provider"]],
                    "config": {"base_url": base + agent["base"]}}],
        "task_library_path": "tasks",
        "tasks": ["fix-add"],
        "orchestrators": [{"dir": "resuming"} if case == "resumed" else "one-shot"],
        "runtime": "local",
        "repeats": 1,
        "retry": {"infrastructure": 0},
        "limits": {"setup_timeout": "5m"},
        "max_runtime_seconds": limit,
    }


def prepare(folder, name, case, agent, base):
    (folder / "tasks" / "fix-add" / "repo").mkdir(parents=True)
    (folder / "tasks" / "fix-add" / "repo" / "calc.py").write_text(CALC)
    (folder / "tasks" / "fix-add" / "task.yaml").write_text(TASK)
    (folder / "resuming").mkdir()
    (folder / "resuming" / "orchestrator.toml").write_text('slug = "resuming"\napi = 1\n')
    (folder / "resuming" / "runner.lua").write_text(RESUMING)
    (folder / "run.yaml").write_text(json.dumps(run_file(name, case, agent, base)))
    (folder / "play.json").write_text(json.dumps(scenario(agent, case)))


def record(name, case):
    agent = agent_of(name, case)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="record-"))
    provider = None
    try:
        (folder / "play.json").write_text(json.dumps(scenario(agent, case)))
        fake = os.environ.get("FAKE_PROVIDER", str(ROOT / "../shared/fake-provider/fake_provider.py"))
        provider = subprocess.Popen(
            [sys.executable, "-B", str(ROOT / "scripts/refusing_provider.py"), "--scenario", str(folder / "play.json")],
            env=dict(os.environ, FAKE_PROVIDER=fake), stdout=subprocess.PIPE, text=True)
        base = json.loads(provider.stdout.readline())["listening"]
        prepare(folder, name, case, agent, base)
        tools = pathlib.Path(os.environ["AGENTS"]) / agent["bin"]
        path = f"{tools}/node_modules/.bin:{tools}/bin:{os.environ['AGENTS']}/node/node_modules/.bin:{os.environ['PATH']}"
        env = dict(os.environ, PATH=path, **{key: "made-up-key-0000" for key in KEYS.values()})
        refrain = os.environ.get("REFRAIN", str(ROOT / "target/debug/refrain"))
        ran = subprocess.run([refrain, "run", "run.yaml", "--progress", "none"], cwd=folder, env=env, check=False,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        left = processes_below(folder)
        records = sorted(folder.glob(".refrain/runs/*/*/*/run_record.json"))
        if not records:
            return f"{name}/{case}: no record: {ran.stdout[-600:]}"
        with urllib.request.urlopen(f"{base}/__fake/totals") as answer:
            served = json.load(answer)
        return keep(name, case, records[0], served, left)
    finally:
        if provider:
            provider.terminate()
            provider.wait()
        if "KEEP" not in os.environ:
            shutil.rmtree(folder, ignore_errors=True)


def processes_below(folder):
    """The command lines of processes that work in a folder, or that were started with its path."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
            inside = os.readlink(process / "cwd").startswith(str(folder)) or str(folder) in " ".join(words)
        except OSError:  # it has ended meanwhile, or is a thread of the kernel
            continue
        # The provider was started with the path of its scenario.
        if inside and "--scenario" not in words:
            found.append(" ".join(words).strip())
    return found


LONGEST_TEXT = 400


def shortened(value):
    """A copy with long texts cut: what an agent keeps of its own prompts is of no use here."""
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        return value[:LONGEST_TEXT] + "…"
    if isinstance(value, dict):
        return {key: shortened(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shortened(item) for item in value]
    return value


def tidied(text, whole):
    """The session file without long texts; a document as a document, lines as lines."""
    if whole:
        return json.dumps(shortened(json.loads(text)), indent=1) + "\n"
    lines = []
    for line in text.splitlines():
        try:
            lines.append(json.dumps(shortened(json.loads(line)), separators=(",", ":")))
        except ValueError:
            lines.append(line)
    return "\n".join(lines) + "\n"


def without_places(text):
    """The text without the folder that the recording was made in."""
    places = {os.environ["AGENTS"]: "/agents", str(ROOT): "/refrain", str(pathlib.Path.home()) + "/": "/home/me/"}
    for place, name in places.items():
        text = text.replace(place, name)
    return re.sub(r"tmp[-/]record-\w+", "cell", text)


def end_of(session):
    """The end without what differs each time."""
    names = ("kind", "fault", "limit", "timer")
    return {key: value for key, value in session["end"].items() if key in names and isinstance(value, str)}


def keep(name, case, record_path, served, left):
    """Copies the logs of the last session to the fixtures; returns a line for people."""
    session = json.loads(record_path.read_text())["sessions"][-1]
    into = FIXTURES / name / case
    into.mkdir(parents=True, exist_ok=True)
    logs = record_path.parent / "sessions" / str(session["index"])
    for log, kept in (("stdout.log", "stdout"), ("stderr.log", "stderr"), ("session.log", "session")):
        (into / kept).unlink(missing_ok=True)
        if (logs / f"{log}.gz").exists():
            text = gzip.decompress((logs / f"{log}.gz").read_bytes()).decode("utf-8", "replace")
            if kept == "session":
                text = tidied(text, name == "mini-swe-agent")
            (into / kept).write_text(without_places(text))
        elif kept != "session":
            (into / kept).write_bytes(b"")
    code = session.get("exit_code")
    (into / "exit_code").write_text("" if code is None else f"{code}\n")
    (into / "end").write_text(json.dumps(end_of(session)) + "\n")
    (into / "left").write_text("".join(f"{line}\n" for line in left))
    (into / "served").write_text(json.dumps(served, indent=1) + "\n")
    return f"{name}/{case}: exit {code} left {len(left)} {json.dumps(session['end'])[:160]} usage {json.dumps(session['usage'])} " \
           f"cost {session.get('reported_cost')} tools {session.get('tool_calls')} served {json.dumps(served)[:300]} " \
           f"warnings {session['warnings']}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    wanted = [(name, case) for name in AGENTS for case in CASES if case not in SETTINGS or name in SETTINGS[case]]
    if args.only:
        wanted = [pair for pair in wanted if any(only in (pair[0], "/".join(pair)) for only in args.only)]
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for line in pool.map(lambda pair: guarded(*pair), wanted):
            print(line, flush=True)


def guarded(name, case):
    try:
        return record(name, case)
    except Exception as error:  # one case must not cost the others
        return f"{name}/{case}: {error!r}"


if __name__ == "__main__":
    main()
