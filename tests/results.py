"""What each test executable of a preset wrote about its last run (GTEST_OUTPUT, cmake/Tests.cmake)."""

import xml.etree.ElementTree


def cases(folder):
    """Each test that ran, as (name, its XML element). Beside the files lies `tests`, the names of the executables."""
    for executable in (folder / "tests").read_text(encoding="utf-8").split():
        file = folder / f"{executable}.xml"
        if not file.exists():
            continue  # not run, or ended before it could tell: ctest says so
        for case in xml.etree.ElementTree.parse(file).getroot().iter("testcase"):
            if case.get("result") != "suppressed" and case.get("status") != "notrun":
                yield f"{case.get('classname')}.{case.get('name')}", case
