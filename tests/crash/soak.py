#!/usr/bin/env python3
"""The crash tests over and over, with other seeds and every point, for as long as they are let."""
import os
import random
import sys
import time

import faults
import hammer
import sweep
from harness import Report, arguments


def main():
    parser = arguments(__doc__)
    parser.add_argument("--minutes", type=float, required=True)
    options = parser.parse_args()
    worker, dice = os.path.abspath(options.worker), random.Random(options.seed)
    until, rounds, report = time.monotonic() + 60 * options.minutes, 0, Report()
    while time.monotonic() < until and not report.failed:
        seed = dice.randrange(1 << 30)
        rounds += 1
        print("# round %d, seed %d" % (rounds, seed), flush=True)
        hammer.run(worker, 60, 50, seed, report)
        faults.run(worker, True, seed, report)
        # The points are the same in every round: as many as there is time for are met in the first.
        sweep.run(worker, rounds == 1, options.keep, report, until=until)
    print("# %d rounds, %d tests, %d failed, first seed %d" %
          (rounds, report.number, report.failed, options.seed))
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
