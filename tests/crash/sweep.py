#!/usr/bin/env python3
"""SIGKILL before every call that changes a file, in every phase of the journal's life; then look.

strace counts the calls in a run without a kill, and then delivers SIGKILL at the N-th of each.
After each kill the oracle looks at what is left, the library verifies it, and the work is done
again to its end: what was acknowledged must come back as a duplicate at the same place.
"""
import concurrent.futures
import os
import shutil
import signal
import sqlite3
import sys
import time

from harness import (MUTATING, Place, count_calls, end_scratch, sample, scratch, strace,
                     sweep_main)
from oracle import Copy, Ledger, Oracle, Violation, Workload, need


class Scenario:
    """`verb args` on a copy of `prepared` (None: on nothing), killed at its calls on `files`."""

    def __init__(self, prepared, oracle, verb, args, **more):
        self.prepared, self.oracle, self.verb, self.args = prepared, oracle, verb, args
        self.trace = {key: more[key] for key in ("files", "ledger") if key in more}
        self.needs = more.get("needs", ())  # calls without which the run was not what it claims
        self.proof = more.get("proof")      # checks the result of a whole run

    def place(self, worker, directory):
        return self.prepared.clone(directory) if self.prepared else Place(worker, directory)


def run_again(place, scenario, oracle):
    """To the end, and once more: nothing new, everything where it was."""
    for _ in range(2):
        place.must(scenario.verb, *scenario.args)
    ledger = Ledger(place.ledger)
    oracle.check(place.database, ledger)
    if scenario.verb == "append":
        workload = oracle.workloads[int(scenario.args[3])]
        need(sum(1 for seed, _ in ledger.places if seed == workload.seed) == workload.total,
             "some events were never acknowledged")


def kill_at(worker, directory, scenario, call, number, again):
    """One kill (and another while it recovers, where `again` is above 0), and what is left of it.
    Says whether the point was met."""
    place = scenario.place(worker, directory)
    oracle = scenario.oracle.copy()
    inject = "%s:signal=SIGKILL:when=%d"
    done = place.run(scenario.verb, *scenario.args,
                     before=strace(place, call, inject % (call, number), **scenario.trace))
    killed = done.returncode == -signal.SIGKILL
    need(killed or done.returncode == 0, "the worker ended with %d: %s%s", done.returncode,
         done.stdout[-300:], done.stderr[-1500:])
    oracle.check(place.database, Ledger(place.ledger))
    if again:
        place.run(scenario.verb, *scenario.args,
                  before=strace(place, "pwrite64", inject % ("pwrite64", again)))
        oracle.check(place.database, Ledger(place.ledger))
    if os.path.exists(place.database):
        found = place.must("open").stdout
        need(found == "verified %d\n" % oracle.count, "verify says %r, the oracle counts %d", found,
             oracle.count)
    run_again(place, scenario, oracle)
    place.remove()
    return killed


def sweep(worker, root, scenario, most, seed, until=None):
    """`until`: points that are not begun by then (on the monotonic clock) are left out."""
    trial = scenario.place(worker, os.path.join(root, "count"))
    counts = count_calls(trial, MUTATING, scenario.verb, *scenario.args, **scenario.trace)
    scenario.oracle.copy().check(trial.database, Ledger(trial.ledger))
    need(all(counts[call] for call in scenario.needs), "the run makes no %r", scenario.needs)
    if scenario.proof:
        scenario.proof(trial)
    trial.remove()
    chosen, met, left_out = sample(counts, most, seed), 0, 0

    def unless_late(*args):
        return None if until and time.monotonic() > until else kill_at(*args)

    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        runs = {}
        for k, (call, n) in enumerate(chosen):
            again = 1 + k % 23 if k % 4 == 3 else 0
            place = os.path.join(root, "%s-%d" % (call, n))
            run = pool.submit(unless_late, worker, place, scenario, call, n, again)
            runs[run] = (call, n, again)
        for run in concurrent.futures.as_completed(runs):
            try:
                met += run.result() or 0
                left_out += run.result() is None
            except Exception as problem:
                for other in runs:
                    other.cancel()
                raise AssertionError("killed at %s %d (then at pwrite64 %d): %s" %
                                     (*runs[run], problem)) from problem
    # Where threads race, a call may fall to another one and the count be a little off.
    tried = len(chosen) - left_out
    need(met * 10 >= tried * 8, "only %d of %d points were met", met, tried)
    calls = " ".join("%s %d" % count for count in sorted(counts.items()))
    return "%d of %d points, %d killed, of %s" % (tried, sum(counts.values()), met, calls)


def prepare(worker, directory, workload, takes=False):
    place = Place(worker, directory)
    place.must("append", *workload.args())
    oracle = Oracle([workload], takes)
    oracle.check(place.database, Ledger(place.ledger))
    os.remove(place.ledger)  # the oracle has seen all of it, and notices when a row changes
    return place, oracle


def with_workload(oracle, workload):
    oracle.workloads[workload.seed] = workload
    return oracle


def small(worker, root):
    """A new journal: schema, head file, first streams and types, duplicates."""
    del worker, root
    work = Workload(30, 7, 3, 1)
    return Scenario(None, Oracle([work]), "append", work.args())


def has_settled(place):
    with Copy(place.database) as db:
        settled = db.execute("SELECT settled FROM state").fetchone()[0]
    need(settled > 0, "nothing was settled")


def settling(worker, root):
    """The tail is just under the length at which it is settled, in slices of a thousand."""
    place, oracle = prepare(worker, os.path.join(root, "settling"), Workload(8190, 300, 630, 2, 40))
    work = Workload(5000, 320, 500, 3, 40)
    return Scenario(place, with_workload(oracle, work), "append", work.args(), proof=has_settled)


def merge_state(place):
    """How many runs of ids are being merged, their entries that have yet to move, and how many runs
    are merged ones."""
    with Copy(place.database) as db:
        moving = db.execute("SELECT count(*) FROM id_run WHERE merging_into <> 0").fetchone()[0]
        left = db.execute("SELECT coalesce(sum(length(entries)), 0) / 16 FROM id_chunk WHERE run IN"
                          " (SELECT run FROM id_run WHERE merging_into <> 0)").fetchone()[0]
        left -= db.execute("SELECT coalesce(sum(length(entries)), 0) / 16 FROM id_chunk WHERE run IN"
                           " (SELECT merging_into FROM id_run)").fetchone()[0]
        done = db.execute("SELECT count(*) FROM id_run WHERE level = 1").fetchone()[0]
    return moving, left, done if not moving else 0


def begins_merge(place):
    need(merge_state(place)[0] > 0, "no merge has begun")


def ends_merge(place):
    need(merge_state(place)[2] > 0, "no merge has ended")


MERGE_READY = Workload(146000, 500, 1000, 4, 10)  # fifteen runs; the sixteenth is being made


MADE = {}  # the journal of MERGE_READY by its directory


def merge_ready(worker, root):
    """A copy of the journal of MERGE_READY, which is made and proved once for all scenarios of a run."""
    directory = os.path.join(os.path.dirname(root), "merge_ready")
    if directory not in MADE:
        MADE[directory] = prepare(worker, directory, MERGE_READY)
    place, oracle = MADE[directory]
    return place.clone(os.path.join(root, "ready")), oracle.copy()


def merging(worker, root):
    """Sixteen runs of ids begin to become one."""
    place, oracle = merge_ready(worker, root)
    work = Workload(6000, 500, 600, 5, 10)
    need(merge_state(place) == (0, 0, 0), "a merge has begun already")
    return Scenario(place, with_workload(oracle, work), "append", work.args(), proof=begins_merge)


def merged(worker, root):
    """The last entries of sixteen runs are copied, and the runs go."""
    place, oracle = merge_ready(worker, root)
    most, work = Workload(3000, 500, 600, 5, 10), Workload(9000, 500, 600, 10, 10)
    # What comes as a duplicate moves the merge on, too, and leaves the journal as short as it is.
    while not 0 < merge_state(place)[1] < 12000:
        place.must("append", *most.args())
        need(not merge_state(place)[2], "the merge ended before it could be met")
    with_workload(oracle, most).check(place.database, Ledger(place.ledger))
    os.remove(place.ledger)
    return Scenario(place, with_workload(oracle, work), "append", work.args(), proof=ends_merge)


def checkpointing(worker, root):
    """Enough is appended for the log to be moved into the database more than once. Only that writes
    to the database file, so its calls alone are counted."""
    place, oracle = prepare(worker, os.path.join(root, "checkpointing"),
                            Workload(60, 40, 5, 6, 3000))
    work = Workload(1200, 40, 5, 7, 3000)
    return Scenario(place, with_workload(oracle, work), "append", work.args(), files=("",),
                    ledger=False, needs=("fdatasync",))


def taking(worker, root):
    place, oracle = prepare(worker, os.path.join(root, "taking"), Workload(120, 20, 30, 8), True)
    return Scenario(place, oracle, "take", (6, 15, 60000, 60000))


def putting_back(worker, root):
    place, oracle = prepare(worker, os.path.join(root, "putting"), Workload(120, 20, 30, 9), True)
    place.must("take", 2, 60, 60000, 60000)
    oracle.check(place.database, Ledger(place.ledger))
    return Scenario(place, oracle, "requeue", (3,))


MISCHIEF = [
    "DELETE FROM event WHERE position = 120",
    "DELETE FROM event WHERE position = 60",
    "UPDATE event SET data = replace(data, '\"i\"', '\"j\"') WHERE position = 60",
    "UPDATE event SET recorded = recorded + 1 WHERE position = 60",
    "UPDATE event SET seq = seq + 1 WHERE position = 120",
    "UPDATE event SET prev = 0 WHERE position = 120",
    "UPDATE event SET jump = jump + 1 WHERE position = 110",
    "UPDATE event SET hash = zeroblob(32) WHERE position = 120",
    "INSERT INTO event SELECT 121, stream, seq + 1, 120, 0, type, schema, time, recorded, id, data,"
    " meta, sum, hash FROM event WHERE position = 120",
    "INSERT INTO stream VALUES (99, 'nobody', 'wrote this')",
    "DELETE FROM outbox_queue WHERE id = (1 << 48) + 119",
    "INSERT INTO outbox_queue VALUES ((1 << 48) + 121, 1)",
    "INSERT INTO outbox_queue VALUES ((1 << 48) + 1, 1)",
    "UPDATE outbox_queue SET partition = 99 WHERE id = (1 << 48) + 119",
    "UPDATE lane_offset SET position = 0"
    " WHERE partition = (SELECT max(partition) FROM lane_offset)",
    "DELETE FROM retry_row WHERE position = 7",
    "UPDATE retry_row SET status = 0 WHERE position = 7",
    "UPDATE retry_row SET first = 1 - first WHERE position = 7",
    "INSERT INTO audit VALUES (1, 1, 'requeue', 'nobody', '', 'proj', '', '', 0, 1)",
    "INSERT INTO audit VALUES (1, 1, 'requeue', 'nobody', '', 'proj', '', '', 0, 0)",
    "UPDATE state SET settled = 5",
    "INSERT INTO stream_head VALUES (1, 1, 2, x'0000000000000000')",
    "INSERT INTO id_chunk VALUES (77, 0, zeroblob(16))",
]


def oracle_looks(worker, root):
    """Each piece of mischief, done to a good journal, is seen by an oracle that knows nothing yet
    but where each stream's rows belong."""
    place, oracle = prepare(worker, os.path.join(root, "mischief"), Workload(120, 20, 30, 11), True)
    place.must("take", 2, 30, 60000, 60000)
    ledger = Ledger(place.ledger)
    oracle.check(place.database, ledger)
    for sql in MISCHIEF:
        bad = place.clone(os.path.join(root, "mischief-done"))
        db = sqlite3.connect(bad.database)
        for name in ("event_is_never_changed", "event_is_never_deleted"):
            db.execute("DROP TRIGGER " + name)
        need(db.execute(sql).rowcount == 1, "it does nothing: %s", sql)
        db.commit()
        db.close()
        fresh = Oracle(oracle.workloads.values(), True)
        fresh.partition = dict(oracle.partition)
        try:
            fresh.check(bad.database, ledger)
        except Violation:
            bad.remove()
            continue
        raise AssertionError("not seen: " + sql)
    return "%d kinds of mischief" % len(MISCHIEF)


# What it is called, how it is made, and how many points a short run has time for.
SCENARIOS = [
    ("making a journal and appending to it survives a kill anywhere", small, 120),
    ("settling the tail survives a kill anywhere", settling, 24),
    ("beginning to merge id runs survives a kill anywhere", merging, 3),
    ("ending a merge of id runs survives a kill anywhere", merged, 3),
    ("a checkpoint survives a kill anywhere", checkpointing, 16),
    ("taking and marking survives a kill anywhere", taking, 70),
    ("putting dead rows back survives a kill anywhere", putting_back, 50),
]


def run(worker, everything, keep, seed, report, only=None, until=None):
    root = scratch()
    if not only:
        report.test("the oracle sees what it is there to see", oracle_looks, worker, root)
    for sentence, make, most in SCENARIOS:
        if only and only not in make.__name__:
            continue
        room = os.path.join(root, make.__name__)
        os.makedirs(room)
        report.test(sentence, lambda room=room, make=make, most=most: sweep(
            worker, room, make(worker, room), 0 if everything else most, seed, until))
        if not report.failed:
            shutil.rmtree(room)
    end_scratch(root, keep, report)


if __name__ == "__main__":
    sys.exit(sweep_main(__doc__, run))
