#!/usr/bin/env python3
"""embed.py OUT FILE…: the monitor's files as a C table, each with its type and a sum.

The word BUILD in an address of the page (assets/BUILD/…) becomes the sum over all files.
"""
import hashlib
import sys
from pathlib import Path

TYPES = {'.html': 'text/html; charset=utf-8', '.css': 'text/css; charset=utf-8',
         '.js': 'text/javascript; charset=utf-8', '.svg': 'image/svg+xml'}


def literal(data):
    """The bytes as a C string, a line a line; what is no plain character is written in octal."""
    out = []
    for line in data.splitlines(keepends=True):
        text = ''.join(chr(b) if 32 <= b < 127 and b not in b'"\\?' else f'\\{b:03o}' for b in line)
        out.append(f'    "{text}"')
    return '\n'.join(out) or '    ""'


def main():
    paths = sorted((Path(p) for p in sys.argv[2:]), key=lambda p: p.name)
    files = {p.name: p.read_bytes() for p in paths}
    build = hashlib.sha256(b'\0'.join(n.encode() + b'\0' + d for n, d in files.items())).hexdigest()[:16]
    with open(sys.argv[1], 'w', encoding='ascii') as out:
        out.write(f'#define ASSETS_BUILD "{build}"\n\nstatic const ef__asset assets[] = {{\n')
        for name, data in files.items():
            if name.endswith('.html'):
                data = data.replace(b'assets/BUILD/', b'assets/' + build.encode() + b'/')
            etag = hashlib.sha256(data).hexdigest()[:16]
            out.write(f'{{"{name}", "{TYPES[Path(name).suffix]}", "\\"{etag}\\"",\n'
                      f'{literal(data)},\n    {len(data)}}},\n')
        out.write('};\n')


main()
