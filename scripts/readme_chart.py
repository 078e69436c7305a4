#!/usr/bin/env python3
"""Draws the chart of README.md: readme_chart.py [--check]

Takes its figures from the tables of docs/benchmarks.md and writes docs/pictures/speed.svg: samples/s of the training
beside PyTorch DDP (the rows "..., samples/s" of mlp), and all_reduce beside other libraries (the first table of
"2 ranks, paceline_shm"). --check writes nothing, and fails if the picture is not what the tables give now.
"""

import html
import math
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs/pictures/speed.svg"
BENCHMARKS = ROOT / "docs/benchmarks.md"

# These colours are distinguishable with colour blindness too (Okabe and Ito), as in the plots of `paceline bench`.
OURS, *OTHERS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#a0765b")
STYLE = ("text{font:13px system-ui,sans-serif;fill:#24292f}.title{font-weight:600}.quiet{fill:#6e7781}"
         ".line{stroke:#d0d7de}.one{stroke:#24292f}"
         "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.quiet{fill:#8d96a0}.line{stroke:#3d444d}.one{stroke:#e6edf3}}")
WIDTH, HEIGHT = 900, 310
TOP, BOTTOM = 58, 262
LIBRARIES = {"torch_gloo": "PyTorch, Gloo", "gloo_ring": "Gloo, ring", "ompi_shm": "Open MPI", "mpich_shm": "MPICH",
             "impi_shm": "Intel MPI", "oneccl": "oneCCL"}


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def training(lines):
    """{library: [samples/s of one process, of two]} from the rows of bench/against/ddp."""
    rate = {}
    for line in lines:
        row = re.match(r"\| (.+), samples/s \| (\d+) \[", line)
        if row:
            rate.setdefault(row.group(1), int(row.group(2)))
    return {"Paceline": [rate["paceline, one process"], rate["paceline"]], "PyTorch (on two: DDP over Gloo)": [rate["torch, one process"], rate["ddp"]]}


def all_reduce(lines):
    """(sizes, {library: how many times as fast Paceline is, by size}) from the first table of two ranks in shared memory."""
    first = next(number for number, line in enumerate(lines) if line.startswith("| 2 ranks, paceline_shm |"))
    names = cells(lines[first])
    sizes, ratios = [], {name: [] for name in names if name in LIBRARIES}
    for line in lines[first + 2:]:
        if not line.startswith("|"):
            break
        row = dict(zip(names, cells(line)))
        sizes.append(row[names[0]])
        for name, values in ratios.items():
            values.append(float(row[name].split()[0]))
    return sizes, ratios


def text(x, y, words, kind="", anchor="start"):
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{html.escape(words)}</text>'


def line(x1, y1, x2, y2, kind):
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" class="{kind}"/>'


def bars(rates, left, right):
    """Two groups of bars, one for each number of workers."""
    largest = max(value for values in rates.values() for value in values)
    group, bar = (right - left) / 2, (right - left) / 2 * 0.4
    parts = [text(left, 20, "Training an mlp, samples/s: more is better", "title"),
             text(left, 38, "128 samples and one thread a worker", "quiet"), line(left, BOTTOM, right, BOTTOM, "line")]
    for place, workers in enumerate(("1 worker", "2 workers")):
        start = left + (place + 0.1) * group
        for values, colour, x in zip(rates.values(), (OURS, OTHERS[0]), (start, start + bar)):
            height = (BOTTOM - TOP - 18) * values[place] / largest
            parts.append(f'<rect x="{x:g}" y="{BOTTOM - height:.1f}" width="{bar - 4:g}" height="{height:.1f}" fill="{colour}"/>')
            parts.append(text(x + bar / 2 - 2, round(BOTTOM - height - 5, 1), f"{values[place]:,}", "", "middle"))
        parts.append(text(start + bar, BOTTOM + 18, workers, "", "middle"))
    for name, colour, x in zip(rates, (OURS, OTHERS[0]), (left, left + 110)):
        parts += [f'<rect x="{x:g}" y="{HEIGHT - 22}" width="12" height="12" fill="{colour}"/>', text(x + 18, HEIGHT - 11, name)]
    return parts


def curves(sizes, ratios, left, right):
    """A curve for each library over a logarithmic axis."""
    least, largest = 0.5, 1000
    height_of = lambda value: round(BOTTOM - (BOTTOM - TOP) * math.log(value / least) / math.log(largest / least), 1)
    places = [round(left + (right - left) * place / (len(sizes) - 1), 1) for place in range(len(sizes))]
    parts = [text(left - 40, 20, "all_reduce: Paceline is so many times as fast", "title"),
             text(left - 40, 38, "two processes, shared memory, by size; below 1x the other one is faster", "quiet")]
    for value in (1, 10, 100, 1000):
        y = height_of(value)
        parts += [line(left, y, right, y, "one" if value == 1 else "line"), text(left - 6, y + 4, f"{value}x", "quiet", "end")]
    parts += [text(x, BOTTOM + 18, size.replace("KiB", "K").replace("MiB", "M"), "", "middle") for x, size in zip(places, sizes)]
    ends = []
    for (name, values), colour in zip(ratios.items(), OTHERS):
        points = [(x, height_of(value)) for x, value in zip(places, values)]
        corners = " ".join(f"{x},{y}" for x, y in points)
        parts.append(f'<polyline points="{corners}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>' for x, y in points]
        ends.append((points[-1][1], LIBRARIES[name], colour))
    label = -math.inf
    for y, name, colour in sorted(ends):  # beside the ends of their curves, pushed apart
        label = max(y - 12, label + 16)
        parts += [f'<circle cx="{right + 14:g}" cy="{label:g}" r="4" fill="{colour}"/>', text(right + 23, round(label + 4, 1), name)]
    return parts


def drawn(lines):
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img">',
             "<title>Paceline beside PyTorch DDP and other libraries</title>", "<metadata>scripts/readme_chart.py</metadata>",
             f"<style>{STYLE}</style>", *bars(training(lines), 10, 350), *curves(*all_reduce(lines), 440, 770), "</svg>"]
    return "\n".join(parts) + "\n"


def main(arguments):
    if arguments not in ([], ["--check"]):
        sys.exit(__doc__)
    picture = drawn(BENCHMARKS.read_text().split("\n"))
    if not arguments:
        PICTURE.parent.mkdir(exist_ok=True)
        PICTURE.write_text(picture)
    elif not PICTURE.exists() or PICTURE.read_text() != picture:
        sys.exit("readme_chart: error: docs/pictures/speed.svg is not what docs/benchmarks.md gives; run scripts/readme_chart.py")


if __name__ == "__main__":
    main(sys.argv[1:])
