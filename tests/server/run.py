#!/usr/bin/env python3
"""run.py EVERFOLD TEST…: run the tests of a subject against servers of that binary."""
import sys
import unittest

import support

support.EVERFOLD = sys.argv[1]
suite = unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromName(n) for n in sys.argv[2:])
sys.exit(0 if unittest.TextTestRunner(verbosity=1).run(suite).wasSuccessful() else 1)
