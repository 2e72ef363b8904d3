#!/usr/bin/env python3
"""Checks the results of the quickstart: check_quickstart.py BEFORE AFTER

Both are what `refrain results --json` printed, after the run was killed and after it was run again. Every cell must have
ended as expected, and what was finished before must not have been run again.
"""

import json
import sys

from compare_tokens import rows_of

# Task: solved by the track's default orchestrator, solved by refine. Both models run every task, but for the one with
# phases, where one writes and the other reviews.
EXPECTED = {
    "add-template-defaults": (False, True),
    "fix-csv-total": (False, False),
    "fix-off-by-one": (False, True),
    "mutated-version-order": (False, True),
    "review-kv-delete": (True, True),
    "rust-parse-duration": (True, True),
}


MODELS = ("scripted-small", "scripted-review")
WITH_PHASES = "review-kv-delete"


def expected_cells():
    """Every cell id of the run and whether it is solved."""
    cells = {}
    for task, outcomes in EXPECTED.items():
        for suffix, solved in zip(("", "__orch-refine"), outcomes):
            if task == WITH_PHASES:
                cells[f"scripted__scripted-small__{task}__r1__rev-scripted-review{suffix}"] = solved
                continue
            for model in MODELS:
                cells[f"scripted__{model}__{task}__r1{suffix}"] = solved
    return cells


def finished(path):
    """The rows of the cells that have ended."""
    with open(path, encoding="utf-8") as file:
        return [row for row in rows_of(json.load(file)) if row.get("exit_class")]


def main(before_path, after_path):
    before, rows = finished(before_path), finished(after_path)
    found = {row["cell_id"]: row for row in rows}
    faults = [] if len(found) == len(rows) else ["some cell is there twice"]
    solved = {cell: row["exit_class"] == "pass" for cell, row in found.items()}
    expected = expected_cells()
    for cell in sorted(expected.keys() | solved.keys()):
        if solved.get(cell) is not expected.get(cell):
            faults.append(f"{cell}: solved is {solved.get(cell)}, expected {expected.get(cell)}")
    for row in before:
        if found.get(row["cell_id"]) != row:
            faults.append(f"{row['cell_id']}: was finished before the kill, and is not the same after")
    if not faults:
        print(f"quickstart: {len(rows)} cells as expected, {len(before)} of them from before the kill")
    return faults


if __name__ == "__main__":
    problems = main(sys.argv[1], sys.argv[2])
    for problem in problems:
        print(problem, file=sys.stderr)
    sys.exit(1 if problems else 0)
