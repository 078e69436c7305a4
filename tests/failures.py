#!/usr/bin/env python3
"""Tests that failed, and what they said: failures.py FOLDER... prints nothing where none did.

A long log is often cut in the middle: with this list before its last lines it still tells what failed. FOLDERs are those of
skips.py.
"""

import pathlib
import sys

from results import cases

MOST_LINES = 12  # of one failure: the rest stands in ctest's own output


def failures(folder):
    """[(name, lines of its first failure)] of one folder."""
    told = []
    for name, case in cases(folder):
        failure = case.find("failure")
        if failure is not None:
            told.append((name, (failure.text or failure.get("message") or "").strip().split("\n")))
    return told


def main(arguments):
    if not arguments:
        sys.exit(__doc__)
    failed = [(f"{name} ({folder.parent.name})", lines) for folder in map(pathlib.Path, arguments) for name, lines in failures(folder)]
    if failed:
        print(f"\n== failed: {len(failed)} tests")
    for name, lines in failed:
        print(f"   {name}")
        print("".join(f"      {line}\n" for line in lines[:MOST_LINES]), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
