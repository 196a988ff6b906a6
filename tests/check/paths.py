#!/usr/bin/env python3
"""paths.py - the paths that ARCHITECTURE.md draws through the source exist.

    paths.py --source DIR
    paths.py --self-test

A path is a code block of the kind `path`. A line of it has a file below src/, indented below the file that calls it,
and names of functions in that file. For each line the check wants the file to exist, to have each function, and, when
the line is a call into another module, to be reachable: the caller, or a file of its module, includes a header of the
callee's module, or a public header for the modules behind the public API. The sentence after the block states how many
module boundaries the path crosses: lines whose module is not that of the line before. Any other source file that the
page names in backquotes exists as well.
"""

import argparse
import re
import sys
import tempfile
from pathlib import Path

BLOCK = re.compile(r'^```path\n(.*?)^```\n(.*?)(?=^```|^#|\Z)', re.MULTILINE | re.DOTALL)
LINE = re.compile(r'^( *)([\w/]+\.[ch])  +(.+?)(?:  +◄.*)?$')
NAMED = re.compile(r'`((?:\w+/)*\w+\.(?:[ch]|sql|py|pml))`')
COUNT = re.compile(r'\*\*(\d+)\*\* module boundaries')
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.MULTILINE)
PUBLIC = {'journal', 'engine', 'fold', 'views', 'bus'}  # modules that the public headers declare


def module_of(name):
    return name.split('/')[0]


def steps_of(block):
    """[indentation, file, names of functions] of each line; a line that is not one raises ValueError."""
    steps = []
    for line in block.splitlines():
        match = LINE.match(line)
        if not match:
            raise ValueError(f'"{line}" is not FILE  FUNCTION, …')
        steps.append((len(match.group(1)), match.group(2), re.findall(r'\w+', match.group(3))))
    return steps


def included_modules(src, module):
    """Modules of which a file of `module` includes a header."""
    found = set()
    for path in [*(src / module).rglob('*.c'), *(src / module).rglob('*.h')]:
        for name in INCLUDE.findall(path.read_text(encoding='utf-8')):
            if name.startswith('everfold/'):
                found |= PUBLIC
            elif '/' in name:
                found |= {part for part in name.split('/')[:-1] if (src / part).is_dir()}
    return found


def check_step(src, caller, name, functions):
    path = src / name
    if not path.is_file():
        return [f'src/{name} does not exist']
    text = path.read_text(encoding='utf-8')
    found = [f'src/{name} has no {f}' for f in functions if not re.search(rf'\b{f}\(', text)]
    if caller and module_of(caller) != module_of(name) and \
            module_of(name) not in included_modules(src, module_of(caller)):
        found.append(f'src/{module_of(caller)} includes no header of {module_of(name)}')
    return found


def check(root):
    text = (root / 'ARCHITECTURE.md').read_text(encoding='utf-8')
    found, paths = [], BLOCK.findall(text)
    if not paths:
        found.append('no path')
    for block, after in paths:
        stack, crossed, before = [], 0, None
        for indent, name, functions in steps_of(block):
            stack = [entry for entry in stack if entry[0] < indent]
            found += check_step(root / 'src', stack[-1][1] if stack else None, name, functions)
            stack.append((indent, name))
            crossed += before is not None and module_of(before) != module_of(name)
            before = name
        stated = COUNT.search(after)
        if not stated or int(stated.group(1)) != crossed:
            found.append(f'the path of {block.split()[0]} crosses {crossed} module boundaries, the text says '
                         f'{stated.group(1) if stated else "nothing"}')
    files = [str(path.relative_to(root)) for top in ('src', 'include', 'tests') for path in (root / top).rglob('*.*')]
    for name in sorted(set(NAMED.findall(text))):
        if not any(('/' + file).endswith('/' + name) for file in files):
            found.append(f'{name} does not exist')
    return [f'ARCHITECTURE.md: {line}' for line in found]


GOOD = {
    'ARCHITECTURE.md': '```path\na/x.c  f, g\n  b/y.c  h  ◄ durable\na/x.c  g\n```\nIt crosses **2** module boundaries.\n',
    'src/a/x.c': '#include "../b/y.h"\nint f(void);\nint g(int a) { return h(a); }\n',
    'src/b/y.c': 'int h(int a) { return a; }\n',
    'src/b/y.h': '',
}
BAD = [
    ('ARCHITECTURE.md', GOOD['ARCHITECTURE.md'].replace('**2**', '**3**'), 'the text says 3'),
    ('ARCHITECTURE.md', GOOD['ARCHITECTURE.md'].replace('**2**', 'two'), 'the text says nothing'),
    ('ARCHITECTURE.md', GOOD['ARCHITECTURE.md'].replace('b/y.c', 'b/z.c'), 'src/b/z.c does not exist'),
    ('ARCHITECTURE.md', GOOD['ARCHITECTURE.md'].replace('f, g', 'f, k'), 'src/a/x.c has no k'),
    ('ARCHITECTURE.md', 'text\n', 'no path'),
    ('ARCHITECTURE.md', GOOD['ARCHITECTURE.md'] + 'See `y.h` and `a/y.h`.\n', ': a/y.h does not exist'),
    ('src/a/x.c', 'int f(void);\nint g(int a) { return a; }\n', 'src/a includes no header of b'),
]


def self_test():
    found = []
    for name, text, expected in [(None, '', None)] + BAD:
        with tempfile.TemporaryDirectory() as folder:
            for path, content in {**GOOD, **({name: text} if name else {})}.items():
                (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
                (Path(folder) / path).write_text(content, encoding='utf-8')
            problems = check(Path(folder))
        if bool(problems) != bool(expected) or (expected and not any(expected in p for p in problems)):
            found.append(f'expected {expected}, found {problems}')
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--self-test', action='store_true')
    parser.add_argument('--source', default='.')
    args = parser.parse_args()
    found = self_test() if args.self_test else check(Path(args.source).resolve())
    print('\n'.join(found), end='\n' if found else '')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
