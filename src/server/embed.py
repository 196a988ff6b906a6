#!/usr/bin/env python3
"""embed.py FILE OUT: a JSON document as the C array openapi_text, without white space."""
import json
import sys
from pathlib import Path

document = json.loads(Path(sys.argv[1]).read_text(encoding='utf-8'))
lines = [json.dumps(key) + ':' + json.dumps(value, separators=(',', ':')) for key, value in document.items()]
text = '{' + ',\n'.join(lines) + '}'
literals = '\n'.join('    ' + json.dumps(text[i:i + 100]) for i in range(0, len(text), 100))
Path(sys.argv[2]).write_text(f'static const char openapi_text[] =\n{literals};\n', encoding='ascii')
