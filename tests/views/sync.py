#!/usr/bin/env python3
"""Which commits of views are on the disk when they return: counted by strace.

usage: sync.py KILL_WORKER
"""
import os
import shutil
import subprocess
import sys
import tempfile

COMMITS = 20


def syncs(worker, what, folder):
    """How often a run of 20 commits syncs anything."""
    calls = os.path.join(folder, "calls")
    subprocess.run(["strace", "-f", "-o", calls, "-e", "trace=fdatasync,fsync", worker, what,
                    os.path.join(folder, what + ".db")], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"})  # it cannot be traced too
    with open(calls, encoding="utf-8") as lines:
        return sum("sync(" in line for line in lines)


def main():
    if not shutil.which("strace"):
        print("1..0 # SKIP there is no strace")
        return
    print("1..2", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        opening = syncs(sys.argv[1], "check", folder)
        synced, lazy = syncs(sys.argv[1], "synced", folder), syncs(sys.argv[1], "lazy", folder)
    assert synced - opening >= COMMITS, "%d syncs in %d commits" % (synced - opening, COMMITS)
    print("ok 1 - a commit is synced before it returns")
    assert lazy - opening < COMMITS, "%d syncs in %d commits" % (lazy - opening, COMMITS)
    print("ok 2 - a commit that may be lost is not")


main()
