"""A SQLite journal or view store of an earlier schema: opened, migrated, and used with all that it contains."""
import contextlib
import json
import pathlib
import sqlite3

from support import Case

SOURCE = pathlib.Path(__file__).parents[2] / "src"
JOURNAL, VIEWS = ("journal", "journal.db", 0x45664a31), ("views", "views.db", 0x45665631)
# Tables that migration 9 renames; the order of their columns stays.
RENAMED = {"outbox_mark": "lane_offset", "outbox_exception": "retry_row", "outbox_act": "audit"}
SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name"


class Upgrade(Case):
    def journal(self):
        return self.data / "journal.db"

    def query(self, sql):
        with contextlib.closing(sqlite3.connect(self.journal())) as db:
            return db.execute(sql).fetchall()

    def write_as_schema(self, version, store=JOURNAL):
        """Writes a store as it would be under an earlier schema, made by the migrations up to that one."""
        module, name, application_id = store
        new, old = self.data / name, self.dir / "old.db"
        with contextlib.closing(sqlite3.connect(old, isolation_level=None)) as db:
            for path in sorted((SOURCE / module / "sqlite" / "migrations").glob("*.sql"))[:version]:
                db.executescript(path.read_text())
            db.execute(f"PRAGMA application_id={application_id}")
            db.execute(f"PRAGMA user_version={version}")
            db.execute("ATTACH ? AS new", (str(new),))
            for (table,) in db.execute("SELECT name FROM main.sqlite_schema WHERE type = 'table'").fetchall():
                count = len(db.execute(f"PRAGMA main.table_info({table})").fetchall())  # later columns are added at the end
                columns = [c[1] for c in db.execute(f"PRAGMA new.table_info({RENAMED.get(table, table)})")]
                db.execute(f"INSERT INTO main.{table} SELECT {', '.join(columns[:count])} FROM new.{RENAMED.get(table, table)}")
        for suffix in ("-wal", "-shm"):
            pathlib.Path(f"{new}{suffix}").unlink(missing_ok=True)
        old.replace(new)

    def contents(self):
        return ([self.query(f"SELECT * FROM {table}") for table in RENAMED.values()] +
                [self.ok(*words, "-o", "json").out for words in
                 (("outbox", "report"), ("partition", "ls"), ("event", "log"))])

    def test_rows_of_the_renamed_tables_survive_the_migration(self):
        self.init()
        self.ok("projection", "deploy", self.write("counts.fold", "projection counts version 1\non placed\n  n += data\n"))
        for i in range(3):
            self.append("a", "placed", str(i))
        self.ok("work", "--drain")
        self.append("s", "other")
        self.append("s", "other")
        self.fixture("totals", "s", 1, "dead", "no such customer", "s", 2, "pending", "")
        self.ok("outbox", "requeue", "s", 1, "--reason", "customer exists")
        self.append("a", "placed", "4")
        schema, before = self.query(SCHEMA), self.contents()
        self.assertNotIn([], before[:3])
        self.write_as_schema(8)
        self.assertEqual([], self.query("SELECT 1 FROM sqlite_schema WHERE name = 'retry_row'"))
        self.ok("init")
        self.assertEqual(before, self.contents())
        self.assertEqual(schema, self.query(SCHEMA))
        self.run_it("work", "--drain")
        self.assertEqual(7, self.ok("view", "get", "counts", "a", "-o", "json").json()["data"]["n"])

    def test_state_that_was_in_audit_entries_survives_the_migration_of_views(self):
        self.init()
        program = "projection counts version {}\non placed\n  n += {}\n"
        for version in (1, 2, 3):
            self.ok("projection", "deploy", self.write("counts.fold", program.format(version, version)))
        self.append("a", "placed")
        self.ok("work", "--drain")
        self.ok("projection", "switch", "counts", "--version", "2")
        self.ok("projection", "deploy", "--on-error", "skip", "--reason", "late is worse", self.write("counts.fold", program.format(2, 2)))
        self.ok("projection", "retire", "counts", "--version", "3")
        before = self.ok("projection", "ls", "-o", "json").out
        self.write_as_schema(3, VIEWS)
        self.ok("init")
        self.assertEqual(before, self.ok("projection", "ls", "-o", "json").out)
        self.assertEqual("skip", self.ok("projection", "show", "counts", "-o", "json").json()["on_error"])
        self.ok("projection", "rollback", "counts")
        self.assertEqual({"n": 1}, self.ok("view", "get", "counts", "a", "-o", "json").json()["data"])
        with contextlib.closing(sqlite3.connect(self.data / "views.db")) as db:
            self.assertEqual([("counts", 3)], db.execute("SELECT name, version FROM retired_version").fetchall())

    def test_the_modes_of_runs_are_renumbered(self):
        self.init()
        self.ok("projection", "deploy", self.write("counts.fold", "projection counts version 1\non placed\n  n += 1\n"))
        self.append("a", "placed")
        self.ok("work", "--drain")
        for run in ("rebuild", "verify"):
            self.ok("projection", run, "counts")
            self.ok("work", "--drain")
        before = self.ok("run", "ls", "-o", "json").out
        self.write_as_schema(9)
        with contextlib.closing(sqlite3.connect(self.journal())) as db, db:
            self.assertEqual(1, db.execute("UPDATE run SET mode = 4 WHERE mode = 2").rowcount)
        self.ok("init")
        self.assertEqual(before, self.ok("run", "ls", "-o", "json").out)

    def test_rows_of_publishers_keep_their_order_when_their_partitions_become_fixed(self):
        self.init()
        self.ok("type", "set", "sent", "--publish", "yes")
        self.ok("publisher", "add", "mail", "--to", f"file:{self.dir}/mail")
        for n in range(3):
            self.append("a", "sent", str(n))
            self.append("b", "sent", str(n))
        self.write_as_schema(10)
        with contextlib.closing(sqlite3.connect(self.journal())) as db, db:  # as if the count had changed in between
            for n, (row,) in enumerate(db.execute("SELECT id FROM outbox_queue WHERE id > 2 << 48 ORDER BY id").fetchall()):
                db.execute("UPDATE outbox_queue SET partition = ? WHERE id = ?", (20 - 3 * n, row))
            db.execute("INSERT OR REPLACE INTO lane_offset SELECT id, 3, 1000, 0, 0, 0, 0 FROM lane WHERE name = 'mail'")
        self.append("a", "sent", "3")
        self.ok("work", "--drain")
        sent = [json.loads(line) for line in (self.dir / "mail").read_text().splitlines()]
        for stream, count in ("a", 4), ("b", 3):
            self.assertEqual(list(range(count)), [event["data"] for event in sent if event["subject"] == stream])
