#!/usr/bin/env python3
"""Which commits of views are on the disk when they return, and what a full disk leaves: by strace.

usage: sync.py KILL_WORKER [BACKEND]
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

COMMITS = 20
# It cannot be traced too.
ENVIRONMENT = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}


class Syncs:
    """What a run of 20 commits syncs: by a call, and by writing to a file that is opened so."""

    def __init__(self, worker, backend, what, folder):
        calls = os.path.join(folder, "calls")
        url = "%s:%s" % (backend, os.path.join(folder, what + ".db"))
        subprocess.run(["strace", "-f", "-o", calls, "-e", "trace=fdatasync,fsync,openat,pwrite64",
                        worker, what, url], check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
        self.calls = self.writes = 0
        through = set()
        with open(calls, encoding="utf-8") as lines:
            for line in lines:
                opened = re.search(r"openat\(.*O_D?SYNC.* = (\d+)$", line)
                written = re.search(r"pwrite64\((\d+),", line)
                if opened:
                    through.add(opened.group(1))
                self.calls += "sync(" in line
                self.writes += bool(written and written.group(1) in through)


def check_sqlite(worker, folder):
    opening, synced, lazy = (Syncs(worker, "sqlite", what, folder).calls
                             for what in ("check", "synced", "lazy"))
    assert synced - opening >= COMMITS, "%d syncs in %d commits" % (synced - opening, COMMITS)
    print("ok 1 - a commit is synced before it returns")
    assert lazy - opening < COMMITS, "%d syncs in %d commits" % (lazy - opening, COMMITS)
    print("ok 2 - a commit that may be lost is not")


def check_lmdb(worker, folder):
    """Pages are synced by a call, then the meta page that shows them is written through, or not."""
    opening, synced, lazy = (Syncs(worker, "lmdb", what, folder)
                             for what in ("check", "synced", "lazy"))
    assert synced.calls - opening.calls >= COMMITS, (synced.calls, opening.calls)
    assert synced.writes - opening.writes >= COMMITS, (synced.writes, opening.writes)
    print("ok 1 - a commit is synced before it returns, pages and then the meta page")
    assert lazy.calls - opening.calls >= COMMITS, (lazy.calls, opening.calls)
    assert lazy.writes - opening.writes < 5, (lazy.writes, opening.writes)
    print("ok 2 - the meta page of a commit that may be lost is not, its pages are")


def check_full(worker, folder):
    """Every write of pages fails once in its turn, for want of room; what is there stays whole."""
    url = "lmdb:%s" % os.path.join(folder, "synced.db")
    failed = 0
    for when in range(1, 40, 6):
        run = subprocess.run(["strace", "-f", "-o", os.devnull, "-e", "trace=pwrite64,pwritev",
                              "-e", "inject=pwrite64,pwritev:error=ENOSPC:when=%d" % when, worker,
                              "synced", url], capture_output=True, text=True, env=ENVIRONMENT)
        if run.returncode:
            assert "EF_FULL" in run.stderr or "EF_IO" in run.stderr, run.stderr
            failed += "EF_FULL" in run.stderr
        looked = subprocess.run([worker, "check", url], capture_output=True, text=True)
        assert looked.returncode == 0, "write %d: %s" % (when, looked.stderr)
    assert failed >= 3, "only %d writes failed" % failed
    print("ok 3 - a full disk is named, and changes nothing")


def main():
    worker, backend = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "sqlite"
    if not shutil.which("strace"):
        print("1..0 # SKIP there is no strace")
        return
    print("1..%d" % (3 if backend == "lmdb" else 2), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        if backend == "lmdb":
            check_lmdb(worker, folder)
            check_full(worker, folder)
        else:
            check_sqlite(worker, folder)


main()
