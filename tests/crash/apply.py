#!/usr/bin/env python3
"""SIGKILL before every call that changes a file, while projections are deployed, catch up, go live,
fold what is queued, fail, and are let pass what they failed on; then look.

After each kill apply_oracle.py folds the journal by itself and compares; the work is done to its
end, and what is there in the end has to be what a run leaves that nobody killed.
"""
import concurrent.futures
import os
import shutil
import signal
import sqlite3
import stat
import sys
import time

import apply_oracle
from harness import (FILES, MUTATING, VIEW_FILES, Place, count_calls, end_scratch, sample, scratch,
                     strace, sweep_main)
from oracle import Ledger, Oracle, Violation, Workload, need

ALL_FILES = FILES + VIEW_FILES
# A batch grows fourfold, and the next worker claims the rows that were in flight: one by one when
# they are 64 rows or fewer. The others are attempts of failing events.
WORK = ("work", 200, 20, 0)
FIRST, MORE = Workload(60, 9, 20, 1, 20), Workload(120, 9, 20, 2, 20)


class Scenario:
    """`victim` is run on a copy of `prepared` and killed; it and `rest` are then run to the end."""
    calls, files = MUTATING, ALL_FILES  # where it is killed

    def __init__(self, prepared, oracle, victim, rest=(), always=()):
        self.prepared, self.oracle, self.victim, self.rest = prepared, oracle, victim, rest
        self.always = always  # calls that are met whole even where the others are sampled
        self.end = None  # the result of a run that was not killed

    def clone(self, directory):
        return self.prepared.clone(directory)

    def look(self, place):
        apply_oracle.look(place.database)

    def finish(self, place):
        for verb in (self.victim, *self.rest):
            place.must(*verb)
        self.oracle.copy().check(place.database, Ledger(place.ledger))
        apply_oracle.check_done(place.database)
        return apply_oracle.exact(place.database)


def kill_at(scenario, directory, call, number, again):
    """One kill (and another while it recovers, where `again` is above 0), and what is left of it.
    Says whether the point was met."""
    place, inject = scenario.clone(directory), "%s:signal=SIGKILL:when=%d"
    done = place.run(*scenario.victim, before=strace(place, call, inject % (call, number),
                                                     files=scenario.files))
    killed = done.returncode == -signal.SIGKILL
    need(killed or done.returncode == 0, "the worker ended with %d: %s%s", done.returncode,
         done.stdout[-300:], done.stderr[-1500:])
    scenario.oracle.copy().check(place.database, Ledger(place.ledger))
    scenario.look(place)
    if again:
        place.run(*scenario.victim, before=strace(place, "pwrite64", inject % ("pwrite64", again),
                                                  files=scenario.files))
        scenario.look(place)
    found = scenario.finish(place)
    need(found == scenario.end, "it ended otherwise than without a kill: %s",
         difference(found, scenario.end))
    place.remove()
    return killed


def difference(found, wanted, where="end"):
    """Where two nested states differ first, in words."""
    if isinstance(found, dict) and isinstance(wanted, dict) and found.keys() == wanted.keys():
        pairs = [(key, found[key], wanted[key]) for key in found]
    elif isinstance(found, (list, tuple)) and isinstance(wanted, (list, tuple)) and \
            len(found) == len(wanted):
        pairs = [(i, *pair) for i, pair in enumerate(zip(found, wanted))]
    else:
        return "%s is %.300r, not %.300r" % (where, found, wanted)
    return next((difference(a, b, "%s[%r]" % (where, key)) for key, a, b in pairs if a != b), where)


def sweep(scenario, root, most, seed, until):
    """`until`: points that are not begun by then (on the monotonic clock) are left out."""
    trial = scenario.clone(os.path.join(root, "count"))
    counts = count_calls(trial, scenario.calls, *scenario.victim, files=scenario.files)
    scenario.end = scenario.finish(trial)
    whole = [(call, 1 + n) for call in scenario.always for n in range(counts[call])]
    chosen, met, left_out = sorted({*sample(counts, most, seed), *whole}), 0, 0

    def unless_late(*args):
        return None if until and time.monotonic() > until else kill_at(*args)

    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        runs = {}
        for k, (call, n) in enumerate(chosen):
            again = 1 + (k + seed) % 41 if k % 4 == 3 else 0
            where = os.path.join(root, "%s-%d" % (call, n))
            runs[pool.submit(unless_late, scenario, where, call, n, again)] = (call, n, again)
        for run in concurrent.futures.as_completed(runs):
            try:
                met += run.result() or 0
                left_out += run.result() is None
            except Exception as problem:
                for other in runs:
                    other.cancel()
                raise AssertionError("killed at %s %d (then at pwrite64 %d): %s" %
                                     (*runs[run], problem)) from problem
    tried = len(chosen) - left_out
    need(tried and met * 10 >= tried * 8, "only %d of %d points were met", met, tried)
    return "%d of %d points, %d killed, of %s" % (
        tried, sum(counts.values()), met, " ".join("%s %d" % c for c in sorted(counts.items())))


# --- scenarios ---------------------------------------------------------------------------------


def journal(worker, directory):
    place, oracle = Place(worker, directory), Oracle([FIRST, MORE])
    place.must("append", *FIRST.args())
    oracle.check(place.database, Ledger(place.ledger))
    return place, oracle


def deploying(worker, directory):
    """The view store is made, and four projections with it."""
    place, oracle = journal(worker, directory)
    return Scenario(place, oracle, ("deploy", 4), (WORK,))


def catching_up(worker, directory):
    """All that was appended before is read by cursor, and they go live; it comes again by queue."""
    place, oracle = journal(worker, directory)
    place.must("deploy", 4)
    return Scenario(place, oracle, WORK)


def draining(worker, directory):
    """All are live: claim, apply, mark, and what fails is tried until it is dead."""
    place, oracle = journal(worker, directory)
    place.must("deploy", 4)
    place.must(*WORK)
    place.must("append", *MORE.args())
    oracle.check(place.database, Ledger(place.ledger))
    return Scenario(place, oracle, WORK)


def letting_pass(worker, directory):
    scenario = draining(worker, directory)
    scenario.prepared.must(*WORK)
    return Scenario(scenario.prepared, scenario.oracle, ("skip",), (WORK,))


def passing(worker, directory):
    """Dead rows that an operator lets pass, and what waited behind them."""
    scenario = letting_pass(worker, directory)
    scenario.prepared.must("skip")
    return Scenario(scenario.prepared, scenario.oracle, WORK)


def joining(worker, directory):
    """Two are deployed when the queue has long been drained: their failures come by cursor."""
    place, oracle = journal(worker, directory)
    place.must("deploy", 2)
    place.must(*WORK)
    place.must("deploy", 4)
    return Scenario(place, oracle, WORK)


# What it is called, how it is made, and how many points a short run has time for.
SCENARIOS = [
    ("deploying projections survives a kill anywhere", deploying, 10),
    ("catching up and going live survives a kill anywhere", catching_up, 18),
    ("claiming, applying and marking survives a kill anywhere", draining, 24),
    ("letting dead rows pass survives a kill anywhere", letting_pass, 6),
    ("what waited behind a dead row comes in after a kill anywhere", passing, 12),
    ("joining after the queue was drained survives a kill anywhere", joining, 8),
]

# --- does it look? -----------------------------------------------------------------------------

MISCHIEF = [
    "UPDATE view SET data = replace(data, '\"n\":', '\"n\":1') WHERE rowid = 1",
    "UPDATE view SET last_position = last_position + 1 WHERE rowid = 1",
    "UPDATE view SET last_seq = last_seq + 1 WHERE rowid = 1",
    "UPDATE view SET digest_a = digest_a + 1 WHERE rowid = 1",
    "DELETE FROM view WHERE rowid = 1",
    "INSERT INTO view SELECT generation, tenant, 'more', data, last_position, last_seq, schema,"
    " digest_a, digest_b, keys FROM view WHERE rowid = 1",
    "UPDATE watermark SET applied_seq = applied_seq - 1, expected_next_seq = expected_next_seq - 1"
    " WHERE generation = 2 AND tenant = 't2' AND stream = 's-1'",
    "UPDATE watermark SET expected_next_seq = expected_next_seq + 1"
    " WHERE generation = 2 AND tenant = 't2' AND stream = 's-1'",
    "UPDATE watermark SET hash = zeroblob(32)"
    " WHERE generation = 2 AND tenant = 't2' AND stream = 's-1'",
    "DELETE FROM watermark WHERE generation = 2 AND tenant = 't2' AND stream = 's-1'",
    "UPDATE generation SET applied = applied + 1 WHERE id = 1",
    "UPDATE generation SET ignored = ignored - 1 WHERE id = 1",
    "UPDATE generation SET skipped = 1 WHERE name = 'strict'",
    "UPDATE generation SET views = views + 1 WHERE id = 1",
    "UPDATE generation SET digest_b = digest_b + 1 WHERE id = 1",
    "UPDATE generation SET position = position - 1 WHERE name = 'logged'",
    "DELETE FROM view_index WHERE (generation, tenant, idx, key, id) ="
    " (SELECT generation, tenant, idx, key, id FROM view_index LIMIT 1)",
    "UPDATE failure SET open = 0 WHERE id = (SELECT max(id) FROM failure)",
    "UPDATE failure SET position = 1 WHERE id = (SELECT max(id) FROM failure)",
]
JOURNAL_MISCHIEF = ["DELETE FROM retry_row WHERE position ="
                    " (SELECT max(position) FROM retry_row)"]


def oracle_looks(worker, root):
    """Each piece of mischief, done to good views, is seen."""
    scenario = draining(worker, os.path.join(root, "good"))
    scenario.prepared.must(*WORK)
    apply_oracle.check_done(scenario.prepared.database)
    for sql in MISCHIEF + JOURNAL_MISCHIEF:
        bad = scenario.prepared.clone(os.path.join(root, "bad"))
        path = bad.database if sql in JOURNAL_MISCHIEF else apply_oracle.views_of(bad.database)
        db = sqlite3.connect(path)
        need(db.execute(sql).rowcount == 1,
             "it does nothing: %s", sql)
        db.commit()
        db.close()
        try:
            apply_oracle.look(bad.database)
        except Violation:
            bad.remove()
            continue
        raise AssertionError("not seen: " + sql)
    return "%d kinds of mischief" % len(MISCHIEF + JOURNAL_MISCHIEF)


def file_modes(worker, root):
    mask = os.umask(0)
    try:
        scenario = catching_up(worker, os.path.join(root, "modes"))
    finally:
        os.umask(mask)
    modes = {suffix: stat.S_IMODE(os.stat(scenario.prepared.path(suffix)).st_mode)
             for suffix in VIEW_FILES if os.path.exists(scenario.prepared.path(suffix))}
    need("/views.db" in modes and set(modes.values()) == {0o600}, "modes are %r",
         {suffix: oct(mode) for suffix, mode in modes.items()})


def run_scenarios(scenarios, worker, root, everything, seed, report, only=None, until=None):
    """Each (sentence, how it is made, points of a short run), in a room of its own."""
    for sentence, make, most in scenarios:
        if only and only not in make.__name__:
            continue
        room = os.path.join(root, make.__name__)
        os.makedirs(room)
        report.test(sentence, lambda room=room, make=make, most=most: sweep(
            make(worker, os.path.join(room, "prepared")), room, 0 if everything else most, seed,
            until))
        if not report.failed:
            shutil.rmtree(room)


def run(worker, everything, keep, seed, report, only=None, until=None):
    root = scratch()
    if not only:
        report.test("the oracle of views sees what it is there to see", oracle_looks, worker, root)
        report.test("every file of the views is for its owner alone", file_modes, worker, root)
    run_scenarios(SCENARIOS, worker, root, everything, seed, report, only, until)
    end_scratch(root, keep, report)


if __name__ == "__main__":
    sys.exit(sweep_main(__doc__, run))
