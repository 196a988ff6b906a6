#!/usr/bin/env python3
"""readme.py - what README.md tells people to type works, and prints what it says.

    readme.py run --source DIR --everfold PROGRAM    run the sh blocks, in order
    readme.py c --source DIR                         print the C block, for the build to compile
    readme.py run-c --program PROGRAM                run that, in a folder of its own
    readme.py --self-test

A ```sh block is run by bash in a fresh folder, in which build/everfold is the program given. Lines
that begin with script/ are left out: they build what is being tested. A ```text block behind it is
what the block prints; `…` in it stands for anything within a line, and alone on a line for any lines.
A block with `<!-- not run: REASON -->` on the line above it is for reading only.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

BLOCK = re.compile(r'^(<!-- not run: [^\n]+ -->\n+)?```(\w*)\n(.*?)^```$', re.MULTILINE | re.DOTALL)
TIMEOUT_S = 60


def blocks_of(text):
    """(line, language, body) of each block that is not for reading only."""
    return [(text.count('\n', 0, m.start(2)) + 1, m.group(2), m.group(3))
            for m in BLOCK.finditer(text) if not m.group(1)]


def steps_of(text):
    """(line, commands, what they print or None)"""
    blocks, steps = blocks_of(text), []
    for i, (line, language, body) in enumerate(blocks):
        if language != 'sh':
            continue
        commands = '\n'.join(c for c in body.splitlines() if not c.startswith('script/'))
        behind = blocks[i + 1] if i + 1 < len(blocks) else (0, '', '')
        steps.append((line, commands, behind[2] if behind[1] == 'text' else None))
    return steps


def printed_as_told(told, printed):
    pattern = ''
    for line in told.splitlines():
        if line.strip() == '…':
            pattern += r'(?:[^\n]*\n)*?'
        else:
            pattern += '[^\n]*'.join(re.escape(part) for part in line.split('…')) + ' *\n'
    return re.fullmatch(pattern, printed) is not None


def run_steps(steps, folder, environment):
    for line, commands, told in steps:
        if not commands.strip():
            continue
        run = subprocess.run(['bash', '-euo', 'pipefail', '-c', commands], cwd=folder,
                             env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                             text=True, timeout=TIMEOUT_S, check=False)
        if run.returncode != 0:
            return [f'README.md:{line}: exit {run.returncode}\n{commands}\n{run.stdout}{run.stderr}']
        if told is not None and not printed_as_told(told, run.stdout):
            return [f'README.md:{line}: it says\n{told}and what was printed is\n{run.stdout}']
    return []


def run_readme(text, everfold):
    steps = steps_of(text)
    if not any('build/everfold' in commands for _, commands, _ in steps):
        return ['README.md has no command to run']
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / 'build').mkdir()
        (Path(folder) / 'build' / 'everfold').symlink_to(Path(everfold).resolve())
        # The reader's own settings must not help.
        environment = {k: v for k, v in os.environ.items() if not k.startswith('EVERFOLD_')}
        return run_steps(steps, folder, environment)


def c_block(text):
    found = [body for _, language, body in blocks_of(text) if language == 'c']
    if len(found) != 1:
        sys.exit(f'README.md has {len(found)} C blocks, one was to be there')
    return found[0]


def run_c(program):
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run([Path(program).resolve()], cwd=folder, capture_output=True, text=True,
                             timeout=TIMEOUT_S, check=False)
    if run.returncode != 0 or not run.stdout:
        return [f'exit {run.returncode}\n{run.stdout}{run.stderr}']
    return []


GOOD = '''
```sh
script/build
build/everfold one
```

```text
one
```

<!-- not run: it fails -->
```sh
exit 1
```

```sh
build/everfold "two   three" && echo four
```

```text
two … three
…
```
'''

# README.md's text, what must be found (None: nothing)
CASES = [
    (GOOD, None),
    (GOOD.replace('```text\none', '```text\nother'), 'what was printed is'),
    (GOOD.replace('```text\none\n', '```text\none\ntwo\n'), 'what was printed is'),
    (GOOD.replace('```text\none\n', '```text\n'), 'what was printed is'),
    (GOOD.replace('echo four', 'false'), 'exit 1'),
    (GOOD.replace('<!-- not run: it fails -->\n', ''), 'exit 1'),
    (GOOD.replace('not run: it fails', 'not run'), 'exit 1'),
    ('nothing here', 'no command to run'),
]


def self_test():
    found = []
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / 'everfold'
        program.write_text('#!/bin/sh\necho "$1"\n', encoding='utf-8')
        program.chmod(0o755)
        for text, expected in CASES:
            problems = run_readme(text, program)
            if bool(problems) != (expected is not None) or (
                    expected and expected not in problems[0]):
                found.append(f'"{expected}" was to be found, found {problems} in\n{text}')
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('what', nargs='?', choices=['run', 'c', 'run-c'])
    parser.add_argument('--self-test', action='store_true')
    parser.add_argument('--source', default='.')
    parser.add_argument('--everfold')
    parser.add_argument('--program')
    args = parser.parse_args()
    if args.self_test:
        found = self_test()
    elif args.what == 'run-c':
        found = run_c(args.program)
    else:
        text = (Path(args.source) / 'README.md').read_text(encoding='utf-8')
        if args.what == 'c':
            print(c_block(text), end='')
            return 0
        found = run_readme(text, args.everfold)
    print('\n'.join(found), end='\n' if found else '')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
