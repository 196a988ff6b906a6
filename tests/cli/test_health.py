"""status and doctor."""
import os
import sqlite3

from support import TIME, Case

INDEXED = """projection counter version 1
  view data.who
  index n, who

on counted
  n += data.by
  who = data.who
"""


class Status(Case):
    def test_status_shows_head_outbox_store_and_mode(self):
        self.init()
        self.append("a")
        self.append("b")
        answer = self.ok("status", "-o", "json").json()
        self.assertEqual(["version", "mode", "journal", "outbox", "partitions", "workers", "runs",
                          "projections", "unaccounted", "views_error", "views_url", "health"], list(answer))
        self.assertEqual(["url", "id", "backend", "version", "schema", "durability", "position",
                          "recorded_at", "events", "streams", "store_bytes", "wal_bytes",
                          "free_bytes"], list(answer["journal"]))
        self.assertEqual(("sqlite", 2, 2, 2), tuple(answer["journal"][k] for k in
                         ("backend", "position", "events", "streams")))
        self.assertRegex(answer["journal"]["recorded_at"], TIME)
        self.assertEqual(2, answer["outbox"]["pending"])
        self.assertGreaterEqual(answer["outbox"]["lag_seconds"], 0)
        self.assertEqual({"live": 0, "known": 0, "idle": 0}, answer["workers"])
        self.assertEqual(({"queued": 0, "running": 0}, 0), (answer["runs"], answer["unaccounted"]))
        self.assertEqual(("outbox_apply_only", 16), (answer["mode"], answer["partitions"]))

    def test_the_text_has_the_same(self):
        self.init()
        self.append("a")
        out = self.ok("status").out
        for word in ("head        position 1", "streams 1", "pending 1", "lag ", "durability",
                     "mode        outbox_apply_only", "partitions  16", "workers     0 live of 0"):
            self.assertIn(word, out)

    def test_projections_are_accounted_for_one_by_one_and_in_all(self):
        self.init()
        self.ok("projection", "deploy", self.write("counter.fold", INDEXED))
        other = INDEXED.replace("projection counter", "projection other")
        self.ok("projection", "deploy", self.write("other.fold", other))
        self.append("a")
        self.ok("work", "--drain")
        answer = self.ok("status", "-o", "json").json()
        self.assertEqual(([0, 0], 0), ([p["unaccounted"] for p in answer["projections"]],
                                       answer["unaccounted"]))
        out = self.ok("status").out
        self.assertRegex(out, "projections counter version 1  live  lag 0 events  failures 0  "
                              "unaccounted 0\n")
        self.assertIn("            unaccounted 0 in total\n", out)

    def test_blocked_rows_have_an_age(self):
        self.init()
        self.append("s")
        self.append("s")
        self.fixture("totals", "s", 1, "dead", "x", "s", 2, "pending", "")
        outbox = self.ok("status", "-o", "json").json()["outbox"]
        self.assertEqual((1, 1, None), (outbox["dead"], outbox["blocked"], outbox["lag_seconds"]))
        self.assertGreaterEqual(outbox["blocked_seconds"], 0)
        self.assertRegex(self.ok("status").out, r"dead 1  blocked 1 \(oldest \d+\.\d{3} s\)")

    def test_an_empty_journal_has_no_lag(self):
        self.init()
        answer = self.ok("status", "-o", "json").json()
        self.assertEqual((None, None), (answer["outbox"]["lag_seconds"],
                                        answer["journal"]["recorded_at"]))

    def test_status_reports_unreadable_views_and_shows_the_rest(self):
        self.init()
        self.append("a")
        for path in self.data.glob("views.db*"):
            path.unlink()
        (self.data / "views.db").write_text("this is no database, but it is long enough " * 20)
        answer = self.run_it("status", "-o", "json")
        report = answer.json()
        self.assertEqual((6, 1, []), (answer.code, report["journal"]["position"], report["projections"]))
        self.assertIn("views.db is not an SQLite database", report["views_error"])
        answer = self.run_it("status")
        self.assertEqual(6, answer.code)
        self.assertIn("head        position 1", answer.out)
        self.assertIn("views       unreadable: ", answer.out)


class Checks(Case):
    def checks(self, code, *words, **more):
        answer = self.run_it("doctor", "-o", "json", *words, **more)
        self.assertEqual(code, answer.code, answer.err + answer.out)
        report = answer.json()
        self.assertEqual(["healthy", "checks"], list(report))
        self.assertEqual(code == 0, report["healthy"])
        return {check["check"]: check for check in report["checks"]}


class Doctor(Checks):
    def test_all_is_well_after_init(self):
        self.init()
        self.append()
        checks = self.checks(0)
        self.assertEqual(["check", "state", "detail", "fix"], list(checks["settings"]))
        self.assertEqual({"settings", "data directory", "store", "head", "schema", "library",
                          "durability", "disk", "log", "clock", "outbox", "events", "views",
                          "projections"}, set(checks))
        self.assertEqual({"ok"}, {c["state"] for n, c in checks.items() if n != "disk"})
        self.assertIn("WAL-reset", checks["library"]["detail"])
        self.assertIn("ok    settings", self.ok("doctor").out)

    def test_no_journal_is_a_failure_with_the_fixing_command(self):
        checks = self.checks(6)
        self.assertEqual("fail", checks["data directory"]["state"])
        self.assertIn("run: everfold init", checks["data directory"]["fix"])
        self.assertIn("run: everfold init", checks["store"]["fix"])
        self.assertEqual(6, self.run_it("doctor").code)

    def test_wrong_settings_are_a_failure(self):
        self.init()
        (self.data / "everfold.conf").write_text("mode = fast\n")
        checks = self.checks(6)
        self.assertEqual("fail", checks["settings"]["state"])
        self.assertIn("everfold.conf:1", checks["settings"]["detail"])

    def test_an_open_data_directory_is_a_warning(self):
        self.init()
        os.chmod(self.data, 0o755)
        check = self.checks(0)["data directory"]
        self.assertEqual(("warn", f"run: chmod 700 {self.data}"), (check["state"], check["fix"]))

    def test_dead_rows_are_a_warning(self):
        self.init()
        self.append("s")
        self.fixture("totals", "s", 1, "dead", "x")
        check = self.checks(0)["outbox"]
        self.assertEqual("warn", check["state"])
        self.assertIn("1 dead rows", check["detail"])

    def test_deep_checks_every_event(self):
        self.init()
        text = "".join(f'{{"stream":"s{i % 7}","type":"t","data":{i},"id":"e{i}"}}\n'
                       for i in range(2500))
        self.ok("event", "import", "-", stdin=text)
        self.assertIn("2500 events are intact",
                      self.checks(0, "--deep")["events"]["detail"])
        self.assertNotIn("2500 events", self.checks(0)["events"]["detail"])

    def test_a_changed_event_is_found(self):
        self.init()
        text = "".join(f'{{"stream":"s","type":"t","data":"text{i}","id":"e{i}"}}\n'
                       for i in range(20))
        self.ok("event", "import", "-", stdin=text)
        self.change_an_event(5)
        check = self.checks(6, "--deep")["events"]
        self.assertEqual("fail", check["state"])
        self.assertIn("5", check["detail"])

    def change_an_event(self, position):
        """Overwrite a byte of its data, whatever the table that holds it is called, behind the back
        of the triggers that forbid it."""
        db = sqlite3.connect(self.data / "journal.db")
        triggers = db.execute("select name, sql from sqlite_master where type = 'trigger'").fetchall()
        for name, _ in triggers:
            db.execute(f"drop trigger {name}")
        wanted = f'"text{position - 1}"'
        for (table,) in db.execute("select name from sqlite_master where type = 'table'").fetchall():
            for column in [r[1] for r in db.execute(f"pragma table_info({table})")]:
                db.execute(f"update {table} set {column} = replace({column}, 'text', 'tExt') "
                           f"where typeof({column}) = 'text' and {column} = ?", (wanted,))
        changed = db.total_changes
        for _, sql in triggers:
            db.execute(sql)
        db.commit()
        db.close()
        self.assertEqual(1, changed)

    def test_accept_head_wants_to_be_confirmed(self):
        self.init()
        self.refused(2, "doctor", "--accept-head", saying="nothing was changed")
        self.checks(0, "--accept-head", "--yes")

    def test_missing_acknowledged_events_are_found_and_accepted_on_demand(self):
        self.init()
        self.append("s", "t", "1")
        store = {p.name: p.read_bytes() for p in self.data.iterdir() if p.name.startswith("journal.db")
                 and "head" not in p.name and "lock" not in p.name and not p.name.endswith("-shm")}
        self.append("s", "t", "2")
        for path in self.data.iterdir():
            if path.name.endswith(("-wal", "-shm")):
                path.unlink()
        for name, content in store.items():
            (self.data / name).write_bytes(content)
        self.refused(6, "event", "log", saying="run: everfold doctor")
        check = self.checks(6)["head"]
        self.assertEqual("fail", check["state"])
        self.assertIn("--accept-head", check["fix"])
        self.checks(0, "--accept-head", "--yes")
        self.assertEqual(1, len(self.ok("event", "log", "-o", "json").json()))

    def test_something_else_in_the_store_s_place_is_a_failure(self):
        self.data.mkdir(mode=0o700)
        (self.data / "journal.db").write_text("this is no database, but it is long enough " * 20)
        self.assertEqual("fail", self.checks(6)["store"]["state"])


class DoctorOfViews(Checks):
    def setUp(self):
        super().setUp()
        self.init()
        self.ok("projection", "deploy", self.write("counter.fold", INDEXED))
        for i in range(30):
            self.append(f"s-{i % 7}", "counted", f'{{"who":"w{i % 5}","by":{i}}}', "--tenant",
                        ("", "x")[i % 2])
        self.ok("work", "--drain")

    def change(self, sql, *values):
        db = sqlite3.connect(self.data / "views.db")
        db.execute(sql, values)
        self.assertEqual(1, db.total_changes)
        db.commit()
        db.close()

    def test_sound_views_are_read_and_counted(self):
        self.assertIn("views.db opens", self.checks(0)["views"]["detail"])
        self.assertIn("generations 1, views 10, index entries 20",
                      self.checks(0, "--deep")["views"]["detail"])

    def test_a_changed_view_is_found(self):
        self.change("update view set data = replace(data, '\"n\"', '\"N\"') "
                    "where tenant = ? and id = ?", "x", "w1")
        self.checks(0)
        check = self.checks(6, "--deep")["views"]
        self.assertEqual("fail", check["state"])
        self.assertIn("the views do not match its digest", check["detail"])
        self.assertIn("rebuilt from the journal", check["fix"])

    def test_a_missing_index_entry_is_found(self):
        self.change("delete from view_index where tenant = ? and id = ? and idx = 1", "x", "w1")
        self.assertIn("entries of an index: 5 recorded, 4 found",
                      self.checks(6, "--deep")["views"]["detail"])

    def test_a_failed_event_is_a_warning_with_the_command_that_shows_it(self):
        self.append("bad", "counted", '{"who":"w1","by":"x"}')
        self.leaves("work", "--drain")
        check = self.checks(0)["projections"]
        self.assertEqual(("warn", "see: everfold projection failures counter"),
                         (check["state"], check["fix"]))

    def test_no_views_are_a_warning_and_something_else_in_their_place_a_failure(self):
        for path in self.data.glob("views.db*"):
            path.unlink()
        self.assertEqual("warn", self.checks(0)["views"]["state"])
        (self.data / "views.db").write_text("this is no database, but it is long enough " * 20)
        self.assertEqual("fail", self.checks(6)["views"]["state"])
