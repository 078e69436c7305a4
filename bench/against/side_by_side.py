"""What the comparisons of this folder share: starting ours and the peers, rounds, and the table of a size.

A ratio is taken within a round, so that the machine's moods cancel; tables have the median of the rounds and [least .. most].
Below `tests/net/hosts with N` a job of several ranks has one rank on each host.
"""
import json
import os
import pathlib
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / "build/release/bin"
LAUNCHER = BIN / "paceline"
PYTHON = ROOT / "build/against/python"
HOSTS_SCRIPT = ROOT / "tests/net/hosts"
HOSTS = [address for address in os.environ.get("PACELINE_NET_HOSTS", "").split(",") if address]


def fail(text):
    sys.exit(f"{pathlib.Path(sys.argv[0]).name}: error: {text}")


def require(programs, needs_torch=True):
    for needed in [LAUNCHER, *programs]:
        if not needed.exists():
            fail(f"{needed.relative_to(ROOT)} is missing: cmake --preset release && cmake --build --preset release")
    if needs_torch and not PYTHON.exists():
        fail("PyTorch is missing: bench/against/setup")


def start(command, **extra):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **extra}
    return subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True, env=environment)


def wait_all(processes):
    outputs = [process.communicate(timeout=900)[0] for process in processes]
    for process in processes:
        if process.returncode != 0:
            fail(f"exit code {process.returncode} of: {shlex.join(map(str, process.args))}")
    return outputs


def words(options):
    return [word for pair in options.items() for word in pair]


def ours(ranks, command):
    """The summary in the metrics of a program of ours, which the launcher starts also when it runs alone."""
    hosts = ["--hosts", ",".join(f"{address}:1" for address in HOSTS[:ranks]), "--ssh", f"{HOSTS_SCRIPT} ssh"]
    with tempfile.TemporaryDirectory() as folder:
        metrics = f"{folder}/metrics"
        where = hosts if HOSTS and ranks > 1 else []
        wait_all([start([LAUNCHER, "run", "-n", ranks, *where, "--", *command, "--metrics", metrics])])
        return json.loads(pathlib.Path(metrics).read_text().splitlines()[-1])


def peers(ranks, command):
    """What rank 0 of a PyTorch job over Gloo prints, as JSON."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    spread_out = HOSTS and ranks > 1
    where = [[HOSTS_SCRIPT, "on", address] for address in HOSTS[:ranks]] if spread_out else [[]] * ranks
    job = {"MASTER_ADDR": HOSTS[0] if spread_out else "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(ranks)}
    if spread_out:
        job["GLOO_SOCKET_IFNAME"] = "eth0"
    outputs = wait_all([start([*where[rank], PYTHON, *command], RANK=str(rank), **job) for rank in range(ranks)])
    return json.loads(outputs[0])


def chosen(names, asked):
    """All names, or those that --contestants asks for with ; between them."""
    if not asked:
        return list(names)
    wanted = [name.strip() for name in asked.split(";")]
    if unknown := set(wanted) - set(names):
        fail(f"--contestants: {'; '.join(sorted(unknown))} is none of {'; '.join(names)}")
    return wanted


def alternate(title, names, run, rounds):
    """Rounds of {name: seconds of a step}; every round runs every contestant once, one after the other."""
    results = []
    for number in range(rounds):
        results.append({name: run(name) for name in names})
        print(f"{title}, round {number + 1} of {rounds}, ms a step: " + ", ".join(
            f"{name} {1000 * seconds:.1f}" for name, seconds in results[-1].items()), file=sys.stderr)
    return results


def spread(values, form):
    return f"{form.format(statistics.median(values))} [{form.format(min(values))} .. {form.format(max(values))}]"


def table(title, rounds, ratios):
    print(f"\n| {title} | median [least .. most] |\n|---|---|")
    for first, second in ratios:
        if first in rounds[0] and second in rounds[0]:
            print(f"| {first} / {second}, speed | {spread([r[second] / r[first] for r in rounds], '{:.2f}')} |")
    for name in rounds[0]:
        print(f"| {name}, ms a step | {spread([1000 * r[name] for r in rounds], '{:.1f}')} |")
    sys.stdout.flush()
