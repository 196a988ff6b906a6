#!/usr/bin/env python3
"""Run the tests of the command line: run.py BINARY FIXTURE [MODULE…]

Without a module, all of them. Each test has a data directory of its own.
"""
import pathlib
import sys
import unittest

import support


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    support.BINARY = str(pathlib.Path(sys.argv[1]).resolve())
    support.FIXTURE = str(pathlib.Path(sys.argv[2]).resolve())
    here = pathlib.Path(__file__).resolve().parent
    names = sys.argv[3:] or sorted(p.stem for p in here.glob("test_*.py"))
    suite = unittest.defaultTestLoader.loadTestsFromNames(names)
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    sys.exit(0 if result.wasSuccessful() and result.testsRun > 0 else 1)


if __name__ == "__main__":
    main()
