#!/usr/bin/env python3
"""run.py - searches the models in this folder, and the same models with a guard removed.

    run.py [-k TEXT]    every check, or those whose line has TEXT in it

A check is a model with some macros, and what has to come out:

    HOLDS   no assertion fails in any state, and none is stuck: the whole state space is searched
    ENDS    there is no cycle: once faults have ended, work does
    BREAKS  a guard is missing, and the assertion with this name fails
    CYCLES  a guard is missing, and there is a cycle: work that never ends

A search that ran out of depth, memory or time has shown nothing, and fails. One line per check,
with the number of states that were looked at. Exit code 77, "skipped", only when spin is not
installed.
"""
import argparse
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
SEARCH_S, DEPTH, MEMORY_MB = 300, 100_000, 3000  # the machine may be busy with other tests
HOLDS, ENDS, CYCLES = "holds", "ends", "cycles"

# (model, macros, what comes out, why it is here). A name in the third place is the assertion that
# has to fail. Where a missing guard is covered by another one, it HOLDS, and the next line takes
# the other one away as well.
CHECKS = [
    ("claim", "", HOLDS, "one partition, a poison event, an operator"),
    ("claim", "", ENDS, "once faults end everything is applied, passed, dead or behind a dead row"),
    ("claim", "TWO_PARTITIONS", HOLDS, "two owners, one view"),
    ("claim", "TWO_PARTITIONS", ENDS, "starting over ends"),
    ("claim", "NO_TOKEN_IN_MARK", "dead_row_revived", "a late owner settles its old batch"),
    ("claim", "TOKEN_STAYS", "dead_row_revived", "a take-over that does not raise the token"),
    ("claim", "NO_FENCE", "late_owner_wrote", "a late owner writes views after the new one did"),
    ("claim", "NO_FENCE LATE_MAY_WRITE", HOLDS, "and yet each event counts once: watermarks"),
    ("claim", "NO_WATERMARK TWO_PARTITIONS", "doubled", "a crash between commit and mark"),
    ("claim", "NO_WATERMARK_COMPARE", "doubled", "two owners have read the same watermark"),
    ("claim", "NO_DUPLICATES", CYCLES, "what was applied waits for ever for what is before it"),
    ("claim", "NO_DIGEST TWO_PARTITIONS", "lost_update", "two streams write one view"),
    ("claim", "NO_DEFER", "out_of_order", "what is behind a failure overtakes it"),
    ("claim", "MARK_FIRST", "dropped", "the mark before the views"),
    ("claim", "EXCEPTIONS_LATER", "dropped", "exceptions in another transaction than the mark"),
    ("claim", "SKIP_NOT_KEPT", "skip_lost", "an operator skips during the last attempt"),
    ("claim", "NO_TAKE_OVER", "unsettled", "leases that do not run out"),

    ("seam", "", HOLDS, "going live beside the queue; switch, roll back, retire"),
    ("seam", "EVENTS=1", ENDS, "starting over ends"),
    ("seam", "PAUSE", HOLDS, "pause and resume, over the seam again"),
    ("seam", "PAUSE EVENTS=1", ENDS, "starting over ends"),
    ("seam", "LIST_FIRST", HOLDS, "the list of live generations read before the batch is taken"),
    ("seam", "NO_LIVE_SET", HOLDS, "covered: the list is read after the batch was taken"),
    ("seam", "NO_LIVE_SET LIST_FIRST", "missed", "a batch that goes by an old list"),
    ("seam", "NUMBER_READ_LAST LIST_FIRST", "missed", "a list that is older than its number"),
    ("seam", "HEAD_READ_OUTSIDE", "missed", "the head read before the transaction"),
    ("seam", "NO_ERA PAUSE", "pause_lost", "a commit that was read before the pause"),
    ("seam", "NO_ERA_IN_ACTS", "routed_is_not_whole", "roll back against retire"),
    ("seam", "RESUME_LIVE PAUSE", "missed", "resuming without catching up"),
    ("seam", "NO_CURSOR", HOLDS, "covered: the watermarks"),
    ("seam", "NO_WATERMARK_COMPARE", HOLDS, "covered: the cursor, the era"),
    ("seam", "NO_CURSOR NO_WATERMARK_COMPARE", "doubled", "two drivers of one cursor"),

    ("rebuild", "", HOLDS, "two rebuilds in place, two drivers, a crash"),
    ("rebuild", "RUNS=1", ENDS, "every run comes to an end"),
    ("rebuild", "NO_NUMBER RUNS=1", "orphan", "a late driver makes another one"),
    ("rebuild", "NO_ERA", "route_taken_back", "a late driver routes what was replaced since"),
    ("rebuild", "NO_RUN_LEASE", "completed_without_rebuild", "two drivers at once"),
    ("rebuild", "NO_ONE_RUN", "route_taken_back", "two runs of one scope"),
    ("rebuild", "NO_RESUME", "unsettled", "a run whose driver died"),

    ("lane", "", HOLDS, "a row that two generations need"),
    ("lane", "", ENDS, "it is applied, passed or dead"),
    ("lane", "FILES_NOTHING", "dropped", "catching up passes what it could not digest"),
    ("lane", "FILED_AFTER", "dropped", "the cursor moves, and the process dies before the row"),
    ("lane", "NO_STAMP", "dropped", "a row goes that a new generation has just counted on"),

    ("sequence", "CRASHES=0", HOLDS, "positions on PostgreSQL; a holder of the lock stalls"),
    ("sequence", "EXPIRIES=0", HOLDS, "a process crashes"),
    ("sequence", "EXPIRIES=0 CRASHES=0 LIMIT=2", HOLDS, "larger batches"),
    ("sequence", "APART EXPIRIES=0 CRASHES=0", HOLDS, "three streams: batches that are cut"),
    ("sequence", "NO_FENCE", "placed_twice", "a holder that stalled goes on"),
    ("sequence", "NO_OPEN", "reordered", "transactions that were open are not remembered"),
    ("sequence", "NO_OPEN APART", "lost", "the same, and nothing follows in the stream"),
    ("sequence", "NO_XMAX APART ALONE", "lost", "numbers that were drawn after the snapshot"),
    ("sequence", "CUT_FORGETS APART ALONE", "lost", "a batch is cut among lower numbers"),
    ("sequence", "SEEN_BEFORE_COMMIT APART ALONE", "lost", "a pass that failed is remembered"),
    ("sequence", "NUMBER_FIRST", "reordered", "a number that is drawn before the stream is locked"),
    ("sequence", "FAST_PASSES_OTHERS", "reordered", "placed at once, before events that wait"),

    ("publish", "", HOLDS, "a bus that is down for a while"),
    ("publish", "", ENDS, "everything is delivered"),
    ("publish", "POISON", HOLDS, "a message that the bus never takes"),
    ("publish", "POISON", ENDS, "it is dead, and what is behind it waits"),
    ("publish", "MARK_FIRST", "lost", "the mark before the bus has answered"),
    ("publish", "NO_BLOCK", "reordered", "going on in the stream after a failure"),
    ("publish", "NO_HOLD_BACK", "reordered", "taking what is behind an exception"),
    ("publish", "NO_TOKEN_IN_MARK POISON", "dead_row_revived", "a late publisher settles"),
    ("publish", "DIVIDED", HOLDS, "two publishers share two partitions"),
    ("publish", "DIVIDED", ENDS, "everything is delivered"),
    ("publish", "DIVIDED POISON", HOLDS, "a message that the bus never takes"),
    ("publish", "DIVIDED BY_COUNT", "reordered", "a stream whose partition changes with the count"),
    ("publish", "NO_LEASE", "doubled_without_fault", "two publishers at once"),
    ("publish", "PUBLISH_IN_RUN", "doubled_without_fault", "a replay that publishes"),
]


class NotSearched(Exception):
    """The search says nothing: it could not be built, or did not look at everything."""


def build(model, macros, cycles, quick, folder):
    source = HERE / (model + ".pml")
    defines = ["-D" + macro for macro in macros.split()]
    made = subprocess.run(["spin", *defines, "-a", str(source)], cwd=folder, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SEARCH_S)
    if made.returncode != 0 or not (folder / "pan.c").exists() or "Error" in made.stdout:
        raise NotSearched(made.stdout)
    # What breaks breaks soon: there the compiler takes longer than the search.
    options = ["-O0" if quick else "-O1", "-DNP" if cycles else "-DSAFETY", "-DNOFAIR"]
    made = subprocess.run(["gcc", "-w", *options, "-DMEMLIM=%d" % MEMORY_MB, "-o", "pan", "pan.c"],
                          cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=SEARCH_S)
    if made.returncode != 0:
        raise NotSearched(made.stdout)


def search(model, macros, cycles, quick):
    """(what came out, number of states, what was printed)"""
    with tempfile.TemporaryDirectory(prefix="everfold-model-") as name:
        folder = Path(name)
        build(model, macros, cycles, quick, folder)
        try:
            done = subprocess.run(["./pan", "-m%d" % DEPTH, *(["-l"] if cycles else [])],
                                  cwd=folder, text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=SEARCH_S)
        except subprocess.TimeoutExpired:
            raise NotSearched("the search took more than %d s" % SEARCH_S) from None
    return outcome(done.stdout, cycles) + (done.stdout,)


def outcome(text, cycles):
    states = re.search(r"(\d[\d.e+]*) states, stored", text)
    errors = re.search(r"errors: (\d+)", text)
    if not states or not errors:
        raise NotSearched(text)
    count = int(float(states.group(1)))
    broken = re.search(r"assertion violated +!\((\w+)\)", text)
    if broken:
        return broken.group(1), count
    if re.search(r"^pan:\d+: non-progress cycle", text, re.MULTILINE):
        return CYCLES, count
    # Nothing was found: then everything must have been checked, and the judge has judged.
    if int(errors.group(1)) or "Search not completed" in text or "depth too small" in text:
        raise NotSearched(text)
    if not cycles and not re.search(r"unreached in proctype judge\n\s*\(0 of", text):
        raise NotSearched("the judge was not reached: the model is never quiet\n" + text)
    return ENDS if cycles else HOLDS, count


def check(number, model, macros, wanted, why):
    began = time.monotonic()
    try:
        found, states, text = search(model, macros, wanted in (ENDS, CYCLES),
                                     wanted not in (HOLDS, ENDS))
    except NotSearched as problem:
        found, states, text = "not searched", 0, str(problem)
    good = found == wanted
    told = wanted if wanted in (HOLDS, ENDS, CYCLES) else "breaks: " + wanted
    print("%-6s %2d  %-8s %-38s %-32s %8d states %5.1f s  %s" % (
        "ok" if good else "NOT OK", number, model, macros or "-", told, states,
        time.monotonic() - began, why), flush=True)
    if not good:
        print("        came out: %s\n%s" % (found, text), flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-k", metavar="TEXT", default="", help="only checks with TEXT in them")
    wanted = parser.parse_args().k
    if not shutil.which("spin"):
        print("skipped: spin is not installed; script/deps test installs it")
        return 77
    chosen = [(n + 1, *c) for n, c in enumerate(CHECKS) if wanted in " ".join(c)]
    failed = [c[0] for c in chosen if not check(*c)]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print("%d checks, %d failed%s; %.0f s of processor time" % (
        len(chosen), len(failed), ": %s" % failed if failed else "", used.ru_utime + used.ru_stime))
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
