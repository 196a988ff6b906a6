"""peers.py - what teams would use instead, on the same PostgreSQL server, in turns with us.

The peers are no part of this repository. PEERS_DIR is a folder with the npm packages and, in bench/,
the programs that drive them; PEERS_BIN a folder with the program pg_funcs, which drives PgQ;
PEERS_NODE a Node of version 22 or newer (default: node). How both folders are made: ../shared/bench.
"""
import json
import os
import statistics
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

# Each with the settings that were its best of those tried in ../shared/bench/suite_peers.sh. Emmett's
# append takes events of one stream a call; ours gets the same.
APPENDS = {"emmett": ("emmett-pg.mjs mode=append batch=100 secs=4", 2)}
DRAINS = {
    "emmett": ("emmett-pg.mjs mode=catchup kind=sql n=20000 pull=1000 freq=1", 10),
    "graphile-worker": ("graphile.mjs mode=drain n=40000 conc=24 local=500 batchdone=1 secs=6", 5),
    "pg-boss": ("pgboss.mjs mode=drain n=20000 batch=1000 conc=1", 5),
    "pgq": ("pg_funcs what=pgq_consume_apply n=200000 batch=1000", 1),
}
SECS_MAX = 300


class NoPeers(Exception):
    """They are not installed here."""


def command(words):
    program, *arguments = words.split()
    folder = os.environ.get("PEERS_DIR"), os.environ.get("PEERS_BIN")
    if not all(folder):
        raise NoPeers("PEERS_DIR and PEERS_BIN say where the peers are: see bench/peers.py")
    if not program.endswith(".mjs"):
        return [str(Path(folder[1]) / program), *arguments], folder[1]
    return [os.environ.get("PEERS_NODE", "node"), f"bench/{program}", *arguments], folder[0]


def run(bench, words):
    """One line of JSON of a peer that had a fresh database to itself."""
    line, folder = command(words)
    database = bench.database()
    url = urlsplit(bench.url(database))
    environment = {**os.environ, "NODE_ENV": "production", "LOG_LEVEL": "error",
                   "PGHOST": url.hostname, "PGPORT": str(url.port), "PGUSER": url.username,
                   "PGDATABASE": database}
    try:
        if "pgq" in words:
            bench.sql(database, "CREATE EXTENSION pgq")
        done = subprocess.run(line, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True,
                              timeout=SECS_MAX, check=True)
        result = json.loads([x for x in done.stdout.splitlines() if '"bench"' in x][-1])
        bench.runs.append(result)
        return result
    finally:
        bench.sql("postgres", f"DROP DATABASE {database} WITH (FORCE)")


def beside(bench, ours, peers):
    """(peer, its median rate, our median rate, least ratio); each round runs everybody once."""
    rates = {name: [] for name in ("ours", *peers)}
    for _ in range(bench.options.rounds):
        rates["ours"].append(bench.run_on_postgres(*ours)["rate"])
        for name, (words, _) in peers.items():
            rates[name].append(run(bench, words)["rate"])
    median = {name: statistics.median(each) for name, each in rates.items()}
    return [(name, median[name], median["ours"], least) for name, (_, least) in peers.items()]


def compare(bench):
    n = f"n={bench.count(200000, 100000)}"
    return [*(("append", *row) for row in
              beside(bench, ["bench_journal", "append", "batch=100", "together=100", n,
                             "secs=120"], APPENDS)),
            *(("drain", *row) for row in beside(bench, ["bench_views", "drain", n], DRAINS))]
