"""The rules of the house. A rule is a function of the tree that returns its violations; its docstring is its name.

To add one: write it here, put it in ALL, and give selftest.py a tree that breaks it.
"""

import concurrent.futures
import json
import os
import re
import subprocess
import xml.etree.ElementTree

import drawers
import front
import unity
import words
from tree import APART, ROOMS, USES, Violation, place


def include_graph(tree):
    """rooms include only rooms below them"""
    for path in tree.sources():
        floor, room = place(path)
        for include in tree.includes(path):
            if not include.path.startswith("paceline/"):
                if include.quoted:
                    yield Violation(path, include.line, f'"{include.path}" is not named from the root of the repository',
                                    'write #include "paceline/<floor>/<room>/<file>.h", and <...> for what is not ours')
                continue
            other_floor, other_room = place(include.path)
            reason = _forbidden(floor, room, other_floor, other_room)
            if reason:
                yield Violation(path, include.line, f"{include.path} is out of reach: {reason}",
                                "move what is needed to a room below both, or turn the dependency round (docs/map.md)")


def _forbidden(floor, room, other_floor, other_room):
    """Why a file in (floor, room) may not include one of (other_floor, other_room), or None."""
    if floor is None or floor not in ROOMS:  # paceline/*.h gathers doors of all floors; unknown floors: rooms_are_known
        return None
    if other_floor != floor:
        allowed = ", ".join(USES[floor]) or "no other floor"
        return None if other_floor in USES[floor] else f"floor {floor} uses {allowed}"
    if room is None or room == other_room:
        return None
    if other_room is None:
        return f"room {room} uses rooms, not files of the whole floor"
    order = ROOMS[floor]
    if room not in order or other_room not in order:
        return None
    if order.index(other_room) > order.index(room):
        return f"room {room} stands before {other_room}"
    return f"rooms {room} and {other_room} stand side by side" if other_room in APART.get((floor, room), ()) else None


def public_face(tree):
    """examples, guides and consumers of the package include public headers alone"""
    public = {path for path in tree.files("paceline", ".h") if path.count("/") == 1}
    public |= {"paceline/plugins/mpi/mpi.h", "paceline/plugins/nccl/nccl.h"}
    pages = [path for path in ("README.md", *tree.files("docs", ".md")) if tree.exists(path) and not path.startswith("docs/decisions/")]
    for path in [*tree.sources("examples"), *tree.sources("tests/package"), *pages]:
        for number, line in enumerate(tree.text(path).split("\n"), 1):
            included = re.match(r'\s*#include [<"](paceline/[^>"]+)[>"]', line)
            if included and included.group(1) not in public:
                yield Violation(path, number, f"{included.group(1)} is no public header",
                                "include paceline/paceline.h, train.h, server.h or linear.h; what users need of it belongs there")


def no_include_cycles(tree):
    """no header includes itself, by whatever detour"""
    done, trail = set(), []

    def visit(path):
        if path in trail:
            ring = trail[trail.index(path):] + [path]
            yield Violation(trail[-1], 1, "includes go round: " + " -> ".join(ring),
                            "split off what both need, or declare it in advance")
        elif path not in done and tree.exists(path):
            trail.append(path)
            for include in tree.includes(path):
                if include.path.startswith("paceline/"):
                    yield from visit(include.path)
            trail.pop()
            done.add(path)

    for path in tree.sources():
        yield from visit(path)


def no_torch_below_torch(tree):
    """no torch header below the torch floor or in the app"""
    torch = re.compile(r"^(torch|ATen|c10|caffe2)/|^paceline/torch/")
    folders = ["paceline/core", "paceline/linear", "paceline/app", "tests/core", "tests/linear", "tests/app", "tests/support", "tests/processes/programs", "bench"]
    for folder in folders:
        for path in tree.sources(folder):
            if folder == "bench" and tree.exists("paceline/torch/" + path.split("/")[1]):
                continue  # a room of the torch floor is measured with torch
            for include in tree.includes(path):
                if torch.match(include.path):
                    yield Violation(path, include.line, f"{include.path} is torch's, and {folder} knows no torch",
                                    "move the file to paceline/torch, or hand in plain values (Buffer) instead")
    for path in [path for path in tree.files("paceline", ".h") if path.count("/") == 1 and path != "paceline/train.h"]:
        for include in tree.includes(path):
            if torch.match(include.path) or include.path == "paceline/train.h":
                yield Violation(path, include.line, f"{include.path} needs torch", "include it from paceline/train.h, the one public header with torch")


def command_links_no_torch(tree):
    """the command paceline links no torch"""
    command = tree.build / "bin" / "paceline"
    if not command.exists():
        return
    needed = subprocess.run(["readelf", "-d", str(command)], capture_output=True, text=True, check=True).stdout
    for library in re.findall(r"NEEDED.*\[(lib(?:torch|c10)[^\]]*)\]", needed):
        yield Violation("paceline/app", 1, f"the command is linked with {library}",
                        "launchers must not load torch (forks, start-up time): link core and app alone")


def pragma_once(tree):
    """every header begins with #pragma once"""
    for folder in ("paceline", "tests", "examples", "bench"):
        for path in tree.files(folder, ".h"):
            first = next((line.strip() for line in tree.code(path) if line.strip()), "")
            if first != "#pragma once":
                yield Violation(path, 1, "the first line of code is not #pragma once", "put it below the opening comment")


def own_header_first(tree):
    """a source includes its own header first"""
    for path in tree.files("paceline", ".cpp"):
        header = path[:-4] + ".h"
        if tree.exists(header):
            includes = tree.includes(path)
            if not includes or includes[0].path != header:
                line = includes[0].line if includes else 1
                yield Violation(path, line, f"the first include is not {header}",
                                "put it first: so each build proves that the header needs nothing before it")


def headers_self_contained(tree):
    """a header compiles alone"""
    # A header with a source is compiled first in it (own_header_first), so the build has proved it; torch's floor takes
    # too long here.
    alone = [path for floor in ("core", "linear", "app") for path in tree.files(f"paceline/{floor}", ".h")
             if not tree.exists(path[:-2] + ".cpp")]
    compiler = os.environ.get("CXX", "g++")
    flags = ["-std=c++20", "-fsyntax-only", "-w", f"-I{tree.root}", f"-I{tree.build / 'generated'}", "-x", "c++", "-"]

    def compile_alone(path):
        text = f'#include "{path}"\n'
        # Not from the repository's root: a quoted include is searched in the working folder first.
        return subprocess.run([compiler, *flags], input=text, cwd=tree.build, capture_output=True, text=True, check=False)

    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for path, result in zip(alone, pool.map(compile_alone, alone)):
            if result.returncode != 0:
                error = re.search(r"([^\s:]+):(\d+):\d+: (?:fatal )?error: (.*)", result.stderr)
                message = f"{error.group(1)}:{error.group(2)}: {error.group(3)}" if error else result.stderr[-300:]
                yield Violation(path, 1, f"does not compile alone: {message}", "include what it uses")


def rooms_are_known(tree):
    """every room is one of the house's"""
    for floor, room in tree.rooms():
        if room not in ROOMS.get(floor, ()):
            yield Violation(f"paceline/{floor}/{room}", 1, "this room is not in the plan of the house",
                            "use a room of docs/map.md; a new one: decide where it stands, then add it to "
                            "ROOMS in tests/house/tree.py and to docs/map.md")


def doors(tree):
    """every room has a door, and the door is on the map"""
    chart = tree.text("docs/map.md") if tree.exists("docs/map.md") else ""
    for floor, room in tree.rooms():
        door = f"paceline/{floor}/{room}/{room}.h"
        if not tree.exists(door):
            yield Violation(f"paceline/{floor}/{room}", 1, f"the room has no door {room}.h",
                            "write it: ten lines that tell what the room does and where to start, and its public headers")
        elif door not in chart:
            yield Violation("docs/map.md", 1, f"{door} is not on the map", "add a line for the room")
    for number, line in enumerate(chart.split("\n"), 1):
        for door in re.findall(r"paceline/\w+/\w+/\w+\.h", line):
            if not tree.exists(door):
                yield Violation("docs/map.md", number, f"{door} does not exist", "take it off the map, or write it")


def _entries(tree, folder):
    """The entries of a catalogue: the sources of its folder that have no header of their own."""
    return [path for path in tree.files(f"paceline/{folder}", ".cpp") if not tree.exists(path[:-4] + ".h")]


def catalogue_files_tested(tree):
    """every catalogue file has its test"""
    for folder in ("core/collective/algorithms", "core/collective/mixing/graphs", "core/compress/methods", "core/schedule/policies", "core/pipeline/orders", "linear/solvers",
                   "core/server/consistency"):
        for path in _entries(tree, folder):
            test = "tests/" + path[len("paceline/"):-4] + "_test.cpp"
            if not tree.exists(test):
                yield Violation(path, 1, f"its test {test} does not exist",
                                "write it: what is special about this entry; the catalogue's tests cover the rest")


def algorithms_documented(tree):
    """every algorithm has its page, with a picture, and the index names it"""
    index = tree.text("docs/algorithms/README.md") if tree.exists("docs/algorithms/README.md") else ""
    for path in tree.files("paceline/core/collective/algorithms", ".cpp"):
        name = path.rsplit("/", 1)[-1][:-4]
        page = f"docs/algorithms/{name}.md"
        if not tree.exists(page):
            yield Violation(path, 1, f"its page {page} does not exist",
                            "write it as the others are: idea, picture, cost, when it is chosen, reference")
            continue
        text = tree.text(page)
        if path not in text:
            yield Violation(page, 1, f"{path} is not on it", "add the operation to its table of costs")
        if f"](pictures/{name}.svg)" not in text:
            yield Violation(page, 1, "it shows no picture of the algorithm",
                            f"draw pictures/{name}.svg by `paceline programs show {name} --svg`, and show it")
        if f"]({name}.md)" not in index:
            yield Violation("docs/algorithms/README.md", 1, f"{name} is not in the index", "add a line for it")


def mixing_graphs_documented(tree):
    """every mixing graph has its part of docs/strategies/graphs.md, with a picture"""
    page = "docs/strategies/graphs.md"
    text = tree.text(page) if tree.exists(page) else ""
    for path in _entries(tree, "core/collective/mixing/graphs"):
        name = path.rsplit("/", 1)[-1][:-4]
        if path not in text or f"](pictures/{name}.svg)" not in text:
            yield Violation(path, 1, f"{page} does not link to it, or shows no picture of it",
                            f"tell its formula, cost and rate there; draw docs/strategies/pictures/{name}.svg by "
                            f"`paceline programs show {name} --operation neighbours --svg`")


def methods_and_policies_documented(tree):
    """every compression method, policy, strategy, solver and consistency has its page, and the index names it"""
    for folder, documents in (("core/compress/methods", "docs/compression"), ("core/schedule/policies", "docs/schedules"), ("core/pipeline/orders", "docs/pipelines"),
                              ("torch/strategy/strategies", "docs/strategies"), ("linear/solvers", "docs/solvers"),
                              ("core/server/consistency", "docs/server")):
        index = tree.text(f"{documents}/README.md") if tree.exists(f"{documents}/README.md") else ""
        for path in _entries(tree, folder):
            name = path.rsplit("/", 1)[-1][:-4]
            if not tree.exists(f"{documents}/{name}.md"):
                yield Violation(path, 1, f"its page {documents}/{name}.md does not exist",
                                "write it as the others are: idea, formula, cost, settings, when it pays, reference")
            elif f"]({name}.md)" not in index:
                yield Violation(f"{documents}/README.md", 1, f"{name} is not in the index", "add a line for it")


def pictures_are_current(tree):
    """every picture of an algorithm, a mixing graph or a pipeline is what the command draws"""
    paceline = tree.build / "bin" / "paceline"
    drawn_by = {"docs/algorithms": "programs show", "docs/strategies": "programs show", "docs/pipelines": "simulate pipeline"}
    for path, drawer in [(path, drawer) for folder, drawer in drawn_by.items() for path in tree.files(f"{folder}/pictures", ".svg")]:
        try:
            command = xml.etree.ElementTree.fromstring(tree.text(path)).findtext("{http://www.w3.org/2000/svg}metadata") or ""
        except xml.etree.ElementTree.ParseError as error:
            yield Violation(path, 1, f"is no XML: {error}", f"draw it by `paceline {drawer} ... --svg`")
            continue
        words = command.split()
        if words[:3] != ["paceline", *drawer.split()]:
            yield Violation(path, 1, "does not say by which command it is made", f"draw it by `paceline {drawer} ... --svg`")
        elif paceline.exists():
            drawn = subprocess.run([paceline, *words[1:], "-"], capture_output=True, text=True, check=False)
            if drawn.stdout != tree.text(path):
                yield Violation(path, 1, "is not what the command draws now", f"{command} {path}")


def sources_tested(tree):
    """every source of core, linear and app is tested, by more than a comment"""
    # Tested means: a test includes its header; or the mirrored test, or one that names it in a comment (an inner part: "also
    # covers paceline/core/..."), reaches it; or, for a subcommand, a test of processes names it as a string.
    tests = tree.sources("tests")
    included = {include.path for path in tests for include in tree.includes(path)}
    spoken = "\n".join("\n".join(tree.code(path)) for path in tree.files("tests/processes", ".cpp", ".h"))
    for floor in ("core", "linear", "app"):
        for path in tree.files(f"paceline/{floor}", ".cpp"):
            is_entry = re.search(r"/(algorithms|graphs|methods|policies|orders|loss|solvers|rules|consistency)/", path) and not tree.exists(path[:-4] + ".h")
            if is_entry or path == "paceline/app/cli/main.cpp":
                continue
            stem = path[len("paceline/"):-4]
            name = stem.rsplit("/", 1)[-1]
            if f"paceline/{stem}.h" in included:
                continue
            if path.startswith("paceline/app/cli/") and f'"{name}"' in spoken:
                continue
            mirror = f"tests/{stem}_test.cpp"
            claims = [test for test in tests
                      if test == mirror or path in tree.text(test) or f"paceline/{stem}.h" in tree.text(test)]
            if not claims:
                yield Violation(path, 1, "nothing tests this file",
                                f"write {mirror}, or name {path} or its header in the test that covers it")
            elif not any(_reaches(tree, test, path) for test in claims):
                yield Violation(claims[0], 1, f"claims to test {path}, but nothing that it includes or calls leads there",
                                "include its header and test what it promises, or name it in the test that does use it")


def _reaches(tree, test, path):
    """Whether a test's code leads to a source: by includes, by a function's name, or by starting the command."""
    code = "\n".join(tree.code(test))
    header = path[:-4] + ".h"
    starts = re.search(r'\b(paceline_run|run_probe|run_over)\(|\bbinary\("paceline"\)', code)
    command = tuple(tree.files("paceline/app/cli", ".cpp")) if starts else ()
    if not tree.exists(header):  # its functions are declared elsewhere
        defined = re.findall(r"^\w[^;=]*?\b(\w+)\([^;]*$", "\n".join(tree.code(path)), re.M)
        return path in command or any(re.search(rf"\b{name}\b", code) for name in defined)
    mirrored = "paceline/" + test[len("tests/"):-len("_test.cpp")] + ".cpp"
    return header in _closure(tree, (test, *command, *([mirrored] if mirrored != path else [])))


def _closure(tree, paths):
    """What files include, and what the sources behind these headers include, and so on."""
    found, todo = set(), [path for path in paths if tree.exists(path)]
    while todo:
        for include in tree.includes(todo.pop()):
            for path in (include.path, include.path[:-2] + ".cpp"):
                if path not in found and path.startswith(("paceline/", "tests/")) and tree.exists(path):
                    found.add(path)
                    todo.append(path)
    return found


def tests_never_sleep(tree):
    """a test never sleeps, it waits for an event"""
    sleep = re.compile(r"\b(sleep_for|sleep_until|usleep|nanosleep|clock_nanosleep)\s*\(|(?<![\w.])sleep\(|::sleep\(|\btime\.sleep\(")
    for path in tree.files("tests", ".cpp", ".h", ".py"):
        if path in MAY_SLEEP or path.startswith("tests/house/"):
            continue
        lines = tree.text(path).split("\n") if path.endswith(".py") else tree.code(path)
        for number, line in enumerate(lines, 1):
            if sleep.search(line):
                yield Violation(path, number, "sleeps",
                                "wait for what shall happen, with a deadline; where time itself is the subject, add the file "
                                "and the reason to MAY_SLEEP in tests/house/rules.py")
    for path in MAY_SLEEP:
        if tree.exists(path) and not sleep.search(tree.text(path)):
            yield Violation("tests/house/rules.py", 1, f"{path} does not sleep any more", "take it out of MAY_SLEEP")


# Tests whose subject is time itself.
MAY_SLEEP = {
    "tests/programs/fashion_mnist/stragglers.h": "a rank is slow on purpose: --slow and --pace are about time",
    "tests/core/collective/group/communicator_bits_test.cpp": "ranks come at random moments",
    "tests/core/collective/call/work_test.cpp": "who waits late is another case than who waits at once",
    "tests/core/transport/memory/process_memory_test.cpp": "a writer is stopped at a random moment",
    "tests/processes/collective_failure_test.cpp": "a rank is killed at a random moment",
    "tests/processes/lent_memory_test.cpp": "a rank is stopped at a random moment, and goes on after a while",
    "tests/processes/programs/collective_worker.cpp": "looks whether somebody still writes into memory after a failure",
    "tests/processes/programs/patient.cpp": "a rank is late, and what the others burn meanwhile is measured",
    "tests/processes/programs/sparse_worker.cpp": "a training lasts long enough for servers to die in it",
    "tests/processes/programs/table_worker.cpp": "a training lasts long enough for servers to die in it",
    "tests/processes/servers_test.cpp": "servers and workers are paused for a while",
    "tests/processes/waiting_test.cpp": "a rank computes for a few milliseconds in each tenth of a second",
    "tests/readers/readers_test.py": "asks a server again until it answers, with a deadline",
    "tests/torch/parallel/data_parallel_schedules_test.cpp": "a layer takes longer from some step on",
}


def sources_built(tree):
    """every source is built by some target"""
    database = tree.build / "compile_commands.json"
    if not database.exists():
        return
    built = {os.path.realpath(entry["file"]) for entry in json.loads(database.read_text(encoding="utf-8"))}
    for path in [path for path in built if "/Unity/" in path]:  # gathers some sources by including them
        with open(path, encoding="utf-8") as gathered:
            built.update(os.path.realpath(source) for source in re.findall(r'#include "([^"]+)"', gathered.read()))
    needs_mpi = ("paceline/plugins/mpi/", "tests/processes/mpi_programs/")
    needs_nccl = ("paceline/plugins/nccl/", "tests/plugins/nccl/", "paceline/plugins/cuda/", "tests/plugins/cuda/")
    needs_torch = ("paceline/torch/", "tests/torch/", "tests/processes/torch_programs/", "tests/programs/", "examples/")
    for folder in ("paceline", "tests", "examples", "bench"):
        for path in tree.files(folder, ".cpp"):
            if path.startswith(("paceline/python/", "bench/against/", "tests/house/", "tests/package/consumer/")):
                continue
            if path.startswith(needs_torch) and not tree.with_torch():
                continue
            if path.startswith(needs_mpi) and not tree.with_mpi():
                continue
            if path.startswith(needs_nccl) and not tree.with_nccl():
                continue
            if path.startswith("paceline/plugins/ucx/") and not tree.with_ucx():
                continue
            if os.path.realpath(tree.root / path) not in built:
                yield Violation(path, 1, "no target builds this file",
                                "tests end in _test.cpp, programs stand where cmake/Tests.cmake looks; or configure again")


def examples_run(tree):
    """every example is run by a test"""
    tests = "\n".join(tree.text(path) for path in tree.files("tests", ".cpp", ".h", ".py") if not path.startswith("tests/house/"))
    for folder in sorted({path.split("/")[1] for path in tree.files("examples", ".cpp")}):
        name = re.sub(r"^\d+_", "", folder)
        if not re.search(rf"\b{name}\b", tests):
            yield Violation(f"examples/{folder}", 1, f"no test runs {name}", f"start bin/{name} from a test in tests/processes")


def environment_read_in_one_place(tree):
    """the environment is read only in membership and in the app"""
    for path in tree.sources():
        if path.startswith(("paceline/core/membership/", "paceline/app/")):
            continue
        for number, line in enumerate(tree.code(path), 1):
            if re.search(r"\b(secure_)?getenv\s*\(|\benviron\b", line):
                yield Violation(path, number, "reads the environment", "take the value as an option; membership fills it in")


def links_resolve(tree):
    """every link in the documents leads to a file"""
    documents = tree.files("docs", ".md") + [path.name for path in sorted(tree.root.glob("*.md"))]
    for path in documents:
        fenced = False
        for number, line in enumerate(tree.text(path).split("\n"), 1):
            fenced ^= line.lstrip().startswith("```")
            if fenced:
                continue
            for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
                target = link.split("#")[0]
                if target and not re.match(r"[a-z]+:", target) and not (tree.root / path).parent.joinpath(target).exists():
                    yield Violation(path, number, f"the link {link} leads nowhere", "correct it, or write the page")


def _stripped(text):
    return "\n".join(line.strip() for line in text.split("\n"))


def guide_programs_run(tree):
    """the programs in the guides for newcomers are the tested ones, and so is code that names its source"""
    tested = "tests/processes/torch_programs/coming_from.cpp"
    for path in tree.files("docs", ".md"):
        for source, program in re.findall(r"(?:^<!-- (\S+) -->\n)?^```cpp\n(.*?)\n```$", tree.text(path), re.S | re.M):
            if not source and not path.startswith("docs/guide/coming_from_"):
                continue
            source = source or tested
            if _stripped(program) not in (_stripped(tree.text(source)) if tree.exists(source) else ""):
                yield Violation(path, 1, f"its program is not in {source}", "copy it from there, where it is run")


def formatted(tree):
    """every source is formatted as .clang-format says"""
    # The version in .venv, which scripts/setup installs, decides: others break some lines elsewhere.
    own = tree.root / ".venv" / "bin" / "clang-format"
    formatter = str(own) if own.exists() else "clang-format"
    paths = [path for folder in ("paceline", "tests", "examples", "bench") for path in tree.sources(folder)]
    try:
        run = subprocess.run([formatter, "--dry-run", "--style=file", "--fallback-style=none", *paths], cwd=tree.root,
                             capture_output=True, text=True, check=False)
    except FileNotFoundError:
        yield Violation(".clang-format", 1, "there is no clang-format", "run scripts/setup")
        return
    for path, line in sorted({(path, int(line)) for path, line in re.findall(r"^(\S+?):(\d+):\d+: ", run.stderr, re.M)}):
        yield Violation(path, line, "is not formatted", f".venv/bin/clang-format -i {path}")


ALL = [
    include_graph, public_face, no_include_cycles, no_torch_below_torch, command_links_no_torch, pragma_once, own_header_first,
    headers_self_contained, rooms_are_known, doors, catalogue_files_tested, algorithms_documented, mixing_graphs_documented, methods_and_policies_documented, pictures_are_current,
    sources_tested, tests_never_sleep, sources_built, examples_run, environment_read_in_one_place, links_resolve, guide_programs_run, formatted,
    *drawers.ALL, *front.ALL, *unity.ALL, *words.ALL,
]
