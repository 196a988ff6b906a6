#!/usr/bin/env python3
"""tree.py - checks the rules of the source tree.

    tree.py modules  --source DIR          includes between modules (ARCHITECTURE.md, "Modules")
    tree.py headers  --source DIR --cc CC --cxx CXX
    tree.py sql      --source DIR          back ends of an interface have the same statements
    tree.py banned   --source DIR          calls of unsafe functions
    tree.py audit    --source DIR          no code reads audit entries to decide something
    tree.py exports  --library FILE        only ef_ symbols leave the library
    tree.py public   --source DIR          at most PUBLIC_MAX functions in the public headers
    tree.py tidy     --source DIR          long files, trailing space, paths of one machine
    tree.py --self-test --cc CC --cxx CXX  each check reports its bad examples

A check is a function that returns what it found, a line each; none means that all is well. The self
test runs every check on a small good tree and on bad ones made from it, so that a check that has
stopped working is noticed.
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

# --- reading C --------------------------------------------------------------------------------

C_NOISE = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/', re.DOTALL)


def blank(match):
    """White space of the same shape, so that line numbers stay."""
    return re.sub(r'[^\n]', ' ', match.group(0))


def code_only(text):
    return C_NOISE.sub(blank, text)


def line_of(text, offset):
    return text.count('\n', 0, offset) + 1


def includes_of(path):
    """(line, '<' or '"', name) of each include that is not commented out."""
    text = path.read_text(encoding='utf-8')
    # Only comments go: an include's own quotes are wanted.
    text = COMMENT.sub(blank, text)
    return [(line_of(text, m.start()), m.group(1), m.group(2)) for m in INCLUDE.finditer(text)]


def c_files(folder):
    return sorted(p for p in folder.rglob('*') if p.suffix in ('.c', '.h')) if folder.is_dir() else []


# --- modules ----------------------------------------------------------------------------------

MAY_INCLUDE = {
    'base': set(),
    'core': {'base'},
    'fold': {'base'},
    'journal': {'core', 'sqlite', 'postgres', 'base'},
    'sqlite': {'base'},
    'postgres': {'base'},
    'views': {'core', 'fold', 'sqlite', 'postgres', 'base'},
    'bus': {'core', 'base'},
    'engine': {'journal', 'views', 'bus', 'fold', 'core', 'base'},
    'shape': {'base'},
    'client': {'shape', 'base'},
    'monitor': set(),
    'server': {'monitor', 'shape', 'base'},
    'cli': {'server', 'shape', 'base'},
    '': set(),  # src/*.c
}

# The only folders of src/ that may know a library. A folder stands for all below it.
LIBRARY_FOLDERS = [
    (r'sqlite3(ext)?\.h', ['journal/sqlite', 'views/sqlite', 'sqlite']),
    (r'(postgresql/)?libpq.*', ['journal/postgres', 'views/postgres', 'postgres']),
    (r'(mysql|mariadb)[/.].*', ['journal/mariadb', 'views/mariadb']),
    (r'nats([/.].*)', ['bus/nats', 'journal/jetstream']),
    (r'lmdb\.h', ['views/lmdb']),
    (r'microhttpd\.h|gnutls/.*', ['server']),
    (r'curl/.*', ['bus/webhook', 'client', 'server']),
    (r'openssl/.*|xxhash\.h|zlib\.h|mpdecimal\.h', ['base']),
]

# The rules are pure: no I/O, no clock, no threads, no memory of their own.
CORE_MAY_USE = {'assert.h', 'inttypes.h', 'limits.h', 'stdbool.h', 'stddef.h', 'stdint.h',
                'string.h'}


def module_of(relative):
    """('journal', 'journal/sqlite') for journal/sqlite/x.c: the module and the folder."""
    parts = relative.parts[:-1]
    return (parts[0] if parts else ''), '/'.join(parts)


def under(folder, top):
    return folder == top or folder.startswith(top + '/')


def library_finding(name, folder):
    for pattern, folders in LIBRARY_FOLDERS:
        if re.fullmatch(pattern, name) and not any(under(folder, f) for f in folders):
            return f'<{name}> is for {", ".join(folders)} only'
    return None


def angle_finding(name, module, folder, public):
    if name.startswith('everfold/'):
        return None if (public / name).is_file() else f'<{name}> is not a public header'
    if module == 'core' and name not in CORE_MAY_USE:
        return f'<{name}>: core is pure, it may use {", ".join(sorted(CORE_MAY_USE))}'
    return library_finding(name, folder)


def quoted_finding(name, path, module, folder, src):
    for base in (path.parent, src):
        target = Path(os.path.normpath(base / name))
        if target.is_file():
            break
    else:
        # Made by the build (SQL, the monitor's files): it belongs to the module of its includer.
        return f'"{name}" does not exist' if '/' in name else None
    if src not in target.parents:
        return f'"{name}" is outside src/: public headers are <everfold/...>'
    other, other_folder = module_of(target.relative_to(src))
    if other != module and other not in MAY_INCLUDE[module]:
        return f'"{name}": {module or "src"} may not include {other or "src"}'
    # Folders of an interface are back ends: others include the header of the interface only.
    if '/' in other_folder and other in ('journal', 'views', 'bus') and not under(folder, other_folder):
        return f'"{name}" belongs to the back end {other_folder}'
    return None


def check_modules(args):
    root = Path(args.source).resolve()
    src, public, found = root / 'src', root / 'include', []
    for path in c_files(src):
        module, folder = module_of(path.relative_to(src))
        if module not in MAY_INCLUDE:
            found.append(f'{path.relative_to(root)}: there is no module {module}')
            continue
        for line, kind, name in includes_of(path):
            problem = (angle_finding(name, module, folder, public) if kind == '<'
                       else quoted_finding(name, path, module, folder, src))
            if problem:
                found.append(f'{path.relative_to(root)}:{line}: {problem}')
    for path in c_files(public) + c_files(root / 'examples'):
        for line, kind, name in includes_of(path):
            if kind == '"' and (public in path.parents or '..' in name):
                found.append(f'{path.relative_to(root)}:{line}: "{name}": a public header is '
                             '<everfold/...>')
    return found


# --- headers ----------------------------------------------------------------------------------

STRICT = ['-Wall', '-Wextra', '-pedantic-errors', '-Werror', '-fsyntax-only']


# The macros of the headers, as an application uses them.
MACROS = """
static ef_log_field number_field(void) { return EF_LOG_NUMBER_FIELD("pages", 12); }
static ef_log_field text_field(void) { return EF_LOG_TEXT_FIELD("error", EF_STR("disk full")); }
int main(void)
{
    ef_error err = EF_ERROR_INIT;
    ef_batch batch = EF_BATCH_INIT;
    return (int)(number_field().number + text_field().number) + (int)batch.count + (int)err.asked;
}
"""


def compile_finding(compiler, language, std, header, public):
    # Twice: the second time the guard has to keep it out.
    unit = f'#include <everfold/{header.name}>\n' * 2 + (MACROS if header.name == 'everfold.h' else '')
    run = subprocess.run(
        shlex.split(compiler) + STRICT + [f'-std={std}', '-x', language, f'-I{public}', '-'],
        input=unit, capture_output=True, text=True, check=False)
    if run.returncode == 0:
        return None
    return f'include/everfold/{header.name} alone as {std}:\n{run.stderr.strip()}'


def own_header_finding(path):
    includes = includes_of(path)
    if not includes:
        return None
    _, kind, name = includes[0]
    own = path.with_suffix('.h').name
    if path.with_suffix('.h').is_file() and (kind, name) != ('"', own):
        return f'its first include is {name}, not its own {own}'
    if kind == '<' and not name.startswith('everfold/'):
        return f'its first include is <{name}>, not a header of ours'
    return None


def check_headers(args):
    root = Path(args.source).resolve()
    public, found = root / 'include', []
    headers = sorted((public / 'everfold').glob('*.h'))
    if not headers:
        found.append('include/everfold has no header')
    for header in headers:
        for compiler, language, std in ((args.cc, 'c', 'c17'), (args.cxx, 'c++', 'c++17')):
            found.append(compile_finding(compiler, language, std, header, public))
    for path in c_files(root / 'src'):
        if path.suffix == '.c':
            problem = own_header_finding(path)
            found.append(problem and f'{path.relative_to(root)}: {problem}')
    return [f for f in found if f]


# --- public -----------------------------------------------------------------------------------

# Issue 20 asks for 150: lower it with every function that leaves the headers, and never raise it.
PUBLIC_MAX = 150
PUBLIC_FUNCTION = re.compile(r'^(?!typedef)[A-Za-z_][\w *\n]*?\b(ef_\w+)\(', re.MULTILINE)
DEFINING_MACRO = re.compile(r'##[^\n]*\((?:[^\n]*\\\n)*?[^\n]*\{')
PREPROCESSOR = re.compile(r'^[ \t]*#(?:[^\n]*\\\n)*[^\n]*', re.MULTILINE)


def check_public(args):
    """Functions of the library, exported or inline; client.h is the API of a server."""
    names, found = [], []
    for header in sorted((Path(args.source).resolve() / 'include' / 'everfold').glob('*.h')):
        if header.name != 'client.h':
            code = code_only(header.read_text(encoding='utf-8'))
            # Functions that a macro defines would not be counted.
            found += [f'{header.name} has a macro that defines functions' for macro in PREPROCESSOR.findall(code)
                      if DEFINING_MACRO.search(macro)]
            names += PUBLIC_FUNCTION.findall(PREPROCESSOR.sub('', code))
    if len(names) > PUBLIC_MAX:
        found.append(f'include/everfold has {len(names)} functions, at most {PUBLIC_MAX} are allowed')
    return found


# --- sql --------------------------------------------------------------------------------------

SQL_NOISE = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:''|[^'])*'|\"[^\"]*\"", re.DOTALL)
SQL_NAME = re.compile(r'^--[ \t]*name:[ \t]*(\S+)[ \t]*$', re.MULTILINE)
SQL_ONLY = re.compile(r'^--[ \t]*only:[ \t]*(\S+)[ \t]*(.*)$', re.MULTILINE)
SQL_BINDS = re.compile(r'^--[ \t]*binds:[ \t]*\S', re.MULTILINE)
SQL_PARAMETER = re.compile(r'\?|\$\d|(?<!:)[:@$][A-Za-z_]\w*')


def statements_of(path):
    """(line, name, text) of each `-- name:`; the text goes up to the next one."""
    text = path.read_text(encoding='utf-8')
    marks = list(SQL_NAME.finditer(text))
    ends = [m.start() for m in marks[1:]] + [len(text)]
    return [(line_of(text, m.start()), m.group(1), text[m.end():end])
            for m, end in zip(marks, ends)]


def read_backend(folder, root, found):
    """Names of its statements -> whether the statement has "only"."""
    names = {}
    for path in sorted(folder.rglob('*.sql')):
        # An "only" for a whole file would exempt statements that are added to the file later.
        if SQL_ONLY.search(SQL_NAME.split(path.read_text(encoding='utf-8'), maxsplit=1)[0]):
            found.append(f'{path.relative_to(root)}: "only" is before the first statement: repeat it for each statement')
        for line, name, text in statements_of(path):
            where = f'{path.relative_to(root)}:{line}: {name}'
            only = SQL_ONLY.search(text)
            if name in names:
                found.append(f'{where} is there twice')
            names[name] = only is not None
            if only and only.group(1).rstrip(':,') != folder.name:
                found.append(f'{where} has "only: {only.group(1)}" in {folder.name}')
            if only and len(only.group(2).split()) < 2:
                found.append(f'{where} has "only" without a reason')
            if SQL_PARAMETER.search(SQL_NOISE.sub(blank, text)) and not SQL_BINDS.search(text):
                found.append(f'{where} has parameters and no "-- binds:"')
    return names


def check_sql(args):
    root, found = Path(args.source).resolve(), []
    for interface in ('journal', 'views'):
        folders = sorted({p.parent for p in (root / 'src' / interface).glob('*/*.sql')})
        backends = {f.name: read_backend(f, root, found) for f in folders}
        for name in sorted({n for names in backends.values() for n in names}):
            having = [b for b, names in backends.items() if name in names]
            lacking = [b for b in backends if b not in having]
            if lacking and not all(backends[b][name] for b in having):
                found.append(f'src/{interface}: {name} is in {", ".join(having)} and not in '
                             f'{", ".join(lacking)} (add "-- only: {having[0]} why")')
            exempt = [b for b in having if backends[b][name]]
            if exempt and not lacking:
                found.append(f'src/{interface}: {name} has "only: {exempt[0]}" and all back ends have it')
    return found


# --- banned calls -----------------------------------------------------------------------------

BANNED = re.compile(
    r'(?<![\w.>])(strcpy|strcat|sprintf|vsprintf|gets|strtok|atoi|atol|atoll|v?[fs]?scanf|system|'
    r'popen|alloca)\s*\(')


def check_banned(args):
    root, found = Path(args.source).resolve(), []
    for folder in ('src', 'include', 'examples'):
        for path in c_files(root / folder):
            code = code_only(path.read_text(encoding='utf-8'))
            for m in BANNED.finditer(code):
                found.append(f'{path.relative_to(root)}:{line_of(code, m.start())}: {m.group(1)}')
    return found


# --- audit entries ------------------------------------------------------------------------------

# An audit entry records what an operator did, for people. State that decides anything is stored.
AUDIT_READ = re.compile(r'\b(?:\w+_)?audit_ls\b')
AUDIT_READERS = ('src/journal/', 'src/client/', 'src/cli/calls.h', 'src/cli/cmd_audit_ls.c', 'src/cli/cli.h',
                 'src/server/routes_outbox.c',
                 'src/cli/cmd_doctor.c',  # shows who paused a projection
                 'src/engine/upgrade.c')  # view stores that were written before they had the state


def check_audit(args):
    root, found = Path(args.source).resolve(), []
    for path in c_files(root / 'src'):
        name, code = str(path.relative_to(root)), code_only(path.read_text(encoding='utf-8'))
        if not name.startswith(AUDIT_READERS):
            found += [f'{name}:{line_of(code, m.start())}: {m.group(0)} reads audit entries'
                      for m in AUDIT_READ.finditer(code)]
    return found


# --- exports ----------------------------------------------------------------------------------


def tool_output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def check_exports(args):
    found, exported = [], []
    for line in tool_output('nm', '-D', '--defined-only', args.library).splitlines():
        kind, symbol = line.split()[-2:]
        symbol = symbol.split('@')[0]
        if kind == 'A':  # the version's own name
            continue
        exported.append(symbol)
        if not re.fullmatch(r'ef_[a-z]\w*', symbol):
            found.append(f'{symbol} is exported')
    if 'ef_version' not in exported:
        found.append('ef_version is not exported: is this the library?')
    soname = re.search(r'\(SONAME\).*\[(.*)\]', tool_output('readelf', '-d', args.library))
    if not soname or soname.group(1) != 'libeverfold.so.0':
        found.append(f'the soname is {soname.group(1) if soname else "missing"}, '
                     'not libeverfold.so.0')
    return found


# --- tidy -------------------------------------------------------------------------------------

LINES_MAX = 600
MACHINE_PATH = re.compile(r'(?<![\w.$}-])/(home|work|root|Users)/\w')
LEFT_ALONE = re.compile(r'(^|/)(corpus|\.git|__pycache__)/|^build[^/]*/')


def tracked_files(root):
    """What git knows or would add; without git, everything."""
    git = subprocess.run(['git', '-C', str(root), 'ls-files', '-co', '--exclude-standard', '-z'],
                         capture_output=True, text=True, check=False)
    if git.returncode == 0:
        names = [n for n in git.stdout.split('\0') if n]
    else:
        names = [str(p.relative_to(root)) for p in root.rglob('*')]
    return [n for n in sorted(names) if not LEFT_ALONE.search(n) and (root / n).is_file()]


def check_tidy(args):
    root, found = Path(args.source).resolve(), []
    for name in tracked_files(root):
        raw = (root / name).read_bytes()
        if b'\0' in raw:
            continue
        lines = raw.decode('utf-8', 'replace').split('\n')
        if name.startswith('src/') and len(lines) - 1 > LINES_MAX:
            found.append(f'{name}: {len(lines) - 1} lines, {LINES_MAX} are the most')
        for number, line in enumerate(lines, 1):
            if line != line.rstrip():
                found.append(f'{name}:{number}: trailing white space')
            if MACHINE_PATH.search(line):
                found.append(f'{name}:{number}: a path of one machine: {line.strip()}')
    return found


# --- self test --------------------------------------------------------------------------------

CHECKS = {'modules': check_modules, 'headers': check_headers, 'sql': check_sql,
          'banned': check_banned, 'audit': check_audit, 'public': check_public,
          'exports': check_exports, 'tidy': check_tidy}

GOOD_TREE = {
    'include/everfold/a.h': '#ifndef A_H\n#define A_H\nint ef_a(void);\n#endif\n',
    'src/base/a.h': '#ifndef BASE_A_H\n#define BASE_A_H\nint a(void);\n#endif\n',
    'src/base/a.c': '#include "a.h"\n#include <zlib.h>\nint a(void) { return 1; }\n',
    'src/core/r.c': '#include "../base/a.h"\n#include <stdint.h>\n',
    'src/journal/journal.h': '#include <everfold/a.h>\n',
    'src/journal/sqlite/s.c': '#include "../journal.h"\n#include "s_sql.h"\n#include <sqlite3.h>\n',
    'src/journal/sqlite/x.sql': "-- name: one\n-- binds: 1 a text\nselect ?1;\n"
                                "-- name: two\n-- only: sqlite it alone has this\nselect '?';\n",
    'src/journal/postgres/x.sql': '-- name: one\n-- binds: 1 a text\nselect $1;\n',
    'src/journal/postgres/z.sql': '-- name: six\n-- only: postgres it alone has this\nselect 1;\n',
    'src/cli/main.c': '/* strcpy(a, b) */\n#include "../base/a.h"\n#include <everfold/a.h>\n'
                      'const char *s = "system(1)"; // gets(s)\n',
}

# check, file, its text, what must be found
BAD_FILES = [
    ('public', 'include/everfold/b.h', ''.join(f'int ef_f{i}(void);\n' for i in range(PUBLIC_MAX)),
     f'has {PUBLIC_MAX + 1} functions'),
    ('public', 'include/everfold/b.h',
     ''.join(f'static inline int ef_f{i}(void)\n{{\n    return 0;\n}}\n' for i in range(PUBLIC_MAX)),
     f'has {PUBLIC_MAX + 1} functions'),
    ('public', 'include/everfold/b.h',
     '#define EF_R(name) \\\n    static inline void name##_r(void) \\\n    { \\\n    }\n', 'macro that defines functions'),
    ('modules', 'src/base/b.c', '#include "../core/r.h"\n', 'does not exist'),
    ('modules', 'src/base/b.c', '#include "../journal/journal.h"\n', 'base may not include journal'),
    ('modules', 'src/cli/b.c', '#include "../journal/journal.h"\n', 'cli may not include journal'),
    ('modules', 'src/cli/b.c', '#include "journal/journal.h"\n', 'cli may not include journal'),
    ('modules', 'src/cli/b.c', '#include <sqlite3.h>\n', 'is for journal/sqlite'),
    ('modules', 'src/journal/b.c', '#include <sqlite3.h>\n', 'is for journal/sqlite'),
    ('modules', 'src/journal/sqlite/b.c', '#include <libpq-fe.h>\n', 'is for journal/postgres'),
    ('modules', 'src/engine/b.c', '#include <libpq-fe.h>\n', 'is for journal/postgres'),
    ('modules', 'src/journal/memory/b.c', '#include "../sqlite/own.h"\n', 'belongs to the back end'),
    ('modules', 'src/core/b.c', '#include <stdio.h>\n', 'core is pure'),
    ('modules', 'src/core/b.c', '  #  include <time.h>\n', 'core is pure'),
    ('modules', 'src/core/b.c', '#include <unistd.h>\n', 'core is pure'),
    ('modules', 'src/core/b.c', '#include <pthread.h>\n', 'core is pure'),
    ('modules', 'src/attic/b.c', '', 'no module attic'),
    ('modules', 'src/cli/b.c', '#include <everfold/none.h>\n', 'not a public header'),
    ('modules', 'src/cli/b.c', '#include "../../include/everfold/a.h"\n', 'outside src/'),
    ('modules', 'include/everfold/b.h', '#include "a.h"\n', 'a public header is'),
    ('modules', 'examples/b.c', '#include "../src/base/a.h"\n', 'a public header is'),
    ('headers', 'include/everfold/b.h', 'size_t ef_b(void);\n', 'alone as c17'),
    ('headers', 'include/everfold/b.h', 'int ef_b(int class);\n', 'alone as c++17'),
    ('headers', 'include/everfold/b.h', 'typedef struct b { int a; } b;\n', 'alone as c17'),
    ('headers', 'src/base/a.c', '#include <stdio.h>\n#include "a.h"\n', 'first include'),
    ('headers', 'src/base/b.c', '#include <stdio.h>\n#include "a.h"\n', 'first include'),
    ('sql', 'src/journal/sqlite/y.sql', '-- name: three\nselect 1;\n', 'three is in sqlite and not'),
    ('sql', 'src/journal/postgres/y.sql', '-- name: three\nselect 1;\n', 'three is in postgres and'),
    ('sql', 'src/journal/postgres/y.sql', '-- name: two\nselect 1;\n-- name: two\nselect 1;\n',
     'is there twice'),
    ('sql', 'src/journal/postgres/y.sql', '-- name: four\n-- only: sqlite for a reason\nselect 1;\n',
     'has "only: sqlite" in postgres'),
    ('sql', 'src/journal/sqlite/y.sql', '-- name: four\n-- only: sqlite\nselect 1;\n',
     'without a reason'),
    ('sql', 'src/journal/sqlite/y.sql', '-- only: sqlite for a reason\n-- name: four\nselect 1;\n',
     'repeat it for each statement'),
    ('sql', 'src/journal/sqlite/y.sql', '-- name: six\n-- only: sqlite for a reason\nselect 1;\n',
     'all back ends have it'),
    ('sql', 'src/journal/postgres/y.sql', '-- name: four\n-- only: postgres it can\nselect 1;\n'
     '-- name: five\nselect 1;\n', 'five is in postgres and'),
    ('sql', 'src/journal/sqlite/x.sql', '-- name: one\nselect ?1;\n', 'no "-- binds:"'),
    ('sql', 'src/journal/postgres/x.sql', '-- name: one\nselect $1;\n', 'no "-- binds:"'),
    ('banned', 'src/base/b.c', 'void f(char *a) { strcpy (a, "x"); }\n', 'b.c:1: strcpy'),
    ('banned', 'src/base/b.c', '\nint n = sscanf(a, "%d", &b);\n', 'b.c:2: sscanf'),
    ('banned', 'include/everfold/b.h', '#define B(x) atoi(x)\n', 'atoi'),
    ('banned', 'examples/b.c', 'int r = "\\"" && system("ls");\n', 'system'),
    ('audit', 'src/engine/b.c', '\nint n = ef_audit_ls(journal);\n', 'b.c:2: ef_audit_ls reads'),
    ('audit', 'src/engine/b.c', 'int n = journal->ops->audit_ls(journal);\n', 'b.c:1: audit_ls reads'),
    ('tidy', 'src/base/b.c', 'int b; \n', 'b.c:1: trailing white space'),
    ('tidy', 'README.md', 'a\t\n', 'trailing white space'),
    ('tidy', 'src/base/b.c', '\n' * 1001, '1001 lines'),
    ('tidy', 'docs/b.md', 'see /' + 'home/me/notes\n', "a path of one machine"),
    ('tidy', 'docs/b.md', 'in "/' + 'work/tree"\n', "a path of one machine"),
]

# C text, link arguments, what must be found (None: nothing)
LIBRARIES = [
    ('int ef_version(void){return 0;}', ['-Wl,-soname,libeverfold.so.0'], None),
    ('int ef_version(void){return 0;} int other;', ['-Wl,-soname,libeverfold.so.0'], 'other is exp'),
    ('int ef_version(void){return 0;} int ef__inner;', ['-Wl,-soname,libeverfold.so.0'], 'ef__inner'),
    ('int ef_version(void){return 0;}', ['-Wl,-soname,libeverfold.so'], 'the soname is libev'),
    ('int ef_version(void){return 0;}', [], 'the soname is missing'),
    ('static int a; int ef_b(void){return a;}', ['-Wl,-soname,libeverfold.so.0'], 'ef_version is not'),
]


def write_tree(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding='utf-8')


def self_test_tree(args, check, files, expected):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_tree(root, {**GOOD_TREE, 'src/journal/sqlite/own.h': '', **files})
        options = argparse.Namespace(source=folder, cc=args.cc, cxx=args.cxx)
        return judge(f'{check} {list(files)}', CHECKS[check](options), expected)


def self_test_library(args, code, link, expected):
    with tempfile.TemporaryDirectory() as folder:
        library = str(Path(folder) / 'lib.so')
        subprocess.run(shlex.split(args.cc) + ['-shared', '-fPIC', '-nostdlib', '-x', 'c', '-',
                                               '-o', library] + link,
                       input=code, text=True, check=True)
        return judge(f'exports {code}', check_exports(argparse.Namespace(library=library)), expected)


def judge(what, found, expected):
    if expected is None:
        return [f'{what}: nothing is wrong, yet found {found}'] if found else []
    if any(expected in line for line in found):
        return []
    return [f'{what}: "{expected}" was to be found, found {found}']


def self_test(args):
    found = []
    for check in ('modules', 'headers', 'sql', 'public', 'banned', 'audit', 'tidy'):
        found += self_test_tree(args, check, {}, None)
    for check, name, text, expected in BAD_FILES:
        found += self_test_tree(args, check, {name: text}, expected)
    for code, link, expected in LIBRARIES:
        found += self_test_library(args, code, link, expected)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('check', nargs='?', choices=sorted(CHECKS))
    parser.add_argument('--self-test', action='store_true')
    parser.add_argument('--source', default='.')
    parser.add_argument('--library')
    parser.add_argument('--cc', default='cc')
    parser.add_argument('--cxx', default='c++')
    args = parser.parse_args()
    if args.self_test == bool(args.check):
        parser.error('one check, or --self-test')
    if args.check == 'exports' and not args.library:
        parser.error('exports needs --library')
    found = self_test(args) if args.self_test else CHECKS[args.check](args)
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
