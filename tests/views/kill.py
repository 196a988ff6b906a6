#!/usr/bin/env python3
"""A process that commits views is killed at random moments: what is left is all of a commit or none.

usage: kill.py KILL_WORKER [BACKEND] [ROUNDS]

Each round goes on where the last one was killed, and the cursor never falls: a kill loses nothing
that was committed (a power cut may). Long enough for a log to be moved into the database too.
"""
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time


def check_sqlite(path, at):
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    seen = db.execute("SELECT count(*), min(data), max(data) FROM views"
                      " WHERE projection = 'p' AND tenant = ''").fetchone()
    assert seen[0] in (180, 200) and seen[1] == seen[2] == '{"n":%d}' % at, seen
    print("ok 2 - the file is whole, and its views are read with plain SQL")


def check_lmdb(path):
    """Pages of commits that were killed are used again: all of them together are a few MB."""
    size = os.path.getsize(os.path.join(path, "data.mdb"))
    assert size < 16 << 20, "data.mdb has %d bytes" % size
    print("ok 2 - the file has not grown by what was killed")


def main():
    worker, backend = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "sqlite"
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 12
    seed = int(os.environ.get("EF_SEED", "0")) or random.randrange(1 << 32)
    dice = random.Random(seed)
    print("1..2\n# seed %d" % seed, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        path, at = os.path.join(folder, "views.db"), 0
        url = "%s:%s" % (backend, path)
        for number in range(rounds):
            process = subprocess.Popen([worker, "write", url])
            time.sleep(dice.uniform(0.02, 0.6))
            assert process.poll() is None, "round %d: it ended by itself" % number
            process.send_signal(signal.SIGKILL)
            process.wait()
            looked = subprocess.run([worker, "check", url], capture_output=True, text=True)
            assert looked.returncode == 0, "round %d: %s" % (number, looked.stderr)
            now = int(looked.stdout)
            assert now >= at, "round %d: the cursor fell from %d to %d" % (number, at, now)
            at = now
        assert at > 0, "nothing was ever committed"
        print("ok 1 - a killed commit leaves all or nothing (%d commits, %d kills)" % (at, rounds))
        check_lmdb(path) if backend == "lmdb" else check_sqlite(path, at)


main()
