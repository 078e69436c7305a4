"""Rules about what a stranger reads first: the README, its chart, the changelog."""

import re
import subprocess
import sys

from tree import Violation

MOST_WORDS = 900
CHART, PAINTER = "docs/pictures/speed.svg", "scripts/readme_chart.py"
SECTIONS = ("Added", "Changed", "Fixed")
MOST_LINES = 3


def readme_is_short(tree):
    """the README fits on a screen: at most 900 words"""
    words = len(tree.text("README.md").split()) if tree.exists("README.md") else 0
    if words > MOST_WORDS:
        yield Violation("README.md", 1, f"it has {words} words", f"keep to {MOST_WORDS}; move what is long to docs/")


def chart_is_current(tree):
    """the README's chart is what its script draws from docs/benchmarks.md"""
    if not tree.exists(CHART):
        return
    if not tree.exists(PAINTER):
        yield Violation(CHART, 1, "nothing draws it", f"keep {PAINTER}, or delete the picture")
        return
    drawn = subprocess.run([sys.executable, "-B", tree.root / PAINTER, "--check"], capture_output=True, text=True, check=False)
    if drawn.returncode != 0:
        yield Violation(CHART, 1, drawn.stderr.strip().split("\n")[-1], PAINTER)


def changelog_is_cut(tree):
    """the changelog has the parts Added, Changed and Fixed, with entries of at most three lines"""
    lines = 0
    for number, line in enumerate(tree.text("CHANGELOG.md").split("\n") if tree.exists("CHANGELOG.md") else (), 1):
        part = re.match(r"### (.*)", line)
        if part and part.group(1) not in SECTIONS:
            yield Violation("CHANGELOG.md", number, f"there is no part {part.group(1)}", f"use {', '.join(SECTIONS)}")
        lines = 1 if line.startswith("- ") else lines + 1 if line.startswith("  ") and lines else 0
        if lines == MOST_LINES + 1:
            yield Violation("CHANGELOG.md", number, f"the entry has more than {MOST_LINES} lines", "cut it into entries, or say less")


ALL = [readme_is_short, chart_is_current, changelog_is_cut]
