#!/usr/bin/env python3
"""Many processes on one journal, killed and stopped at random.

Three writers of two threads each, a reader that follows by position, a taker under a lease. Writers
and taker are killed again and again; the reader lives through it all. Then the oracle looks. After
that, holders of a lease are stopped past its end and woken: what they write is refused.
"""
import os
import random
import shutil
import signal
import subprocess
import sys
import time

from harness import Place, Report, arguments, environment, scratch, strace
from oracle import Ledger, Oracle, Workload, need

STREAMS, BATCH, THREADS, WRITERS = 40, 4, 2, 3
LOG_BYTES_MAX = 64 << 20
HELD_MS = 400  # sixteen leases are taken one after the other, each with its own sync
NEVER = 10**7  # events of one writer: more than it will get to


class Crowd:
    """The processes on one journal. Each that appends has a seed, and a ledger, of its own."""

    def __init__(self, place, dice):
        self.place, self.dice = place, dice
        self.seeds, self.ledgers, self.log_bytes = [], [], 0
        self.ended = []  # (verb, exit code, output) of those that were not killed
        self.kills = 0

    def start(self, verb, *args, ledger):
        command = self.place.command(verb, *args, ledger=ledger)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, env=environment())
        process.verb = verb
        return process

    def writer(self, left_ms):
        seed = 1000 + len(self.seeds)
        self.seeds.append(seed)
        self.ledgers.append(self.place.ledger + "-%d" % seed)
        return self.start("hammer", left_ms, STREAMS, BATCH, seed, THREADS, ledger=self.ledgers[-1])

    def taker(self, left_ms):
        self.ledgers.append(self.place.ledger + "-taker-%d" % len(self.ledgers))
        return self.start("take", NEVER, 50, 400, left_ms, ledger=self.ledgers[-1])

    def kill(self, process):
        process.kill()
        process.communicate()
        self.kills += 1

    def end(self, process):
        output, _ = process.communicate(timeout=60)
        self.ended.append((process.verb, process.returncode, output))

    def look_at_log(self):
        path = self.place.database + "-wal"
        if os.path.exists(path):
            self.log_bytes = max(self.log_bytes, os.path.getsize(path))

    def oracle(self, first):
        workloads = [first] + [Workload(NEVER, STREAMS, BATCH, seed * 8 + thread)
                               for seed in self.seeds for thread in range(THREADS)]
        return Oracle(workloads, takes=True)


def run_crowd(crowd, seconds):
    """Kill somebody every few moments until the time is over."""
    until = time.monotonic() + seconds

    def left_ms():
        return max(200, int((until - time.monotonic()) * 1000))

    reader = crowd.start("follow", left_ms() + 1500, ledger=crowd.place.ledger + "-reader")
    workers = [crowd.writer(left_ms()) for _ in range(WRITERS)] + [crowd.taker(left_ms())]
    while time.monotonic() < until - 0.5:
        time.sleep(crowd.dice.uniform(0.02, 0.25))
        crowd.look_at_log()
        k = crowd.dice.randrange(len(workers))
        crowd.kill(workers[k])
        workers[k] = crowd.writer(left_ms()) if k < WRITERS else crowd.taker(left_ms())
    for worker in workers:
        crowd.end(worker)
    crowd.end(reader)


def crowd_is_killed(worker, root, seconds, seed):
    place = Place(worker, os.path.join(root, "crowd"))
    first = Workload(400, STREAMS, 50, 1)  # every stream is there, so its partition is known
    place.must("append", *first.args())
    crowd = Crowd(place, random.Random(seed))
    oracle = crowd.oracle(first)
    oracle.check(place.database, Ledger(place.ledger))
    run_crowd(crowd, seconds)
    for verb, code, output in crowd.ended:
        held = verb == "take" and output.startswith("lease_")  # its time was up while it waited
        need(code == 0 or held, "%s ended with %d: %s", verb, code, output[-2000:])
    ledger = Ledger(place.ledger, *crowd.ledgers)
    need(set(ledger.errors) <= {"lease_held", "lease_lost"}, "reported: %r", set(ledger.errors))
    oracle.workloads = crowd.oracle(first).workloads
    oracle.check(place.database, ledger, alone=False)
    need(crowd.log_bytes < LOG_BYTES_MAX, "the log grew to %d bytes", crowd.log_bytes)
    place.must("open")
    followed = int(next(out for verb, _, out in crowd.ended if verb == "follow").split()[1])
    need(followed == oracle.count, "the reader saw %d events of %d", followed, oracle.count)
    oracle.check(place.database, ledger, alone=False)
    return "seed %d: %d kills, %d events, %d acknowledged, %d taken, log at most %d KB" % (
        seed, crowd.kills, oracle.count, len(ledger.places), len(ledger.taken),
        crowd.log_bytes >> 10)


def made_at_once(worker, root, rounds):
    """Several processes find no journal, and all of them make it and append."""
    for n in range(rounds):
        place = Place(worker, os.path.join(root, "new-%d" % n))
        works = [Workload(12, 5, 2, seed) for seed in range(4)]
        ledgers = [place.ledger + "-%d" % work.seed for work in works]
        started = [subprocess.Popen(place.command("append", *work.args(), ledger=ledger),
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                    env=environment()) for work, ledger in zip(works, ledgers)]
        for process in started:
            output, _ = process.communicate(timeout=60)
            need(process.returncode == 0, "round %d: one ended with %d: %s", n, process.returncode,
                 output)
        oracle = Oracle(works)
        oracle.check(place.database, Ledger(*ledgers), alone=False)
        need(oracle.count == 48, "round %d: %d events of 48", n, oracle.count)
        place.must("open")
        place.remove()
    return "%d rounds of 4 processes" % rounds


def head_made_meanwhile(worker, root):
    """One process has made the schema and is slow to make the head file; another looks for that
    file too early and at the events too late. strace holds each where it hurts."""
    place = Place(worker, os.path.join(root, "meanwhile"))
    works, started = (Workload(8, 5, 2, 6), Workload(8, 5, 2, 7)), []
    delays = ("openat:delay_enter=400ms:when=2", "openat:delay_exit=1s:when=2")
    for work, inject in zip(works, delays):
        before = strace(place, "openat", inject, files=("-head",), ledger=False)
        command = place.command("append", *work.args(), ledger=place.ledger + "-%d" % work.seed)
        started.append(subprocess.Popen([*before, *command], stdout=subprocess.PIPE, text=True,
                                        env=environment()))
        time.sleep(0.2)
    for process in started:
        output, _ = process.communicate(timeout=60)
        need(process.returncode == 0, "one ended with %d: %s", process.returncode, output)
    oracle = Oracle(works)
    ledger = Ledger(*(place.ledger + "-%d" % work.seed for work in works))
    oracle.check(place.database, ledger, alone=False)
    need(oracle.count == 16, "%d events of 16", oracle.count)


def wait_stopped(process):
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    need(os.WIFSTOPPED(status), "the holder ended instead of stopping: %d", status)


def stopped_holder(worker, root, rounds):
    """Stop a holder past the end of its lease; somebody else takes over; wake it."""
    place = Place(worker, os.path.join(root, "stopped"))
    work = Workload(60 * rounds, 20, 30, 2)
    place.must("append", *work.args())
    oracle, refused = Oracle([work], takes=True), 0
    oracle.check(place.database, Ledger(place.ledger))
    for _ in range(rounds):
        holder = subprocess.Popen(place.command("hold", 20, HELD_MS, ledger=place.ledger + "-holder"),
                                  stdout=subprocess.PIPE, text=True, env=environment())
        wait_stopped(holder)
        place.must("take", 1, 20, HELD_MS, 20000)
        holder.send_signal(signal.SIGCONT)
        output, _ = holder.communicate(timeout=60)
        need("mark lease_lost\n" in output, "a stale mark was not refused: %s", output)
        refused += int(output.split("stale_refused ")[1].split()[0])
        oracle.check(place.database, Ledger(place.ledger))
        time.sleep(HELD_MS / 1000 + 0.01)  # the taker's own lease has to run out before the next holder
    need(refused >= rounds, "only %d refusals were counted", refused)
    return "%d stale writes refused, none done" % refused


def wait_for_stop(tracer):
    """The worker below a tracer, once it has stopped for longer than a traced call stops it."""
    until, seen = time.monotonic() + 30, 0
    while time.monotonic() < until and seen < 20:
        time.sleep(0.01)
        with open("/proc/%d/task/%d/children" % (tracer.pid, tracer.pid), encoding="ascii") as file:
            children = file.read().split()
        if children:
            with open("/proc/%s/stat" % children[0], encoding="ascii") as file:
                seen = seen + 1 if file.read().rsplit(")", 1)[1].split()[0] in "tT" else 0
    need(seen == 20, "the writer did not stop")
    return int(children[0])


def stopped_in_transaction(worker, root, rounds):
    """Stop a writer at a sync, in the middle of its commit. Others wait as long as they were told
    to and are told so; readers do not wait; once it is woken all go on."""
    for n in range(rounds):
        place = Place(worker, os.path.join(root, "commit-%d" % n))
        first, second, third = (Workload(40, 5, 4, seed) for seed in (3, 4, 5))
        place.must("append", *first.args())
        stop = strace(place, "fdatasync", "fdatasync:signal=SIGSTOP:when=%d" % (1 + n),
                      files=("-wal",))
        tracer = subprocess.Popen([*stop, *place.command("append", *second.args())], text=True,
                                  stdout=subprocess.PIPE, env=environment())
        pid = wait_for_stop(tracer)
        begun = time.monotonic()
        late = place.run("append", *Workload(4, 5, 4, 5).args(), env={"WORKER_BUSY_MS": "50"},
                         ledger=place.ledger + "-late")
        waited = time.monotonic() - begun
        need(late.stdout.startswith("busy: ") and late.returncode == 5, "it was told %r",
             late.stdout)
        need(0.3 <= waited < 10, "six tries of 50 ms took %.3f s", waited)
        place.must("dump")
        os.kill(pid, signal.SIGCONT)
        tracer.communicate(timeout=60)
        need(tracer.returncode == 0, "the stopped writer ended with %d", tracer.returncode)
        place.must("append", *third.args())
        oracle = Oracle([first, second, third])
        oracle.check(place.database, Ledger(place.ledger, place.ledger + "-late"))
        need(oracle.count == 120, "%d events of 120", oracle.count)
    return "%d stops" % rounds


def run(worker, seconds, rounds, seed, report):
    root = scratch()
    report.test("nothing is lost, doubled or skipped when a crowd of processes is killed at random",
                crowd_is_killed, worker, root, seconds, seed)
    report.test("processes that make the same journal at the same moment all get to use it",
                made_at_once, worker, root, 5 * rounds)
    report.test("a holder that slept past the end of its lease is refused and changes nothing",
                stopped_holder, worker, root, rounds)
    traced = [("a writer stopped inside its commit delays others by their deadline and no longer",
               stopped_in_transaction, worker, root, min(rounds, 8)),
              ("a head file that is made while another process opens is no damage",
               head_made_meanwhile, worker, root)]
    for sentence, *test in traced:
        if shutil.which("strace"):
            report.test(sentence, *test)
        else:
            report.skip(sentence, "strace is not here")
    shutil.rmtree(root, ignore_errors=True)


def main():
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=12)
    options = parser.parse_args()
    print("# seed %d" % options.seed)
    report = Report()
    run(os.path.abspath(options.worker), options.seconds, 100 if options.all else 8, options.seed,
        report)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
