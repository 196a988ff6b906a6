#!/usr/bin/env python3
"""Turn the .sql files of a back end into C.

usage: sqlgen.py PREFIX OUT.h OUT.c FILE.sql… [MIGRATION.sql…]

Every `-- name: WORD` of a FILE starts a statement; it becomes the constant PREFIX_WORD of an enum,
and its text an entry of the array PREFIX_sql. Comments stay in the .sql file. Files in a folder
called migrations become, in the order of their names, the entries of PREFIX_migrations.
"""
import os
import re
import sys


def c_string(text):
    lines = [line.replace("\\", "\\\\").replace('"', '\\"') for line in text.strip().splitlines()]
    return "\n".join('    "%s\\n"' % line for line in lines)


def without_comments(text):
    lines = [line.rstrip() for line in text.splitlines() if not line.lstrip().startswith("--")]
    return "\n".join(line for line in lines if line)


def statements(path):
    name, body = None, []
    for line in open(path, encoding="utf-8"):
        found = re.match(r"-- name: (\w+)\s*$", line)
        if found:
            if name:
                yield name, "".join(body)
            name, body = found.group(1), []
        elif name:
            body.append(line)
    if name:
        yield name, "".join(body)


def main():
    prefix, out_h, out_c, files = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
    migrations = sorted(f for f in files if os.path.basename(os.path.dirname(f)) == "migrations")
    named = [s for f in files if f not in migrations for s in statements(f)]
    names = [n for n, _ in named]
    twice = {n for n in names if names.count(n) > 1}
    if twice:
        sys.exit("sqlgen: two statements are called %s" % ", ".join(sorted(twice)))
    with open(out_h, "w", encoding="utf-8") as h:
        h.write("/* Made by sqlgen.py from the .sql files; do not edit. */\n#pragma once\n\nenum {\n")
        for n in names:
            h.write("    %s_%s,\n" % (prefix.upper(), n.upper()))
        h.write("    %s_COUNT\n};\n\n" % prefix.upper())
        h.write("extern const char *const %s_sql[];\nextern const char *const %s_names[];\n"
                "extern const char *const %s_migrations[];\nextern const int %s_migration_count;\n"
                % (prefix, prefix, prefix, prefix))
    with open(out_c, "w", encoding="utf-8") as c:
        c.write('/* Made by sqlgen.py from the .sql files; do not edit. */\n#include "%s"\n\n'
                % os.path.basename(out_h))
        c.write("const char *const %s_sql[] = {\n" % prefix)
        for n, text in named:
            c.write("    /* %s */\n%s,\n" % (n, c_string(without_comments(text))))
        c.write("};\n\nconst char *const %s_names[] = {\n" % prefix)
        for n in names:
            c.write('    "%s",\n' % n)
        c.write("};\n\nconst char *const %s_migrations[] = {\n" % prefix)
        for f in migrations:
            c.write("    /* %s */\n%s,\n" % (os.path.basename(f),
                                             c_string(without_comments(open(f, encoding="utf-8").read()))))
        c.write("};\nconst int %s_migration_count = %d;\n" % (prefix, len(migrations)))


main()
