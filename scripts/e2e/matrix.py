#!/usr/bin/env python3
"""Runs the real agents through Refrain and its gateway against a scripted provider, in every way that things go wrong.

    python3 scripts/e2e/matrix.py [--only 'codex/*/cut'] [--jobs N] [--parallel-runs N] [--keep DIR]

Each cell is one agent, one orchestrator and one case (see cases.py) at a one-line bug. It is right if it ends as it must, the
tokens on Refrain's books are those that the provider served, and no key came where it must not. REFRAIN names the program
(default: target/release/refrain). The agents are installed below .refrain/tools, once, in the versions that their harness
was verified with. Exits 1 if a cell is not right, 3 if something that is needed is missing.
"""

import argparse
import concurrent.futures
import fnmatch
import os
import pathlib
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
import zlib

from agents import AGENTS, NODE_BIN, ROOT, InstallError, install_all
from cases import HANG_LIMITS, Plays, cells
from check import Verdict, check, task_of
from provider import Log, start

# Seconds that an attempt has where it should not come to its limit, and those of a whole start of a run.
LIMIT, WHOLE = 420, 1200
TASK = """id: {name}
task_prompt: |
  {tag} `sh add.sh A B` should print the sum of two numbers, and does not. Fix it.
checks: [sh check.sh]
test_command: sh hidden/add.t
tests: tests
timeout_seconds: {limit}
multi_session: true
"""
FILES = {
    "repo/add.sh": 'echo "$(( $1 - $2 ))"\n',
    "repo/check.sh": 'test "$(sh add.sh 2 3)" = 5\n',
    "tests/hidden/add.t": 'echo 1..1\n[ "$(sh add.sh 20 22)" = 42 ] && echo ok 1 - adds || { echo not ok 1; exit 1; }\n',
}
RUN = """name: e2e
harnesses: [{{name: {agent.harness}, adapter: {adapter}, version: "{agent.version}", config: {agent.config}}}]
models:
  - name: {agent.model}
    provider: {agent.provider}
    api_key_env: E2E_PROVIDER_KEY
    config: {{base_url: "{url}"}}
tasks: [{tasks}]
task_library_path: {library}
orchestrators: [{orchestrator}]
runtime: local
repeats: 1
parallel_runs: {parallel}
retry: {{infrastructure: 0}}
gateway: {{mode: "on"}}
results_db: ../results.db
workdir: ../state
"""


def adapter_of(harness):
    """The built-in harness, or the one below the folder that E2E_ADAPTERS names."""
    folder = os.environ.get("E2E_ADAPTERS")
    return os.path.abspath(os.path.join(folder, harness)) if folder else harness


class Bench:
    """Where the runs live, and what they run with."""

    def __init__(self, folder, options):
        self.folder, self.options = folder, options
        self.key = f"sk-e2e-{secrets.token_hex(20)}"
        self.log = Log(folder / "served.jsonl")
        self.marks = folder / "marks"
        self.marks.mkdir()
        self.url = start(Plays(self.marks), self.log, self.key)
        path = [str(agent.bin) for agent in AGENTS.values()]
        path = os.pathsep.join([str(NODE_BIN), *path, os.environ["PATH"]])
        home = folder / "home"
        home.mkdir()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("REFRAIN", "XDG_"))}
        self.env = {**kept, "PATH": path, "HOME": str(home), "E2E_PROVIDER_KEY": self.key}

    def project(self, harness, orchestrator, group):
        """Writes the project of a run."""
        host_kill = group[0].case == "host-kill"
        folder = self.folder / f"{harness}-{orchestrator}{'-host-kill' if host_kill else ''}"
        for cell in group:
            limit = HANG_LIMITS[harness] if cell.case == "hang" else LIMIT
            files = {**FILES, "task.yaml": TASK.format(name=task_of(cell), tag=cell.tag, limit=limit)}
            for name, text in files.items():
                path = folder / "tasks" / task_of(cell) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
        agent = AGENTS[harness]
        path = folder / "runs" / "e2e.yaml"
        path.parent.mkdir(parents=True)
        path.write_text(
            RUN.format(
                agent=agent,
                adapter=adapter_of(harness),
                url=self.url + agent.base,
                tasks=", ".join(task_of(cell) for cell in group),
                library="../tasks",
                orchestrator=orchestrator,
                parallel=self.options.parallel_runs,
            ),
            encoding="utf-8",
        )
        return folder

    def refrain(self, folder):
        """Starts the run of a project."""
        said = open(folder / "said", "ab")
        argv = [self.options.refrain, "run", "runs/e2e.yaml"]
        return subprocess.Popen(argv, cwd=folder, env=self.env, stdin=subprocess.DEVNULL, stdout=said, stderr=said)

    def run(self, folder):
        """Carries a run to its end; returns what is wrong with that."""
        host = self.refrain(folder)
        try:
            code = host.wait(WHOLE)
        except subprocess.TimeoutExpired:
            host.kill()
            host.wait()
            return f"the run did not end within {WHOLE} s"
        # Cells that ended badly are what most of this is about; a run that never was is not.
        return None if (folder / "results.db").exists() else f"the run ended with {code}: {tail(folder / 'said')}"


def tail(path):
    return "\n".join(path.read_text(errors="replace").splitlines()[-12:])


def kill_host(bench, folder, cell):
    """Kills the host while the agent is within a command, when its first request is through."""
    mark = bench.marks / str(cell).replace("/", "-")
    host = bench.refrain(folder)
    until = time.monotonic() + LIMIT
    while not mark.exists() and host.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    alive = host.poll() is None
    host.kill()
    host.wait()
    return None if alive and mark.exists() else f"the host could not be killed in time: {tail(folder / 'said')}"


def play(bench, harness, orchestrator, group):
    """Runs cells of one agent and orchestrator, and checks them."""
    folder = bench.project(harness, orchestrator, group)
    wrong = kill_host(bench, folder, group[0]) if group[0].case == "host-kill" else None
    wrong = wrong or bench.run(folder)
    if wrong:
        return [Verdict(cell, faults=[wrong]) for cell in group]
    verdicts = [check(cell, folder / "results.db", bench.log) for cell in group]
    for place in places_of(bench.key, folder):
        verdicts[0].faults.append(f"the provider's key is in {place}")
    return verdicts


def places_of(key, folder):
    """The files that hold the key, compressed ones included."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        data = path.read_bytes()
        try:
            data += zlib.decompress(data)
        except zlib.error:
            pass
        if key.encode() in data:
            yield path.relative_to(folder)


def show(verdicts):
    """The table, then everything that is wrong."""
    head = ("harness", "orchestrator", "case", "", "end", "served", "metered", "reported", "seconds")
    lines = [head]
    for one in verdicts:
        ok = "FAILED" if one.faults else "ok"
        cell = one.cell
        lines.append(
            (cell.harness, cell.orchestrator, cell.case, ok, one.end, one.served, one.metered, one.reported, one.seconds)
        )
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    print("\nTokens are input/cache read/cache write/output; + says that more may have been, ? that nothing is known.\n")
    for line in lines:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip())
    for one in verdicts:
        for fault in one.faults:
            print(f"\n{one.cell}: {fault}")


def groups_of(chosen):
    """Cells by what one run holds: one agent and orchestrator; a killed host has a run of its own."""
    groups = {}
    for cell in chosen:
        groups.setdefault((cell.harness, cell.orchestrator, cell.case == "host-kill"), []).append(cell)
    return groups


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="*", help="HARNESS/ORCHESTRATOR/CASE, with wildcards; several by commas")
    parser.add_argument("--jobs", type=int, default=4, help="runs side by side")
    parser.add_argument("--parallel-runs", type=int, default=2, help="cells side by side in each run")
    parser.add_argument("--keep", type=pathlib.Path, help="folder that is made and keeps everything")
    options = parser.parse_args()
    options.refrain = os.environ.get("REFRAIN") or str(ROOT / "target/release/refrain")
    options.refrain = os.path.abspath(options.refrain)
    if not os.access(options.refrain, os.X_OK):
        print(f"e2e: there is no program at {options.refrain}; build it, or name it with REFRAIN", file=sys.stderr)
        return 3
    chosen = [cell for cell in cells() if any(fnmatch.fnmatch(str(cell), one) for one in options.only.split(","))]
    if not chosen:
        print(f"e2e: no cell fits `{options.only}`", file=sys.stderr)
        return 2
    try:
        install_all(dict.fromkeys(cell.harness for cell in chosen))
    except InstallError as error:
        print(f"e2e: {error}", file=sys.stderr)
        return 3
    folder = options.keep or pathlib.Path(tempfile.mkdtemp(prefix="refrain-e2e-"))
    folder.mkdir(parents=True, exist_ok=True)
    bench = Bench(folder.resolve(), options)
    began, verdicts = time.monotonic(), []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        # The slow agents first, so that the quick ones fill up the rest of the time.
        groups = list(reversed(groups_of(chosen).items()))
        tasks = [pool.submit(play, bench, *key[:2], group) for key, group in groups]
        for task in reversed(tasks):
            verdicts.extend(task.result())
    show(verdicts)
    failed = sum(bool(one.faults) for one in verdicts)
    print(f"\n{len(verdicts) - failed} passed, {failed} failed")
    print(f"in {time.monotonic() - began:.0f} s")
    if not options.keep and not failed:
        shutil.rmtree(folder, ignore_errors=True)
    elif failed:
        print(f"all that came of it is in {folder}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
