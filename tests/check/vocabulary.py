#!/usr/bin/env python3
"""vocabulary.py - text for people uses the terms of the project, one term per concept.

    vocabulary.py markdown  --source DIR   every Markdown page of the tree
    vocabulary.py source    --source DIR   strings of C code and texts of the monitor
    vocabulary.py comments  --source DIR   comments of C headers, C files and SQL files; migrations are never edited
    vocabulary.py functions --source DIR   names of static functions: a single word names no object
    vocabulary.py --self-test

RULES has a pattern for each wording that is not used, with the term to use instead. Patterns are narrow: a word that
has a common meaning as well (take, look, go, hand) is refused only next to the words that give it the other one.
ALLOWED has the places where a refused wording is right, each with its reason. In Markdown, code blocks, code spans,
comments, link targets and HTML tags are not read: names of commands, fields and tests are not prose.
"""

import argparse
import bisect
import fnmatch
import re
import sys
import tempfile
from pathlib import Path

from links import blank, files_of, markdown_files

RULES = [(re.compile(pattern, re.IGNORECASE), use) for pattern, use in [
    # persons where a program, a process or a client is meant
    (r'\b(?:who(?:m)?ever|somebody|nobody|anybody)\b', 'the worker, the client, the caller, no process'),
    (r'\b(?:he|his|him|himself)\b', 'it, or the noun'),
    (r'\bwho has (?:it|what|which|nothing|them)\b', 'holder'),
    # claim, in flight, acknowledge, offset, retry row
    (r'\bin hand\b', 'in flight'),
    (r'\bhand(?:s|ed|ing)? (?:out|on|back|over|in|it|them|events|rows|what)\b', 'claim, send, pass, return'),
    (r'\bmark(?:s|ed|ing)?\b', 'offset (noun), acknowledge (verb)'),
    (r'\bexceptions?\b', 'retry row'),
    # blocked, skip, quarantine
    (r'\b(?:hold|holds|held|holding|keep|keeps|kept) (?:back|up|out)\b', 'block, blocked'),
    (r'\b(?:wait|waits|waited|waiting|stand|stands|come|comes|goes|go|went|lies|stays|filed|queued)'
     r' (?:on )?behind\b', 'blocked, after, follows'),
    (r'\bbehind (?:it|them|that|which|this) (?:is|are|waits?|come|comes|stands?|goes)\b', 'after, follows'),
    (r'\bbehind (?:the|a|an|its) (?:last|first|point|bracket|colon|key|position|cursor|fence)\b', 'after'),
    (r'\b(?:let|lets|letting) (?:\w+ ){0,3}?(?:pass|go|through)\b', 'skip, close, allow'),
    (r'\bpass(?:es|ed|ing)? (?:\w+ )?over\b', 'skip'),
    (r'\baside\b', 'quarantine; a dry run, beside, in memory'),
    # generations, rebuilds
    (r'\brouted?\b(?=[^.]{0,30}(?:generation|quer|version))|\b(?:is|are|was) routed\b', 'active generation, switch'),
    (r'\bquer(?:y|ies) (?:go|goes|went|have left|leave)\b', 'queries read; the active generation'),
    (r'\banew\b', 'again, from scratch'),
    # workers, tasks, waiting
    (r'\bcrews?\b', 'workers, membership'),
    (r'(?-i:\bposts?\b)', 'task'),
    (r'\b(?:doz(?:e|es|ed|ing)|nudg(?:e|es|ed|ing))\b', 'idle, wake'),
    (r'\b(?:not )?at hand\b', 'available, unavailable'),
    (r'\b(?:is|are|was|were|be|being|been|stays?) away\b', 'unavailable, down'),
    (r'\bgone\b', 'deleted, removed, expired, closed, lost'),
    (r'\bcomings?\b(?! (?:from|in|out|back|soon|release))', 'connection epoch'),
    # reporting, reading
    (r'\b(?:tell|tells|told|telling)\b', 'report, return, log, notify, show'),
    (r'\bhears? (?:of|nothing|about)\b', 'receive, be notified'),
    (r'\blook(?:s|ed|ing)? (?:at|after|again|into|once|twice|early|around)\b', 'check, read, inspect, look up'),
    (r'\b(?:to|can|cannot|could|not|that|may|will|nothing|program) digest\b|\bdigested\b|\bdigests (?:it|an|the|what)\b',
     'process, apply, fold (digest is the checksum)'),
    (r'\bmend(?:s|ed|ing)?\b', 'fix, repair'),
    (r'\b(?:an|each|every|this|last|operator\'s|operators\'|one) acts?\b|\boperators\' acts\b', 'audit entry, action'),
    # parts of the source
    (r'\bseams?\b', 'interface'),
    (r'\brooms?\b', 'module; free space'),
    (r'\bfront door\b', 'public API'),
    (r'\bguests?\b', 'client'),
    (r'\bhouses?\b', 'source tree, project'),
    (r'\b(?:lots?|crowds?)\b', 'batch, many'),
    # messages and sentences
    (r'\bin words\b|\b(?:the|same) words of\b|\bsame words\b|\bin (?:a|one) (?:word|sentence)\b', 'terms, message'),
    (r'\bso (?:many|long|often)\b(?! as\b)', 'the number, or the name of the limit'),
    (r'[,;:] for (?:then|there|they|it|what|nothing|otherwise|only|after|neither|whoever|no|nobody|it) ', 'because'),
    (r'\bworld outside\b', 'other systems'),
]]

# (file, text that overlaps the finding, reason)
ALLOWED = [
    ('*', 'check mark', 'a character'),
    ('*', 'question mark', 'a character'),
    ('*', 'quotation mark', 'a character'),
    ('*', 'direction mark', 'a character'),
    ('*', 'byte order mark', 'a character'),
    ('*.sql', ' seam', 'a column'),
    ('*.sql', '.seam', 'a column'),
    ('*', 'marked as a copy', 'a flag of the store'),
    ('*', 'without exception', 'means: all of them'),
    ('*', 'up to date', 'means: current'),
    ('*', 'lags behind the cursor', 'behind is the word for lag'),
]

FENCE = re.compile(r'^(```|~~~).*?^\1[^\n]*$', re.MULTILINE | re.DOTALL)
CODE = re.compile(r'`[^`\n]*`')
NOT_PROSE = re.compile(r'<!--.*?-->|<[a-zA-Z/][^>]*>|(?<=\])\([^)\n]*\)|https?://\S+', re.DOTALL)


def prose_of(text):
    """A Markdown page without what is not prose, of the same shape. A code span stays as a word without letters."""
    return NOT_PROSE.sub(blank, CODE.sub(lambda m: '·' * len(m.group(0)), FENCE.sub(blank, text)))


def allowed(name, flat, start, end):
    """Whether a text of ALLOWED overlaps flat[start:end]."""
    return any(fnmatch.fnmatch(name, glob) and text in flat[max(0, start - len(text) + 1):end + len(text) - 1]
               for glob, text, _ in ALLOWED)


def flattened(text):
    """The words of a text with single spaces between them, where each begins there, and the line that each is on."""
    words, starts, lines, at = [], [], [], 0
    for number, line in enumerate(text.split('\n'), 1):
        for word in line.split():
            words.append(word)
            starts.append(at)
            lines.append(number)
            at += len(word) + 1
    return ' '.join(words), starts, lines


def findings(name, text):
    """A line for each wording in the prose `text` of the file `name` that RULES refuses."""
    flat, starts, lines = flattened(text)  # a wording may be broken over two lines
    for pattern, use in RULES:
        for match in pattern.finditer(flat):
            if not allowed(name, flat, match.start(), match.end()):
                line = lines[bisect.bisect_right(starts, match.start()) - 1]
                yield line, f'{name}:{line}: "{match.group(0)}": use {use}'


def sorted_lines(found):
    return [text for _, text in sorted(found)]


def check_markdown(root):
    found = []
    for path in markdown_files(root):
        found += sorted_lines(findings(str(path.relative_to(root)), prose_of(path.read_text(encoding='utf-8'))))
    return found


# --- strings of the source ------------------------------------------------------------------------

C_TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|\'(?:\\.|[^\'\\\n])*\'|^[ \t]*#[^\n]*|"((?:\\.|[^"\\\n])*)"',
                     re.DOTALL | re.MULTILINE)
JS_VALUE = re.compile(r'\$\{[^}]*\}')
JS_TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"((?:\\.|[^"\\\n])*)"|\'((?:\\.|[^\'\\\n])*)\'|`((?:\\.|[^`\\])*)`',
                      re.DOTALL)


def strings_of(text, tokens):
    """The page with only its string literals left, those that have more than one word."""
    kept = [' ' if c != '\n' else '\n' for c in text]
    for match in tokens.finditer(text):
        for group in range(1, tokens.groups + 1):
            body = match.group(group)
            if body is not None and ' ' in body.strip():
                start = match.start(group)
                kept[start:start + len(body)] = re.sub(r'\\[nt]', '  ', body)
    return ''.join(kept)


def check_source(root):
    found = []
    for path in files_of(root / 'src'):
        text = None
        if path.suffix == '.c':
            text = strings_of(path.read_text(encoding='utf-8'), C_TOKEN)
        elif path.suffix == '.js':
            text = JS_VALUE.sub(blank, strings_of(path.read_text(encoding='utf-8'), JS_TOKEN))
        elif path.suffix == '.html':
            text = NOT_PROSE.sub(blank, path.read_text(encoding='utf-8'))
        if text is not None:
            found += sorted_lines(findings(str(path.relative_to(root)), text))
    return found


# --- comments -------------------------------------------------------------------------------------

C_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|(//[^\n]*|/\*.*?\*/)', re.DOTALL)


def comments_of(text):
    """The page with only its comments left, without their stars and without code in backquotes."""
    kept = [' ' if c != '\n' else '\n' for c in text]
    for match in C_COMMENT.finditer(text):
        if match.group(1):
            start = match.start(1) + 2
            body = re.sub(r'^[ \t]*\*', blank, match.group(1)[2:], flags=re.MULTILINE)
            kept[start:start + len(body)] = CODE.sub(lambda m: '·' * len(m.group(0)), body)
    return ''.join(kept)


def sql_comments_of(text):
    """The page with only its comments left. The SQL of the tree has no -- in a string."""
    return re.sub(r'^.*?(?:--|$)', blank, text, flags=re.MULTILINE)


def check_comments(root):
    readers = {'.c': comments_of, '.h': comments_of, '.sql': sql_comments_of}
    found = []
    for path in [*files_of(root / 'include'), *files_of(root / 'src')]:
        if path.suffix in readers and 'migrations' not in path.parts:
            text = readers[path.suffix](path.read_text(encoding='utf-8'))
            found += sorted_lines(findings(str(path.relative_to(root)), text))
    return found


# --- names of static functions --------------------------------------------------------------------

STATIC_FUNCTION = re.compile(r'^static\s+[\w\s*]*?\b([a-z][a-z0-9]*)\([^;{}]*\)\s*\{', re.MULTILINE)
C_NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)

# Handlers have the names of their operations.
HANDLERS = 'src/server/routes_*'


def check_functions(root):
    found = []
    for path in files_of(root / 'src'):
        name = str(path.relative_to(root))
        if path.suffix == '.c' and not fnmatch.fnmatch(name, HANDLERS):
            code = C_NOISE.sub(blank, path.read_text(encoding='utf-8'))
            found += [f'{name}:{code.count(chr(10), 0, m.start()) + 1}: "{m.group(1)}" names no object'
                      for m in STATIC_FUNCTION.finditer(code)]
    return found


# --- self test ------------------------------------------------------------------------------------

GOOD = '''# Offsets
A worker claims a batch under its lease. `whoever` and `in hand` are names here.

```sh
everfold tell somebody
```

<!-- not run: nobody -->
[the page](https://example.org/anew) holds without exception. The projection is behind by 5 events and lags behind the cursor.
Views are kept up to date.
An HTTP POST; a check mark; slower, for `pause` it is the ratio; the digest of a view; the pooler that the server is behind; a fold that takes an event.
'''

BAD_PROSE = [
    'Whoever appends first wins.', 'Nobody waits.', 'His name is kept.', 'What a worker had in hand.',
    'Rows are handed out in order.', 'The mark moves.', 'What is no exception.', 'An event that holds back its stream.',
    'What waits behind it.', 'Let it pass.', 'Such rows are passed over.', 'An event is set aside.', 'The version is routed.',
    'Queries go to it.', 'Views are made anew.', 'The crew of a journal.', 'The supervisor has a post.', 'A nudge wakes it.',
    'A sink that is not at hand.', 'The store is away.', 'The row is gone.', 'It tells the reason.',
    'It looks at every event.', 'An event that no program can digest.', 'The command that mends it.', 'Each act is noted.',
    'The seam of the views.', 'The rooms of the source.', 'The front door.', 'A guest of the library.', 'The rules of the house.',
    'A lot of rows.', 'Health in words.', 'It lasts so long.', 'It stops, for there is nothing to do.',
    'It shows who has it.', 'And behind it comes the next.', 'It begins behind the last event.', 'The comings of a link.',
    'LISTEN hears nothing.', 'Events for the world outside.', 'It is set\naside.', '- An event that is kept\n  back.',
]

BAD_SOURCE = {
    'src/a.c': 'int f(void) { ef_fail(err, EF_BUSY, "the store is not at hand"); }\n',
    'src/b.c': '#include "somebody here.h"\n/* nobody */ char *s = "nobody"; log("told %s once");\n',
    'src/c.c': 'help("an event that " /* x */\n     "is handed\\n"\n     "out in order");\n',
    'src/web/a.js': 'const text = `what waits behind it`;\n',
    'src/web/a.html': '<p class="nobody">Looks at it</p>\n',
}

GOOD_COMMENTS = {
    'src/a.sql': "-- binds: 1 seam int\nSELECT seam, 'nobody' FROM somebody;\n",
    'src/migrations/0001.sql': '-- nobody\n',
    'src/a.c': 'const char *s = "/* nobody */"; /* a byte order mark */\n',
}

BAD_COMMENTS = {
    'include/everfold/a.h': '/*\n * a.h - tells\n */\nint somebody; /* `whoever` */\n',
    'src/b.h': 'int a; // his\nconst char *s = "/* nobody */";\n',
    'src/c.h': '/* It is set\n * aside. */\n',
    'src/d.c': 'int somebody; /* handed out */\n',
    'src/e.sql': 'SELECT 1; -- what waits\n-- behind it\n',
}

BAD_FUNCTIONS = {
    'src/base/a.c': 'static void look(int a)\n{\n}\nint take(void)\n{\n}\n',
    'src/views/lmdb/b.c': '/* static void keep(void) { */\nstatic inline vl_row *put(\n    int a)\n{\n}\n',
    'src/server/c.c': 'static void rest(int a);\nstatic void *rest(int a)\n{\n}\nstatic int read_row(int a)\n{\n}\n',
    'src/engine/d.c': 'static ef_status begin(ef_engine *engine,\n                       ef_error *err)\n{\n}\n',
}

GOOD_FUNCTIONS = {
    'src/server/routes_health.c': 'static void livez(int a)\n{\n}\n',
    'src/cli/a.c': '/* static int run(int a) { */\nint main(void)\n{\n}\nstatic int run_command(int a)\n{\n}\n',
}


def write_tree(root, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding='utf-8')


def self_test():
    found = [f'no bad example for {pattern.pattern}' for pattern, _ in RULES
             if not any(pattern.search(flattened(bad)[0]) for bad in BAD_PROSE)]
    for text, expected in [(GOOD, 0)] + [(GOOD + '\n' + bad + '\n', 1) for bad in BAD_PROSE]:
        with tempfile.TemporaryDirectory() as folder:
            write_tree(Path(folder), {'docs/a.md': text})
            problems = check_markdown(Path(folder))
        if bool(problems) != bool(expected):
            found.append(f'expected {expected} findings, found {problems} in\n{text[len(GOOD):] or text}')
    for check, bad, good in ((check_source, BAD_SOURCE, {}), (check_comments, BAD_COMMENTS, GOOD_COMMENTS),
                             (check_functions, BAD_FUNCTIONS, GOOD_FUNCTIONS)):
        with tempfile.TemporaryDirectory() as folder:
            write_tree(Path(folder), {**bad, **good})
            problems = check(Path(folder))
        found += [f'expected nothing: {problem}' for problem in problems if problem.split(':')[0] in good]
        for name in bad:
            if sum(problem.startswith(name + ':') for problem in problems) != 1:
                found.append(f'expected one finding in {name}, found {problems}')
    return found


CHECKS = {'markdown': check_markdown, 'source': check_source, 'comments': check_comments, 'functions': check_functions}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('what', nargs='?', choices=CHECKS)
    parser.add_argument('--self-test', action='store_true')
    parser.add_argument('--source', default='.')
    args = parser.parse_args()
    root = Path(args.source).resolve()
    found = self_test() if args.self_test else CHECKS[args.what](root)
    print('\n'.join(found), end='\n' if found else '')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
