#!/usr/bin/env python3
"""links.py - every relative link of the Markdown pages leads to a file, and every anchor to a heading; every file in
the table of a README exists.

    links.py --source DIR
    links.py --self-test

A table of files is one whose first column is called "file" or "source"; its names may lack the suffix, and are in the
folder of the README or below it.

Checked are Markdown links and images, `src` and `srcset` of HTML tags, and paths of the form docs/….md in every
other text file of the tree (help texts, comments, scripts). Links to other hosts are not followed.
"""

import argparse
import os
import re
import sys
import tempfile
from pathlib import Path

FENCE = re.compile(r'^(```|~~~).*?^\1[^\n]*$', re.MULTILINE | re.DOTALL)
CODE = re.compile(r'`[^`\n]*`')
LINK = re.compile(r'\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)|(?:src|srcset)="([^"]+)"')
HEADING = re.compile(r'^#{1,6} +(.+?) *#*$', re.MULTILINE)
DOCS_PATH = re.compile(r'\bdocs/[\w/-]+\.md\b')
FILE_TABLE = re.compile(r'^\| *(?:file|source) *\|.*\n\|[ -|]*\n((?:\|.*\n?)+)', re.MULTILINE)
FILE_NAME = re.compile(r'`([a-z][a-z0-9_./-]*)`')
SKIPPED_DIRECTORIES = {'.git', 'build', 'subprojects', 'node_modules', '__pycache__'}
TEXT_SUFFIXES = {'.c', '.h', '.py', '.md', '.build', '.sql', '.js', '.html', '.sh', '.service', '.fold', '.txt', ''}


def blank(match):
    """White space of the same shape, so that line numbers stay."""
    return re.sub(r'[^\n]', ' ', match.group(0))


def files_of(root):
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in SKIPPED_DIRECTORIES)
        for name in sorted(names):
            yield Path(folder) / name


def markdown_files(root):
    return [path for path in files_of(root) if path.suffix == '.md']


def anchor_of(heading):
    """The anchor that GitHub gives to a heading."""
    text = re.sub(r'\[([^]]*)\]\([^)]*\)', r'\1', heading).lower()
    return re.sub(r'[^\w\- ]', '', text).replace(' ', '-')


def anchors_of(text):
    seen, anchors = {}, set()
    for heading in HEADING.findall(FENCE.sub(blank, text)):
        name = anchor_of(heading)
        count = seen.get(name, 0)
        seen[name] = count + 1
        anchors.add(f'{name}-{count}' if count else name)
    return anchors


def link_problem(path, target, root):
    """What is wrong with a relative link, or None."""
    if re.match(r'[a-z][a-z0-9+.-]*:', target):
        return None
    name, _, anchor = target.partition('#')
    file = (path.parent / name).resolve() if name else path
    if not file.exists():
        return f'{target} does not exist'
    if root not in file.parents and file != root:
        return f'{target} is outside the tree'
    if anchor and (file.suffix != '.md' or anchor not in anchors_of(file.read_text(encoding='utf-8'))):
        return f'{target}: no such heading'
    return None


def check_markdown(path, root):
    text = CODE.sub(blank, FENCE.sub(blank, path.read_text(encoding='utf-8')))
    for match in LINK.finditer(text):
        problem = link_problem(path, match.group(1) or match.group(2), root)
        if problem:
            yield f'{path.relative_to(root)}:{text.count(chr(10), 0, match.start()) + 1}: {problem}'


def file_exists(folder, name):
    return any(folder.rglob(name)) or any(folder.rglob(name + '.*'))


def check_tables(path, root):
    for table in FILE_TABLE.findall(path.read_text(encoding='utf-8')):
        for row in table.splitlines():
            for name in FILE_NAME.findall(row.split('|')[1]):
                if not file_exists(path.parent, name):
                    yield f'{path.relative_to(root)}: {name} does not exist'


def check_paths(path, root):
    try:
        text = path.read_text(encoding='utf-8')
    except UnicodeDecodeError:
        return
    for match in DOCS_PATH.finditer(text):
        if not (root / match.group(0)).is_file():
            line = text.count('\n', 0, match.start()) + 1
            yield f'{path.relative_to(root)}:{line}: {match.group(0)} does not exist'


def check(root):
    found = []
    for path in files_of(root):
        if path.suffix == '.md':
            found += check_markdown(path, root)
        if path.name == 'README.md':
            found += check_tables(path, root)
        if path.suffix in TEXT_SUFFIXES and path.name != 'links.py' and path.parent.name != 'check':
            found += check_paths(path, root)
    return found


GOOD = {
    'README.md': '# Top\n[page](docs/a.md#two-words) [top](#top) [web](https://example.org/x) <img src="docs/b.png">\n'
                 '```\n[not](a-link.md)\n```\n`[nor](this.md)`\n',
    'docs/a.md': '# A\n## Two words\n## Two words\n[up](../README.md) [b](b.png) [again](#two-words-1)\n',
    'docs/b.png': 'x',
    'src/a.c': '/* see docs/a.md */\n',
    'src/README.md': '| file | content |\n| --- | --- |\n| `a`, `a.c` | text of `none` |\n\n| other | x |\n| --- | --- |\n'
                     '| `none` | x |\n',
}

# a file, what replaces what in it, and what must be found
CASES = [
    ('README.md', '', '', None),
    ('README.md', 'docs/a.md#', 'docs/c.md#', 'README.md:2: docs/c.md#two-words does not exist'),
    ('README.md', 'two-words', 'three', 'docs/a.md#three: no such heading'),
    ('README.md', '(#top)', '(#bottom)', 'no such heading'),
    ('README.md', 'src="docs/b', 'src="docs/c', 'docs/c.png does not exist'),
    ('docs/a.md', '(../README.md)', '(../../README.md)', 'does not exist'),
    ('docs/a.md', 'two-words-1', 'two-words-2', 'no such heading'),
    ('src/README.md', '`a`,', '`b`,', 'src/README.md: b does not exist'),
    ('src/README.md', '`a.c`', '`a.h`', 'src/README.md: a.h does not exist'),
    ('src/a.c', 'docs/a.md', 'docs/old.md', 'src/a.c:1: docs/old.md does not exist'),
]


def self_test():
    found = []
    for changed, old, new, expected in CASES:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder).resolve()
            for name, text in GOOD.items():
                (root / name).parent.mkdir(exist_ok=True)
                (root / name).write_text(text.replace(old, new) if name == changed and old else text, encoding='utf-8')
            problems = check(root)
        if bool(problems) != (expected is not None) or (expected and not any(expected in p for p in problems)):
            found.append(f'expected "{expected}", found {problems}')
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
