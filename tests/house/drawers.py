"""Rules about the rooms' insides: sub-rooms, doors, full folders, names of headers."""

import collections
import re

from tree import SUB_ROOMS, Violation, place

MOST_FILES = 40


def folders_are_small(tree):
    """no folder holds more than 40 sources"""
    folders = collections.Counter(path.rsplit("/", 1)[0] for path in tree.sources())
    for folder, count in sorted(folders.items()):
        if count > MOST_FILES:
            yield Violation(folder, 1, f"it holds {count} sources, more than {MOST_FILES}",
                            "divide it into sub-rooms by what the files are about, and order them in SUB_ROOMS of tests/house/tree.py")


def header_names_are_unique(tree):
    """no two headers of a floor have the same name"""
    by_name = collections.defaultdict(list)
    for path in tree.files("paceline", ".h"):
        by_name[(path.split("/")[1], path.rsplit("/", 1)[1])].append(path)
    for (_, name), paths in sorted(by_name.items()):
        for path in paths[1:]:
            yield Violation(path, 1, f"{paths[0]} has the name {name} too", "call one of them by what sets it apart")


def headers_are_used(tree):
    """every header is included by a file beside its own source, or is public"""
    users = collections.defaultdict(set)
    for path in [path for folder in ("paceline", "tests", "examples", "bench") for path in tree.sources(folder)]:
        for include in tree.includes(path):
            users[include.path].add(path)
    for path in tree.files("paceline", ".h"):
        is_public = path.count("/") == 1 or place(path)[0] == "plugins"
        if not is_public and not users[path] - {path[:-2] + ".cpp"}:
            yield Violation(path, 1, "no file includes it but its own source", "delete it, or use it where its copy is used")


def _sub_room(path):
    """The sub-room of a file below paceline/<floor>/<room>/, or None for what stands at the top of its room."""
    parts = path.split("/")
    return parts[3] if len(parts) > 4 else None


def sub_rooms_in_order(tree):
    """a sub-room includes only sub-rooms that stand before it"""
    for path in tree.sources():
        floor, room = place(path)
        order, own = SUB_ROOMS.get((floor, room)), _sub_room(path)
        if own is None:
            continue
        if order is None or own not in order:
            yield Violation(path, 1, f"the sub-room {own} is not in the plan of {room}",
                            "use one that is, or add it to SUB_ROOMS in tests/house/tree.py")
            continue
        for include in tree.includes(path):
            if place(include.path) != (floor, room):
                continue
            other = _sub_room(include.path)
            if other is None:
                yield Violation(path, include.line, f"{include.path} stands at the top of {room}, above its sub-rooms",
                                "include the header of the sub-room that is needed")
            elif other in order and order.index(other) > order.index(own):
                yield Violation(path, include.line, f"{include.path} is out of reach: {own} stands before {other}",
                                "move what is needed to a sub-room below both, or turn the dependency round")


def doors_alone_are_used(tree):
    """a room is entered by its door, or by a header that its door names"""
    for path in tree.sources():
        floor, room = place(path)
        for include in tree.includes(path):
            other_floor, other_room = place(include.path)
            door = f"paceline/{other_floor}/{other_room}/{other_room}.h"
            if other_room is None or (floor, room) == (other_floor, other_room) or include.path == door or not tree.exists(door):
                continue
            name = include.path.rsplit("/", 1)[1]
            if not re.search(rf"(?<![\w]){re.escape(name)}", tree.text(door)):
                yield Violation(path, include.line, f"{include.path} is inside of {other_room}: its door does not name it",
                                f"include {door}, or name {name} there if other rooms should know it")


ALL = [headers_are_used, folders_are_small, header_names_are_unique, sub_rooms_in_order, doors_alone_are_used]
