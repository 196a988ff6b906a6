#!/usr/bin/env python3
"""The crash tests over and over, with other seeds, for as long as they are let."""
import os
import random
import subprocess
import sys
import time

import apply
import faults
import hammer
import powercut
import publish
import runs
import sweep
from harness import Report, arguments
from oracle import need

MEMORY_STRIDE = 97  # allocations that lie between two that fail; the seed moves them


def memory(program, backend, seed):
    done = subprocess.run([program, backend, str(MEMORY_STRIDE), str(seed)], capture_output=True,
                          text=True, errors="replace", check=False)
    need(done.returncode == 0, "%s%s", done.stdout[-3000:], done.stderr[-3000:])


def main():
    parser = arguments(__doc__)
    parser.add_argument("recorder", help="the library built from recorder.c")
    parser.add_argument("everfold", help="the command")
    parser.add_argument("memory", help="the program built from tests/faults/test_memory.c")
    parser.add_argument("--minutes", type=float, required=True)
    options = parser.parse_args()
    worker, dice = os.path.abspath(options.worker), random.Random(options.seed)
    tools = [worker, os.path.abspath(options.recorder), os.path.abspath(options.everfold)]
    until, rounds, report = time.monotonic() + 60 * options.minutes, 0, Report()
    while time.monotonic() < until and not report.failed:
        seed = dice.randrange(1 << 30)
        rounds += 1
        print("# round %d, seed %d" % (rounds, seed), flush=True)
        hammer.run(worker, 60, 50, seed, report)
        faults.run(worker, True, seed, report)
        powercut.run_all(tools, 60, options.keep, seed, report)
        for backend in ("memory", "sqlite"):
            report.test("memory that runs out on %s is told and loses nothing" % backend, memory,
                        os.path.abspath(options.memory), backend, seed)
        for swept in (apply, runs, publish, sweep):
            swept.run(worker, False, options.keep, seed, report, until=until)
    print("# %d rounds, %d tests, %d failed, first seed %d" %
          (rounds, report.number, report.failed, options.seed))
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
