"""manifests_test.py BIN_FOLDER: what `paceline run --emit` writes, read by the models of the systems that it is for.

Kubeflow Trainer's and the training operator's own Python models and the schema of Docker Compose take each manifest, and know
every field of it. Then its containers are started as processes of this host, with the variables that the system gives them, and
must form the run that `paceline run` itself makes. Run by .venv/bin/python (scripts/setup).
"""
import importlib
import importlib.util
import json
import os
import pathlib
import random
import re
import socket
import subprocess
import sys
import tempfile
import types
import unittest

import jsonschema
import yaml
from kubeflow_trainer_api.models.io_k8s_api_core_v1_pod_template_spec import IoK8sApiCoreV1PodTemplateSpec
from kubeflow_trainer_api.models.trainer_v1alpha1_train_job import TrainerV1alpha1TrainJob
from kubeflow_trainer_api.models.trainer_v1alpha1_training_runtime import TrainerV1alpha1TrainingRuntime

BIN = pathlib.Path(sys.argv[1])
CONTAINERS = ["k8s-trainjob", "pytorchjob", "mpijob", "compose"]
HOSTILE = ["", " ", "it's", "$HOME", "$(RANK)", "$$", "$", "${X}", "`x`", "yes", "No", "null", "~", "-5", "1e3", "0x10", "1:30",
           "2026-11-24", "a: b", "#c", "- d", "&e", "*f", "!g", "{h}", "[i]", "%j", "@k", "a\nb", "tab\t", "back\\slash", "\x7f",
           "\x01", "\x85", "\u2028", "\ufeff", "grüß", "\U0001f600", '"quoted"', "<<", "=", "trailing:", "--", "---"]


def write(target, options, command):
    return subprocess.run([BIN / "paceline", "run", "--emit", target, *options, "--", *command], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def image(target):
    return [] if target == "slurm" else ["--emit-image", "registry/train:1"]


def documents(target, options, command):
    return list(yaml.safe_load_all(write(target, [*image(target), *options], command)))


def full(target):
    """Options with which a manifest has all its parts."""
    own = [] if target == "mpijob" else ["--grace", "2s", "--log-dir", "/runs/logs"]
    return ["--nnodes", "3", "-n", "2", "--max-restarts", "5", "--stop-grace", "90s", "--timeout", "2h", "--transport", "nccl", *own,
            "--devices", "0,1", "-x", "COLOUR=deep $blue", "--emit-volume", "disk:/runs"]


class TrainingModels:
    """The training operator's models. Their package imports the whole client of Kubernetes; the models themselves do not need it."""

    def __init__(self):
        spec = importlib.util.find_spec("kubeflow")
        folder = pathlib.Path(next(iter(spec.submodule_search_locations))) / "training"
        for name, path in (("kubeflow.training", folder), ("kubeflow.training.models", folder / "models")):
            package = types.ModuleType(name)
            package.__path__ = [str(path)]
            sys.modules[name] = package
        configuration = types.ModuleType("kubeflow.training.configuration")
        configuration.Configuration = lambda: types.SimpleNamespace(client_side_validation=True)
        sys.modules["kubeflow.training.configuration"] = configuration

    def check(self, kind, value):
        """Builds the model of this name from the value; raises ValueError for what it does not know or forbids."""
        if kind == "V1ObjectMeta":
            return check_known(IoK8sApiCoreV1PodTemplateSpec, {"metadata": value})
        if kind == "V1PodTemplateSpec":
            return check_known(IoK8sApiCoreV1PodTemplateSpec, value)
        if match := re.fullmatch(r"dict\(str, (\w+)\)", kind):
            return {name: self.check(match[1], member) for name, member in value.items()}
        if kind in ("str", "int", "bool"):
            if type(value) is not {"str": str, "int": int, "bool": bool}[kind]:
                raise ValueError(f"{value!r} is no {kind}")
            return value
        module = "_".join(re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z][a-z]*\d*", kind)).lower()
        model = getattr(importlib.import_module(f"kubeflow.training.models.{module}"), kind)
        attributes = {json_name: name for name, json_name in model.attribute_map.items()}
        if unknown := value.keys() - attributes.keys():
            raise ValueError(f"{kind} has no {unknown}")
        return model(**{attributes[name]: self.check(model.openapi_types[attributes[name]], member) for name, member in value.items()})


def check_known(model, value):
    """The model takes the value, and nothing of it is lost."""
    taken = model.from_dict(value).to_dict()
    if taken != value:
        raise ValueError(f"{model.__name__} knows only {taken} of {value}")
    return taken


def compose_schema():
    spec = importlib.util.find_spec("compose")
    return json.loads((pathlib.Path(spec.origin).parent / "config" / "compose_spec.json").read_text())


TRAINING = TrainingModels()


def check(target, parts):
    if target == "k8s-trainjob":
        runtime, job = parts
        check_known(TrainerV1alpha1TrainingRuntime, runtime)
        check_known(TrainerV1alpha1TrainJob, job)
    elif target == "compose":
        jsonschema.Draft7Validator(compose_schema()).validate(*parts)
    else:
        TRAINING.check({"pytorchjob": "KubeflowOrgV1PyTorchJob", "mpijob": "KubeflowOrgV1MPIJob"}[target], *parts)


def paths(value, path=()):
    """The path of every member and item below the value."""
    for key, member in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*path, key)
        yield from paths(member, (*path, key))


def pod_of(target, parts):
    """The specs of the pods (or services) of one node after the other, and the container's words, by node."""
    if target == "compose":
        return [(service, [*service["entrypoint"], *service["command"]], service.get("environment", {}))
                for service in parts[0]["services"].values()]
    if target == "k8s-trainjob":
        trainer = parts[1]["spec"]["trainer"]
        pod = parts[0]["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
        return [(pod, trainer["command"], variables(trainer))] * trainer["numNodes"]
    replicas = parts[0]["spec"]["pytorchReplicaSpecs" if target == "pytorchjob" else "mpiReplicaSpecs"]
    pods = []
    for replica in replicas.values():
        pod = replica["template"]["spec"]
        container = pod["containers"][0]
        pods += [(pod, container.get("command"), variables(container))] * replica["replicas"]
    return pods


def variables(container):
    return {entry["name"]: entry["value"] for entry in container.get("env", [])}


def expanded(text, names):
    """As the kubelet does: $(NAME) is the variable's value, if there is one, and $$ is $."""
    def value(match):
        if match[0] == "$$":
            return "$"
        return names.get(match[1], match[0])
    return re.sub(r"\$\$|\$\((\w+)\)", value, text)


def given_by_system(target, node, nodes, processes):
    """The variables that the system adds in each container."""
    if target == "k8s-trainjob":
        return {"PET_NNODES": str(nodes), "PET_NPROC_PER_NODE": str(processes), "PET_NODE_RANK": str(node),
                "PET_MASTER_ADDR": "collective-worker-node-0-0.collective-worker", "PET_MASTER_PORT": "29500",
                "JOB_COMPLETION_INDEX": str(node)}
    if target == "pytorchjob":
        return {"PYTHONUNBUFFERED": "1", "MASTER_ADDR": "collective-worker-master-0", "MASTER_PORT": "23456", "RANK": str(node),
                "WORLD_SIZE": str(nodes * processes), "PET_NNODES": str(nodes), "PET_NODE_RANK": str(node),
                "PET_NPROC_PER_NODE": str(processes)}
    return {}


# The name under which node 0 is known in each system.
NODE_0 = {"k8s-trainjob": "collective-worker-node-0-0.collective-worker:29500", "pytorchjob": "collective-worker-master-0:23456",
          "compose": "node-0:29400"}
SECRET = {"k8s-trainjob": "/run/paceline/secret", "pytorchjob": "/run/paceline/secret", "mpijob": "/run/paceline/secret",
          "compose": "/run/secrets/paceline"}


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def hashes(output):
    """The hash that each rank has told."""
    return sorted(re.findall(r"hash (\w+)", output))


class Manifests(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def secret(self):
        file = self.folder / "secret"
        file.write_text("a" * 64)
        file.chmod(0o400)
        return str(file)

    def test_the_models_of_each_system_take_the_manifest_and_know_every_field(self):
        for target in CONTAINERS:
            with self.subTest(target):
                check(target, documents(target, full(target), ["train", "--checkpoint-dir", "/runs/a"]))
                check(target, documents(target, ["-n", "1"], ["train"]))

    def test_a_misspelt_field_is_noticed_wherever_it_stands(self):
        """So that the test above can fail."""
        free = {"environment", "env", "labels", "services", "volumes", "secrets", "limits"}  # whose members have names of their own
        for target in CONTAINERS:
            parts = documents(target, full(target), ["train"])
            tried = 0
            for path in [path for part in range(len(parts)) for path in paths(parts[part], (part,))]:
                if not isinstance(path[-1], str) or path[-2] in free or path[-1][0].isupper():
                    continue
                broken = json.loads(json.dumps(parts))
                parent = broken
                for key in path[:-1]:
                    parent = parent[key]
                parent[path[-1] + "X"] = parent.pop(path[-1])
                with self.subTest(target, path=path), self.assertRaises((ValueError, jsonschema.ValidationError)):
                    check(target, broken)
                tried += 1
            self.assertGreater(tried, 10)

    def test_secrets_have_mode_0400_and_reach_every_node(self):
        for target in CONTAINERS:
            pods = [pod for pod, _, _ in pod_of(target, documents(target, ["--nnodes", "3", "-n", "1"], ["train"]))]
            if target == "mpijob":
                pods.pop(0)  # the launcher is no rank
            self.assertEqual(len(pods), 3)
            for pod in pods:
                if target == "compose":
                    modes = [secret["mode"] for secret in pod["secrets"]]
                else:
                    modes = [volume["secret"]["defaultMode"] for volume in pod["volumes"]]
                self.assertEqual(modes, [0o400], target)

    def test_every_word_and_variable_comes_out_of_yaml_as_it_went_in(self):
        chance = random.Random(int(os.environ.get("PACELINE_SEED", "7")))
        alphabet = "ab$(){}'\"\\ :#-\n\t,~é\u2028\U0001f600"
        words = HOSTILE + ["".join(chance.choices(alphabet, k=chance.randrange(12))) for _ in range(300)]
        for target in CONTAINERS:
            options = [word for value in HOSTILE for word in ("-x", f"V{len(value)}={value}")]
            _, command, environment = pod_of(target, documents(target, ["-n", "2", *options], ["train", *words]))[0]
            self.assertEqual([expanded(word, {}) for word in command[-len(words):]], words, target)
            if target == "mpijob":
                environment = pod_of(target, documents(target, ["-n", "2", *options], ["train"]))[1][2]
            self.assertEqual({name: expanded(value, {}) for name, value in environment.items() if name[0] == "V"},
                             {f"V{len(value)}": value for value in HOSTILE}, target)

    def test_every_word_and_variable_comes_out_of_the_script_for_slurm_as_it_went_in(self):
        stub = self.folder / "srun"  # it starts its command, as one task
        stub.write_text('#!/bin/bash\nshift\nexec "$@"\n')
        stub.chmod(0o755)
        script = write("slurm", ["-n", "1", "--no-prefix", "-x", "V=it's $V\n"], ["sh", "-c", 'printf "%s\\0" "$V" "$@"', "sh", *HOSTILE])
        out = subprocess.run(["bash", "-c", script], check=True, stdout=subprocess.PIPE,
                             env={"PATH": f"{self.folder}:{os.environ['PATH']}", "SLURM_CPUS_PER_TASK": "1"}).stdout
        self.assertEqual(out.decode().removesuffix("\n").split("\0"), ["it's $V\n", *HOSTILE, ""])  # the launcher ends the last line

    def containers(self, target, nodes, processes):
        """The command and the whole environment of each container, as its system would start it."""
        parts = documents(target, ["--nnodes", str(nodes), "-n", str(processes), "--transport", "tcp"],
                          [BIN / "collective_worker", "hash"])
        port = free_port()
        for node, (_, command, environment) in enumerate(pod_of(target, parts)):
            names = {**{name: expanded(value, {}) for name, value in environment.items()},
                     **given_by_system(target, node, nodes, processes)}
            words = [expanded(word, names) for word in command or []]
            names["PATH"] = f"{BIN}:{os.environ['PATH']}"
            here = {"/run/paceline/secret": self.secret_file, "/run/secrets/paceline": self.secret_file,
                    NODE_0.get(target): f"127.0.0.1:{port}"}
            yield [here.get(word, word) for word in words], {name: here.get(value, value) for name, value in names.items()}

    def test_the_containers_of_each_system_form_the_run_that_paceline_run_makes(self):
        self.secret_file = self.secret()
        own = subprocess.run([BIN / "paceline", "run", "-n", "4", BIN / "collective_worker", "hash"], check=True, text=True,
                             stdout=subprocess.PIPE).stdout
        self.assertEqual(len(hashes(own)), 4)
        for target in ("k8s-trainjob", "pytorchjob", "compose"):
            with self.subTest(target):
                pods = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                        for command, environment in self.containers(target, 2, 2)]
                outputs = [pod.communicate(timeout=60)[0] for pod in pods]
                self.assertEqual([pod.returncode for pod in pods], [0, 0], outputs)
                self.assertEqual(hashes(outputs[0]), hashes(own), "node 0 shows the lines of all ranks")

    def test_the_launcher_of_an_mpijob_starts_the_ranks_of_the_same_run(self):
        mpirun = pathlib.Path("/usr/bin/mpirun.openmpi")
        if not mpirun.exists():
            self.skipTest(f"NOT TESTED: {mpirun} is missing; run scripts/setup --launchers")
        self.secret_file = self.secret()
        (self.folder / "mpirun").symlink_to(mpirun)
        (command, _), (_, worker), _ = self.containers("mpijob", 2, 2)
        environment = {**worker, "PATH": f"{self.folder}:{os.environ['PATH']}", "OMPI_MCA_rmaps_base_oversubscribe": "1",
                       "TMPDIR": str(self.folder)}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(hashes(done.stdout)), 4)
        self.assertEqual(len(set(hashes(done.stdout))), 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
