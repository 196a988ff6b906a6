#!/usr/bin/env python3
"""textgen.py OUT NAME=FILE…: files as C strings, `static const char NAME[]` each."""
import sys


def literal(text):
    lines = text.splitlines(keepends=True)
    escaped = (line.replace('\\', '\\\\').replace('"', '\\"').replace('\n', '\\n') for line in lines)
    return '\n'.join(f'    "{line}"' for line in escaped) or '    ""'


with open(sys.argv[1], 'w', encoding='utf-8') as out:
    for pair in sys.argv[2:]:
        name, path = pair.split('=', 1)
        with open(path, encoding='utf-8') as file:
            out.write(f'static const char {name}[] =\n{literal(file.read())};\n')
