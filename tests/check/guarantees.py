#!/usr/bin/env python3
"""Every test that docs/reference/guarantees.md names exists, and every promise has a row.

usage: guarantees.py SOURCE_ROOT | --self-test

A file in backquotes with a colon behind it is followed by names in backquotes that stand in it.
"""
import os
import re
import sys


def named(text):
    """(file, name) of every test that a page names."""
    for file, names in re.findall(r"`((?:tests|examples)/[\w/.]+)`: ((?:`[^`]+`(?:, )?)+)", text):
        for name in re.findall(r"`([^`]+)`", names):
            yield file, name


def wrong(text, read):
    found = ["G%d has no row" % n for n in range(1, 13) if not re.search(r"^\| \*\*G%d " % n, text, re.M)]
    for row in re.findall(r"^\| \*\*(G\d+) .*", text, re.M):
        line = re.search(r"^\| \*\*%s .*" % row, text, re.M).group(0)
        if not list(named(line)) and "comes with the engine" not in line:
            found.append("%s names no test" % row)
    for file, name in named(text):
        if name not in read(file):
            found.append("%s has no test \"%s\"" % (file, name))
    return found


def self_test():
    rows = "".join("| **G%d x** | y | `tests/a.c`: `one`, `two` |\n" % n for n in range(1, 13))
    assert wrong(rows, lambda file: "one two") == []
    assert wrong(rows, lambda file: "one")[0] == 'tests/a.c has no test "two"'
    assert wrong(rows.replace("| **G7 x** | y | `tests/a.c`: `one`, `two` |\n", ""),
                 lambda file: "one two") == ["G7 has no row"]
    assert wrong(rows.replace("G7 x** | y | `tests/a.c`: `one`, `two`", "G7 x** | y | "),
                 lambda file: "one two") == ["G7 names no test"]
    return []


def main(page, look, look_at_itself):
    """Look at the page of the tree in the first argument, or at the checker itself."""
    def read(file):
        path = os.path.join(sys.argv[1], file)
        return open(path, encoding="utf-8").read() if os.path.exists(path) else ""

    found = look_at_itself() if sys.argv[1] == "--self-test" else look(read(page), read)
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main("docs/reference/guarantees.md", wrong, self_test))
