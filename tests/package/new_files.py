"""What CONTRIBUTING says one has to write is enough: new_files.py REPOSITORY

In a copy of the sources a codec, a strategy, a model of consistency, an optimizer, a schedule and a subcommand are added, each
as one file (the optimizer with its header, and a row in a table); CMake must find them and put them into the tables that it generates. Each is an
entry that is there, under another name. With PACELINE_NIGHTLY=1 the copy is built, too.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# What CONTRIBUTING calls it, the folder of its catalogue, the entry that is copied, and its type.
ENTRIES = [
    ("a compression method", "core/compress/methods", "fp16", "Method"),
    ("a schedule", "core/schedule/policies", "general", "Policy"),
    ("a model of consistency of tables on servers", "core/server/consistency", "asp", "Consistency"),
    ("a strategy that keeps replicas in step", "torch/strategy/strategies", "none", "Strategy"),
    ("a subcommand of `paceline`", "app/cli/commands", "plan", "Subcommand"),
]
SOURCES = ("paceline", "cmake", "tests", "examples", "bench", "docs", "scripts", "CMakeLists.txt", "CMakePresets.json", "LICENSE", "README.md",
           "CHANGELOG.md", "CONTRIBUTING.md")
TARGETS = ("paceline", "paceline_torch")


def copied(repository, copy):
    for name in SOURCES:
        source = repository / name
        if source.is_dir():
            shutil.copytree(source, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, copy / name)
    if (repository / ".venv").exists():
        (copy / ".venv").symlink_to((repository / ".venv").resolve())


def add_entry(copy, folder, entry, kind):
    """The entry once more, with names of its own; everything else in its file is private or renamed with it."""
    text = (copy / "paceline" / folder / f"{entry}.cpp").read_text(encoding="utf-8")
    renamed = re.sub(rf"\b{entry}(?=\b|_)", "newcomer", text)
    for name in re.findall(r"^(?:class|struct) (\w+)", renamed, re.M):
        renamed = re.sub(rf"\b{name}\b", f"Newcomer{name}", renamed)
    assert f"{kind} newcomer()" in renamed, f"{entry}.cpp does not define {kind} {entry}()"
    (copy / "paceline" / folder / "newcomer.cpp").write_text(renamed, encoding="utf-8")


def add_optimizer(copy):
    """LAMB once more: its header and source, and its row in the table of known optimizers."""
    folder = copy / "paceline/torch/optimizers"

    def renamed(text):
        return text.replace("LAMB", "Newcomer").replace("lamb", "newcomer")

    for ending in ("h", "cpp"):
        text = (folder / f"lamb.{ending}").read_text(encoding="utf-8")
        (folder / f"newcomer.{ending}").write_text(renamed(text), encoding="utf-8")
    table = folder / "known_optimizers.cpp"
    text = table.read_text(encoding="utf-8")
    row = re.search(r"^ *row<LAMB,.*\n", text, re.M)[0]
    include = '#include "paceline/torch/optimizers/lamb.h"\n'
    text = text.replace(row, row + renamed(row)).replace(include, include + renamed(include))
    table.write_text(text, encoding="utf-8")


def missing(copy, build):
    """What CMake has not found."""
    for what, folder, _, kind in ENTRIES:
        table = build / "generated/paceline" / folder / f"{kind.lower()}_entries.h"
        if not table.exists() or f"{kind} newcomer();" not in table.read_text(encoding="utf-8"):
            yield f"{what}: {table.relative_to(copy)} does not declare it"
    gathered = [build / "build.ninja", *build.glob("CMakeFiles/paceline_torch.dir/Unity/*.cxx")]
    if not any("paceline/torch/optimizers/newcomer.cpp" in path.read_text(encoding="utf-8") for path in gathered):
        yield "an optimizer: no target builds its file"


def main(repository):
    contributing = (repository / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for what in [entry[0] for entry in ENTRIES] + ["an optimizer"]:
        if f"| {what} |" not in contributing:
            sys.exit(f"new_files: FAILED: CONTRIBUTING.md does not say how one adds {what}")
    with tempfile.TemporaryDirectory() as scratch:
        copy = pathlib.Path(scratch) / "paceline"
        copy.mkdir()
        copied(repository, copy)
        for _, folder, entry, kind in ENTRIES:
            add_entry(copy, folder, entry, kind)
        add_optimizer(copy)
        build = copy / "build"
        run = subprocess.run(["cmake", "--preset", "release", "-B", build], cwd=copy, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            sys.exit(f"new_files: FAILED: {run.stdout}\n{run.stderr}")
        complaints = list(missing(copy, build))
        if complaints:
            sys.exit("new_files: FAILED: " + "\n".join(complaints))
        if os.environ.get("PACELINE_NIGHTLY"):
            subprocess.run(["cmake", "--build", build, "--parallel", str(os.cpu_count()), "--target", *TARGETS], check=True)
    print(f"new_files: {len(ENTRIES) + 1} passed, 0 failed")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]).resolve())
