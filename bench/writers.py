"""writers.py - many writers on one PostgreSQL server: processes with the library, and SQL clients.

The floor is one statement for each event and its outbox row, from as many clients as write in the other runs, by
pgbench. A flush is as fast as the disk, or takes 2 ms more (commit_delay), as on a cloud disk or with a
synchronous standby.
"""
import json
import os
import re
import statistics
import subprocess
from pathlib import Path

STREAMS = 1000
SLOW_US = 2000
DATA = '{"amount": 120, "line": "' + "x" * 200 + '"}'
FLOOR_SCHEMA = """
CREATE TABLE event(position bigserial PRIMARY KEY, stream text COLLATE "C" NOT NULL, seq bigserial, type text NOT NULL,
                   data text NOT NULL, recorded timestamptz NOT NULL DEFAULT now(), UNIQUE (stream, seq));
CREATE TABLE outbox(position bigint PRIMARY KEY)"""
FLOOR = f"""\\set s random(1, {STREAMS})
WITH e AS (INSERT INTO event(stream, type, data) VALUES ('s' || :s, 'order.placed', '{DATA}') RETURNING position)
INSERT INTO outbox SELECT position FROM e;
"""
APPEND = f"""\\set s random(1, {STREAMS})
SELECT seq FROM everfold.append('', 's' || :s, NULL, '{{"type": "order.placed", "data": {DATA}}}');
"""
SHAPES = {"1 x 64": (1, 64), "8 x 8": (8, 8), "8 x 1": (8, 1)}  # processes, threads of each


def with_database(bench, prepare, run):
    database = bench.database()
    try:
        prepare(database)
        return run(database)
    finally:
        bench.sql("postgres", f"DROP DATABASE {database} WITH (FORCE)")


def pgbench(bench, case, script, clients, prepare):
    """Statements a second of this many clients."""
    secs = bench.count(5, 3)
    path = Path(bench.directory) / "writers.sql"
    path.write_text(script, encoding="utf-8")

    def run(database):
        done = subprocess.run([Path(bench.server.binaries) / "pgbench", "-n", "-M", "prepared", "-c", str(clients), "-j",
                               "2", "-T", str(secs), "-f", path, bench.url(database)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True)
        rate = float(re.search(r"^tps = ([0-9.]+)", done.stdout, re.MULTILINE).group(1))
        bench.runs.append({"bench": "pgbench", "case": case, "rate": rate})
        return rate

    return with_database(bench, prepare, run)


def processes(bench, program, count, threads):
    """Events a second of this many processes together."""
    words = [program, "group", f"clients={threads}", f"secs={bench.count(5, 3)}", "shared=1"]

    def run(database):
        environment = {**os.environ, "BENCH_DIR": str(bench.directory), "BENCH_POSTGRES": bench.url(database)}
        started = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(count)]
        results = [json.loads(p.communicate(timeout=300)[0]) for p in started]
        rate = sum(result["rate"] for result in results)
        bench.runs.append({"bench": "bench_journal", "case": f"writers {count} x {threads}", "rate": rate})
        return rate

    return with_database(bench, lambda database: make_journal(bench, database), run)


def make_journal(bench, database):
    bench.everfold_init(bench.url(database))


def make_floor(bench, database):
    bench.sql(database, FLOOR_SCHEMA)


def set_flush(bench, delay_us):
    for setting, value in ("commit_delay", delay_us), ("commit_siblings", 0 if delay_us else 5):
        bench.sql("postgres", f"ALTER SYSTEM SET {setting} = {value}")
    bench.sql("postgres", "SELECT pg_reload_conf()")


def rounds(bench, what):
    """The median of each of several measurements, in turns."""
    taken = {name: [] for name in what}
    for _ in range(bench.options.rounds):
        for name, measure in what.items():
            taken[name].append(measure())
    return {name: statistics.median(rates) for name, rates in taken.items()}


def compare(bench, what):
    """(note, floor, ours) of each shape and flush; `what` is "writers" or "sql"."""
    bench.sql_server()
    rows = []
    for flush, delay_us in ("fast", 0), ("2 ms", SLOW_US):
        set_flush(bench, delay_us)
        try:
            rates = rounds(bench, measurements(bench, what, flush))
        finally:
            set_flush(bench, 0)
        for name, rate in rates.items():
            if not name.startswith("floor"):
                clients = 8 if name == "8 x 1" else 64
                rows.append((f"{name}, {flush} flush", rates[f"floor {clients}"], rate))
    return rows


def measurements(bench, what, flush):
    def floor(clients):
        return lambda: pgbench(bench, f"floor {clients} clients, {flush}", FLOOR, clients,
                               lambda database: make_floor(bench, database))

    program = str(bench.program("bench_journal"))
    if what == "sql":
        return {"floor 64": floor(64),
                "64 clients": lambda: pgbench(bench, f"everfold.append, {flush}", APPEND, 64,
                                              lambda database: make_journal(bench, database))}
    ours = {name: (lambda shape=shape: processes(bench, program, *shape)) for name, shape in SHAPES.items()}
    return {"floor 64": floor(64), "floor 8": floor(8), **ours}
