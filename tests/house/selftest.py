"""Proves that each rule fires: a small sound house passes all of them, and each way to break it is told by its rule."""

import json
import pathlib
import subprocess
import tempfile

import drawers
import front
import rules
import unity
import words
from tree import Tree

SOUND = {
    "paceline/core/base/base.h": '// The door.\n#pragma once\n#include "paceline/core/base/bytes.h"\n',
    "paceline/core/base/bytes.h": "#pragma once\n#include <cstddef>\nstd::size_t f();\n",
    "paceline/core/base/bytes.cpp": '#include "paceline/core/base/bytes.h"\nstd::size_t f() { return 0; }  // not getenv("X")\n',
    "paceline/core/collective/collective.h": '#pragma once\n#include "paceline/core/base/base.h"\n',
    "paceline/core/collective/program/program.h": "#pragma once\n",
    "paceline/core/collective/algorithms/all_reduce/ring.cpp": '#include "paceline/core/collective/program/program.h"\n',
    "paceline/torch/bridge/bridge.h": '#pragma once\n#include <torch/torch.h>\n#include "paceline/core/base/base.h"\n',
    "paceline/app/cli/cli.h": '#pragma once\n#include "paceline/core/base/base.h"\n',
    "paceline/app/cli/run.cpp": '#include "paceline/app/cli/cli.h"\n#include "paceline/core/collective/collective.h"\n',
    "paceline/torch/bridge/hook.cpp": '#include "paceline/torch/bridge/bridge.h"\n',
    "tests/core/base/bytes_test.cpp": '#include "paceline/core/base/bytes.h"\n',
    "tests/core/collective/algorithms/all_reduce/ring_test.cpp": "",
    "tests/processes/run_test.cpp": 'auto a = "run"; auto b = "hello";\n',
    "examples/01_hello/main.cpp": "int main() {}\n",
    "docs/algorithms/README.md": "[ring](ring.md)\n",
    "docs/algorithms/ring.md": "[all_reduce](../../paceline/core/collective/algorithms/all_reduce/ring.cpp) ![](pictures/ring.svg)\n",
    "docs/algorithms/pictures/ring.svg": '<svg xmlns="http://www.w3.org/2000/svg"><metadata>paceline programs show ring --svg</metadata></svg>\n',
    "docs/map.md": "[base](../paceline/core/base/base.h) `paceline/core/base/base.h` `paceline/core/collective/collective.h`\n"
                   "`paceline/torch/bridge/bridge.h` `paceline/app/cli/cli.h`\n",
}

# (rule, files that break it in the sound house; None removes one)
BROKEN = [
    (rules.include_graph, {"paceline/core/base/bytes.h": '#pragma once\n#include "paceline/core/collective/collective.h"\n'}),
    (rules.include_graph, {"paceline/core/base/bytes.h": '#pragma once\n#include "bytes2.h"\n'}),
    (rules.include_graph, {"paceline/core/base/bytes.h": '#pragma once\n#include "paceline/app/cli/cli.h"\n'}),
    (rules.include_graph, {"paceline/app/cli/cli.h": '#pragma once\n#include "paceline/torch/bridge/bridge.h"\n'}),
    (rules.include_graph, {"paceline/core/collective/x.h": '#pragma once\n#include "paceline/core/server/server.h"\n'}),
    (rules.include_graph, {"paceline/core/compress/x.h": '#pragma once\n#include "paceline/core/topology/x.h"\n'}),
    (rules.public_face, {"examples/01_hello/main.cpp": '#include "paceline/core/base/bytes.h"\nint main() {}\n'}),
    (rules.public_face, {"docs/guide.md": "```cpp\n#include <paceline/core/base/bytes.h>\n```\n"}),
    (rules.no_torch_below_torch, {"paceline/paceline.h": '#pragma once\n#include "paceline/torch/bridge/bridge.h"\n'}),
    (rules.no_include_cycles, {"paceline/core/base/bytes.h": '#pragma once\n#include "paceline/core/base/base.h"\n'}),
    (rules.no_torch_below_torch, {"paceline/core/base/bytes.h": "#pragma once\n#include <ATen/ATen.h>\n"}),
    (rules.no_torch_below_torch, {"tests/core/base/bytes_test.cpp": "#include <c10/core/Device.h>\n"}),
    (rules.pragma_once, {"paceline/core/base/bytes.h": "#include <cstddef>\n#pragma once\n"}),
    (rules.own_header_first, {"paceline/core/base/bytes.cpp": '#include <string>\n#include "paceline/core/base/bytes.h"\n'}),
    (rules.headers_self_contained, {"paceline/core/collective/collective.h": "#pragma once\nstd::string f();\n"}),
    (rules.rooms_are_known, {"paceline/core/misc/misc.h": "#pragma once\n"}),
    (rules.doors, {"paceline/core/topology/ring.h": "#pragma once\n"}),
    (rules.doors, {"docs/map.md": "empty\n"}),
    (rules.doors, {"docs/map.md": SOUND["docs/map.md"] + "paceline/core/plan/plan.h\n"}),
    (rules.catalogue_files_tested, {"tests/core/collective/algorithms/all_reduce/ring_test.cpp": None}),
    (rules.algorithms_documented, {"docs/algorithms/ring.md": None}),
    (rules.algorithms_documented, {"docs/algorithms/ring.md": "![](pictures/ring.svg)\n"}),
    (rules.algorithms_documented, {"docs/algorithms/ring.md": "paceline/core/collective/algorithms/all_reduce/ring.cpp\n"}),
    (rules.algorithms_documented, {"docs/algorithms/README.md": "empty\n"}),
    (rules.mixing_graphs_documented, {"paceline/core/collective/mixing/graphs/star.cpp": ""}),
    (rules.mixing_graphs_documented, {"paceline/core/collective/mixing/graphs/star.cpp": "",
                                      "docs/strategies/graphs.md": "paceline/core/collective/mixing/graphs/star.cpp\n"}),
    (rules.catalogue_files_tested, {"paceline/core/collective/mixing/graphs/star.cpp": ""}),
    (rules.pictures_are_current, {"docs/strategies/pictures/star.svg": "<svg></svg>\n"}),
    (rules.pictures_are_current, {"docs/pipelines/pictures/1f1b.svg": '<svg xmlns="http://www.w3.org/2000/svg"><metadata>paceline programs show ring --svg</metadata></svg>\n'}),
    (rules.methods_and_policies_documented, {"paceline/core/compress/methods/zip.cpp": ""}),
    (rules.methods_and_policies_documented, {"paceline/core/compress/methods/zip.cpp": "", "docs/compression/zip.md": "idea\n"}),
    (rules.methods_and_policies_documented, {"paceline/core/schedule/policies/late.cpp": ""}),
    (rules.methods_and_policies_documented, {"paceline/torch/strategy/strategies/never.cpp": ""}),
    (rules.pictures_are_current, {"docs/algorithms/pictures/ring.svg": "<svg>\n"}),
    (rules.pictures_are_current, {"docs/algorithms/pictures/ring.svg": "<svg></svg>\n"}),
    (rules.sources_tested, {"tests/core/base/bytes_test.cpp": None}),
    (rules.sources_tested, {"tests/core/base/bytes_test.cpp": "// Covers paceline/core/base/bytes.cpp.\n"}),
    (rules.tests_never_sleep, {"tests/core/base/bytes_test.cpp":
        '#include "paceline/core/base/bytes.h"\nvoid g() { std::this_thread::sleep_for(1s); }\n'}),
    (rules.tests_never_sleep, {"tests/readers/x_test.py": "time.sleep(1)\n"}),
    (rules.tests_never_sleep, {"tests/core/collective/call/work_test.cpp": ""}),
    (rules.sources_tested, {"tests/processes/run_test.cpp": 'auto b = "hello";\n'}),
    (rules.sources_built, {"tests/core/base/forgotten.cpp": ""}),
    (rules.examples_run, {"tests/processes/run_test.cpp": 'auto a = "run";\n'}),
    (rules.environment_read_in_one_place, {"paceline/core/base/bytes.cpp":
        '#include "paceline/core/base/bytes.h"\nauto x = std::getenv("PACELINE_RANK");\n'}),
    (rules.links_resolve, {"docs/map.md": SOUND["docs/map.md"] + "[x](nowhere.md#there)\n"}),
    (rules.guide_programs_run, {"docs/guide/coming_from_x.md": "```cpp\nint x;\n```\n"}),
    (rules.guide_programs_run, {"docs/guide/x.md": "<!-- docs/map.md -->\n```cpp\nint x;\n```\n"}),
    (drawers.folders_are_small, {f"paceline/core/base/file_{number}.h": "#pragma once\n" for number in range(drawers.MOST_FILES)}),
    (drawers.headers_are_used, {"paceline/core/base/dead.h": "#pragma once\n",
                                "paceline/core/base/dead.cpp": '#include "paceline/core/base/dead.h"\n'}),
    (drawers.header_names_are_unique, {"paceline/core/topology/bytes.h": "#pragma once\n"}),
    (drawers.sub_rooms_in_order, {"paceline/app/cli/shared/page.h": '#pragma once\n#include "paceline/app/cli/bench/page_of_bench.h"\n'}),
    (drawers.sub_rooms_in_order, {"paceline/app/cli/shared/page.h": '#pragma once\n#include "paceline/app/cli/cli.h"\n'}),
    (drawers.sub_rooms_in_order, {"paceline/app/cli/attic/page.h": "#pragma once\n"}),
    (drawers.doors_alone_are_used, {"paceline/core/base/inner.h": "#pragma once\n",
                                    "paceline/app/cli/cli.h": '#pragma once\n#include "paceline/core/base/inner.h"\n'}),
    (unity.no_private_name_twice, {"paceline/core/base/a.cpp": "namespace x {\nnamespace {\nconstexpr int kA = 1, kB = 2;\n",
                                   "paceline/core/base/b.cpp": "namespace x {\nnamespace {\nconstexpr double kB = 3;\n"}),
    (unity.no_private_name_twice, {"tests/core/base/a_test.cpp": "namespace {\nvoid fill(int* to) {\n",
                                   "tests/core/base/b_test.cpp": "namespace {\nvoid fill(int* values) {\n"}),
    (unity.no_private_name_twice, {"paceline/core/base/a.cpp": "namespace {\nusing Json = A;\n",
                                   "paceline/core/base/b.cpp": "namespace {\nusing Json = B;\n"}),
    (unity.no_name_of_a_test_header_is_hidden, {"tests/core/base/world.h": "inline int first(int of) {\n",
                                                "tests/core/base/a_test.cpp": "namespace {\nint first(double of, int by) {\n"}),
    (unity.using_declarations_are_used, {"tests/core/base/bytes_test.cpp": '#include "paceline/core/base/bytes.h"\nusing ::testing::Not;  // Not()\n'}),
    (words.comments_name_what_exists, {"paceline/core/base/bytes.h": "// See nowhere.md.\n#pragma once\n#include <cstddef>\nstd::size_t f();\n"}),
    (words.comments_name_what_exists, {"paceline/core/base/bytes.h": "#pragma once\n#include <cstddef>\nstd::size_t f();  // specification A7\n"}),
    (words.code_in_comments_parses, {"paceline/core/base/bytes.h": "// Use:\n//\n//   f();  // [batch, length /\n//   c]\n#pragma once\n#include <cstddef>\nstd::size_t f();\n"}),
    (words.code_in_comments_parses, {"paceline/core/base/bytes.h": "//   g([&] { f();\n//   }); while (true) {\n//   }\n#pragma once\n#include <cstddef>\nstd::size_t f();\n"}),
    (words.code_in_comments_parses, {"paceline/core/base/bytes.h": "//   if (f()) {\n#pragma once\n#include <cstddef>\nstd::size_t f();\n"}),
    (words.tests_are_named_alike, {"tests/core/base/bytes_test.cpp": '#include "paceline/core/base/bytes.h"\nTEST(Bytes, are_few) {}\n'}),
    (words.comments_are_sentences, {"paceline/core/base/bytes.h": "#pragma once\n#include <cstddef>\n// Of the next step.\nstd::size_t f();\n"}),
    (words.comments_are_sentences, {"paceline/core/base/bytes.h": "#pragma once\n#include <cstddef>\nstd::size_t f();  // For what it is\n"}),
    (words.comments_are_sentences, {"paceline/core/base/bytes.h": "#pragma once\n#include <cstddef>\n// What a message holds.\nstd::size_t f();\n"}),
    (words.comments_are_sentences, {"paceline/core/base/bytes.h": "// By rank: the chunks.\n#pragma once\n#include <cstddef>\nstd::size_t f();\n"}),
    (front.readme_is_short, {"README.md": "word " * 901}),
    (front.chart_is_current, {"docs/pictures/speed.svg": "<svg></svg>\n"}),
    (front.chart_is_current, {"docs/pictures/speed.svg": "<svg></svg>\n", "scripts/readme_chart.py": "raise SystemExit('old')\n"}),
    (front.changelog_is_cut, {"CHANGELOG.md": "## 1\n### Other\n- a\n"}),
    (front.changelog_is_cut, {"CHANGELOG.md": "- a\n  b\n  c\n  d\n"}),
    (rules.formatted, {".clang-format": "BasedOnStyle: Google\n",
                       "paceline/core/base/bytes.h": "#pragma once\n#include <cstddef>\nstd::size_t   f( );\n"}),
]


def build_tree(root, changes):
    """Writes the sound house with some changes, and the compilation database of the sound one."""
    for name, text in {**SOUND, **changes}.items():
        if text is not None:
            path = pathlib.Path(root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    build = pathlib.Path(root, "build")
    build.mkdir()
    known = [{"file": str(pathlib.Path(root, name))} for name in [*SOUND, *changes] if "forgotten" not in name]
    pathlib.Path(build, "compile_commands.json").write_text(json.dumps(known), encoding="utf-8")
    return Tree(root, build)


def link_command_with_torch(tree):
    """Makes an executable bin/paceline that is linked with a library called libc10.so."""
    (tree.build / "bin").mkdir()
    shared = ["gcc", "-shared", "-x", "c", "/dev/null", "-o", str(tree.build / "libc10.so"), "-Wl,-soname,libc10.so"]
    command = ["gcc", "-x", "c", "-", "-o", str(tree.build / "bin" / "paceline"), "-L", str(tree.build),
               "-Wl,--no-as-needed", "-lc10"]
    subprocess.run(shared, check=True)
    subprocess.run(command, input="int main(void) { return 0; }", text=True, check=True)


def complaints():
    """What is wrong with the rules themselves, as text; empty when each of them works."""
    found = []
    with tempfile.TemporaryDirectory() as root:
        tree = build_tree(root, {})
        for rule in rules.ALL:
            found += [f"{rule.__name__} fires on a sound house: {violation}" for violation in rule(tree)]
        link_command_with_torch(tree)
        if not list(rules.command_links_no_torch(tree)):
            found.append("command_links_no_torch lets a command pass that is linked with libc10.so")
        if not list(rules.pictures_are_current(tree)):
            found.append("pictures_are_current lets a picture pass that a command without output draws")
    for number, (rule, changes) in enumerate(BROKEN):
        with tempfile.TemporaryDirectory() as root:
            if not list(rule(build_tree(root, changes))):
                found.append(f"{rule.__name__} lets case {number} pass: {changes}")
    tried = {rule for rule, _ in BROKEN} | {rules.command_links_no_torch}
    found += [f"{rule.__name__} is not tried by selftest.py" for rule in rules.ALL if rule not in tried]
    return found
