#!/usr/bin/env python3
"""The journal loses its last events and the views keep what those made: by a disk that lied in a
power cut, or by an older copy of the journal put back by hand.

The views are then ahead of the journal, and events that are appended now get places that the views
have passed. They must not be taken for what was there: each is applied, or waits in a row with the
reason beside it, or its projection stands still and says so. A rebuild puts it right.
"""
import json
import os
import shutil
import subprocess
import sys

import apply_oracle
from apply import WORK
from harness import FILES, Place, Report, arguments, environment, scratch
from oracle import Copy, Ledger, Oracle, Workload, need

KEPT, LOST = Workload(60, 9, 20, 1, 20), Workload(120, 9, 20, 2, 20)
NAMES = ("totals", "trail", "logged")


class Behind:
    """A data directory whose journal has lost LOST, while the views have it."""

    def __init__(self, tools, directory):
        self.everfold = tools[1]
        self.place = Place(tools[0], directory)
        self.place.must("append", *KEPT.args())
        self.place.must("deploy", 3)
        self.place.must(*WORK)
        old = self.place.clone(directory + "-old")
        self.place.must("append", *LOST.args())
        self.place.must(*WORK)
        apply_oracle.check_done(self.place.database, NAMES)
        for suffix in FILES:
            if os.path.exists(self.place.path(suffix)):
                os.remove(self.place.path(suffix))
            if os.path.exists(old.path(suffix)):
                shutil.copyfile(old.path(suffix), self.place.path(suffix))
        old.remove()
        os.remove(self.place.ledger)

    def command(self, *words, codes=(0,)):
        done = subprocess.run([self.everfold, *words, "--data", self.place.directory],
                              capture_output=True, text=True, check=False, timeout=120,
                              env=environment())
        need(done.returncode in codes, "%s gave %d: %s%s", " ".join(words), done.returncode,
             done.stdout[-500:], done.stderr[-1500:])
        return done

    def json(self, *words):
        return json.loads(self.command(*words, "-o", "json").stdout)

    def state(self, name):
        return next(row["state"] for row in self.json("projection", "ls") if row["name"] == name)

    def heal(self, *workloads):
        """A rebuild in place of each, and everything is as if nothing had been lost."""
        for name in NAMES:
            self.command("projection", "rebuild", name, "--in-place", "--wait")
        self.place.must(*WORK)
        oracle = Oracle([KEPT, *workloads])
        oracle.check(self.place.database, Ledger(self.place.ledger))
        need(oracle.count == KEPT.total + sum(w.total for w in workloads), "%d events",
             oracle.count)
        apply_oracle.check_done(self.place.database, NAMES)


def named_at_once(tools, root):
    """Nothing has been appended since: it is named by the worker, and by who looks for gaps."""
    behind = Behind(tools, os.path.join(root, "at-once"))
    said = behind.command("work", "--drain", codes=(6,)).stderr
    need('projection \\"logged\\" has read position 180' in said, "the worker said: %s", said)
    need(behind.state("logged") == "failed", "logged is %s", behind.state("logged"))
    gaps = behind.json("gaps", "detect")["gaps"]
    ahead = {(gap["projection"], gap["tenant"], gap["stream"]) for gap in gaps
             if gap["journal_seq"] < gap["applied_seq"]}
    with Copy(behind.place.database) as db:
        streams = {(row[0], row[1]) for row in db.execute("SELECT tenant, name FROM stream")}
    lost = {("t2" if i % 5 == 0 else "", LOST.event(i)[1]) for i in range(LOST.total)}
    need(ahead == {(name, *stream) for name in ("totals", "trail") for stream in lost & streams},
         "the gaps are %r", sorted(ahead))
    for row in behind.json("projection", "ls"):
        need(row["unaccounted"] != 0 or row["name"] == "logged", "%s adds up", row["name"])
    behind.heal()
    return "%d streams of two projections, and a cursor" % len(lost & streams)


def nothing_is_passed(tools, root, total):
    """`total` events take places of those that were lost, or more than that."""
    behind = Behind(tools, os.path.join(root, "new-%d" % total))
    place, work = behind.place, Workload(total, 9, 10, 3, 20)
    place.must("append", *work.args())
    behind.command("work", "--drain", codes=(6,))
    journal = apply_oracle.Journal(place.database)
    with Copy(apply_oracle.views_of(place.database)) as db:
        marks = {(row[0], row[1], row[2]): row[3:] for row in db.execute(
            "SELECT g.name, w.tenant, w.stream, w.applied_seq, w.expected_next_seq, w.hash"
            " FROM watermark w JOIN generation g ON g.id = w.generation")}
        failures = {row[0] for row in db.execute("SELECT code FROM failure WHERE open")}
    held = 0
    for event in journal.events[KEPT.total:]:
        for name in ("totals", "trail"):
            seq, expected, digest = marks.get((name, event.tenant, event.stream), (0, 0, b""))
            at = journal.streams[event.tenant, event.stream]
            applied = event.seq <= seq <= len(at) and at[seq - 1].hash == digest and expected > seq
            waits = (name, event.position) in journal.exceptions or event.position in journal.queued
            need(applied or waits, "position %d was passed over by %s", event.position, name)
            held += not applied
    need(held > 0 and "hash_mismatch" in failures, "nothing was noticed: %d, %r", held, failures)
    need(behind.state("logged") == "failed", "logged is %s", behind.state("logged"))
    behind.heal(work)
    return "%d events, %d times held back" % (total, held)


def run(tools, report):
    root = scratch()
    report.test("views that are ahead of the journal are named", named_at_once, tools, root)
    for total, words in ((20, "fewer than were lost"), (200, "more than were lost")):
        report.test("new events in places of lost ones are never passed over: " + words,
                    nothing_is_passed, tools, root, total)
    shutil.rmtree(root, ignore_errors=True)


def main():
    parser = arguments(__doc__)
    parser.add_argument("everfold", help="the command")
    options = parser.parse_args()
    report = Report()
    run([os.path.abspath(path) for path in (options.worker, options.everfold)], report)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
