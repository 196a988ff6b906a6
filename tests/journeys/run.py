#!/usr/bin/env python3
"""run.py - run journeys: run.py EVERFOLD [MODULE[.CLASS[.TEST]]…]

Without a module, all of them. Each journey has an empty directory of its own. Use a release build: the journeys work
on 100,000 events and more.

example: tests/journeys/run.py build/everfold test_drain
"""
import pathlib
import sys
import unittest

import kit


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    kit.EVERFOLD = str(pathlib.Path(sys.argv[1]).resolve())
    here = pathlib.Path(__file__).resolve().parent
    sys.path.insert(0, str(here))
    names = sys.argv[2:] or sorted(p.stem for p in here.glob("test_*.py"))
    suite = unittest.defaultTestLoader.loadTestsFromNames(names)
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    sys.exit(0 if result.wasSuccessful() and result.testsRun > 0 else 1)


if __name__ == "__main__":
    main()
