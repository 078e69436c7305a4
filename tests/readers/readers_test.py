"""readers_test.py BIN_FOLDER: what a run shows of itself, read by the readers that people use.

Trains a small network on two workers with every face on and reads the files back: TensorBoard's own loader, Perfetto's own
protobuf classes, Prometheus's own parser, and Python's json for Chrome's format; and the page of `paceline bench collective`
by an XML parser; checkpoints by safetensors. Run by .venv/bin/python (scripts/setup).
"""
import collections
import hashlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request
import xml.etree.ElementTree

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent
import numpy
from prometheus_client.parser import text_string_to_metric_families
from safetensors import numpy as safetensors
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

BIN = pathlib.Path(sys.argv[1])
PYTHON_WITH_TORCH = BIN.parent.parent / "against" / "python"  # bench/against/setup makes it
STEPS = 30


MIB = 1 << 20


def crc32c_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = crc32c_table()


def crc32c(content):
    crc = 0xFFFFFFFF
    for byte in content:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def free_port():
    """Two ports side by side: worker r serves at the first + r."""
    while True:
        with socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
            try:
                two.bind(("127.0.0.1", port + 1))
                return port
            except OSError:
                continue


def launch(*options):
    return subprocess.Popen([BIN / "paceline", "run", "-n", "2", BIN / "fashion_mnist", "--model", "linear", "--batch-size", "64",
                             "--test-images", "100", "--threads", "1", *map(str, options)], stdout=subprocess.PIPE, text=True)


def train(*options):
    process = launch("--steps", STEPS, *options)
    process.communicate(timeout=120)
    assert process.returncode == 0


def seal(step):
    """Tells the manifest of a step what its files of the model hold now."""
    manifest = json.loads((step / "manifest.json").read_text())
    for entry in manifest["files"]:
        if entry["name"].startswith("model-"):
            content = (step / entry["name"]).read_bytes()
            entry["length"] = len(content)
            entry["crc32c"] = "".join(f"{crc32c(content[at:at + MIB]):08x}" for at in range(0, len(content), MIB))
    text = json.dumps(manifest).encode()
    (step / "manifest.json").write_bytes(text)
    (step / "manifest.sha256").write_text(f"{hashlib.sha256(text).hexdigest()}  manifest.json\n")
    subprocess.run([BIN / "paceline", "checkpoint", "verify", step], check=True, stdout=subprocess.DEVNULL)


class Readers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return f"{self.folder.name}/{name}"

    def test_tensorboard_loads_every_step_and_the_figures_of_the_metrics_file(self):
        train("--tensorboard", self.path("board"), "--metrics", self.path("metrics"))
        board = EventAccumulator(self.path("board"))
        board.Reload()
        losses = board.Scalars("train/loss_of_rank_0")
        self.assertEqual([point.step for point in losses], list(range(1, STEPS + 1)))
        lines = [json.loads(line) for line in pathlib.Path(self.path("metrics")).read_text().splitlines()]
        for point, line in zip(losses, (line for line in lines if line["event"] == "step")):
            self.assertAlmostEqual(point.value, line["loss_of_rank_0"], places=5)
        self.assertAlmostEqual(board.Scalars("test/accuracy")[-1].value, lines[-1]["test_accuracy"], places=5)
        self.assertLess(abs(losses[-1].wall_time - time.time()), 60)

    def test_chromes_json_has_compute_buckets_and_waits_of_every_rank(self):
        train("--trace", self.path("trace.json"))
        events = json.loads(pathlib.Path(self.path("trace.json")).read_text())["traceEvents"]
        counts = collections.Counter()
        for event in events:
            if event["ph"] in "Xb":
                counts[event["pid"], event["cat"], event["name"].split(" ")[0]] += 1
        for rank in range(2):
            for name in ("forward", "backward", "step"):
                self.assertEqual(counts[rank, "training", name], STEPS)
            self.assertGreaterEqual(counts[rank, "operations", "all_reduce"], STEPS)  # one bucket a step
            self.assertGreater(sum(n for (r, lane, _), n in counts.items() if r == rank and lane == "waiting"), 0)
        operations = [e["id"] for e in events if e["ph"] == "b"]
        self.assertEqual(sorted(operations), sorted(e["id"] for e in events if e["ph"] == "e"))

    def test_perfettos_own_classes_parse_the_native_trace_and_its_slices_nest(self):
        train("--trace", self.path("trace.pftrace"))
        trace = Trace()
        trace.ParseFromString(pathlib.Path(self.path("trace.pftrace")).read_bytes())
        tracks, open_slices, begun = {}, collections.defaultdict(list), collections.Counter()
        for packet in trace.packet:
            if packet.HasField("track_descriptor"):
                descriptor = packet.track_descriptor
                self.assertNotIn(descriptor.uuid, tracks)
                tracks[descriptor.uuid] = descriptor
            else:
                event = packet.track_event
                track = tracks[event.track_uuid]
                process = tracks[track.parent_uuid].process.process_name
                if event.type == TrackEvent.TYPE_SLICE_BEGIN:
                    open_slices[event.track_uuid].append(packet.timestamp)
                    begun[process[:6], track.name, event.name.split(" ")[0]] += 1
                else:
                    self.assertEqual(event.type, TrackEvent.TYPE_SLICE_END)
                    self.assertLessEqual(open_slices[event.track_uuid].pop(), packet.timestamp)
                    if track.name == "operations":
                        self.assertEqual(open_slices[event.track_uuid], [], "operations of one track do not overlap")
        self.assertTrue(all(not rest for rest in open_slices.values()))
        for rank in range(2):
            self.assertEqual(begun[f"rank {rank}", "training", "backward"], STEPS)
            self.assertGreaterEqual(begun[f"rank {rank}", "operations", "all_reduce"], STEPS)

    def test_prometheus_parses_the_figures_of_both_workers_while_they_train(self):
        port = free_port()
        process = launch("--steps", 1_000_000, "--prometheus", port)
        try:
            for rank in range(2):
                figures = self.scrape(port + rank, "paceline_steps_total")
                self.assertEqual({sample.labels["rank"] for sample in figures.values()}, {str(rank)})
                self.assertGreater(figures["paceline_operations_total"].value, 0)
                again = self.scrape(port + rank, "paceline_steps_total")
                self.assertGreaterEqual(again["paceline_steps_total"].value, figures["paceline_steps_total"].value)
        finally:
            process.terminate()
            process.communicate(timeout=30)

    def test_the_page_of_a_measurement_is_well_formed_and_draws_every_row_with_nothing_from_elsewhere(self):
        subprocess.run([BIN / "paceline", "bench", "collective", "--ranks", "2", "--sizes", "4..1KiB", "--algorithms", "all",
                        "--yardstick", "--blocks", "1", "--operations", "2", "--html", self.path("page"), "--json",
                        self.path("json")], check=True, stdout=subprocess.DEVNULL, timeout=120)
        rows = json.loads(pathlib.Path(self.path("json")).read_text())
        sizes = {row["bytes"] for row in rows}
        page = xml.etree.ElementTree.parse(self.path("page")).getroot()
        self.assertEqual(len(page.findall(".//tbody/tr")), len(rows))
        pictures = page.findall(".//{*}svg")
        self.assertEqual(len(pictures), 2)
        for picture in pictures:
            curves = picture.findall("{*}polyline")
            self.assertEqual(len(curves), len({row["algorithm"] for row in rows}) + 1, "the yardstick has one too")
            for curve in curves:
                points = [tuple(map(float, point.split(","))) for point in curve.get("points").split()]
                self.assertEqual(len(points), len(sizes))
                self.assertEqual([x for x, _ in points], sorted(x for x, _ in points))
        for element in page.iter():
            self.assertFalse({"src", "href"} & set(element.keys()), element.tag)
            self.assertNotIn("url(", element.text or "")

    def test_safetensors_reads_the_parameters_that_the_run_ended_with(self):
        runs = pathlib.Path(self.path("runs"))
        train("--checkpoint-dir", runs, "--checkpoint-every", 10, "--save", self.path("parameters"))
        model, optimizer = {}, {}
        for file in sorted((runs / f"step-{STEPS:08}").glob("*.safetensors")):
            if file.name.startswith("model-"):
                model |= safetensors.load_file(file)
            if file.name.startswith("optimizer-"):
                optimizer |= safetensors.load_file(file)
        self.assertEqual(sorted(model), ["1.bias", "1.weight"])
        self.assertEqual(sorted(optimizer), ["model.1.bias/momentum_buffer", "model.1.weight/momentum_buffer"])
        self.assertEqual(model["1.weight"].tobytes() + model["1.bias"].tobytes(), pathlib.Path(self.path("parameters")).read_bytes())
        for name, tensor in model.items():
            self.assertEqual(optimizer[f"model.{name}/momentum_buffer"].shape, tensor.shape)

    def test_a_checkpoint_whose_file_python_has_written_again_is_loaded(self):
        runs = pathlib.Path(self.path("runs"))
        train("--checkpoint-dir", runs, "--checkpoint-every", 1000)
        step = runs / f"step-{STEPS:08}"
        for file in step.glob("model-*.safetensors"):
            tensors = safetensors.load_file(file)
            safetensors.save_file({name: numpy.zeros_like(tensor) for name, tensor in tensors.items()}, file)
        seal(step)
        train("--checkpoint-dir", runs, "--checkpoint-every", 1000, "--resume", "--save", self.path("parameters"))
        self.assertFalse(any(pathlib.Path(self.path("parameters")).read_bytes()), "zeros, as Python wrote them")

    @unittest.skipUnless(os.environ.get("PACELINE_NIGHTLY"), "10 s: runs with PACELINE_NIGHTLY=1")
    def test_pytorchs_own_loader_reads_and_writes_tied_tensors_in_bf16(self):
        runs, bytes_of_paceline, bytes_of_torch = (self.path(name) for name in ("runs", "paceline", "torch"))

        def torch_reader(verb, step, file):
            reader = pathlib.Path(__file__).with_name("torch_reader.py")
            subprocess.run([PYTHON_WITH_TORCH, "-B", reader, verb, f"{runs}/step-{step:08}", file], check=True, timeout=120)

        def train_tied(ranks, step):
            subprocess.run([BIN / "paceline", "run", "-n", str(ranks), BIN / "tied_model", runs, str(step), bytes_of_paceline],
                           check=True, timeout=120)

        train_tied(ranks=2, step=1)
        torch_reader("load", 1, bytes_of_paceline)
        train_tied(ranks=1, step=2)
        torch_reader("save", 2, bytes_of_torch)
        seal(pathlib.Path(runs) / "step-00000002")
        train_tied(ranks=1, step=2)
        self.assertEqual(pathlib.Path(bytes_of_paceline).read_bytes(), pathlib.Path(bytes_of_torch).read_bytes())
        self.assertNotEqual(pathlib.Path(bytes_of_torch).read_bytes(), b"")

    def scrape(self, port, wanted):
        deadline = time.time() + 60
        while True:
            try:
                text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
                samples = {sample.name: sample for family in text_string_to_metric_families(text) for sample in family.samples
                           if sample.name.startswith("paceline_")}
                if wanted in samples:
                    return samples
            except OSError:
                pass
            self.assertLess(time.time(), deadline, f"nothing served {wanted} at port {port}")
            time.sleep(0.1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
