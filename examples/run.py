#!/usr/bin/env python3
"""Runs the examples, and checks their output and the stores that they leave.

usage: run.py journal_api PROGRAM EVERFOLD
       run.py own_transaction PROGRAM EVERFOLD
       run.py c_projection PROGRAM EVERFOLD
       run.py jetstream SCRIPT EVERFOLD
       run.py installed EVERFOLD MESON BUILD JOURNAL_API.c OWN_TRANSACTION.c C_PROJECTION.c \\
              shared|static -- CC…

The stores are checked independently of the example: by the command line, which verifies every hash,
and by the sqlite3 module of Python, which knows nothing of Everfold.
"""
import json
import os
import sqlite3
import subprocess
import sys
import tempfile

JOURNAL_API = """\
conflict: the order is at seq 1, not at 0
paid: seq 2 at position 2
again: seq 2 at position 2, a duplicate
stream: 1 order.placed {"customer":"ada","amount":120}
stream: 2 order.paid {"amount":120}
log: 1 order.placed
log: 2 order.paid
outbox: order.placed pending in lane *
outbox: order.paid pending in lane *
"""

JOURNAL_API_AGAIN = """\
paid: seq 2 at position 2
again: seq 2 at position 2, a duplicate
stream: 1 order.placed {"customer":"ada","amount":120}
stream: 2 order.paid {"amount":120}
log: 1 order.placed
log: 2 order.paid
outbox: order.placed pending in lane *
outbox: order.paid pending in lane *
"""

THREE_TENANTS = """\
acme: ada 2 for 200, bob 1 for 35
globex: carl 1 for 99, ada 1 for 7
initech: eve 1 for 12.5
position 7 is no event:
acme: ada 2 for 200, bob 2 for 40
globex: carl 1 for 99, ada 1 for 7
initech: eve 1 for 12.5
"""

TRANSFER = """\
ada gives 30 to bob: ok
ada gives 1000 to bob: refused, ada does not have 1000
"""

STOCK = """\
ink: {"left":1,"low":true}
pen: {"left":10,"low":false}
as of position 3
"""

NO_FUNCTION = "its C function is not registered in this process"


def run(command, env=None, code=0):
    """What a program prints. It must end with the code."""
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=100)
    if done.returncode != code:
        sys.exit("%s ended with %d\n%s%s" % (command, done.returncode, done.stdout, done.stderr))
    return done.stdout


def same(expected, found, what):
    if expected != found:
        sys.exit("%s: expected\n%s\nfound\n%s" % (what, expected, found))


def everfold(program, folder, *arguments):
    return json.loads(run([program, "--data", folder, *arguments, "-o", "json"]))


def check_journal(program, folder, types):
    """The command line sees these events and finds every hash as it should be."""
    same(types, [e["type"] for e in everfold(program, folder, "event", "log")], "the log")
    run([program, "--data", folder, "doctor", "--deep"])


def journal_api(program, command, env=None):
    with tempfile.TemporaryDirectory() as folder:
        same(JOURNAL_API, run([program, folder], env), "the first run")
        same(JOURNAL_API_AGAIN, run([program, folder], env), "the second run")
        check_journal(command, folder, ["order.placed", "order.paid"])
        summary = everfold(command, folder, "outbox", "report")["summary"]
        same([2, 0, 0, 0], [summary[k] for k in ("pending", "processing", "failed", "dead")],
             "the outbox")


def look_at_bank(folder):
    """Balances, events and outbox rows, by somebody who knows SQLite only."""
    db = sqlite3.connect(os.path.join(folder, "journal.db"))
    db.execute("PRAGMA wal_autocheckpoint=0")
    found = (dict(db.execute("SELECT name, balance FROM account")),
             [json.loads(data) for (data,) in db.execute("SELECT data FROM event")],
             db.execute("SELECT count(*) FROM outbox").fetchone()[0])
    db.close()
    return found


def own_transaction(program, command, env=None):
    transferred = {"from": "ada", "to": "bob", "amount": 30}
    with tempfile.TemporaryDirectory() as folder:
        same("crashing in the middle\n", run([program, folder, "crash"], env), "the crash")
        same(({"ada": 100, "bob": 0}, [], 0), look_at_bank(folder), "after the crash")
        check_journal(command, folder, [])
        same(TRANSFER, run([program, folder], env), "the transfers")
        same(({"ada": 70, "bob": 30}, [transferred], 1), look_at_bank(folder), "after both")
        check_journal(command, folder, ["money.transferred"])


def jetstream(script, command, env=None):
    same(THREE_TENANTS, run([sys.executable, script, command], env), "three tenants")


def c_projection(program, command, env=None):
    """The command line has not got the function: it reads, and leaves the folding alone."""
    with tempfile.TemporaryDirectory() as folder:
        same(STOCK, run([program, folder], env), "the first run")
        same(STOCK, run([program, folder], env), "the second run")
        check_journal(command, folder, ["goods.received", "goods.received", "goods.shipped"])
        run([command, "--data", folder, "event", "append", "order-2", "--type", "goods.shipped", "--id",
             "o-2", "--data", '{"article":"pen","count":8}'])
        run([command, "--data", folder, "work", "--drain"], code=6)  # not everything can be applied by the command
        shown = everfold(command, folder, "projection", "show", "stock")
        same(("live", "log", 3, 1, 0), tuple(shown[k] for k in
             ("state", "order", "position", "lag_events", "unaccounted")), "what is left to do")
        same(True, NO_FUNCTION in run([command, "--data", folder, "projection", "show", "stock"]),
             "that the function is missing is told")
        found = everfold(command, folder, "view", "query", "stock", "--where", "low")["items"]
        same(["ink"], [v["view_id"] for v in found], "the view as it stands")
        same(STOCK.replace("10", "2").replace("position 3", "position 4").replace("false", "true"),
             run([program, folder], env), "the third run")


def build_installed(meson, build, kind, compiler, sources, destination):
    """Install into a folder and build with what pkg-config says of that: programs, environment."""
    run([meson, "install", "-C", build, "--destdir", destination, "--no-rebuild", "--quiet",
         "--tags", "devel,runtime"])
    folders = [d for d, _, names in os.walk(destination) if "everfold.pc" in names]
    same(1, len(folders), "folders with an everfold.pc")
    env = dict(os.environ, PKG_CONFIG_PATH=folders[0], PKG_CONFIG_SYSROOT_DIR=destination)
    static = ["--static"] if kind == "static" else []
    flags = run(["pkg-config", *static, "--cflags", "--libs", "everfold"], env).split()
    if kind == "static":  # both kinds are installed, and the linker would take the shared one
        flags = ["-l:libeverfold.a" if f == "-leverfold" else f for f in flags]
    else:
        env["LD_LIBRARY_PATH"] = os.path.dirname(folders[0])
    programs = []
    for source in sources:
        programs.append(os.path.join(destination, os.path.basename(source)[:-2]))
        sqlite = run(["pkg-config", "--libs", "sqlite3"]).split()
        run([*compiler, "-std=c17", "-D_GNU_SOURCE", source, "-o", programs[-1], *flags, *sqlite])
        needed = "libeverfold" in run(["ldd", programs[-1]], env)
        same(kind == "shared", needed, "needs the shared library")
    return programs, env


def installed(command, meson, build, front, own, in_c, kind, dashes, *compiler):
    sources = (front, own, in_c)
    with tempfile.TemporaryDirectory() as destination:
        programs, env = build_installed(meson, build, kind, compiler, sources, destination)
        journal_api(programs[0], command, env)
        own_transaction(programs[1], command, env)
        c_projection(programs[2], command, env)


if __name__ == "__main__":
    {f.__name__: f for f in (journal_api, own_transaction, c_projection, jetstream,
                              installed)}[sys.argv[1]](*sys.argv[2:])
