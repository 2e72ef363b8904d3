"""The cases of the matrix: what the provider does in each, and how the cell must end.

Every prompt names its cell in a tag, `[e2e HARNESS/ORCHESTRATOR/CASE]`, so a request tells by itself which conversation it
belongs to: which turn is played follows from the replies that it holds, and only what strikes once is remembered.
"""

import re
import threading
from dataclasses import dataclass

from wires import COUNTED, NOTHING

TAG = re.compile(r"\[e2e ([a-z-]+)/([a-z-]+)/([a-z0-9-]+)(/sub)?\]")
AGAIN = "The checks fail."
CONTINUED = "was cut off mid-stream"

HARNESSES = ("claude-code", "codex", "mini-swe-agent", "opencode")
ORCHESTRATORS = ("one-shot", "refine")
CASES = ("plain", "cached", "reasoning", "resumed", "subagent", "429", "401", "cut", "hang", "kill", "host-kill")
SUBAGENTS = ("claude-code", "opencode")
RESUMES = ("claude-code", "codex", "opencode")

# The agent is the process right below the host; the command that it was told to run finds it from below. Where the host goes
# by another name, nothing is killed.
KILL = (
    "p=$$; while q=$(sed -n 's/^PPid:[[:space:]]*//p' /proc/$p/status); [ \"$q\" -gt 1 ]; do "
    "case $(cat /proc/$q/comm) in refrain*) kill -9 $p; break;; esac; p=$q; done"
)
# Seconds that an attempt has in the case that runs into its limit: long enough to get to the fault, also beside others.
HANG_LIMITS = {"claude-code": 40, "codex": 40, "opencode": 80, "mini-swe-agent": 80}


@dataclass(frozen=True)
class Cell:
    """One cell of the matrix."""

    harness: str
    orchestrator: str
    case: str

    def __str__(self):
        return f"{self.harness}/{self.orchestrator}/{self.case}"

    @property
    def tag(self):
        return f"[e2e {self}]"

    @property
    def exists(self):
        """Not every case can be: some agents cannot resume, or have no agents below them."""
        if self.case == "resumed":
            return self.orchestrator == "refine" and self.harness in RESUMES
        if self.case == "subagent":
            return self.harness in SUBAGENTS
        return self.case != "host-kill" or self.orchestrator == "one-shot"

    @property
    def end(self):
        """The terminal state and the class of the error."""
        if self.case == "401":
            return "invalid_configuration"
        if self.case == "hang":
            return "timeout"
        if self.orchestrator == "one-shot" and self.case == "cut":
            return "infrastructure_error"
        if self.orchestrator == "one-shot" and self.case == "kill":
            return "failed"
        return "completed"

    @property
    def told(self):
        """The classes of tokens that the agent can tell: its interface may not have one for writing to the cache."""
        return [name for name in COUNTED if (self.harness, name) != ("mini-swe-agent", "cache_write")]

    @property
    def report(self):
        """How the agent's own report stands to what was served: `equal`, `flagged`, `unknown`, or `any` of these.

        opencode leaves out its title requests and its subagents; an agent that was killed, or never came to an answer, may
        know nothing. What must never be is a difference without a flag, whatever stands here.
        """
        if self.harness == "opencode" and self.end == "completed":
            return "flagged"
        return "equal" if self.end == "completed" and self.case not in ("cut", "kill", "host-kill") else "any"


def cells():
    """Every cell that can be."""
    every = (Cell(harness, way, case) for harness in HARNESSES for way in ORCHESTRATORS for case in CASES)
    return [cell for cell in every if cell.exists]


def usage_of(case, step):
    """The tokens of an answer; no two steps have the same."""
    counts = {**NOTHING, "input": 900 + 13 * step, "output": 60 + 7 * step}
    if case != "plain":
        counts["cache_write"] = 2000 if step == 0 else 30 + step
        counts["cache_read"] = 0 if step == 0 else 2000 + 40 * step
    if case == "reasoning":
        counts.update(output=300 + 7 * step, reasoning=200 + 3 * step)
    return counts


def look(marker):
    hold = f"; [ -e {marker} ] || {{ touch {marker}; sleep 300; }}" if marker else ""
    return {"text": "I look at what is there.", "run": f"env | sort; cat add.sh; sh check.sh{hold}"}


# By which a mini-swe-agent says that it is done.
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
FIX = {"text": "It subtracts; I make it add.", "run": "sed -i 's/ - / + /' add.sh"}
DONE = {"text": "Nothing is left to do.", "done": True}
DELEGATE = {"text": "I let another agent look.", "delegate": True}
DIE = {"text": "I run a command.", "run": KILL}


def script(cell, round_number, marker=None):
    """The turns of a round: `one-shot` has one, `refine` comes to its fix in the second, or in the third."""
    first = [look(marker)]
    if cell.orchestrator == "refine" and round_number < (3 if cell.case == "resumed" else 2):
        return [*first, DONE]
    before = [] if cell.orchestrator == "refine" else first
    return [*before, *([DELEGATE] if cell.case == "subagent" else []), FIX, DONE]


class Plays:
    """Which turn or fault a request gets."""

    def __init__(self, markers):
        self.markers = markers
        self.struck = set()
        self.lock = threading.Lock()

    def once(self, cell):
        with self.lock:
            if cell in self.struck:
                return False
            self.struck.add(cell)
            return True

    def next(self, steps, tools):
        """The cell of a request and what it gets: a turn, with `fault` where it does not get it whole."""
        steps = list(steps)
        tags = [(at, match) for at, text in enumerate(steps) if text and (match := TAG.search(text))]
        if not tags:
            return None, {"text": "ok", "usage": {**NOTHING, "input": 10, "output": 2}}
        harness, way, case, sub = tags[0][1].groups()
        cell = Cell(harness, way, case)
        if case == "401":
            return cell, {"fault": "401"}
        if not tools:
            return cell, {"text": "A title", "usage": {**NOTHING, "input": 10, "output": 2}}
        last, _ = tags[-1]
        replies = sum(1 for step in steps[last:] if step is None)
        # A part of a reply that an agent has kept of a stream that was cut is no reply.
        replies -= sum(1 for step in steps[last:] if step and CONTINUED in step)
        if sub:
            turns = [{"text": "I list.", "run": "ls"}, {"text": "There are two scripts.", "call": None}]
            return cell, self.turn(cell, turns, replies, tools, 20)
        round_number = max(len(tags), 2 if AGAIN in steps[last] else 1)
        marker = self.markers / str(cell).replace("/", "-") if case == "host-kill" else None
        turns = script(cell, round_number, marker)
        turn = self.turn(cell, turns, replies, tools, 10 * (round_number - 1))
        if turns[min(replies, len(turns) - 1)] is FIX:
            self.strike(cell, turn, tools)
        return cell, turn

    def strike(self, cell, turn, tools):
        """Spoils the turn in which the fix would come."""
        if cell.case == "kill" and self.once(cell):
            turn.update(text=DIE["text"], call=command(tools, DIE["run"]))
        elif cell.case == "hang":
            turn["fault"] = "hang"
        elif cell.case == "cut" and (cell.orchestrator == "one-shot" or self.once(cell)):
            turn["fault"] = "cut"
        elif cell.case == "429" and self.once(cell):
            turn["fault"] = "429"

    def turn(self, cell, turns, replies, tools, offset):
        number = min(replies, len(turns) - 1)
        plan = turns[number]
        turn = {"text": plan["text"], "usage": usage_of(cell.case, offset + number)}
        if cell.case == "reasoning":
            turn["thinking"] = "First I think about it."
        if plan.get("delegate"):
            turn["call"] = delegate(cell, tools)
        elif plan.get("run"):
            turn["call"] = command(tools, plan["run"])
        elif plan.get("done") and cell.harness == "mini-swe-agent":
            turn["call"] = command(tools, SUBMIT)
        return turn


def command(tools, line):
    """A call of whatever tool the agent has for commands."""
    shells = {
        "Bash": {"command": line, "description": "Run a command"},
        "bash": {"command": line, "description": "Run a command"},
        "exec_command": {"cmd": line},
        "shell_command": {"command": line},
        "shell": {"command": ["sh", "-c", line]},
    }
    for name, arguments in shells.items():
        if name in tools:
            return name, arguments
    raise LookupError(f"the agent has no tool for commands that is known here, but {tools}")


def delegate(cell, tools):
    """A call of the tool that begins an agent below this one."""
    kinds = {"Task": "general-purpose", "Agent": "general-purpose", "task": "general"}
    for name, kind in kinds.items():
        if name in tools:
            prompt = f"[e2e {cell}/sub] List the files."
            return name, {"description": "List files", "prompt": prompt, "subagent_type": kind}
    raise LookupError(f"the agent has no tool for agents below it that is known here, but {tools}")
