#!/usr/bin/env python3
"""What the SQLite back end asks of SQLite: its plans, and the schema that the migrations make.

usage: sql_plans.py plans|schema|print-schema|self-test FOLDER      (src/journal/sqlite, src/views/sqlite)

plans   no statement goes through a whole table or sorts, but those below, each with its reason
schema  the migrations, run in order, make what schema.sql says

schema.sql is what print-schema prints; it is changed together with a new migration.
"""
import glob
import os
import re
import sqlite3
import sys

# Statements that may, and why. The word, or one of the words, is what their plan may hold.
FEW = "there is a handful of rows"
END = "stops at the first row, from the end of the primary key"
PAGE = "walks the primary key; the caller stops stepping"
DEEP = "only for doctor --deep and verify, which look at everything"
ALLOWED_JOURNAL = {
    "event_insert_many": ("SCAN 8 CONSTANT ROWS", "its own values"),
    "outbox_insert_many": ("SCAN 16 CONSTANT ROWS", "its own values"),
    "state_get": ("SCAN state", "one row"),
    "begin_snapshot": ("SCAN state", "one row"),
    "state_copied": ("SCAN state", "one row"),
    "state_adopt": ("SCAN state", "one row"),
    "copy_state": ("SCAN state", "one row"),
    "copy_release_batches": ("SCAN lane_offset", "a row a lane and partition, once in a backup"),
    "state_identity": ("SCAN state", "one row"),
    "state_put": ("SCAN state", "one row"),
    "state_types_changed": ("SCAN state", "one row"),
    "state_lanes_changed": ("SCAN state", "one row"),
    "state_checkpoint": ("SCAN state", "one row"),
    "state_partitions": ("SCAN state", "one row"),
    "state_partitions_set": ("SCAN state", "one row"),
    "lease_get": ("SCAN s", "one row"),
    "lease_token_floor_raise": ("SCAN state", "one row"),
    "partition_all": (("SCAN p", "SCAN s", "SCAN x", "SCAN row", "USE TEMP B-TREE"),
                      "for a report: by partition; what failed is little beside what is queued"),
    "partition_waiting": (("SCAN l", "USE TEMP B-TREE"), "lanes are few; to change the count: by partition"),
    "worker_purge_claim": ("SCAN state", "one row"),
    "lease_bring_back": ("SCAN lease", FEW),
    "worker_bring_back": ("SCAN worker", FEW),
    "event_last": ("SCAN event", END),
    "run_newest": ("SCAN run", PAGE),
    "run_newest_tenant": ("SCAN run", PAGE),
    "run_newest_open": ("SCAN run USING INDEX run_open_once", "only open ones are in it: few"),
    "run_newest_open ": ("USE TEMP B-TREE", "open runs are few"),
    "type_all": ("SCAN event_type", "they are read only when one has changed"),
    "type_alias_check": ("SCAN a", "types are few, and this is asked only to make one an alias"),
    "lane_all": ("SCAN lane", FEW),
    "lane_in_order": ("SCAN lane", FEW),
    "row_after": (("SCAN l ", "SCAN s", "SCAN m", "SCAN f", "SCAN 3 CONSTANT ROWS", "SCAN p",
                   "USE TEMP B-TREE"), "lanes and offsets are few, and each lane has the rows of a page"),
    "published_before": (("SCAN l ", "SCAN s", "SCAN p", "USE TEMP B-TREE"), "the same"),
    "row_count": (("SCAN l ", "SCAN m", "SCAN f", "SCAN 3 CONSTANT ROWS", "SCAN retry", "SCAN c", "SCAN r", "SCAN b"),
                  "lanes, offsets and sums are few; what it counts is searched"),
    "retry_row_lookup": ("SCAN t", "one row"),
    "retry_row_due": ("SCAN l", "lanes are few; the exceptions of each are searched"),
    "outbox_has_work": ("SCAN l", "lanes are few; the rows of each are searched, for one"),
    "published_count": ("SCAN (subquery-1)", "what it counts has a limit"),
    "lease_all": ("SCAN lease", "one row a partition, and in the order of the key"),
    "worker_all": ("SCAN worker", FEW),
    "worker_purge": ("SCAN worker", FEW),
    "id_run_all": ("SCAN id_run", "runs are merged as they add up: a few dozen"),
    "id_run_merged": ("SCAN id_run", "the same few dozen, at the end of a merge"),
    "id_chunk_all": ("SCAN c", "once, to fill the filter"),
    "id_chunk_all ": ("SCAN id_run", "runs are few"),
    "verify_rest": ("SCAN ", DEEP),
}
ALLOWED_VIEWS = {
    "generation_add": ("SCAN (subquery-1)", "one row: the next number"),
    "generation_ls": ("SCAN g", FEW),
}
ALLOWED = {"journal": ALLOWED_JOURNAL, "views": ALLOWED_VIEWS}  # by interface


def statements(folder):
    """Name and text of every statement, as sqlgen.py finds them."""
    found = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.sql"))):
        if os.path.basename(path) == "schema.sql":
            continue
        parts = re.split(r"^-- name: (\w+)\s*$", open(path, encoding="utf-8").read(), flags=re.M)
        for name, body in zip(parts[1::2], parts[2::2]):
            found[name] = "\n".join(l for l in body.splitlines() if not l.startswith("--")).strip()
    return found


def migrated(folder):
    db = sqlite3.connect(":memory:")
    db.create_function("accept_event", 12, lambda *columns: True)  # read.c's, for the journal
    db.create_function("is_acked", 2, lambda *columns: True)  # outbox_ack.c's
    db.create_function("lease_live", 4, lambda *columns: True)  # lease.c's
    for path in sorted(glob.glob(os.path.join(folder, "migrations", "*.sql"))):
        db.executescript(open(path, encoding="utf-8").read())
    return db


def plan(db, sql):
    binds = [int(n) for n in re.findall(r"\?(\d+)", sql)]
    rows = db.execute("EXPLAIN QUERY PLAN " + sql, [None] * max(binds, default=0))
    return [row[3] for row in rows]


def is_slow(line):
    return line.startswith("USE TEMP B-TREE") or (
        line.startswith("SCAN ") and line != "SCAN CONSTANT ROW" and " VIRTUAL TABLE" not in line)


def check_plans(db, named, allowed):
    """What is wrong, a line each: slow steps that nobody allowed, and leave that nobody needs."""
    wrong, needed = [], set()
    for name, sql in sorted(named.items()):
        if re.match(r"(BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE)\b", sql):
            continue
        leave = {key: words for key, (words, _) in allowed.items() if key.strip() == name}
        for line in filter(is_slow, plan(db, sql)):
            keys = [key for key, words in leave.items() if line.startswith(words)]
            needed.update(keys)
            if not keys:
                wrong.append("%s: %s" % (name, line))
    wrong += ["%s: leave that is not needed any more" % key for key in set(allowed) - needed]
    return wrong


def schema(db):
    """Tables, then their indexes and triggers, without comments and with single spaces."""
    rows = db.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY"
                      " tbl_name, type <> 'table', type, name")
    lines = []
    for (sql,) in rows:
        sql = re.sub(r"\s+", " ", re.sub(r"--[^\n]*", "", sql)).strip()
        sql = re.sub(r"\s*([(),])\s*", lambda m: m.group(1) + (" " if m.group(1) == "," else ""), sql)
        lines.append(re.sub(r"\)(?=\w)", ") ", sql) + ";")
    return "\n".join(lines) + "\n"


HEAD = """\
-- The schema as the migrations make it, for reading: one statement a line, comments are in the
-- migrations. Made by: python3 tests/check/sql_plans.py print-schema src/journal/sqlite
"""


def interface_of(folder):
    return os.path.basename(os.path.dirname(folder.rstrip("/")))


def check_schema(folder):
    path = os.path.join(folder, "schema.sql")
    if open(path, encoding="utf-8").read() == HEAD + schema(migrated(folder)):
        return []
    return ["schema.sql is not what the migrations make; compare with print-schema"]


def self_test():
    """The checks find what they are for."""
    db = sqlite3.connect(":memory:")
    db.executescript("CREATE TABLE t(a INTEGER PRIMARY KEY, b); -- why\nCREATE INDEX i ON t(b)")
    named = {"good": "SELECT a FROM t WHERE a = ?1", "bad": "SELECT * FROM t WHERE a + ?1 = 2",
             "sorts": "SELECT a FROM t WHERE a > ?1 ORDER BY a + 1", "over": "SELECT 1"}
    wrong = check_plans(db, named, {"over": ("SCAN t", "")})
    assert [w.split(":")[0] for w in wrong] == ["bad", "sorts", "over"], wrong
    assert check_plans(db, {"bad": named["bad"]}, {"bad": ("SCAN t", "")}) == []
    assert schema(db) == "CREATE TABLE t(a INTEGER PRIMARY KEY, b);\nCREATE INDEX i ON t(b);\n"
    return []


def main():
    what, folder = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    if what == "print-schema":
        sys.stdout.write(HEAD + schema(migrated(folder)))
        return 0
    wrong = {"plans": lambda: check_plans(migrated(folder), statements(folder), ALLOWED[interface_of(folder)]),
             "schema": lambda: check_schema(folder), "self-test": self_test}[what]()
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
