#!/usr/bin/env python3
"""manual.py - every example of the fold manual does what the page says.

    manual.py --source DIR --everfold PROGRAM --cases PROGRAM
    manual.py --self-test --everfold PROGRAM --cases PROGRAM

The pages are fold-*.md below docs/. Every fence on them is one of these, in this order, and is checked; a
fence that is none of them, or stands where it cannot be checked, is a problem.

    fold            a whole program. Behind it:
      given         views that are there before (run by tests/fold/run_cases, which can store some)
      events        in the order of the journal
      fails         a message for each event that fails
      views         all that come out, and no other
    fold fragment   statements of a handler: they compile
    fold wrong      a program with a mistake. Behind it:
      report        what `fold check` says
    test            a test file for the programs in examples/shop: all cases pass. Or
    test wrong      one that does not. Behind it:
      text          what `fold test` says
    keys            the keys of an object that `fold test -o json` answers with
    sh              commands, on a journal with the programs and events of the page that they name
      text          what they print, with … for anything

A row of a table of functions, | `CALL` | meaning |, is a fragment too.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from readme import printed_as_told

FENCE = re.compile(r'^```([^\n]*)\n(.*?)^```$', re.MULTILINE | re.DOTALL)
FUNCTION = re.compile(r'^\| `([a-z0-9_]+\(.*\))` \| ', re.MULTILINE)
NAME = re.compile(r'^projection (\w+) version \d+', re.MULTILINE)
FIRST_TIME = 946684800  # 2000-01-01, as fold test has it
BEHIND = {'fold': {'given', 'events', 'fails', 'views'}, 'fold wrong': {'report'},
          'test wrong': {'text'}, 'sh': {'text'}, 'test': set(), 'keys': set(),
          'fold fragment': set()}
NEEDED = {'fold': {'events', 'views'}, 'fold wrong': {'report'}, 'test wrong': {'text'},
          'sh': {'text'}}


class Wrong(Exception):
    """What a page says is not so."""


class Example:
    def __init__(self, line, kind, text):
        self.line, self.kind, self.text, self.parts = line, kind, text, {}

    def lines(self, part):
        return [line for line in self.parts.get(part, '').splitlines() if line.strip()]

    def objects(self, part):
        return [read_json(line) for line in self.lines(part)]

    def name(self):
        found = NAME.search(self.text)
        if not found:
            raise Wrong('the program has no name')
        return found.group(1)


def examples_of(page):
    """The fences, gathered: each example with what stands behind it. Also how many fences there are."""
    examples, fences = [], 0
    if page.count('```') != 2 * len(FENCE.findall(page)):
        raise Wrong('a fence is not closed, or not at the beginning of its line')
    for m in FENCE.finditer(page):
        line, kind = page.count('\n', 0, m.start()) + 1, m.group(1).strip()
        fences += 1
        if kind in BEHIND:
            examples.append(Example(line, kind, m.group(2)))
            continue
        last = examples[-1] if examples else None
        if not any(kind in parts for parts in BEHIND.values()):
            raise Wrong(f'line {line}: "{kind}" is no kind of example that can be checked')
        if not last or kind not in BEHIND[last.kind] or kind in last.parts:
            raise Wrong(f'line {line}: "{kind}" does not belong to the example before it')
        last.parts[kind] = m.group(2)
    for e in examples:
        for part in NEEDED.get(e.kind, set()) - set(e.parts):
            raise Wrong(f'line {e.line}: "{e.kind}" needs "{part}" behind it')
    return examples, fences


def read_json(text):
    """Numbers stay as they are written: a binary fraction would lose digits."""
    return json.loads(text, parse_float=lambda number: f'@number {number}@')


def write_json(value):
    return re.sub(r'"@number ([^@"]+)@"', r'\1',
                  json.dumps(value, sort_keys=True, separators=(',', ':')))


def canonical(views):
    return sorted(write_json([v['view_id'], v['data']]) for v in views)


class Runner:
    def __init__(self, everfold, cases, shop):
        self.everfold, self.cases, self.shop = everfold, cases, shop

    def run(self, folder, *words, code=0):
        environment = {k: v for k, v in os.environ.items() if not k.startswith('EVERFOLD_')}
        environment['EVERFOLD_DATA'] = str(Path(folder) / 'data')
        done = subprocess.run([str(w) for w in words], cwd=folder, env=environment,
                              capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != code:
            raise Wrong(f'{" ".join(map(str, words[1:3]))} ended with {done.returncode}, not {code}:\n'
                        f'{done.stdout}{done.stderr}')
        return done

    def check_text(self, folder, name, text):
        """It compiles, without a warning."""
        (Path(folder) / name).write_text(text, encoding='utf-8')
        done = self.run(folder, self.everfold, 'fold', 'check', name)
        if done.stdout != f'{name}: ok\n' or done.stderr:
            raise Wrong(f'fold check says\n{done.stdout}{done.stderr}')

    # --- whole programs --------------------------------------------------------------------------

    @staticmethod
    def events(example):
        filled = []
        for i, event in enumerate(example.objects('events')):
            seconds = FIRST_TIME + i
            time = f'2000-01-01T00:{(seconds // 60) % 60:02}:{seconds % 60:02}Z'
            filled.append({'stream': 's', 'data': {}, 'time': time, **event})
        return ''.join(write_json(e) + '\n' for e in filled)

    def fill(self, folder, example):
        """A journal and views on the disk, with this program and these events."""
        program, events = Path(folder) / f'{example.name()}.fold', Path(folder) / 'events.ndjson'
        program.write_text(example.text, encoding='utf-8')
        events.write_text(self.events(example), encoding='utf-8')
        self.run(folder, self.everfold, 'init')
        self.run(folder, self.everfold, 'projection', 'deploy', program)
        self.run(folder, self.everfold, 'event', 'import', events, '--quiet')
        self.run(folder, self.everfold, 'work', '--drain', '--quiet',
                 code=6 if example.lines('fails') else 0)

    def fold_test(self, folder, example):
        """The same as a test file: it knows fails, and that they are all."""
        name = example.name()
        text = f'program {name}.fold\ncase it is as the page says\ngiven\n{self.events(example)}'
        text += ''.join(f'fail {line}\n' for line in example.lines('fails'))
        text += 'expect\n' + ''.join(write_json(v) + '\n' for v in example.objects('views'))
        (Path(folder) / 'page.test').write_text(text, encoding='utf-8')
        self.run(folder, self.everfold, 'fold', 'test', 'page.test')

    def run_fold(self, folder, example):
        self.check_text(folder, f'{example.name()}.fold', example.text)
        if 'given' in example.parts:
            self.run_given(folder, example)
            return
        self.fold_test(folder, example)
        self.fill(folder, example)
        out = self.run(folder, self.everfold, 'view', 'export', example.name()).stdout
        found = canonical(read_json(line) for line in out.splitlines())
        if found != canonical(example.objects('views')):
            raise Wrong('the views are\n' + '\n'.join(found))

    def run_given(self, folder, example):
        """run_cases takes [id, data] and [id, schema, data]; PROJECTION/ID is seen by lookup."""
        def view_id(v):
            return f'{v["projection"]}/{v["view_id"]}' if 'projection' in v else v['view_id']

        given = example.objects('given')
        others = [v for v in given if 'projection' in v]
        rows = {'stored': [[view_id(v)] + ([v['schema']] if 'schema' in v else []) + [v['data']]
                           for v in given],
                'views': [[view_id(v), v['data']] for v in example.objects('views') + others]}
        text = f'--- case it is as the page says\n--- program\n{example.text}'
        text += f'--- events\n{self.events(example)}'
        for section, found in rows.items():
            lines = sorted(write_json(r) for r in found)
            text += f'--- {section}\n' + ''.join(line + '\n' for line in lines)
        path = Path(folder) / 'page.case'
        path.write_text(text, encoding='utf-8')
        self.run(folder, self.cases, path)

    # --- the others ------------------------------------------------------------------------------

    def run_fragment(self, folder, text):
        body = ''.join(f'  {line}\n' for line in text.splitlines())
        self.check_text(folder, 'fragment.fold', f'projection fragment version 1\n\non *\n{body}')

    def run_wrong(self, folder, example):
        name = f'{example.name()}.fold'
        (Path(folder) / name).write_text(example.text, encoding='utf-8')
        said = self.run(folder, self.everfold, 'fold', 'check', name, code=2).stderr
        if said != example.parts['report']:
            raise Wrong(f'fold check says\n{said}')

    def run_test(self, folder, example, *options):
        for path in Path(self.shop).glob('*.fold'):
            (Path(folder) / path.name).write_text(path.read_text(encoding='utf-8'), encoding='utf-8')
        (Path(folder) / 'shop.test').write_text(example.text, encoding='utf-8')
        wrong = example.kind == 'test wrong'
        out = self.run(folder, self.everfold, 'fold', 'test', 'shop.test', *options,
                       code=1 if wrong else 0).stdout
        if wrong and not options and out != example.parts['text']:
            raise Wrong(f'fold test says\n{out}')
        return out

    def run_keys(self, folder, example, page):
        tests = [e for e in page if e.kind == 'test wrong']
        if not tests:
            raise Wrong('there is no "test wrong" on the page to compare with')
        answer = json.loads(self.run_test(folder, tests[0], '-o', 'json'))[0]
        told = '{' + ','.join(json.dumps(k) for k in answer)
        told += ':[{' + ','.join(json.dumps(k) for k in answer['problems'][0]) + '}…]}\n'
        if example.text != told:
            raise Wrong(f'the keys are\n{told}')

    def run_sh(self, folder, example, page):
        named = [e for e in page if e.kind == 'fold' and e.name() in example.text.split()]
        if len(named) != 1:
            raise Wrong('the commands do not name one program of the page')
        self.fill(folder, named[0])
        (Path(folder) / 'everfold').symlink_to(Path(self.everfold).resolve())
        out = self.run(folder, 'bash', '-euc', 'PATH=.:$PATH\n' + example.text).stdout
        if not printed_as_told(example.parts['text'], out):
            raise Wrong(f'what is printed is\n{out}')

    def run_example(self, folder, example, page):
        if example.kind == 'fold':
            self.run_fold(folder, example)
        elif example.kind == 'fold fragment':
            self.run_fragment(folder, example.text)
        elif example.kind == 'fold wrong':
            self.run_wrong(folder, example)
        elif example.kind == 'keys':
            self.run_keys(folder, example, page)
        elif example.kind == 'sh':
            self.run_sh(folder, example, page)
        else:
            self.run_test(folder, example)

    def run_page(self, name, text):
        """(problems, how many fences and rows of functions were checked)"""
        try:
            page, checked = examples_of(text)
        except Wrong as wrong:
            return [f'{name}: {wrong}'], 0
        found = []
        calls = FUNCTION.findall(text)
        together = ''.join(f'x{i} = {call}\n' for i, call in enumerate(calls))
        rows = [Example(0, 'fold fragment', together)] if calls else []
        for example in page + rows:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    self.run_example(folder, example, page)
                except (Wrong, ValueError, KeyError) as wrong:
                    found.append(f'{name}:{example.line}: {example.kind}: {wrong}')
        return found, checked + len(calls)


# --- self test -----------------------------------------------------------------------------------

GOOD = '''
```fold
projection p version 1

on e
  n += data.n
```

```events
{"type":"e","data":{"n":1}}
{"stream":"t","type":"e","data":{"n":"x"}}
```

```fails
line 4: data.n is "x"
```

```views
{"view_id":"s","data":{"n":1}}
```

```fold fragment
a = 1
```

```fold wrong
projection w version 1

on e
  a = b
```

```report
w.fold:4:7: error: there is no "b" in the event fields, and nothing writes it to the view
  a = b
      ^
```

```sh
everfold view get p s
```

```text
…
```

| `lower("A")` | small |

```fold
projection q version 1
  schema 2

migrate from 1 to 2
  m = n
  unset n

on e
  m += 1
```

```given
{"view_id":"s","schema":1,"data":{"n":1}}
```

```events
{"type":"e"}
```

```views
{"view_id":"s","data":{"m":2}}
```
'''

CASES = [  # a change of the page, and what must be found then
    ('', '', None),
    ('{"view_id":"s","data":{"n":1}}\n```\n\n```fold f', '```\n\n```fold f', 'the views are'),
    ('"data":{"n":1}}\n```', '"data":{"n":2}}\n```', 'fold test ended with 1'),
    ('line 4: data.n', 'line 5: data.n', 'fold test ended with 1'),
    ('```fails\nline 4: data.n is "x"\n```\n', '', 'fold test ended with 1'),
    ('a = 1', 'a = = 1', 'fold check ended with 2'),
    ('w.fold:4:7', 'w.fold:4:8', 'fold check says'),
    ('  a = b\n```', '  a = 1\n```', 'fold check ended with 0'),
    ('```text\n…', '```text\nnothing', 'what is printed is'),
    ('`lower("A")`', '`lower("A", 1)`', 'fold check ended with 2'),
    ('{"m":2}', '{"m":3}', 'ended with 1'),
    ('```sh', '```shell', 'is no kind of example'),
    ('```sh', '```', 'is no kind of example'),
    ('```report', '```views', 'does not belong'),
    ('```events\n{"type":"e"}\n```\n', '', 'needs "events"'),
    ('view get p s', 'view get x s', 'do not name one program'),
    ('```sh\neverfold view get p s\n```', ' ```sh\neverfold view get p s\n ```', 'not closed'),
    ('```fold fragment\na = 1\n```', '```fold fragment', 'not closed'),
]


def self_test(runner):
    found = []
    for old, new, expected in CASES:
        page = GOOD.replace(old, new, 1) if old else GOOD
        if old and page == GOOD:
            found.append(f'the case for "{expected}" changes nothing')
        problems, checked = runner.run_page('page', page)
        if bool(problems) != (expected is not None) or (expected and expected not in problems[0]):
            found.append(f'"{expected}" was to be found, found {problems}')
        if expected is None and checked != 14:
            found.append(f'14 fences and rows were to be checked, {checked} were')
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--self-test', action='store_true')
    parser.add_argument('--source', default='.')
    parser.add_argument('--everfold', required=True)
    parser.add_argument('--cases', required=True)
    args = parser.parse_args()
    source = Path(args.source)
    runner = Runner(Path(args.everfold).resolve(), Path(args.cases).resolve(),
                    source / 'examples' / 'shop')
    if args.self_test:
        found = self_test(runner)
    else:
        found, pages = [], sorted((source / 'docs').rglob('fold-*.md'))
        for path in pages:
            problems, checked = runner.run_page(path.name, path.read_text(encoding='utf-8'))
            found += problems
            print(f'{path.name}: {checked} checked, {len(problems)} wrong')
            if checked == 0:
                found.append(f'{path.name}: nothing was checked')
        if len(pages) < 3:
            found.append(f'{len(pages)} pages were found')
    print('\n'.join(found), end='\n' if found else '')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
