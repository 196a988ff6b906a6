#!/usr/bin/env python3
"""SIGKILL before every call that changes a file, while leases are taken and generations are built
anew, switched to, left again, removed and seeded; then look.

As apply.py does: its oracle folds by itself what each generation says it has, the work is done to
its end, and what is there then has to be what a run leaves that nobody killed.

What a kill leaves behind, step by step (the order is that of the code):

    a beat         heartbeat, leases            all or none; they run out, or the same name takes
                                                them again under a higher token
    take           what is in hand, by token    the next owner takes it in pieces, then one by one
    apply          views, watermarks, digest    all or none; events come again and are duplicates
    mark           mark, rows, exceptions       all or none; before it the batch comes again
    rebuild        run filed                    a worker drives it
                   number noted                 the generation is made by whoever goes on
                   generation made              it catches up
                   in place: routed             the old one is retired by whoever goes on
                   live, compared               compared again
                   act noted, route moved       a note without its switch leads nowhere; a route
                                                that was moved ends the run
    switch, back   act noted, route moved       the same; asked for again
    retire         out of the live ones, gone   the next retire removes what is left
    in place       program replaced             its views are older than it: migrated by any worker
                   page of views rewritten      all or none; what is new already is passed over
                   live                         it goes on with what came meanwhile
    seed           paused, views, watermarks,   a generation nobody sees: the run fails, for its
                   let go                       views are gone, and takes the generation with it
"""
import sys

from apply import MORE, WORK, Scenario, draining, journal, run_scenarios
from harness import end_scratch, scratch, sweep_main
from oracle import Ledger

TOTALS, TRAIL, LOGGED, STRICT = range(4)  # worker_engine.c
LEASED_WORK = (*WORK[:3], 1)
COMMITS = ("fdatasync",)  # a kill before each: between any two durable steps


def drained(worker, directory):
    """Four projections, all live; some events of one are dead."""
    place, oracle = journal(worker, directory)
    place.must("deploy", 4)
    place.must(*WORK)
    place.must("append", *MORE.args())
    oracle.check(place.database, Ledger(place.ledger))
    place.must(*WORK)
    return place, oracle


def leasing(worker, directory):
    """Heartbeat, leases, take, apply, mark, and everything given back at the end."""
    place, oracle = journal(worker, directory)
    place.must("deploy", 4)
    place.must(*LEASED_WORK)
    place.must("append", *MORE.args())
    oracle.check(place.database, Ledger(place.ledger))
    return Scenario(place, oracle, LEASED_WORK)


def building(worker, directory):
    return Scenario(*drained(worker, directory), ("rebuild", TOTALS, 0), (WORK,), COMMITS)


def building_what_fails(worker, directory):
    """Its rows are filed while it catches up, and dead ones are put back at the end."""
    return Scenario(*drained(worker, directory), ("rebuild", STRICT, 0), (WORK,))


def in_place(worker, directory):
    return Scenario(*drained(worker, directory), ("rebuild", TRAIL, 1), (WORK,), COMMITS)


def in_place_by_log(worker, directory):
    return Scenario(*drained(worker, directory), ("rebuild", LOGGED, 1), (WORK,))


def replaying(worker, directory):
    return Scenario(*drained(worker, directory), ("replay", TRAIL), (WORK,))


def upgraded(worker, directory, *verbs):
    place, oracle = drained(worker, directory)
    for verb in (("upgrade",), WORK, *verbs):
        place.must(*verb)
    return place, oracle


def switching(worker, directory):
    return Scenario(*upgraded(worker, directory), ("switch", STRICT, 2), (WORK,))


def going_back(worker, directory):
    place, oracle = upgraded(worker, directory, ("switch", STRICT, 2))
    return Scenario(place, oracle, ("rollback", STRICT, 1), (WORK,))


def retiring(worker, directory):
    place, oracle = upgraded(worker, directory, ("switch", STRICT, 2))
    return Scenario(place, oracle, ("retire", STRICT, 1), (WORK,))


def seeding(worker, directory):
    return Scenario(*drained(worker, directory), ("seed", TRAIL), (WORK,), COMMITS)


def migrating(worker, directory):
    """Events wait, too, while the views are rewritten."""
    before = draining(worker, directory)
    return Scenario(before.prepared, before.oracle, ("migrate", *WORK[1:]), (WORK,))


SCENARIOS = [
    ("leasing, claiming, applying and giving back survives a kill anywhere", leasing, 14),
    ("a rebuild beside the live generation survives a kill anywhere", building, 8),
    ("a rebuild that files what fails survives a kill anywhere", building_what_fails, 8),
    ("a rebuild in place survives a kill anywhere", in_place, 6),
    ("a rebuild in place in the order of the log survives a kill anywhere", in_place_by_log, 6),
    ("a replay survives a kill anywhere", replaying, 5),
    ("a switch survives a kill anywhere", switching, 6),
    ("going back survives a kill anywhere", going_back, 5),
    ("retiring a generation survives a kill anywhere", retiring, 6),
    ("a migration in place survives a kill anywhere", migrating, 10),
    ("seeding a generation survives a kill anywhere", seeding, 6),
]


def run(worker, everything, keep, seed, report, only=None, until=None):
    root = scratch()
    run_scenarios(SCENARIOS, worker, root, everything, seed, report, only, until)
    end_scratch(root, keep, report)


if __name__ == "__main__":
    sys.exit(sweep_main(__doc__, run))
