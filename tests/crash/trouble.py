#!/usr/bin/env python3
"""A crew of processes on one data directory, and the trouble it may meet short of dying: a signal
to stop, runs that race with it, a poison event, a view store that fails, a clock that jumps.

Afterwards everything has to add up, by the oracles of kills.py.
"""
import json
import os
import random
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import time

from harness import Report, arguments, environment, scratch
from kills import progress
from oracle import need
from team import LIVES_MS, NAMES, Team, wait_until

STOP_S = 60  # a worker has stopped by then; an unavailable store is tried for 10 s
ALL = (*NAMES, "strict")


class Command:
    """The command line on a data directory, started or run."""

    def __init__(self, everfold, directory):
        self.everfold, self.directory = everfold, directory

    def words(self, *words):
        return [self.everfold, *words, "--data", self.directory]

    def start(self, *words, env=None):
        return subprocess.Popen(self.words(*words), stdout=subprocess.PIPE, text=True,
                                stderr=subprocess.STDOUT, env=environment(env))

    def run(self, *words, codes=(0,), text=""):
        done = subprocess.run(self.words(*words), capture_output=True, text=True, check=False,
                              timeout=120, input=text, env=environment())
        need(done.returncode in codes, "%s gave %d: %s%s", " ".join(words), done.returncode,
             done.stdout[-500:], done.stderr[-1500:])
        return done.stdout

    def json(self, *words):
        return json.loads(self.run(*words, "-o", "json"))

    def rows(self, file, sql, *values):
        db = sqlite3.connect("file:%s?mode=ro" % os.path.join(self.directory, file), uri=True)
        try:
            return db.execute(sql, values).fetchall()
        finally:
            db.close()


# --- stopping ----------------------------------------------------------------------------------


def nothing_held(command):
    leases = command.rows("journal.db", "SELECT kind, name, partition, owner FROM lease"
                          " WHERE owner <> ''")
    need(not leases, "leases are left: %r", leases)
    there = command.rows("journal.db", "SELECT id FROM worker")
    need(not there, "workers are left: %r", there)
    summary = command.json("outbox", "report")["summary"]
    need(summary["processing"] == 0, "%d rows are in hand", summary["processing"])


def ended(process, began, code=0):
    output, _ = process.communicate(timeout=STOP_S)
    need(process.returncode == code, "it ended with %d: %s", process.returncode, output[-1500:])
    return time.monotonic() - began


def stopped_under_load(tools, root, rounds, seed):
    """Two workers and two writers; the workers are told to stop at any moment."""
    team = Team(tools, os.path.join(root, "stopped"), random.Random(seed))
    command, slowest = Command(tools[1], team.place.directory), 0
    writers = [team.writer() for _ in range(2)]
    for _ in range(rounds):
        workers = [command.start("work", "--silent") for _ in range(2)]
        time.sleep(team.dice.uniform(0.3, 1.5))
        for worker in workers:
            time.sleep(team.dice.uniform(0, 0.1))
            worker.send_signal(signal.SIGTERM)
            slowest = max(slowest, ended(worker, time.monotonic()))
        nothing_held(command)
    team.close(*writers)
    command.run("work", "--drain", "--silent")
    nothing_held(command)
    events, _ = team.check()
    return "seed %d: %d stops, the slowest took %.2f s; %d events" % (seed, 2 * rounds, slowest,
                                                                   events)


def stopped_while_stuck(tools, root):
    """Somebody holds the write lock of the views. A worker that is told to stop gives up when its
    own patience with the store is over; told again more than a second later, it ends at once."""
    team = Team(tools, os.path.join(root, "stuck"), random.Random(1))
    command = Command(tools[1], team.place.directory)
    command.run("work", "--drain", "--silent")
    lock = sqlite3.connect(team.place.path("/views.db"), isolation_level=None)
    took = []
    for twice in (False, True):
        lock.execute("BEGIN IMMEDIATE")
        worker = command.start("work", "--silent", env={"EVERFOLD_STORE_BUSY": "3s"})
        writer = team.writer(500)
        writer.communicate(timeout=60)
        wait_until(lambda: command.rows("journal.db", "SELECT 1 FROM lane_offset WHERE in_flight > 0"),
                   30, "nothing is in hand")
        began = time.monotonic()
        worker.send_signal(signal.SIGTERM)
        if twice:
            time.sleep(1.2)  # within a second it is the same request
            need(worker.poll() is None, "it has ended already")
            began = time.monotonic()
            worker.send_signal(signal.SIGTERM)
            took.append(ended(worker, began, 128 + signal.SIGTERM))
            need(took[-1] < 1, "a second signal took %.1f s", took[-1])
        else:
            took.append(ended(worker, began))
            nothing_held(command)
        lock.execute("ROLLBACK")
    lock.close()
    wait_until(lambda: not command.rows("journal.db", "SELECT 1 FROM lease WHERE owner <> ''"
                                        " AND until > ?", time.time_ns() // 1000), 30, "a lease")
    worker = command.start("work", "--silent")  # rows in flight are retried at once
    team.wait_quiet()
    worker.send_signal(signal.SIGTERM)
    ended(worker, 0)
    team.check()
    return "told once %.2f s, twice %.2f s" % tuple(took)


# --- racing ------------------------------------------------------------------------------------

RACES = [
    ("projection", "rebuild", "totals", "--wait"),
    ("replay", "--projection", "totals"),
    ("projection", "rebuild", "trail", "--in-place", "--wait"),
    ("replay",),
    ("projection", "verify", "logged"),
    ("projection", "rebuild", "logged", "--wait"),
]


def cancel_something(command):
    """A run that is open, as soon as there is one; it may be over before it is told."""
    until = time.monotonic() + 2
    while time.monotonic() < until:
        for run in command.json("run", "ls", "--open"):
            command.run("run", "cancel", run["id"], codes=(0, 4))
            return


def runs_race(tools, root, rounds, seed):
    """Two workers, two writers, a reader; rebuilds, replays and verifications of the same
    projections, several at a time, and some are cancelled. The reader never sees less."""
    team = Team(tools, os.path.join(root, "race"), random.Random(seed), pause_ms=20)
    command = Command(tools[1], team.place.directory)
    servers = [team.serves(team.server()) for _ in range(2)]
    team.wait_quiet()
    reader = team.start("read", 0, LIVES_MS, ledger=team.place.ledger + "-reader")
    writers = [team.writer() for _ in range(2)]
    codes = {}
    for _ in range(rounds):
        racing = [command.start(*words) for words in team.dice.sample(RACES, 3)]
        if team.dice.random() < 0.4:
            cancel_something(command)
        for process in racing:
            output, _ = process.communicate(timeout=180)
            # 4: another run has the scope; 1: it was cancelled
            need(process.returncode in (0, 1, 4), "%r gave %d: %s", process.args,
                 process.returncode, output[-1500:])
            need(process.returncode != 1 or "cancel" in output, "%r: %s", process.args, output)
            codes[process.returncode] = codes.get(process.returncode, 0) + 1
    team.close(*writers)
    team.wait_quiet()
    reader.send_signal(signal.SIGTERM)
    output, _ = reader.communicate(timeout=60)
    need(reader.returncode in (0, -signal.SIGTERM) and "broken" not in output, "the reader: %s",
         output)
    team.stop(servers)
    events, _ = team.check()
    return "seed %d: %d runs done, %d kept out, %d ended as cancelled; %d events" % (
        seed, codes.get(0, 0), codes.get(4, 0), codes.get(1, 0), events)


# --- poison ------------------------------------------------------------------------------------

PICKY = """projection picky version %d
on poisoned
  n += %s
  order push data.i keep 50
on counted
  n += 1
  order push data.i keep 50
"""
CALM = """projection calm version 1
on *
  n += 1
"""
HEALTHY, POISON_AT, POISONED = 1000, 5, 12


def lines(events):
    return "".join(json.dumps({"stream": stream, "id": "%s-%d" % (stream, i), "type": kind,
                               "data": {"i": i, "text": "x"}}) + "\n" for stream, i, kind in events)


def poison_events():
    """Four events of each healthy stream, twelve of the poisoned one among them."""
    events = [("h-%d" % k, i, "counted") for i in range(1, 5) for k in range(HEALTHY)]
    step = len(events) // POISONED
    for i in range(1, POISONED + 1):
        kind = "poisoned" if i == POISON_AT else "counted"
        events.insert(i * step, ("bad", i, kind))
    return events


def view_rows(command, projection):
    return {row[0]: json.loads(row[1]) for row in command.rows(
        "views.db", "SELECT id, data FROM views WHERE routed = 1 AND projection = ?", projection)}


def poison_is_alone(tools, root):
    """One stream of 1,001 fails in one of two projections. It waits; nobody else does. A version
    that digests it gets everything in order, and then nothing waits any more."""
    directory = os.path.join(root, "poison")
    command = Command(tools[1], directory)
    command.run("init")
    for name, text in (("picky.fold", PICKY % (1, "data.text")), ("calm.fold", CALM),
                       ("fixed.fold", PICKY % (2, "1"))):
        with open(os.path.join(root, name), "w", encoding="ascii") as file:
            file.write(text)
    command.run("projection", "deploy", *(os.path.join(root, n) for n in ("picky.fold",
                                                                          "calm.fold")))
    workers = [command.start("work", "--silent") for _ in range(2)]
    command.run("event", "import", "-", text=lines(poison_events()))
    check_held(command, 4, POISONED)
    more = [("h-%d" % k, 5, "counted") for k in range(HEALTHY)] + [("bad", POISONED + 1, "counted")]
    command.run("event", "import", "-", text=lines(more))
    check_held(command, 5, POISONED + 1)
    command.run("projection", "deploy", os.path.join(root, "fixed.fold"))
    wait_until(lambda: command.rows("views.db", "SELECT 1 FROM generation WHERE name = 'picky'"
                                    " AND version = 2 AND state = 1"), 60, "version 2 is not live")
    command.run("projection", "switch", "picky", "--version", "2")
    need(view_rows(command, "picky")["bad"] == {
        "n": POISONED + 1, "order": list(range(1, POISONED + 2))}, "not in order, or not all: %r",
         view_rows(command, "picky")["bad"])
    command.run("projection", "retire", "picky", "--version", "1")
    wait_until(lambda: not command.rows("journal.db", "SELECT 1 FROM retry_row"), 90,
               "rows wait though nobody needs them")
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
        ended(worker, 0)
    nothing_held(command)
    totals = [sum(view["n"] for view in view_rows(command, name).values())
              for name in ("picky", "calm")]
    need(totals == [5 * HEALTHY + POISONED + 1] * 2, "the totals are %r", totals)
    need(all(row["unaccounted"] == 0 for row in command.json("projection", "ls")), "unaccounted")
    return "%d streams, %d events" % (HEALTHY + 1, totals[0])


def check_held(command, each, poisoned):
    """Everything is in, but the poisoned stream from its poison on in the projection that fails."""
    wait_until(lambda: not command.rows("journal.db", "SELECT 1 FROM outbox_queue"), 90, "queued")
    wait_until(lambda: all(row["state"] == "live" for row in command.json("projection", "ls")), 30,
               "not live")
    rows = command.rows("journal.db", "SELECT l.name, s.name, x.seq FROM retry_row x"
                        " JOIN lane l ON l.id = x.lane JOIN stream s ON s.id = x.stream"
                        " ORDER BY x.seq")
    need(rows == [("picky", "bad", seq) for seq in range(POISON_AT, poisoned + 1)],
         "other rows wait: %r", rows[:20])
    for name, held in (("picky", POISON_AT - 1), ("calm", poisoned)):
        views = view_rows(command, name)
        need(views.pop("bad")["n"] == held, "the poisoned stream has got on in %s", name)
        need(len(views) == HEALTHY and all(view["n"] == each for view in views.values()),
             "a healthy stream is held back in %s", name)


# --- a view store that fails -------------------------------------------------------------------

VIEW_FILES = ("/views.db", "/views.db-wal")


def attempts(team):
    return {(row[0], row[1]): row[2:] for row in team.rows(
        "journal.db", "SELECT lane, position, attempts, status FROM retry_row")}


def least_attempts(team):
    """An attempt is counted before it is made and then given back: the least of a few looks."""
    looks = []
    for _ in range(8):
        looks.append(attempts(team))
        time.sleep(0.15)
    return {key: min(look[key][0] for look in looks if key in look) for key in looks[0]}, looks[-1]


def fail_views(team, server, error):
    words = ["strace", "-f", "-qq", "-o", "/dev/null", "-p", str(server.pid), "-e", "signal=none",
             "-e", "trace=pwrite64,fdatasync", "-e", "inject=pwrite64,fdatasync:error=" + error]
    for suffix in VIEW_FILES:
        words += ["-P", team.place.path(suffix)]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def views_fail(tools, root, seconds, seed):
    """Nothing can be written to the views for so long, in any worker, while events come in. No row
    dies, none loses an attempt to it, nobody has to do anything about it."""
    team = Team(tools, os.path.join(root, "outage"), random.Random(seed), pause_ms=50, deployed=4)
    servers = [team.serves(team.server()) for _ in range(2)]
    writer = team.writer(2000)
    writer.communicate(timeout=60)
    wait_until(lambda: attempts(team), 60, "nothing has failed")
    time.sleep(1)
    tracers = [fail_views(team, server, error) for server, error in zip(servers, ("EIO", "ENOSPC"))]
    time.sleep(1)
    before, _ = least_attempts(team)
    writer = team.writer(min(seconds, 20) * 1000)
    writer.communicate(timeout=60)
    time.sleep(max(0, seconds - min(seconds, 20)))
    after, rows = least_attempts(team)
    burnt = {key: (before[key], after[key]) for key in before if after.get(key) != before[key]}
    need(not burnt, "attempts were burnt: %r", list(burnt.items())[:5])
    need(all(status != 3 for _, status in rows.values()), "rows have died")
    behind = team.rows("journal.db", "SELECT count(*) FROM outbox_queue")[0][0]
    need(behind > 0, "the views were not failing")
    for tracer in tracers:
        tracer.send_signal(signal.SIGTERM)
        tracer.wait(timeout=30)
    began = time.monotonic()
    team.wait_quiet()
    healed = time.monotonic() - began
    team.stop(servers)
    need(team.told("errors") > 0 and team.told("dead") == 0, "told: %r", team.stopped)
    events, _ = team.check(ALL)
    return "seed %d: %d s, %d queued at the end of it, %d rows kept their attempts; well %.1f s " \
        "after it; %d events" % (seed, seconds, behind, len(before), healed, events)


# --- a clock that jumps ------------------------------------------------------------------------

JUMPS_S = (0, 1, -1, 60, -60, 3600, -3600, 86400, -86400)


def bring_back(command):
    """What the wrong clock has put off is not due for long: an operator has it tried at once."""
    sql = "SELECT l.name, s.tenant, s.name, x.seq FROM retry_row x JOIN lane l" \
        " ON l.id = x.lane JOIN stream s ON s.id = x.stream WHERE x.first = 1"
    count = 0

    def done():
        """One behind it may have been put off too, and is the first by now."""
        nonlocal count
        for lane, tenant, stream, seq in command.rows("journal.db", sql):
            command.run("outbox", "replay", stream, str(seq), "--lane", lane, "--tenant", tenant)
            count += 1
        return not command.run("work", "--drain", "--silent", codes=(0, 6)) and \
            not command.rows("journal.db", "SELECT 1 FROM retry_row")

    wait_until(done, 60, "rows wait")
    return count


def clock_jumps(tools, root, jumps, seed):
    """The wall clock of one worker of three jumps both ways. It ends by a kill with its clock an
    hour ahead, so that its leases seem to last; the others go on with its work all the same."""
    team = Team(tools, os.path.join(root, "clock"), random.Random(seed), pause_ms=8)
    clock = team.place.path("/clock")
    with open(clock, "wb") as file:
        file.write(struct.pack("<q", 0))
    servers = [team.serves(team.server()) for _ in range(2)]
    wrong = team.serves(team.server(env={"WORKER_CLOCK": clock}))
    writers = [team.writer() for _ in range(2)]

    def jump(seconds):
        with open(clock, "r+b") as file:
            file.write(struct.pack("<q", seconds * 1000000))

    for n in range(jumps):
        jump(team.dice.choice(JUMPS_S))
        time.sleep(team.dice.uniform(0.05, 0.6))
        progress(n + 1, jumps, "jumps")
    need(wrong.poll() is None, "the worker with the wrong clock has ended")
    jump(3600)
    time.sleep(2 * team.lease_ms / 1000)
    team.kill(wrong)
    team.close(*writers)
    began = time.monotonic()
    wait_until(lambda: not team.rows("journal.db", "SELECT 1 FROM outbox_queue"), 40,
               "its partitions are nobody's")
    quiet = time.monotonic() - began
    time.sleep(team.lease_ms / 1000)
    team.stop(servers)
    late = bring_back(Command(tools[1], team.place.directory))
    events, _ = team.check()
    return "seed %d: %d jumps; its work was done %.1f s after it was killed, %d rows were put " \
        "off by its clock; %d events" % (seed, jumps, quiet, late, events)


def run(tools, sizes, seed, report):
    """`sizes`: how much of each; what is not in it is left out."""
    root = scratch()
    tests = [
        ("term", "workers that are told to stop under load leave no lease and nothing in hand",
         stopped_under_load, (seed,)),
        ("stuck", "a worker that waits for its store stops in time, and at once when told twice",
         lambda tools, root, _: stopped_while_stuck(tools, root), ()),
        ("race", "workers, replays, rebuilds and readers on the same projections end in one truth",
         runs_race, (seed,)),
        ("poison", "a poison stream among a thousand holds back nothing but itself",
         lambda tools, root, _: poison_is_alone(tools, root), ()),
        ("outage", "a view store that fails for long kills no row and burns no attempt",
         views_fail, (seed,)),
        ("clock", "a clock that jumps both ways doubles nothing and makes no lease last",
         clock_jumps, (seed,)),
    ]
    for name, sentence, function, more in tests:
        if name == "outage" and name in sizes and not shutil.which("strace"):
            report.skip(sentence, "strace is not here")
        elif name in sizes:
            report.test(sentence, function, tools, root, sizes[name], *more)
    shutil.rmtree(root, ignore_errors=True)


SHORT = {"term": 3, "stuck": 1, "race": 2, "poison": 1, "outage": 4, "clock": 8}
LONG = {"term": 50, "stuck": 1, "race": 40, "poison": 1, "outage": 600, "clock": 200}


def main():
    parser = arguments(__doc__)
    parser.add_argument("everfold", help="the command")
    parser.add_argument("--only", help="one of " + ", ".join(SHORT))
    options = parser.parse_args()
    print("# seed %d" % options.seed)
    report, tools = Report(), [os.path.abspath(path) for path in (options.worker, options.everfold)]
    sizes = LONG if options.all else SHORT
    run(tools, {name: size for name, size in sizes.items() if options.only in (None, name)},
        options.seed, report)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
