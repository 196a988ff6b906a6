#!/usr/bin/env python3
"""Every number of tests/requirements.md is there once, and every test that it names exists.

usage: requirements.py SOURCE_ROOT | --self-test

A row is `| T7 | … | … |` or `| T7 to T9 | … | … |`. It names tests as docs/reference/guarantees.md does, or says
"planned: issue N" or "decided: …".
"""
import re
import sys

from guarantees import main, named

NUMBERS = ([f"S1.{n}" for n in range(1, 93)] + [f"S2.{n}" for n in range(1, 78)] +
           [f"S3.{n}" for n in range(1, 81)] + [f"S4.{n}" for n in range(1, 90)] +
           [f"S5.{n}" for n in range(1, 53)] + [f"T{n}" for n in range(1, 63)] +
           [f"N{n}" for n in range(1, 13)] + [f"W{n}" for n in range(1, 51)])
ROW = r"^\| ([A-Z](?:\d\.)?)(\d+)(?: to ([A-Z](?:\d\.)?)(\d+))? \| [^|]+ \| (.*) \|$"


def rows(text):
    """(numbers, last cell) of every row."""
    for group, first, same, last, cell in re.findall(ROW, text, re.M):
        yield [f"{group}{n}" for n in range(int(first), int(last or first) + 1)], cell


def is_test(name, text):
    """A test of C is defined under its name, one of Python too; scripts have sentences."""
    if re.fullmatch(r"\w+", name):
        return re.search(r"(?:^[A-Z_]+\(|^(?:static void )?|def |')%s(?:\)|\(|')" % name, text, re.M)
    return f'"{name}"' in text


def wrong(text, read):
    seen = [number for numbers, _ in rows(text) for number in numbers]
    found = [f"{number} has no row" for number in NUMBERS if number not in seen]
    found += [f"{number} has more than one row" for number in sorted(set(seen)) if seen.count(number) > 1]
    found += [f"{number} is no requirement" for number in seen if number not in NUMBERS]
    for numbers, cell in rows(text):
        if not list(named(cell)) and not re.search(r"planned: issue \d|decided: \S", cell):
            found.append(f"{numbers[0]} names no test, no issue and no decision")
    for file, name in named(text):
        if not is_test(name, read(file)):
            found.append(f'{file} has no test "{name}"')
    return found


def self_test():
    page = "".join(f"| {n} | x | `tests/a.c`: `one_is`, `two is` |\n" for n in NUMBERS)
    files = {"tests/a.c": 'TEST(one_is)\n{\n}\n    "two is"\n'}

    def read(file):
        return files.get(file, "")
    assert wrong(page, read) == []
    assert wrong(page.replace("| T7 |", "| T8 |"), read) == ["T7 has no row", "T8 has more than one row"]
    assert wrong(page + "| W51 | x | planned: issue 3 |\n", read) == ["W51 is no requirement"]
    lone = page.replace("| N1 | x | `tests/a.c`: `one_is`, `two is` |", "| N1 | x | soon |")
    assert wrong(lone, read) == ["N1 names no test, no issue and no decision"]
    assert wrong(lone.replace("soon", "planned: issue 5"), read) == []
    assert wrong(lone.replace("soon", "decided: otherwise"), read) == []
    assert wrong(lone.replace("soon", "`tests/b.c`: `one_is`"), read) == ['tests/b.c has no test "one_is"']
    spread = page.replace("| W2 | x | `tests/a.c`: `one_is`, `two is` |\n", "").replace("| W1 |", "| W1 to W2 |")
    assert wrong(spread, read) == []
    files["tests/a.c"] = 'call(one_is);\n/* two is */'  # named, but no test
    assert wrong(lone.replace("soon", "planned: issue 5"), read)[0] == 'tests/a.c has no test "one_is"'
    return []


if __name__ == "__main__":
    sys.exit(main("tests/requirements.md", wrong, self_test))
