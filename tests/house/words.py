"""Rules about comments: what they name exists, and they are sentences."""

import re

from tree import Violation

# Openings of comments that never are the beginning of a plain sentence in this tree.
FRAGMENT = re.compile(r"^(Of|As|What|Whatever|Who|Whose|Whoever|Which|Where|Until|Else|Nor|Not|Never|For what|So that"
                      r"|(?:By|From|In|Of|To|With) (?:what|which|whom)|By(?! default\b| then\b)|From(?! now on\b| here on\b| the \w+ step on\b)"
                      r"|Also(?! covers\b))\b")
FOLDERS = ("paceline", "tests", "examples", "bench")
DOCUMENT = re.compile(r"(?<![\w*<>{}$/.-])([\w./-]+\.(?:h|cpp|md|py))\b(?!\()")
UNSEEN = re.compile(r"\b[Ss]pecification\b")


def comments(tree, path):
    """(line, text) of each block of // comments in a row that stand alone; comments that trail code are blocks of their own."""
    block, first = [], 0
    for number, line in enumerate(tree.text(path).split("\n"), 1):
        alone = re.match(r"\s*//+ ?(.*)", line)
        if alone:
            first = first or number
            block.append(alone.group(1))
            continue
        if block:
            yield first, "\n".join(block)
            block, first = [], 0
        trailing = re.search(r'^(?:[^"]|"(?:\\.|[^"\\])*")*?\s//+ ?(.*)$', line)
        if trailing:
            yield number, trailing.group(1)
    if block:
        yield first, "\n".join(block)


def comments_name_what_exists(tree):
    """a comment names no file and no document that is not in the repository"""
    known = tree.names()
    for folder in FOLDERS:
        for path in tree.sources(folder):
            for number, text in comments(tree, path):
                if UNSEEN.search(text):
                    yield Violation(path, number, "it speaks of a specification, which the repository does not hold",
                                    "say the fact itself, or name the page of docs/ that tells it")
                for name in DOCUMENT.findall(text):
                    if name.rsplit("/", 1)[-1] not in known:
                        yield Violation(path, number, f"there is no {name}", "name the file as it is called now")


def _code_blocks(text):
    """(offset, lines) of each run of indented lines of a comment that is code: a line of it ends a statement or opens a block."""
    block, first = [], 0
    for offset, line in enumerate([*text.split("\n"), ""]):
        if line.startswith("  "):
            first = first if block else offset
            block.append(line)
        elif block:
            if any(re.search(r"[;{]\s*(//.*)?$", one) for one in block):
                yield first, block
            block = []


def _unbalanced(lines):
    """What does not close as it opened in lines of code, or None. An ellipsis stands for code that is left out."""
    opened, closing = [], {")": "(", "]": "[", "}": "{"}
    for line in lines:
        code = re.sub(r'"(?:\\.|[^"\\])*"|//.*', "", line)
        if re.search(r"\}\);\s*\S", code):
            return "a line goes on after '});'"
        for sign in code:
            if sign in "([{":
                opened.append(sign)
            elif sign in closing and (not opened or opened.pop() != closing[sign]):
                return f"'{sign}' closes nothing"
    return f"'{opened[-1]}' is not closed" if opened else None


def code_in_comments_parses(tree):
    """a code block in a comment is whole: what it opens it closes"""
    for path in [path for folder in FOLDERS for path in tree.sources(folder) if path.endswith(".h")]:
        for number, text in comments(tree, path):
            for offset, block in _code_blocks(text):
                wrong = _unbalanced(block)
                if wrong:
                    yield Violation(path, number + offset, f"the code in a comment is broken: {wrong}",
                                    "write it as it would stand in a program, a statement a line")


def comments_are_sentences(tree):
    """no comment opens like a fragment"""
    for path in [path for folder in FOLDERS for path in tree.sources(folder)]:
        for number, text in comments(tree, path):
            for offset, paragraph in enumerate(re.split(r"\n\s*\n", text)):
                opening = FRAGMENT.match(paragraph)
                if opening:
                    yield Violation(path, number + text.split(paragraph)[0].count("\n") if offset else number,
                                    f"a comment begins with '{opening.group(0)}'",
                                    "write a sentence with a subject and a verb that a stranger understands at once")


def tests_are_named_alike(tree):
    """a test's name is a claim in CamelCase"""
    test = re.compile(r"^(?:TYPED_)?TEST(?:_[FP])?\(\s*\w+,\s*(?:DISABLED_)?(\w+)\)", re.M)
    for path in tree.sources("tests"):
        for found in test.finditer(tree.text(path)):
            if "_" in found.group(1) or found.group(1)[0].islower():
                yield Violation(path, tree.text(path)[:found.start()].count("\n") + 1, f"the test is called {found.group(1)}",
                                "write its claim as one word in CamelCase")


ALL = [tests_are_named_alike, code_in_comments_parses, comments_name_what_exists, comments_are_sentences]
