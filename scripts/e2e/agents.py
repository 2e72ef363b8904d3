#!/usr/bin/env python3
"""The real agents: their pinned versions, and how they are installed below .refrain/tools, once.

    python3 -B scripts/e2e/agents.py HARNESS...

installs some of them and prints the folders to put on the PATH; with --program the file that is the agent, of one that is
a single executable.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TOOLS = ROOT / ".refrain" / "tools"
# For the agents that are scripts of Node, or whose package asks for this one.
NODE = "24"
NODE_BIN = TOOLS / "node/node_modules/.bin"


@dataclass(frozen=True)
class Agent:
    """One agent, and the model that it is run with."""

    harness: str
    package: str
    provider: str
    model: str
    # Below .refrain/tools.
    folder: str = ""
    base: str = ""
    config: str = "{}"
    # The executable below its folder that needs nothing else, where there is one.
    executable: str = ""

    @property
    def version(self):
        """The version that the harness says it was verified with."""
        manifest = (ROOT / "harnesses" / self.harness / "harness.toml").read_text(encoding="utf-8")
        return re.search(r'^verified = "([0-9.]+)', manifest, re.MULTILINE)[1]

    @property
    def bin(self):
        return TOOLS / self.folder / ("bin" if self.package == "mini-swe-agent" else "node_modules/.bin")


AGENTS = {
    agent.harness: agent
    for agent in (
        Agent("claude-code", "@anthropic-ai/claude-code", "anthropic", "claude-sonnet-4-5", config="{max_retries: '2'}",
              executable="@anthropic-ai/claude-code/bin/claude.exe"),
        Agent("codex", "@openai/codex", "openai", "gpt-5", "codex", "/v1",
              executable="@openai/codex-linux-*/vendor/*/bin/codex"),
        Agent("opencode", "opencode-ai", "anthropic", "claude-sonnet-4-5", "opencode",
              executable="opencode-ai/bin/opencode.exe"),
        Agent("mini-swe-agent", "mini-swe-agent", "openai", "gpt-5", "mini-swe-agent", "/v1", "{max_retries: '3'}"),
    )
}


class InstallError(Exception):
    """What could not be installed, and why."""


def installed_version(agent):
    """The version that is there, or None."""
    if agent.package == "mini-swe-agent":
        found = sorted((TOOLS / agent.folder).glob("lib/python3*/site-packages/mini_swe_agent-*.dist-info"))
        return found[-1].name.split("-")[1].removesuffix(".dist") if found else None
    manifest = TOOLS / agent.folder / "node_modules" / agent.package / "package.json"
    found = re.search(r'"version": "([^"]+)"', manifest.read_text(encoding="utf-8")) if manifest.exists() else None
    return found and found[1]


def run(argv, what):
    """Runs an installer, twice if need be: a registry may refuse one request of many."""
    home = TOOLS / "home"
    home.mkdir(parents=True, exist_ok=True)
    for _ in range(2):
        done = subprocess.run(argv, env={**os.environ, "HOME": str(home)}, capture_output=True, text=True)
        if done.returncode == 0:
            return
    said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-8:])
    raise InstallError(f"{what} could not be installed by `{argv[0]}`; can its registry be reached?\n{said}")


def npm(folder, package, version):
    target = TOOLS / folder
    options = ["--no-fund", "--no-audit", "--loglevel=error", "--fetch-timeout=60000"]
    run(["npm", "install", "--prefix", str(target), *options, f"{package}@{version}"], f"{package} {version}")


def install(agent):
    """Installs an agent in its pinned version, unless it is there."""
    if installed_version(agent) != agent.version:
        print(f"e2e: installing {agent.package} {agent.version}", file=sys.stderr, flush=True)
        if agent.package == "mini-swe-agent":
            target = TOOLS / agent.folder
            shutil.rmtree(target, ignore_errors=True)
            run([sys.executable, "-m", "venv", str(target)], "a Python environment (package python3-venv)")
            wanted = f"{agent.package}=={agent.version}"
            run([str(target / "bin/pip"), "install", "--quiet", "--timeout", "60", wanted], wanted)
        else:
            npm(agent.folder, agent.package, agent.version)
    found = installed_version(agent)
    if found != agent.version:
        raise InstallError(f"{agent.package} {agent.version} was asked for, and {found} is there")


def install_node():
    """Puts a Node below .refrain/tools that is new enough for every agent."""
    if not (NODE_BIN / "node").exists():
        print(f"e2e: installing node {NODE}", file=sys.stderr, flush=True)
        npm("node", "node", NODE)


def install_all(harnesses):
    """Installs agents, and what they need, side by side: most of it is waiting."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        tasks = [pool.submit(install_node), *(pool.submit(install, AGENTS[harness]) for harness in harnesses)]
        for task in tasks:
            task.result()


def program(agent):
    """The file that is the agent."""
    found = sorted((TOOLS / agent.folder / "node_modules").glob(agent.executable)) if agent.executable else []
    if not found:
        raise InstallError(f"{agent.harness} is no single executable")
    return found[0].resolve()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("harness", nargs="+", choices=AGENTS)
    parser.add_argument("--program", action="store_true", help="print the executable instead")
    options = parser.parse_args()
    try:
        install_all(options.harness)
        chosen = [AGENTS[harness] for harness in options.harness]
        print(*(map(program, chosen) if options.program else [NODE_BIN, *(agent.bin for agent in chosen)]), sep=":")
    except InstallError as error:
        print(f"agents: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
