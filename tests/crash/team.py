"""Processes that append and fold side by side on one data directory, and what must be true of what
they leave: the crash tests of a whole crew share it."""
import json
import os
import signal
import sqlite3
import subprocess
import time

import apply_oracle
from hammer import NEVER, Crowd
from harness import Place, environment
from oracle import Copy, Ledger, Oracle, Workload, need

STREAMS, BATCH, WRITER_THREADS = 40, 3, 1
NAMES = ("totals", "trail", "logged")  # the programs that fail on nothing
LIVES_MS = 3600 * 1000  # no worker ends by itself
QUIET_S = 90  # what is left is folded by then, also where a lease of a scope has to run out first


def wait_until(condition, seconds, what):
    until = time.monotonic() + seconds
    while not condition():
        need(time.monotonic() < until, "after %.0f s: %s", seconds, what)
        time.sleep(0.02)


class Team(Crowd):
    """Writers and workers. What is told by those that end by themselves is kept."""

    def __init__(self, tools, root, dice, pause_ms=4, deployed=3, lease_ms=400):
        self.deployed = deployed
        self.worker, self.everfold = tools
        super().__init__(Place(self.worker, root), dice)
        self.lease_ms, self.env = lease_ms, {"WORKER_PAUSE_MS": str(pause_ms)}
        self.stopped, self.names = [], set()  # what workers said at their end; who they were
        self.first = Workload(400, STREAMS, 50, 1)
        self.place.must("append", *self.first.args())
        self.proof = Oracle([self.first])
        self.proof.check(self.place.database, Ledger(self.place.ledger))
        self.place.must("deploy", deployed)

    def start(self, verb, *args, ledger, env=None, before=()):
        command = [*before, *self.place.command(verb, *args, ledger=ledger)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                   text=True, env=environment({**self.env, **(env or {})}))
        process.verb = verb
        return process

    def writer(self, left_ms=LIVES_MS):
        seed = 1000 + len(self.seeds)
        self.seeds.append(seed)
        self.ledgers.append(self.place.ledger + "-%d" % seed)
        return self.start("hammer", left_ms, STREAMS, BATCH, seed, WRITER_THREADS,
                          ledger=self.ledgers[-1])

    def server(self, env=None):
        process = self.start("serve", self.lease_ms, 3 * self.lease_ms, LIVES_MS,
                             ledger=self.place.ledger + "-server", env=env)
        return process

    @staticmethod
    def serves(process):
        """Waits until it does."""
        need(process.stdout.readline() == "serving\n", "a worker did not start")
        return process

    def stop(self, processes):
        """As an operator does; what each has to say is kept."""
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            output, _ = process.communicate(timeout=60)
            need(process.returncode == 0, "a worker ended with %d: %s", process.returncode, output)
            self.names.add("w-%d" % process.pid)
            words = output.split("served ")[1].split()
            self.stopped.append(dict(zip(words[::2], map(int, words[1::2]))))
        self.no_lease()

    def told(self, what):
        return sum(said[what] for said in self.stopped)

    def rows(self, file, sql, *values):
        db = sqlite3.connect("file:%s?mode=ro" % os.path.join(self.place.directory, file), uri=True)
        try:
            return db.execute(sql, values).fetchall()
        finally:
            db.close()

    def is_quiet(self, names=NAMES):
        """Nothing is queued and every generation has seen everything."""
        if self.rows("journal.db", "SELECT count(*) FROM outbox_queue")[0][0]:
            return False
        head = self.rows("journal.db", "SELECT max(position) FROM event")[0][0]
        done = self.rows("views.db", "SELECT name, applied + ignored + skipped, state, routed"
                         " FROM generation WHERE state < 2")
        if any(total != head or state != 1 for name, total, state, _ in done if name in names):
            return False
        return {name for name, _, _, routed in done if routed} >= set(names)

    def wait_quiet(self, seconds=QUIET_S):
        wait_until(self.is_quiet, seconds, "there is work left")

    def no_lease(self):
        """Who has stopped holds nothing, and is no worker any more."""
        with Copy(self.place.database) as db:
            held = {row["owner"] for row in db.execute("SELECT owner FROM lease")}
            there = {row["id"] for row in db.execute("SELECT id FROM worker")}
        need(not self.names & held, "who has stopped has leases: %r", self.names & held)
        need(not self.names & there, "who has stopped is still there: %r", self.names & there)

    def command(self, *words, codes=(0,)):
        """The command line on the same directory; gives what it printed."""
        done = subprocess.run([self.everfold, *words, "--data", self.place.directory],
                              capture_output=True, text=True, check=False, timeout=120,
                              env=environment())
        need(done.returncode in codes, "%s gave %d: %s%s", " ".join(words), done.returncode,
             done.stdout[-500:], done.stderr[-1500:])
        return done.stdout

    def check(self, names=NAMES):
        """Exact totals. Gives how many events there are, and how many of them were acknowledged."""
        ledger = Ledger(self.place.ledger, *self.ledgers)
        need(not ledger.errors, "writers were told %r", set(ledger.errors))
        self.proof.workloads.update((w.seed, w) for w in (
            Workload(NEVER, STREAMS, BATCH, seed * 8 + thread)
            for seed in self.seeds for thread in range(WRITER_THREADS)))
        self.proof.check(self.place.database, ledger, alone=False)
        _, generations = apply_oracle.check_done(self.place.database, names)
        for row in json.loads(self.command("projection", "ls", "-o", "json")):
            need(row["unaccounted"] == 0, "%s has %d unaccounted", row["name"], row["unaccounted"])
        self.check_rebuilt(generations)
        return self.proof.count, len(ledger.places)

    def check_rebuilt(self, generations):
        """Folded anew from nothing, every generation comes out the same."""
        anew = self.place.clone(self.place.directory + "-anew")
        for suffix in ("", "-wal", "-shm", "-lock"):
            if os.path.exists(anew.path("/views.db" + suffix)):
                os.remove(anew.path("/views.db" + suffix))
        anew.must("deploy", self.deployed)
        anew.must("work", 1000000, 1000, 0)
        _, built = apply_oracle.look(anew.database)
        routed = {g.name: g for g in generations.values() if g.row["routed"]}
        for generation in built.values():
            lived = routed.get(generation.name)
            for what in ("applied", "ignored", "views", "digest_a", "digest_b"):
                need(lived and lived.row[what] == generation.row[what],
                     "%s is not what a rebuild gives: %s is %r, not %r", generation.name, what,
                     lived and lived.row[what], generation.row[what])
        anew.remove()

    def close(self, *processes):
        for process in processes:
            process.kill()
            process.communicate()
