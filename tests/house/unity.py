"""Files that are compiled as one (cmake/Floors.cmake: unity) must not share a private name: which files meet in a batch
changes with every file that is added, so a clash would wait for an unrelated commit."""

import collections
import os
import re

from tree import Violation

# These are not compiled as one: see paceline_batches_of_core in cmake/Floors.cmake.
APART = re.compile(r"/(algorithms|methods|policies)/")
SCOPE = re.compile(r"namespace\s*([\w:]*)\s*\{\s*$")
ALIAS = re.compile(r"using\s+(\w+)\s*=\s*(.*)")
TYPE = re.compile(r"(?:struct|class|enum class|enum|union)\s+(\w+)\b(?!.*;$)")
VARIABLE = re.compile(r"(?:static |inline |constexpr |const |thread_local )+[\w:<>,\s*&]*?\b(\w+)(?:\[\w*\])?\s*(?:=|\{|;)")
MORE_VARIABLES = re.compile(r",\s*(k[A-Z]\w*)\s*=")
FUNCTION = re.compile(r"[\w:<>,\s*&\[\]]+?[\s*&](\w+)\((.*)")


def no_private_name_twice(tree):
    """files of a room that may be compiled as one share no private name"""
    owners = collections.defaultdict(list)
    by_room = ("tests/core", "tests/torch", "tests/app")
    for folder in ("paceline/core", "paceline/linear", "paceline/torch", "paceline/app", "bench/survey", "tests/linear", "tests/bench", *by_room):
        for path in tree.sources(folder):
            if path.endswith(".cpp") and not APART.search(path) and not path.endswith("/main.cpp"):
                room = os.path.join(folder, path.split("/")[2]) if folder in by_room else folder
                for line, scope, name, meaning in _private_names(tree.text(path)):
                    owners[room, scope, name].append((path, line, meaning or path))
    for (_, _, name), places in sorted(owners.items()):
        first, _, first_meaning = places[0]
        for path, line, meaning in places[1:]:
            if meaning != first_meaning:
                yield Violation(path, line, f"{name} is also a private name of {first}",
                                "share it through a header if both mean the same, or give them names that tell them apart")


def no_name_of_a_test_header_is_hidden(tree):
    """a test file gives no function of its own the name of one in a header of its room, which it would hide from the files after it"""
    for room in sorted({_room(path) for path in tree.files("tests", ".h")} - {"tests/support"}):
        shared = {}
        for path in tree.files(room, ".h"):
            for line in tree.text(path).split("\n"):
                found = line and not line[0].isspace() and line[0] not in "}#/" and FUNCTION.match(line)
                if found and not line.startswith(("using ", "template")):
                    shared[found.group(1)] = path
        for path in tree.files(room, ".cpp"):
            for line, _, name, _ in _private_names(tree.text(path)):
                name, _, parameters = name.partition("(")
                if parameters and name in shared:
                    yield Violation(path, line, f"{name}() hides the one in {shared[name]} from other files of its batch",
                                    "use the shared one, or give this one a name of its own")


def _room(path):
    """tests/core/collective, tests/linear"""
    parts = path.split("/")
    return "/".join(parts[:3 if parts[1] in ("core", "torch", "app") else 2])


def _private_names(text):
    """(line, namespace, name, meaning) of what a file defines in namespaces without a name. A function's name comes with the
    types of its parameters; only aliases have a meaning, because equal ones may meet."""
    scopes = []
    for number, line in enumerate(text.split("\n"), 1):
        scope = SCOPE.match(line)
        if scope:
            scopes.append(scope.group(1))
        elif re.match(r"\}\s*// namespace", line) and scopes:
            scopes.pop()
        elif "" in scopes and line and not line[0].isspace() and line[0] not in "}#/":
            outer = "::".join(filter(None, scopes))
            alias = ALIAS.match(line)
            found = TYPE.match(line) or VARIABLE.match(line)
            if alias:
                yield number, outer, *alias.groups()
            elif found:
                yield number, outer, found.group(1), None
                for more in MORE_VARIABLES.findall(line):
                    yield number, outer, more, None
            elif FUNCTION.match(line):
                name, parameters = FUNCTION.match(line).groups()
                types = re.sub(r"\s+\w+([,)])", r"\1", parameters)
                # A call may be ambiguous between T and const T&.
                yield number, outer, name + "(" + re.sub(r"\bconst |&", "", types), None


def using_declarations_are_used(tree):
    """a source uses each name that it takes by a using-declaration"""
    declaration = re.compile(r"^using (?:::)?(?:\w+::)+(\w+);", re.M)
    sources = [path for folder in ("paceline", "tests", "examples", "bench") for path in tree.files(folder, ".cpp")]
    for path in sources:
        code = "\n".join(tree.code(path))
        for found in declaration.finditer(code):
            if len(re.findall(rf"\b{found.group(1)}\b", code)) == 1:
                yield Violation(path, code[:found.start()].count("\n") + 1, f"{found.group(1)} is not used here",
                                "take the declaration out; files that are compiled with this one need their own")


ALL = [no_private_name_twice, no_name_of_a_test_header_is_hidden, using_declarations_are_used]
