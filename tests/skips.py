#!/usr/bin/env python3
"""Tests that were skipped, and whether they may be: skips.py [--check] FOLDER...

In a FOLDER lies what each test executable of a preset wrote about its last run (GTEST_OUTPUT, cmake/Tests.cmake), and `tests`,
the names of these executables. Tells how many tests were skipped, which, and why. With --check it exits with 1 when one of
them is not in allowed_skips.txt, and tells that one alone.
"""

import collections
import fnmatch
import pathlib
import sys

from results import cases

ALLOWED = pathlib.Path(__file__).with_name("allowed_skips.txt")


def read_allowed(text):
    """[(pattern of the test's name, part of its message)], from lines NAME | MESSAGE | REASON."""
    lines = [line.split("|") for line in text.split("\n") if line.strip() and not line.startswith("#")]
    for line in lines:
        if len(line) != 3 or not all(word.strip() for word in line):
            sys.exit(f"skips: {ALLOWED}: not of the form NAME | MESSAGE | REASON: {'|'.join(line)}")
    return [(name.strip(), message.strip()) for name, message, _ in lines]


def results(folder):
    """(tests that ran, [(name, message) of those that were skipped]) of one folder."""
    ran, skipped = 0, []
    for name, case in cases(folder):
        ran += 1
        skip = case.find("skipped")
        if skip is not None:
            lines = (skip.get("message") or skip.text or "").strip().split("\n")
            skipped.append((name, " ".join(line for line in lines[1:] if line) or lines[0]))  # the first is FILE:LINE
    return ran, skipped


def is_allowed(skip, allowed):
    name, message = skip
    return any(fnmatch.fnmatchcase(name, pattern) and part in message for pattern, part in allowed)


def main(arguments):
    check = "--check" in arguments
    folders = [pathlib.Path(argument) for argument in arguments if argument != "--check"]
    if not folders:
        sys.exit(__doc__)
    allowed = read_allowed(ALLOWED.read_text(encoding="utf-8"))
    ran, by_reason, forbidden = 0, collections.defaultdict(list), []
    for folder in folders:
        count, skipped = results(folder)
        ran += count
        for name, message in skipped:
            by_reason[message].append(f"{name} ({folder.parent.name})")
            if not is_allowed((name, message), allowed):
                forbidden.append(f"{name} ({folder.parent.name}): {message}")
    if check:
        for skip in forbidden:
            print(f"skipped, and not in tests/{ALLOWED.name}: {skip}")
        return 1 if forbidden else 0
    print(f"== skipped: {sum(map(len, by_reason.values()))} of {ran} tests, {len(forbidden)} of which must not be")
    for message, names in sorted(by_reason.items()):
        print(f"   {len(names):3}  {message}")
        print("".join(f"          {name}\n" for name in sorted(names)), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
