"""House rules about the code: house.py REPOSITORY BUILD_FOLDER

Checks every rule of rules.py on the repository, and first, on small trees that break them, that each rule fires.
Needs Python 3 alone; g++ to compile headers. Exits with 1 when a rule is broken.
"""

import sys

sys.dont_write_bytecode = True  # the repository stays as it is

import rules
import selftest
from tree import Tree


def main(repository, build):
    failed = 0
    for complaint in selftest.complaints():
        failed += 1
        print(f"self-test: {complaint}")
    tree = Tree(repository, build)
    broken = 0
    for rule in rules.ALL:
        violations = list(rule(tree))
        if violations:
            broken += 1
            print(f"\nbroken: {rule.__doc__}")
            for violation in violations:
                print(f"  {violation}")
    if failed or broken:
        print(f"\n{broken} of {len(rules.ALL)} rules broken, {failed} complaints of the self-test")
        return 1
    print(f"{len(rules.ALL)} rules passed")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2]))
