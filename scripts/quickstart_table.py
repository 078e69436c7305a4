"""Compares training runs: quickstart_table.py METRICS_FILE...

Each file holds JSON lines as the example fashion_mnist writes them with --metrics; the last line is the summary. The
first file is what the others are compared with.
"""

import json
import sys


def read_summary(path):
    """The last line of a metrics file, checked to be the summary of a run that ended."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line for line in file if line.strip()]
        summary = json.loads(lines[-1])
    except (OSError, IndexError, ValueError) as error:
        sys.exit(f"quickstart: {path} has no readable last line ({error}): did the training end?")
    if summary.get("event") != "summary":
        sys.exit(f"quickstart: the last line of {path} is not a summary: did the training end?")
    return summary


def rows(summaries):
    """The table as lists of cells, the heading first."""
    yield ["workers", "test accuracy", "samples/s", "speed-up", "computing", "communicating", "waited for it", "peak memory"]
    base = summaries[0]
    for run in summaries:
        communication = run["communication_seconds"]
        exposed = run["exposed_communication_seconds"]
        yield [
            str(run["world_size"]),
            f"{run['test_accuracy'] * 100:.2f} %",
            f"{run['train_samples_per_second']:,.0f}",
            f"{run['train_samples_per_second'] / base['train_samples_per_second']:.2f} x",
            f"{run['compute_seconds']:.2f} s",
            f"{communication:.2f} s",
            f"{exposed:.2f} s",
            f"{max(run['peak_rss_bytes']) / 2**20:,.0f} MiB",
        ]


def main(paths):
    table = list(rows([read_summary(path) for path in paths]))
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    for number, row in enumerate(table):
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths)))
        if number == 0:
            print("  ".join("-" * width for width in widths))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1:])
