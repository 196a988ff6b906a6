#!/usr/bin/env python3
"""The power goes: what the disk might hold then, opened again.

recorder.c writes down every write, cut, sync and name of a run. From any place of that record a
disk is made as a power cut might leave it: what was synced is there; of what was not, some writes or
some sectors of them are, in any combination; a name that was made or taken away since the directory
was last synced may be there or not. Nothing else is assumed of a file system.

What must hold: all that was acknowledged by then is in the journal, doctor --deep has nothing to
say, and the work goes on to where it goes without a cut, nothing lost and nothing doubled.
"""
import collections
import concurrent.futures
import json
import os
import random
import struct
import subprocess
import sys
import time

import apply_oracle
from harness import Place, Report, arguments, end_scratch, environment, scratch
from oracle import Ledger, Oracle, Workload, need

SECTOR = 512
FOLD = ("work", 200, 20, 0)
HEADER = struct.Struct("<c3xIQQ")

Record = collections.namedtuple("Record", "op name offset data")


def read_log(path):
    """The records, with names instead of paths; what maps into memory only is left out."""
    records, at = [], 0
    with open(path, "rb") as file:
        content = file.read()
    while at < len(content):
        op, path_bytes, offset, data_bytes = HEADER.unpack_from(content, at)
        at += HEADER.size
        name = os.path.basename(content[at:at + path_bytes].decode())
        at += path_bytes
        if not name.endswith("-shm"):
            records.append(Record(op.decode(), name, offset, content[at:at + data_bytes]))
        at += data_bytes
    return records


def put(content, offset, data):
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset:offset + len(data)] = data


class File:
    """What is safe, and what came since."""

    def __init__(self, content=b""):
        self.safe, self.since = bytearray(content), []

    def sync(self):
        for record in self.since:
            self.apply(self.safe, record)
        self.since = []

    @staticmethod
    def apply(content, record):
        if record.op == "w":
            put(content, record.offset, record.data)
        elif record.offset < len(content):
            del content[record.offset:]
        else:
            content.extend(bytes(record.offset - len(content)))

    def after_cut(self, dice):
        """Each write that was not synced is there, or is not, or is there in part."""
        content, chance = bytearray(self.safe), dice.choice((0, 0.1, 0.5, 0.9, 1))
        torn = dice.random() < 0.5
        for record in self.since:
            if record.op != "w" or not torn:
                if dice.random() < chance:
                    self.apply(content, record)
                continue
            at = 0
            while at < len(record.data):
                end = min(len(record.data), at + SECTOR - (record.offset + at) % SECTOR)
                if dice.random() < chance:
                    put(content, record.offset + at, record.data[at:end])
                at = end
        return bytes(content)


class Disk:
    """A directory, as the records have left it so far."""

    def __init__(self, directory):
        self.names, self.safe_names, self.changes = {}, {}, []
        for name in os.listdir(directory):
            if not name.endswith("-shm") and name != "ledger":
                with open(os.path.join(directory, name), "rb") as file:
                    self.names[name] = File(file.read())
        self.safe_names = dict(self.names)

    def play(self, record):
        if record.op == "d":
            self.safe_names, self.changes = dict(self.names), []
        elif record.op == "s":
            self.names[record.name].sync()
        elif record.op in "wt":
            self.names[record.name].since.append(record)
        else:
            self.rename(record)

    def rename(self, record):
        """One change of the directory: names that are set, or taken away (None)."""
        change = {record.name: File() if record.op == "c" else None}
        if record.op == "r":
            change[os.path.basename(record.data.decode())] = self.names[record.name]
        self.changes.append(change)
        self.set_names(self.names, change)

    @staticmethod
    def set_names(names, change):
        for name, file in change.items():
            names[name] = file
            if file is None:
                del names[name]

    def cut(self, dice, directory):
        names, chance = dict(self.safe_names), dice.choice((0, 0.5, 1))
        for change in self.changes:
            # Names are set in order; one that was never set cannot be taken away.
            if dice.random() < chance and all(file or name in names
                                              for name, file in change.items()):
                self.set_names(names, change)
        os.makedirs(directory)
        for name, file in names.items():
            if name != "ledger":
                with open(os.path.join(directory, name), "wb") as out:
                    out.write(file.after_cut(dice))
                os.chmod(os.path.join(directory, name), 0o600)


class Worst:
    """Dice that keep nothing which was not synced."""

    @staticmethod
    def choice(options):
        return options[0]

    @staticmethod
    def random():
        return 1.0


class Run:
    """A recorded run of the worker, and what must come of it."""

    def __init__(self, tools, prepared, workloads, verb, rest=(), names=None):
        """`rest`: verbs that fold what is left; then queries go to `names`."""
        self.worker, self.recorder, self.everfold = tools
        self.names = names
        self.workloads, self.verb, self.rest, self.before = workloads, verb, rest, prepared
        place = prepared.clone(prepared.directory + "-run")
        log = os.path.join(os.path.dirname(prepared.directory), "log")
        done = place.run(*verb, env={
            "LD_PRELOAD": self.recorder, "RECORDER_DIRECTORY": place.directory,
            "RECORDER_LOG": log, "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0"})
        need(done.returncode == 0, "the recorded run gave %d: %s %s", done.returncode, done.stdout,
             done.stderr[-1500:])
        self.records = read_log(log)
        need(sum(1 for r in self.records if r.op == "s" and r.name.endswith("-wal")) > 5,
             "nothing was recorded")
        self.fresh_oracle().check(place.database, Ledger(place.ledger))
        self.marks = self.unsynced_marks()

    def fresh_oracle(self):
        return Oracle(self.workloads)

    def unsynced_marks(self):
        """Places behind a batch whose views are safe, and neither its note nor its mark."""
        noted = folded = marked = False
        found = []
        for number, record in enumerate(self.records):
            if record.name == "journal.db-wal":
                unsynced = record.op != "s"
                noted, folded, marked = unsynced, unsynced and folded, unsynced and folded
            elif record.name == "views.db-wal" and record.op == "s":
                folded = noted
            elif record.name == "views.db-wal" and marked:
                found.append(number)
        return found

    def cut_at(self, number, directory, dice):
        """The place that a cut before record `number` leaves, with the ledger of what was told."""
        disk, told = Disk(self.before.directory), b""
        for record in self.records[:number]:
            if record.name == "ledger":
                told += record.data
            if record.op in "wtscurd":
                disk.play(record)
        disk.cut(dice, directory)
        place = Place(self.worker, directory)
        with open(place.ledger, "wb") as file:
            file.write(told)
        return place

    def doctor(self, place):
        done = subprocess.run([self.everfold, "doctor", "--deep", "--data", place.directory, "-o",
                               "json"], capture_output=True, text=True, check=False, timeout=60,
                              env=environment())
        need(done.returncode == 0 and json.loads(done.stdout)["healthy"], "doctor gave %d: %s %s",
             done.returncode, done.stdout, done.stderr[-1500:])

    def try_cut(self, number, directory, seed):
        place = self.cut_at(number, directory, random.Random(seed) if seed else Worst)
        told = Ledger(place.ledger)
        place.must("open")  # creates a missing store: nothing may have been acknowledged then
        self.fresh_oracle().check(place.database, told, alone=False)
        apply_oracle.look(place.database, waiting=False)
        self.doctor(place)
        for verb in (self.verb, *self.rest):
            place.must(*verb)
        oracle = self.fresh_oracle()
        oracle.check(place.database, Ledger(place.ledger), alone=False)
        total = sum(workload.total for workload in self.workloads)
        need(oracle.count == total, "%d events of %d", oracle.count, total)
        if self.rest:
            apply_oracle.check_done(place.database, self.names)
        place.remove()


# --- runs --------------------------------------------------------------------------------------


def empty(tools, directory):
    return Place(tools[0], directory)


def appending(tools, directory):
    """A new journal."""
    work = Workload(40, 7, 2, 3)
    return Run(tools, empty(tools, directory), [work], ("append", *work.args()))


def moving(tools, directory):
    """The log is moved into the database, more than once, while events are appended."""
    before, work = Workload(200, 40, 20, 6, 3000), Workload(900, 40, 5, 7, 3000)
    place = empty(tools, directory)
    place.must("append", *before.args())
    os.remove(place.ledger)
    run = Run(tools, place, [before, work], ("append", *work.args()))
    need(any(r.op == "s" and r.name == "journal.db" for r in run.records), "nothing was moved")
    return run


def folding(tools, directory):
    """New journal and views: deployed, appended, folded."""
    work = Workload(80, 9, 10, 4, 40)
    return Run(tools, empty(tools, directory), [work], ("live", *work.args()), (FOLD,))


def folding_on(tools, directory):
    """The same where both are there already."""
    before, work = Workload(60, 9, 20, 1, 20), Workload(80, 9, 10, 5, 40)
    place = empty(tools, directory)
    place.must("live", *before.args())
    os.remove(place.ledger)
    return Run(tools, place, [before, work], ("live", *work.args()), (FOLD,))


def draining(tools, directory):
    """Nothing fails and nothing is appended: the journal's notes and marks wait for a sync."""
    work, place = Workload(120, 9, 40, 8, 20), empty(tools, directory)
    place.must("deploy", 2)
    place.must(*FOLD)
    place.must("append", *work.args())
    os.remove(place.ledger)
    run = Run(tools, place, [work], ("work", 200, 1, 0), (FOLD,), ["totals", "trail"])
    need(len(run.marks) > 5, "the marks were synced")
    return run


# What it is called, how it is made, seconds in a short run, and what is known to be wrong.
RUNS = [
    ("a power cut while a journal is made and appended to loses nothing", appending, 4, ""),
    ("a power cut while the log is moved into the database loses nothing", moving, 6, ""),
    ("a power cut while views are made and folded loses and doubles nothing", folding, 5, ""),
    ("a power cut while events are folded loses and doubles nothing", folding_on, 5, ""),
    ("a power cut takes marks back, and nothing is lost or doubled", draining, 3, ""),
]


def cuts(make, tools, root, seed, seconds):
    """The worst cuts (seed 0) at the end, half way, and where a mark is not synced; then cuts at
    random places, each with its own seed, until the time is up."""
    run = make(tools, os.path.join(root, "prepared"))
    dice, until, count = random.Random(seed), time.monotonic() + seconds, 0
    last = len(run.records)
    while count < 4 or time.monotonic() < until:
        points = [(dice.randrange(last + 1), 1 + dice.randrange(1 << 30)) for _ in range(4)]
        if not count:
            points[:2] = [(last, 0), (last // 2, 0)]
            points += [(number, 0) for number in dice.sample(run.marks, min(2, len(run.marks)))]
        with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
            tries = {}
            for number, own in points:
                where = os.path.join(root, "cut-%d-%d" % (number, own))
                tries[pool.submit(run.try_cut, number, where, own)] = (number, own)
            for one in concurrent.futures.as_completed(tries):
                try:
                    one.result()
                except Exception as problem:
                    raise AssertionError("cut before record %d of %d, with seed %d: %s" % (
                        tries[one][0], last, tries[one][1], problem)) from problem
                count += 1
    return "%d cuts of a run with %d records" % (count, last)


def run_all(tools, seconds, keep, seed, report, only=""):
    """`seconds`: for each; None for those of a short run."""
    root = scratch()
    for sentence, make, short, known in RUNS:
        if only not in make.__name__:
            continue
        room = os.path.join(root, make.__name__)
        os.makedirs(room)
        report.test(sentence, cuts, make, tools, room, seed, seconds or short, known=known)
    end_scratch(root, keep, report)


def main():
    parser = arguments(__doc__)
    parser.add_argument("recorder", help="the library built from recorder.c")
    parser.add_argument("everfold", help="the command")
    parser.add_argument("--only", default="", help="runs whose name has this in it")
    parser.add_argument("--seconds", type=float, help="for each run")
    options = parser.parse_args()
    print("# seed %d" % options.seed)
    report, tools = Report(), [os.path.abspath(path) for path in
                               (options.worker, options.recorder, options.everfold)]
    run_all(tools, options.seconds or (60 if options.all else None), options.keep, options.seed,
            report, options.only)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
