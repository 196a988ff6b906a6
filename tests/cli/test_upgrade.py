"""A SQLite journal of an earlier schema: opened, migrated, and used with all that it contains."""
import contextlib
import pathlib
import sqlite3

from support import Case

MIGRATIONS = pathlib.Path(__file__).parents[2] / "src" / "journal" / "sqlite" / "migrations"
APPLICATION_ID = 0x45664a31
# Tables that migration 9 renames; the order of their columns stays.
RENAMED = {"outbox_mark": "lane_offset", "outbox_exception": "retry_row", "outbox_act": "audit"}
SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name"


class Upgrade(Case):
    def journal(self):
        return self.data / "journal.db"

    def query(self, sql):
        with contextlib.closing(sqlite3.connect(self.journal())) as db:
            return db.execute(sql).fetchall()

    def write_as_schema(self, version):
        """Writes the journal as it would be under an earlier schema, made by the migrations up to that one."""
        old = self.dir / "old.db"
        with contextlib.closing(sqlite3.connect(old, isolation_level=None)) as db:
            for path in sorted(MIGRATIONS.glob("*.sql"))[:version]:
                db.executescript(path.read_text())
            db.execute(f"PRAGMA application_id={APPLICATION_ID}")
            db.execute(f"PRAGMA user_version={version}")
            db.execute("ATTACH ? AS new", (str(self.journal()),))
            for (table,) in db.execute("SELECT name FROM main.sqlite_schema WHERE type = 'table'").fetchall():
                columns = ", ".join(c[1] for c in db.execute(f"PRAGMA new.table_info({RENAMED.get(table, table)})"))
                db.execute(f"INSERT INTO main.{table} SELECT {columns} FROM new.{RENAMED.get(table, table)}")
        for name in ("-wal", "-shm"):
            pathlib.Path(f"{self.journal()}{name}").unlink(missing_ok=True)
        old.replace(self.journal())

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
