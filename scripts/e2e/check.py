"""Compares what Refrain has booked for a cell with what the provider served."""

import json
import sqlite3
from dataclasses import dataclass, field

from wires import CLASSES, COUNTED

COLUMNS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")
OUTCOMES = {"complete": "complete", "refused": "complete", "cut": "upstream_cut", "hung": "client_gone"}


@dataclass
class Verdict:
    """What came of a cell, as a line of the table, and everything that is wrong with it."""

    cell: object
    end: str = "-"
    served: str = "-"
    metered: str = "-"
    reported: str = "-"
    seconds: str = "-"
    faults: list = field(default_factory=list)

    def expect(self, holds, message):
        if not holds:
            self.faults.append(message)


def add(usages):
    """Sums class by class; None where one is not known."""
    usages = list(usages)
    return {name: None if any(usage.get(name) is None for usage in usages) else sum(usage[name] for usage in usages)
            for name in CLASSES}


def short(usages):
    """The sums of what is known, for people: `12+` where more may have been, `?` where nothing is known."""
    usages = list(usages)

    def figure(name):
        values = [usage[name] for usage in usages if usage.get(name) is not None]
        return f"{sum(values)}{'+' * (len(values) < len(usages))}" if values else "?"

    return "/".join(figure(name) for name in COUNTED)


def rows(database, query, *values):
    cursor = database.execute(query, values)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row)) for row in cursor.fetchall()]


def check(cell, database_path, log):
    """Checks a cell against the log of the provider."""
    verdict = Verdict(cell)
    database = sqlite3.connect(f"file:{database_path}?mode=ro", uri=True)
    task = task_of(cell)
    found = rows(database, "SELECT * FROM run_results WHERE task_id = ?", task)
    if len(found) != 1:
        verdict.faults.append(f"{len(found)} results in the store")
        return verdict
    [row] = found
    verdict.end = row["terminal_state"]
    verdict.seconds = f"{(row['duration_ms'] or 0) / 1000:.1f}"
    expected = cell.end
    ended = f"ended as {row['terminal_state']} ({row['error_message']}), not as {expected}"
    verdict.expect(row["terminal_state"] == expected, ended)
    verdict.expect((row["success"] == 1) == (expected == "completed"), f"success is {row['success']}")
    served = log.of(cell)
    calls = rows(database, "SELECT * FROM captured_calls WHERE cell_id = ? ORDER BY started_at", row["cell_id"])
    check_calls(verdict, calls, served)
    check_sessions(verdict, database, row, served)
    check_books(verdict, database, row, calls)
    # The first command of each conversation prints the agent's environment.
    shown = cell.end != "completed" or any(entry["env"] for entry in served)
    verdict.expect(shown, "no request showed what the agent has in its environment")
    for entry in served:
        verdict.expect(entry["key"], f"request {entry['serial']} came without the provider's key")
        verdict.expect(not entry["leak"], f"request {entry['serial']} shows that the agent knows the provider's key")
    return verdict


def task_of(cell):
    return f"{cell.orchestrator}-{cell.case}"


def shape(status, outcome, usage):
    return status, outcome, *(usage[name] for name in COUNTED)


def check_calls(verdict, calls, served):
    """Request by request: the same ends, the same tokens."""
    booked = []
    for call in calls:
        usage = {name: call[column] for name, column in zip(CLASSES, COLUMNS)}
        booked.append((call["status"], call["outcome"], usage))
    sent = [(entry["status"], OUTCOMES[entry["outcome"]], entry["served"]) for entry in served]
    left = [shape(*one) for one in booked]
    for one in map(lambda one: shape(*one), sent):
        if one in left:
            left.remove(one)
        else:
            verdict.faults.append(f"no call is on the books like the one that was served: {one}")
    verdict.faults.extend(f"a call is on the books that was not served: {one}" for one in left)
    verdict.expect(bool(sent), "no request reached the provider")
    verdict.served = short(usage for _, _, usage in sent)
    verdict.metered = short(usage for _, _, usage in booked)


def check_sessions(verdict, database, row, served):
    """The sessions' sums, and the agents' own reports beside them."""
    query = "SELECT record_json FROM sessions WHERE cell_id = ? ORDER BY attempt, session"
    found = rows(database, query, row["cell_id"])
    sessions = [json.loads(one["record_json"]) for one in found]
    counted, total = add(one["usage"] for one in sessions), add(entry["served"] for entry in served)
    if verdict.cell.case != "host-kill":
        same = all(counted[name] == total[name] for name in COUNTED)
        verdict.expect(same, f"sessions count {short([counted])}, served were {short([total])}")
    reports = [one["reported_usage"] for one in sessions]
    kinds = {check_report(verdict, one) for one in sessions}
    kind = next((kind for kind in ("flagged", "unknown") if kind in kinds), "equal")
    verdict.reported = f"{short(reports)} {kind}"
    wanted = verdict.cell.report
    verdict.expect(wanted in (kind, "any"), f"the agent's report is {kind}, and should be {wanted}")


def check_report(verdict, session):
    """How one session's report stands to the meter. It may lack figures; a wrong one has a flag."""
    usage, report, flags = session["usage"], session["reported_usage"], session["discrepancies"]
    if session.get("usage_source") != "gateway":
        verdict.faults.append(f"session {session['index']} is booked by {session.get('usage_source')}")
    words = {"input": "input", "cache_read": "cache read", "cache_write": "cache write", "output": "output"}
    differs = [name for name in COUNTED if None not in (usage[name], report[name]) and usage[name] != report[name]]
    for name in differs:
        flagged = any(flag.startswith(f"{words[name]} tokens:") for flag in flags)
        verdict.expect(flagged, f"{name}: counted {usage[name]}, reported {report[name]}, and no flag")
    if flags:
        return "flagged"
    return "unknown" if any(report[name] is None for name in verdict.cell.told) else "equal"


def check_books(verdict, database, row, calls):
    """Every call is part of an entry of the ledger, and the cell costs what its calls do."""
    verdict.expect(all(call["booked_as"] for call in calls), "a call is on no entry of the ledger")
    costs = [call["cost_micros"] for call in calls]
    cost = None if None in costs else sum(costs)
    verdict.expect(row["total_cost_micros"] == cost, f"the cost is {row['total_cost_micros']}, that of the calls {cost}")
