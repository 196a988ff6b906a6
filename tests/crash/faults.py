#!/usr/bin/env python3
"""Disks that fail, fill up and rot; files that are not what they should be.

Errors are put at every call that writes, once and for good. Damage is done to the files of a good
journal while nobody has it open. What must hold: nothing acknowledged is lost without a word,
nothing changed is ever served, and the word is the right one.
"""
import collections
import concurrent.futures
import contextlib
import os
import random
import shutil
import signal
import sqlite3
import stat
import struct
import subprocess
import sys
import time

from harness import (FILES, Place, Report, arguments, count_calls, environment, sample, scratch,
                     strace)
from oracle import Copy, Ledger, Oracle, Workload, need

WRITING = ("pwrite64", "fdatasync", "fsync", "ftruncate")
NAMED = {"disk_full", "io_error", "unsure", "busy", "damaged"}
PAGE = 4096


# Reported in the log only, because no acknowledged event depends on it.
TOLD = ("checkpoint failed", "the head file could not be written")

# The result of one fault: whether the call happened, and whether the failure was reported.
Fate = collections.namedtuple("Fate", "inject code met noticed")


class Faults:
    """The tests, on one worker, below one directory."""

    def __init__(self, worker, root, everything, seed):
        self.worker, self.root, self.everything = worker, root, everything
        self.seed, self.random = seed, random.Random(seed)
        self.serial = 0

    def directory(self):
        self.serial += 1
        return os.path.join(self.root, "f%d" % self.serial)

    def journal(self, workload):
        place = Place(self.worker, self.directory())
        place.must("append", *workload.args())
        return place, Oracle([workload])

    # --- errors ------------------------------------------------------------------------------

    def fail_at(self, directory, scenario, call, number, error, for_good):
        """One run in which a call fails, and its fate."""
        prepared, work, files = scenario
        place, oracle = Place(self.worker, directory), Oracle([work])
        if prepared:
            place = prepared.clone(directory + "-copy")
        inject = "%s:error=%s:when=%d%s" % (call, error, number, "+" if for_good else "")
        trace = os.path.join(place.directory, "trace")
        done = place.run("append", *work.args(), before=strace(
            place, call, inject, files=files, ledger=False, output=trace))
        met = "(INJECTED)" in open(trace, encoding="utf-8", errors="replace").read()
        ledger = Ledger(place.ledger)
        need(done.returncode in range(0, 7) and "Sanitizer" not in done.stderr,
             "%s: ended with %d: %s%s", inject, done.returncode, done.stdout[-300:],
             done.stderr[-2000:])
        need(set(ledger.errors) <= NAMED, "%s: reported as %r", inject, ledger.errors)
        need(done.returncode == 0 or ledger.errors, "%s: failed without a name", inject)
        oracle.check(place.database, ledger, alone=False)
        again = place.run("append", *work.args())
        need(again.returncode == 0, "%s: a new process cannot go on: %s", inject, again.stdout)
        oracle.check(place.database, Ledger(place.ledger))
        need(oracle.count == work.total, "%s: %d events of %d", inject, oracle.count, work.total)
        place.must("open")
        place.remove()
        noticed = done.returncode or ledger.errors or any(words in done.stderr for words in TOLD)
        return Fate(inject, done.returncode, met, bool(noticed))

    def fail_everywhere(self, scenario, calls, error, for_good):
        prepared, work, files = scenario
        trial = Place(self.worker, self.directory())
        if prepared:
            trial = prepared.clone(self.directory())
        counts = count_calls(trial, calls, "append", *work.args(), files=files, ledger=False)
        chosen = sample(counts, 0 if self.everything else 50, self.seed)
        with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
            runs = [pool.submit(self.fail_at, self.directory(), scenario, call, n, error, for_good)
                    for call, n in chosen]
            results = [run.result() for run in runs]
        need(sum(fate.met for fate in results) * 10 >= len(results) * 8, "most faults were not met")
        return results, "%d of %d points, %d met, %d noticed, %d went on in the same process" % (
            len(chosen), sum(counts.values()), sum(fate.met for fate in results),
            sum(fate.noticed for fate in results), sum(fate.code == 0 for fate in results))

    def errors(self, error, for_good):
        scenario = (None, Workload(24, 5, 3, 20), FILES)
        results, words = self.fail_everywhere(scenario, WRITING, error, for_good)
        silent = [fate.inject for fate in results if fate.met and not fate.noticed]
        need(not silent, "faults went by in silence: %r", silent)
        return words

    def checkpoint_errors(self, error):
        """Only a checkpoint writes to the database file of a journal that is there."""
        work = Workload(500, 40, 5, 21, 3000)
        prepared = Place(self.worker, self.directory())
        prepared.must("append", *Workload(10, 40, 5, 21, 3000).args())
        results, words = self.fail_everywhere((prepared, work, ("",)), WRITING, error, False)
        need(not any(fate.code for fate in results), "a checkpoint's fault stopped an append")
        silent = [fate.inject for fate in results if fate.met and not fate.noticed]
        need(not silent, "faults went by in silence: %r", silent)
        return words

    def read_errors(self):
        prepared = Place(self.worker, self.directory())
        prepared.must("append", *Workload(300, 40, 50, 22).args())
        scenario = (prepared, Workload(320, 40, 20, 22), FILES)
        return self.fail_everywhere(scenario, ("pread64",), "EIO", False)[1]

    # --- full --------------------------------------------------------------------------------

    def full_disk(self):
        directory = self.directory()
        os.makedirs(directory)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "tmpfs", directory],
                       check=True)
        try:
            return self.fill(Place(self.worker, os.path.join(directory, "data")), directory)
        finally:
            subprocess.run(["umount", "-l", directory], check=False)

    def fill(self, place, directory):
        ballast = os.path.join(directory, "ballast")
        place.ledger = os.path.join(self.root, "ledger-of-full")
        with open(ballast, "wb") as file:
            file.write(bytes(2 << 20))
        worker = subprocess.Popen(place.command("fill", 20, 7, 30, 900), text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment())
        lines = []
        for line in worker.stdout:
            if line == "waiting\n":
                break
            lines.append(line)
        ledger = Ledger(place.ledger)
        need(lines[0] == "stopped disk_full\n", "it stopped with %r", lines[0])
        need(len([x for x in lines if x.startswith("v ")]) == len(ledger.places),
             "full: %d events were acknowledged, %d read", len(ledger.places), len(lines) - 1)
        seen = place.run("dump", env={"WORKER_READ_ONLY": "1"}, ledger=place.ledger + "-reader")
        need(seen.returncode == 0, "another process cannot read while it is full: %s", seen.stdout)
        os.remove(ballast)
        rest, _ = worker.communicate("go on\n", timeout=60)
        need(worker.returncode == 0 and "resumed ok\n" in rest, "it did not go on: %r", rest)
        after = Ledger(place.ledger)
        need(len(after.places) > len(ledger.places), "nothing was appended after it")
        # The copy of the oracle needs free space too: it gets a folder with some.
        elsewhere = Place(self.worker, self.directory())
        for suffix in ("", "-wal", "-head"):
            shutil.copyfile(place.database + suffix, elsewhere.database + suffix)
        Oracle([Workload(1 << 30, 20, 7, 30, 900)]).check(elsewhere.database, after)
        return "%d events before, %d after" % (len(ledger.places), len(after.places))

    # --- rot ---------------------------------------------------------------------------------

    @staticmethod
    def as_read(database):
        """What any reader would be given, bytes as bytes; None when SQLite itself refuses."""
        try:
            with Copy(database) as db:
                return [tuple(row) for row in db.execute(
                    "SELECT e.position, e.seq, e.schema, e.time, e.recorded, e.prev, e.jump,"
                    " CAST(s.tenant AS BLOB), CAST(s.name AS BLOB), CAST(e.id AS BLOB),"
                    " CAST(t.name AS BLOB), CAST(e.data AS BLOB), CAST(e.meta AS BLOB),"
                    " CAST(e.hash AS BLOB) FROM event e"
                    " LEFT JOIN stream s ON s.id = e.stream"
                    " LEFT JOIN event_type t ON t.id = e.type ORDER BY e.position")]
        except (sqlite3.Error, UnicodeDecodeError): # the message may quote damaged text of the schema
            return None

    def flip(self, place, original, offset, bit, good):
        """One bit; gives (changes what is read, codes). Raises when a changed event was served."""
        damaged = bytearray(original)
        damaged[offset] ^= 1 << bit
        for suffix in ("-wal", "-shm"):
            if os.path.exists(place.database + suffix):
                os.remove(place.database + suffix)
        with open(place.database, "r+b") as file:
            file.write(damaged)
        shutil.copyfile(place.database + "-head.good", place.database + "-head")
        changed = self.as_read(place.database) != good["rows"]
        codes = []
        for verb in ("dump", "open"):
            done = place.run(verb, env={"WORKER_NO_CREATE": "1"}, ledger=place.ledger + "-flip")
            need(done.returncode in range(0, 7), "bit %d of byte %d: %s ended with %d: %s", bit,
                 offset, verb, done.returncode, done.stderr[-2000:])
            lines = done.stdout.splitlines()
            served = [line for line in lines if line.startswith("v ")]
            need(served == good["dump"][:len(served)],
                 "bit %d of byte %d: a changed event was served", bit, offset)
            if done.returncode:
                codes.append(lines[-1].split(":")[0])
            elif verb == "dump":
                need(len(served) == len(good["dump"]), "bit %d of byte %d: events are missing from "
                     "what is served", bit, offset)
        return changed, codes

    def flips(self, where, count):
        place, _ = self.journal(Workload(500, 25, 20, 40))
        db = sqlite3.connect(place.database)
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.close()
        shutil.copyfile(place.database + "-head", place.database + "-head.good")
        with open(place.database, "rb") as file:
            original = file.read()
        good = {"rows": self.as_read(place.database),
                "dump": place.must("dump").stdout.splitlines()}
        pages = [at for at in range(0, len(original), PAGE)
                 if where == "file" or (original[at] == 13  # a leaf of a table
                                        and b'"pad"' in original[at:at + PAGE])]
        changed = damaged = refused = 0
        for _ in range(count):
            offset = self.random.choice(pages) + self.random.randrange(PAGE)
            changes, codes = self.flip(place, original, offset, self.random.randrange(8), good)
            need(not changes or codes, "byte %d: a change was not noticed", offset)
            need(where == "file" or not changes or "damaged" in codes,
                 "byte %d of an event's page was reported as %r", offset, codes)
            changed += changes
            refused += bool(codes)
            damaged += "damaged" in codes
        need(changed > count // 10, "only %d flips of %d changed anything", changed, count)
        return "%d flips, %d changed what is read, %d refused, %d as damaged" % (
            count, changed, refused, damaged)

    # --- files -------------------------------------------------------------------------------

    def refused_then_accepted(self, damage, create=True):
        """Do damage to a journal of 440 events that are all still in its log; open must name it,
        and accept_head must go on."""
        work, more = Workload(200, 10, 40, 50), Workload(240, 10, 40, 51)
        place, oracle = self.journal(work)
        old = place.clone(self.directory())
        place.must("append", *more.args())
        # A checkpoint would put the events into the database file, and damage to the log would
        # lose nothing. One starts at about 128 pages of log, the schema's included.
        need(os.path.getsize(place.database) == PAGE, "a checkpoint has moved the log: append in "
             "fewer commits")
        damage(place, old)
        env = {} if create else {"WORKER_NO_CREATE": "1"}
        for _ in range(2):  # asking twice does not make it good
            done = place.run("open", ledger=place.ledger + "-damage", env=env)
            need(done.returncode == 6 and done.stdout.startswith("damaged: "), "open gave %d: %s",
                 done.returncode, done.stdout)
        need(" 440" in done.stdout, "440 is not named: %s", done.stdout)
        accepted = place.run("open", ledger=place.ledger + "-damage",
                             env={"WORKER_ACCEPT_HEAD": "1"})
        need(accepted.returncode == 0, "accept_head gave %d: %s", accepted.returncode,
             accepted.stdout)
        os.remove(place.ledger)
        oracle.workloads[more.seed] = more
        place.must("append", *work.args())
        place.must("append", *more.args())
        place.must("open")
        oracle.check(place.database, Ledger(place.ledger))
        need(oracle.count == 440, "there are %d events in the end", oracle.count)

    def late_head(self):
        """One process is held up between its commit and the head file while another goes on."""
        first, late, more = (Workload(60, 10, 20, 52), Workload(5, 5, 5, 53),
                             Workload(200, 10, 20, 54))
        place, _ = self.journal(first)
        before = strace(place, "fcntl", "fcntl:delay_enter=3000000:when=1", files=("-head",),
                        ledger=False)
        with concurrent.futures.ThreadPoolExecutor(max_workers=1) as pool:
            held_up = pool.submit(place.run, "append", *late.args(), before=before,
                                  ledger=place.ledger + "-late")
            wait_for_events(place, 65)
            place.must("append", *more.args())
            need(not held_up.done(), "nothing was held up")
            need(head_position(place) == 265, "the head is %d while one is late",
                 head_position(place))
            need(held_up.result().returncode == 0, "the late one failed: %s",
                 held_up.result().stdout)
        need(head_position(place) == 265, "a late one took the head back to %d",
             head_position(place))
        place.must("open")

    def killed_at_record(self, damaged, call, number):
        """A reader is killed while it records the damage. Whether it is recorded or not, the next one that reads the
        event records it."""
        place = damaged.clone(self.directory())
        work = Workload(5, 5, 5, 57)
        done = place.run("dump", ledger=place.ledger + "-killed", before=strace(
            place, call, "%s:signal=SIGKILL:when=%d" % (call, number), files=("-head",), ledger=False))
        need(done.returncode == -signal.SIGKILL, "%s %d: it was not killed, and gave %d", call, number, done.returncode)
        first = place.run("append", *work.args())
        need(first.returncode in (0, 6), "%s %d: append gave %d: %s", call, number, first.returncode, first.stdout)
        need(first.returncode == 0 or "position 50" in first.stdout, "%s %d: half a record: %s", call, number,
             first.stdout)
        need(place.run("dump", ledger=place.ledger + "-killed").returncode == 6, "the event was served")
        last = place.run("append", *Workload(10, 5, 5, 58).args())
        need(last.returncode == 6 and "position 50" in last.stdout, "%s %d: append gave %d: %s", call, number,
             last.returncode, last.stdout)
        place.remove()
        return first.returncode == 6

    def record_of_damage(self):
        place, _ = self.journal(Workload(100, 10, 20, 56))
        db = sqlite3.connect(place.database)
        db.execute("DROP TRIGGER event_is_never_changed")
        db.execute("UPDATE event SET data = data || ' ' WHERE position = 50")
        db.commit()
        db.close()
        trial = place.clone(self.directory())
        trace = os.path.join(trial.directory, "trace")
        done = trial.run("dump", ledger=trial.ledger + "-dump", before=strace(
            trial, "openat,fcntl,pwrite64,fsync", files=("-head",), ledger=False, output=trace))
        need(done.returncode == 6, "dump gave %d: %s", done.returncode, done.stdout[-500:])
        with open(trace, encoding="utf-8", errors="replace") as lines:
            counts = collections.Counter(line.split()[1].split("(")[0] for line in lines)
        need(counts["pwrite64"] and counts["fsync"], "nothing was recorded: %r", counts)
        points = [(call, n) for call in sorted(counts) for n in range(1, counts[call] + 1)]
        recorded = sum(self.killed_at_record(place, *point) for point in points)
        need(0 < recorded < len(points), "%d of %d kills left a record", recorded, len(points))
        return "%d points, %d left a record" % (len(points), recorded)

    def file_modes(self):
        mask = os.umask(0)
        try:
            place, _ = self.journal(Workload(10, 2, 5, 60))
        finally:
            os.umask(mask)
        modes = {suffix: stat.S_IMODE(os.stat(place.database + suffix).st_mode)
                 for suffix in FILES if os.path.exists(place.database + suffix)}
        need({"", "-wal", "-head", "-lock"} <= set(modes), "files are missing: %r", modes)
        need(set(modes.values()) == {0o600}, "modes are %r",
             {suffix: oct(mode) for suffix, mode in modes.items()})

    def symlink(self):
        real, _ = self.journal(Workload(10, 2, 5, 61))
        place = Place(self.worker, self.directory())
        os.symlink(real.database, place.database)
        self.must_refuse(place, real.database, {"wrong_store", "io_error"})

    def must_refuse(self, place, file, codes, *command):
        before = open(file, "rb").read()
        for verb in command or (("open",), ("append", 5, 2, 5, 62, 100)):
            done = place.run(*verb)
            code = done.stdout.split(":")[0]
            need(done.returncode != 0 and code in codes, "%s gave %d: %s", verb[0], done.returncode,
                 done.stdout)
            need(open(file, "rb").read() == before, "%s changed the file", verb[0])

    def foreign(self):
        place = Place(self.worker, self.directory())
        db = sqlite3.connect(place.database)
        db.execute("CREATE TABLE theirs(a)")
        db.commit()
        db.close()
        self.must_refuse(place, place.database, {"wrong_store"})

    def not_a_database(self):
        place = Place(self.worker, self.directory())
        with open(place.database, "wb") as file:
            file.write(b"dear diary, " * 1000)
        self.must_refuse(place, place.database, {"wrong_store"})

    def newer(self):
        place, _ = self.journal(Workload(10, 2, 5, 63))
        db = sqlite3.connect(place.database)
        db.execute("PRAGMA user_version=99")
        db.commit()
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.close()
        self.must_refuse(place, place.database, {"newer_schema"})

    def read_only_directory(self):
        directory = self.directory()
        os.makedirs(directory)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "tmpfs", directory],
                       check=True)
        try:
            place = Place(self.worker, os.path.join(directory, "data"))
            place.ledger = os.path.join(self.root, "ledger-of-read-only")
            os.makedirs(os.path.join(directory, "empty"))
            place.must("append", *Workload(10, 2, 5, 64).args())
            subprocess.run(["mount", "-o", "remount,ro", directory], check=True)
            self.must_refuse(place, place.database, {"io_error"})
            empty = Place(self.worker, os.path.join(directory, "empty"))
            empty.ledger = place.ledger
            done = empty.run("open")
            need(done.returncode == 1 and done.stdout.startswith("io_error: "), "gave %d: %s",
                 done.returncode, done.stdout)
        finally:
            subprocess.run(["umount", "-l", directory], check=False)

    def fork(self):
        place = Place(self.worker, self.directory())
        done = place.must("fork")
        need(done.stdout == "append misuse\nread_log misuse\nlease_acquire misuse\n", "it said %r",
             done.stdout)
        oracle = Oracle([Workload(10, 3, 5, 900, 20)])
        oracle.check(place.database, Ledger(place.ledger))


def edit(path, function):
    with open(path, "r+b") as file:
        content = bytearray(file.read())
        function(content)
        file.seek(0)
        file.truncate()
        file.write(content)


def flip_in_log(place, _):
    edit(place.database + "-wal", lambda c: c.__setitem__(len(c) // 2, c[len(c) // 2] ^ 4))


def cut_log(place, _):
    edit(place.database + "-wal", lambda c: c.__delitem__(slice(len(c) // 2, None)))


def remove_log(place, _):
    os.remove(place.database + "-wal")


def head_position(place):
    """What the head file says: the higher of its two records."""
    with open(place.database + "-head", "rb") as file:
        bytes_ = file.read(1024).ljust(1024, b"\0")
    return max(struct.unpack_from("<q", bytes_, at + 8)[0] for at in (0, 512)
               if bytes_[at:at + 8] == b"EFHEAD01")


def wait_for_events(place, count, limit_secs=20):
    """Wait until the database has `count` events."""
    until = time.monotonic() + limit_secs
    while time.monotonic() < until:
        with contextlib.closing(sqlite3.connect("file:%s?mode=ro" % place.database, uri=True)) as db:
            if db.execute("SELECT count(*) FROM event").fetchone()[0] >= count:
                return
        time.sleep(0.01)
    need(False, "there are no %d events after %d s", count, limit_secs)


def remove_database(place, _):
    os.remove(place.database)


def put_old_copy(place, old):
    for suffix in ("", "-wal"):
        shutil.copyfile(old.database + suffix, place.database + suffix)


def remove_head(place, _):
    os.remove(place.database + "-head")


def damage_head(place, _):
    edit(place.database + "-head", lambda c: [c.__setitem__(at, c[at] ^ 1) for at in (9, 521)])


def can_mount(root):
    directory = os.path.join(root, "try")
    os.makedirs(directory)
    tried = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", directory],
                           capture_output=True, check=False)
    if tried.returncode == 0:
        subprocess.run(["umount", directory], check=False)
    return tried.returncode == 0


def run(worker, everything, seed, report, only=""):
    root = scratch()
    f = Faults(worker, root, everything, seed)
    flips = 3000 if everything else 250
    damages = [("a bit of the log is flipped", flip_in_log),
               ("the log is cut", cut_log),
               ("the log is removed", remove_log),
               ("the database file is removed", remove_database),
               ("an older copy is put in its place", put_old_copy),
               ("the head file is removed", remove_head),
               ("both records of the head file are damaged", damage_head)]
    tests = [
        ("a write or sync that fails once with EIO loses nothing", f.errors, "EIO", False),
        ("a write or sync that fails once with ENOSPC loses nothing", f.errors, "ENOSPC", False),
        ("writes and syncs that fail for good with EIO lose nothing", f.errors, "EIO", True),
        ("writes and syncs that fail for good with ENOSPC lose nothing", f.errors, "ENOSPC", True),
        ("a checkpoint that meets EIO says so and no append suffers", f.checkpoint_errors, "EIO"),
        ("a checkpoint that meets ENOSPC says so and no append suffers", f.checkpoint_errors,
         "ENOSPC"),
        ("a read that fails with EIO loses nothing", f.read_errors),
        ("a flipped bit among the events is never served and always found", f.flips, "event",
         flips),
        ("a flipped bit anywhere in the file is never served", f.flips, "file", flips // 2),
        *[("it is refused by name and position when " + words, f.refused_then_accepted, damage)
          for words, damage in damages],
        ("it is refused by name when the log is removed and it may not be made anew",
         f.refused_then_accepted, remove_log, False),
        ("it is refused by name when the database file is removed and it may not be made anew",
         f.refused_then_accepted, remove_database, False),
        ("a process that is late does not take the head file back", f.late_head),
        ("a process that is killed while it records damage leaves a record or none", f.record_of_damage),
        ("every file is for its owner alone", f.file_modes),
        ("a path that is a symbolic link is refused", f.symlink),
        ("a database of somebody else is refused and left alone", f.foreign),
        ("a file that is no database is refused and left alone", f.not_a_database),
        ("a journal of a newer schema is refused and left alone", f.newer),
        ("a handle is refused in a child after fork", f.fork),
    ]
    for sentence, function, *args in tests:
        if only in sentence:
            report.test(sentence, function, *args)
    mounts = [("a full disk is named, is read from, and is gone on from", f.full_disk),
              ("a read-only directory is refused with a clear error", f.read_only_directory)]
    able = can_mount(root)
    for sentence, function in mounts:
        if only not in sentence:
            continue
        if able:
            report.test(sentence, function)
        else:
            report.skip(sentence, "a tmpfs cannot be mounted here")
    shutil.rmtree(root, ignore_errors=True)


def main():
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    parser = arguments(__doc__)
    parser.add_argument("--only", default="", help="tests whose sentence has this in it")
    options = parser.parse_args()
    print("# seed %d" % options.seed)
    report = Report()
    run(os.path.abspath(options.worker), options.all, options.seed, report, options.only)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
