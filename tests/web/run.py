#!/usr/bin/env python3
"""run.py EVERFOLD FIXTURE TEST…: the monitor in a headless Chromium, against servers of that binary.

Without Chromium the test is skipped, and says so: script/deps test installs it.
"""
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "server"))

import browser
import support

if not browser.program():
    print("the monitor is not tested: there is no chromium (script/deps test)", file=sys.stderr)
    sys.exit(77)
support.EVERFOLD = str(Path(sys.argv[1]).resolve())
support.FIXTURE = str(Path(sys.argv[2]).resolve())
suite = unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromName(n) for n in sys.argv[3:])
sys.exit(0 if unittest.TextTestRunner(verbosity=1).run(suite).wasSuccessful() else 1)
