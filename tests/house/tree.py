"""The tree of sources, as the rules of the house see it."""

import dataclasses
import functools
import pathlib
import re

# The house as docs/map.md draws it: floors from the ground up, in each the rooms, in order. A room uses rooms that
# stand before it on its own floor, and any room of a floor in `uses`.
ROOMS = {
    "core": ["base", "settings", "device", "checkpoint", "transport", "machine", "quasi_newton", "membership", "topology", "compress", "collective", "job", "coordination", "mesh", "pipeline",
             "server", "schedule", "plan", "observe"],
    "linear": ["data", "loss", "problem", "solver", "threads", "machines", "solvers"],
    "torch": ["bridge", "data", "optimizers", "replica", "norm", "gradient", "shard", "precision", "strategy", "tensor", "parallel", "pipeline",
              "server_embedding", "checkpointing"],
    "app": ["launch", "measure", "cli"],
    "plugins": ["cuda", "mpi", "nccl", "ucx"],
    "python": [],
}
USES = {"core": [], "linear": ["core"], "torch": ["core"], "app": ["core"], "plugins": ["core"], "python": ["core", "torch"]}
# Rooms that use less than what stands before them: {(floor, room): rooms of the same floor that it may not use}.
APART = {
    ("core", "compress"): {"transport", "membership", "topology"},
}

# The sub-rooms of a room, in order: one uses those that stand before it. What stands at the top of a room is above them all.
SUB_ROOMS = {
    ("core", "transport"): ["socket", "memory", "frame", "reactor", "link", "shared", "fabric"],
    ("core", "membership"): ["handshake", "store", "environment", "generation"],
    ("core", "compress"): ["kernels", "payload", "codecs", "averaging", "methods", "state", "menu"],
    ("core", "collective"): ["program", "building", "algorithms", "mixing", "proof", "call", "staging", "agreement",
                             "engine", "carrier", "price", "group"],
    ("core", "pipeline"): ["order", "orders", "check", "versions", "run"],
    ("core", "server"): ["rules", "consistency", "table", "wire", "regions", "control", "sparse", "machine", "vectors"],
    ("core", "schedule"): ["order", "simulation", "policies", "path", "replay", "adapt"],
    ("torch", "replica"): ["parts", "watch", "grads", "equal"],
    ("torch", "pipeline"): ["measured", "recompute"],
    ("torch", "strategy"): ["rules", "local", "server", "strategies"],
    ("app", "launch"): ["process", "output", "ending", "hosts", "workers", "agent", "run", "emit"],
    ("app", "cli"): ["shared", "pipeline", "bench", "checkpoint", "layouts", "plan", "programs", "run", "commands"],
}

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')


@dataclasses.dataclass
class Violation:
    path: str
    line: int
    what: str
    remedy: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.what}\n    what to do: {self.remedy}"


@dataclasses.dataclass(frozen=True)
class Include:
    line: int
    path: str
    quoted: bool


class Tree:
    """Files are named by their path below the root, with '/'."""

    def __init__(self, root, build):
        self.root = pathlib.Path(root).resolve()
        self.build = pathlib.Path(build).resolve()

    @functools.lru_cache(maxsize=None)
    def files(self, folder, *suffixes):
        """All files below the folder that end in one of the suffixes, sorted."""
        found = (self.root / folder).rglob("*")
        return sorted(str(path.relative_to(self.root)) for path in found if path.name.endswith(suffixes) and path.is_file())

    def exists(self, path):
        return (self.root / path).exists()

    @functools.lru_cache(maxsize=None)
    def text(self, path):
        return (self.root / path).read_text(encoding="utf-8")

    @functools.lru_cache(maxsize=None)
    def code(self, path):
        """The lines of a C++ file without comments (strings stay), so that line numbers stay right."""
        pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
        keep = lambda match: match.group(0) if match.group(0)[0] in "\"'" else "\n" * match.group(0).count("\n")
        return pattern.sub(keep, self.text(path)).split("\n")

    @functools.lru_cache(maxsize=None)
    def includes(self, path):
        found = []
        for number, line in enumerate(self.code(path), 1):
            match = INCLUDE.match(line)
            if match:
                found.append(Include(number, match.group(1) or match.group(2), match.group(1) is not None))
        return found

    @functools.lru_cache(maxsize=None)
    def names(self):
        """The names of all files, without folders, and of those that CMake writes."""
        folders = [path for path in self.root.iterdir() if path.is_dir() and path.name not in (".git", ".venv", "build")]
        files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
        return {path.name for path in [*self.root.iterdir(), *files]} | {f"{entry}_entries.h" for entry in ("algorithm", "mixinggraph", "method", "policy", "strategy", "schedule", "loss", "solvermethod", "rule", "consistency", "subcommand")}

    def sources(self, folder="paceline"):
        return self.files(folder, ".h", ".cpp")

    def rooms(self):
        """(floor, room) of every folder that holds sources, also of those that are not on the map."""
        parts = (path.split("/") for path in self.sources())
        return sorted({(p[1], p[2]) for p in parts if len(p) > 3})

    def with_mpi(self):
        cache = self.build / "CMakeCache.txt"
        return not cache.exists() or re.search(r"PACELINE_MPI_LIBRARIES:INTERNAL=\w", cache.read_text(encoding="utf-8"))

    def with_nccl(self):
        cache = self.build / "CMakeCache.txt"
        text = cache.read_text(encoding="utf-8") if cache.exists() else ""
        return not text or ("PACELINE_CUDA_INCLUDE:PATH=/" in text and "PACELINE_WITH_NCCL:STRING=OFF" not in text)

    def with_ucx(self):
        cache = self.build / "CMakeCache.txt"
        return not cache.exists() or re.search(r"PACELINE_UCX_VERSION:INTERNAL=\w", cache.read_text(encoding="utf-8"))

    def with_torch(self):
        cache = self.build / "CMakeCache.txt"
        return not cache.exists() or "PACELINE_WITH_TORCH:BOOL=OFF" not in cache.read_text(encoding="utf-8")


def place(path):
    """(floor, room) of a file below paceline/. A file that stands in no room has the room or floor None."""
    parts = path.split("/")
    floor = parts[1] if len(parts) > 2 else None
    room = parts[2] if len(parts) > 3 else None
    return floor, room
