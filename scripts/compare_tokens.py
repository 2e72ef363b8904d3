#!/usr/bin/env python3
"""Compares what Refrain's gateway counted with what the provider served: compare_tokens.py RESULTS LOG [flagged]

Exits 1 with a list of differences unless the one cell was solved and all token counts are equal: the gateway's, the
agent's own and those served. With `flagged` the agent is one that leaves requests out, and its own must have been noticed
to differ.
"""

import json
import sys

COLUMNS = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_read": "cache_read_tokens",
    "cache_write": "cache_write_tokens",
}


def rows_of(results):
    """The rows of `refrain results --json`, which is a list or an object that holds one."""
    if isinstance(results, list):
        return results
    return next(value for value in results.values() if isinstance(value, list))


def main(results_path, log_path, reports="equal"):
    with open(results_path, encoding="utf-8") as file:
        rows = rows_of(json.load(file))
    with open(log_path, encoding="utf-8") as file:
        served = [entry["served"] for entry in map(json.loads, file) if entry.get("served")]
    if len(rows) != 1:
        return [f"expected one cell, found {len(rows)}"]
    row = rows[0]
    faults = [] if served else ["no request reached the provider"]
    if row.get("exit_class") != "pass":
        faults.append(f"the task was not solved: {json.dumps(row)}")
    if row.get("usage_source") != "gateway":
        faults.append(f"the tokens are those of {row.get('usage_source')}, not of the gateway")
    differences = row.get("discrepancies", [])
    if reports == "equal":
        faults.extend(f"the agent's own report differs: {line}" for line in differences)
    elif not differences:
        faults.append("nobody noticed that the agent's own report leaves requests out")
    if row.get("num_api_calls") != len(served):
        faults.append(f"num_api_calls: recorded {row.get('num_api_calls')}, served {len(served)}")
    for name, column in COLUMNS.items():
        total = sum(usage[name] for usage in served)
        if row.get(column) != total:
            faults.append(f"{column}: recorded {row.get(column)}, served {total}")
    if not faults:
        print(f"solved with {len(served)} requests; tokens are equal to those served")
    return faults


if __name__ == "__main__":
    problems = main(*sys.argv[1:])
    for problem in problems:
        print(problem, file=sys.stderr)
    sys.exit(1 if problems else 0)
