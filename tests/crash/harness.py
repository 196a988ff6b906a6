"""What the crash tests share: running the worker, tracing it, and saying what came of it."""
import argparse
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
TIMEOUT_S = 120

# Calls that change a file. A kill is put before each: so after each one, too.
MUTATING = ("pwrite64", "write", "fdatasync", "fsync", "ftruncate", "unlink", "openat")
FILES = ("", "-wal", "-shm", "-journal", "-head", "-lock")
VIEW_FILES = tuple("/views.db" + suffix for suffix in FILES if suffix != "-head")


class Place:
    """A directory with one journal in it, and the worker to run on it."""

    def __init__(self, worker, directory):
        self.worker, self.directory = worker, directory
        self.database = os.path.join(directory, "journal.db")
        self.ledger = os.path.join(directory, "ledger")
        os.makedirs(directory, exist_ok=True)

    def clone(self, directory):
        shutil.copytree(self.directory, directory)
        return Place(self.worker, directory)

    def remove(self):
        shutil.rmtree(self.directory, ignore_errors=True)

    def path(self, suffix):
        """Of a file beside the database, or (with a slash before it) of one in the directory."""
        return (self.directory if suffix.startswith("/") else self.database) + suffix

    def command(self, verb, *args, ledger=None):
        return [self.worker, self.database, ledger or self.ledger, verb, *map(str, args)]

    def run(self, verb, *args, ledger=None, before=(), env=None):
        return subprocess.run([*before, *self.command(verb, *args, ledger=ledger)],
                              capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
                              errors="replace", env=environment(env), stdin=subprocess.DEVNULL)

    def must(self, verb, *args, **more):
        done = self.run(verb, *args, **more)
        if done.returncode != 0:
            raise AssertionError("%s gave %d: %s %s" % (verb, done.returncode, done.stdout[-500:],
                                                        done.stderr[-1500:]))
        return done


def environment(more=None):
    """LeakSanitizer cannot work under ptrace, so it is off for all."""
    env = dict(os.environ, ASAN_OPTIONS="detect_leaks=0:abort_on_error=0")
    env.update(more or {})
    return env


def strace(place, calls, *inject, files=FILES, ledger=True, output="/dev/null"):
    """The words before a command that trace `calls` on the journal's own files."""
    words = ["strace", "-f", "-qq", "-o", output, "-e", "signal=none", "-e", "trace=" + calls]
    for suffix in files:
        words += ["-P", place.path(suffix)]
    if ledger:
        words += ["-P", place.ledger]
    for expression in inject:
        words += ["-e", "inject=" + expression]
    return words


def count_calls(place, calls, verb, *args, files=FILES, ledger=True):
    """How often each call is made, by the thread that makes it most: strace counts by thread."""
    output = os.path.join(place.directory, "trace")
    place.must(verb, *args,
               before=strace(place, ",".join(calls), files=files, ledger=ledger, output=output))
    counts = collections.Counter()
    with open(output, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            found = re.match(r"(\d+)\s+(\w+)\(", line)
            if found:
                counts[found.groups()] += 1
    os.remove(output)
    most = collections.Counter()
    for (_, call), count in counts.items():
        most[call] = max(most[call], count)
    return most


def sample(counts, most, seed=0):
    """Of all points (call, n): at most about `most` (0: all), evenly spread over each call. Calls
    that are rare are met whole. The next seed moves all of them by one: after as many seeds as the
    points lie apart, each was met."""
    chosen, left = [], most
    for k, (call, count) in enumerate(sorted(counts.items(), key=lambda item: item[1])):
        share = count if not most else min(count, max(1, left // (len(counts) - k)))
        left -= share
        shift = seed % -(-count // share)
        chosen += [(call, 1 + (i * count // share + shift) % count) for i in range(share)]
    return sorted(set(chosen))


def seed_of_today():
    """EVERFOLD_SEED, which a CI may set to the number of its run; or else the day."""
    return int(os.environ.get("EVERFOLD_SEED") or time.time() // 86400)


class Report:
    """TAP, with a sentence a test."""

    def __init__(self):
        self.number = self.failed = 0

    def test(self, sentence, function, *args, known=""):
        """`known`: what is wrong and not yet put right; then a test that passes is a failure, too,
        until these words are taken away."""
        self.number += 1
        todo = " # TODO " + known if known else ""
        try:
            detail = function(*args)
            print("ok %d - %s%s" % (self.number, sentence,
                                    todo or (" (%s)" % detail if detail else "")))
        except Exception:  # pylint: disable=broad-except
            self.failed += not known
            print("not ok %d - %s%s" % (self.number, sentence, todo))
            print("\n".join("# " + line for line in traceback.format_exc().splitlines()))
        sys.stdout.flush()

    def skip(self, sentence, why):
        self.number += 1
        print("ok %d - %s # SKIP %s" % (self.number, sentence, why), flush=True)

    def end(self):
        print("1..%d" % self.number)
        return 1 if self.failed else 0


def arguments(doc):
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("worker", help="the program built from worker.c")
    parser.add_argument("--all", action="store_true", help="every point, not a sample of them")
    parser.add_argument("--seed", type=int, default=seed_of_today(),
                        help="of the sample, and of what is random (default: today's)")
    parser.add_argument("--keep", action="store_true", help="keep what a failure left behind")
    return parser


def sweep_main(doc, run):
    """The command line of a sweep: run(worker, all, keep, seed, report, only)."""
    parser = arguments(doc)
    parser.add_argument("--only", help="scenarios whose name has this in it")
    options = parser.parse_args()
    print("# seed %d" % options.seed)
    report = Report()
    run(os.path.abspath(options.worker), options.all, options.keep, options.seed, report,
        options.only)
    return report.end()


def scratch():
    """A directory for a whole test; the caller removes it."""
    return tempfile.mkdtemp(prefix="everfold-crash-")


def end_scratch(root, keep, report):
    if keep and report.failed:
        print("# left behind: " + root)
    else:
        shutil.rmtree(root, ignore_errors=True)
