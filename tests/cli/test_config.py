"""Settings: where they come from, and which modes can hold."""
import re
from pathlib import Path

from support import Case


class Config(Case):
    def setting(self, key, *words, **more):
        rows = self.ok("config", "show", "-o", "json", *words, **more).json()
        return next(row for row in rows if row["key"] == key)

    def test_show_has_key_value_origin_and_where(self):
        rows = self.ok("config", "show", "-o", "json", env={"EVERFOLD_DATA": None}).json()
        self.assertEqual(["key", "value", "origin", "where"], list(rows[0]))
        self.assertEqual({"key": "journal", "value": "sqlite:./everfold-data/journal.db",
                          "origin": "default", "where": ""}, rows[1])
        self.assertIn("KEY", self.ok("config", "show").out)
        lines = self.ok("config", "show", "-o", "ndjson").lines()
        self.assertEqual([row["key"] for row in rows], [line["key"] for line in lines])

    def test_the_page_has_every_setting_and_its_default(self):
        page = (Path(__file__).parents[2] / "docs" / "reference" / "settings.md").read_text()
        told = dict(re.findall(r"^\| `([a-z_.]+)` \| (?:`(.*?)`)? \|", page, re.M))
        rows = self.ok("config", "show", "-o", "json", env={"EVERFOLD_DATA": None}).json()
        self.assertEqual([r["key"] for r in rows], list(told))
        for row in rows:
            if row["origin"] == "default" and told[row["key"]]:
                self.assertEqual(told[row["key"]], row["value"], row["key"])

    def test_a_flag_goes_before_the_environment_and_that_before_the_file(self):
        conf = self.write("a.conf", "tenant = file\n[log]\nlevel = error\n[store]\nbusy = 3s\n")
        env = {"EVERFOLD_TENANT": "environment", "EVERFOLD_LOG_LEVEL": "info"}
        show = lambda key: self.setting(key, "--config", conf, "--tenant", "flag", env=env)
        self.assertEqual(("flag", "flag", "--tenant"),
                         tuple(show("tenant")[k] for k in ("value", "origin", "where")))
        self.assertEqual(("info", "environment", "EVERFOLD_LOG_LEVEL"),
                         tuple(show("log.level")[k] for k in ("value", "origin", "where")))
        self.assertEqual(("3s", "file", f"{conf}:5"),
                         tuple(show("store.busy")[k] for k in ("value", "origin", "where")))

    def test_config_show_names_a_flag_by_its_option(self):
        self.assertEqual("--log-level", self.setting("log.level", "--log-level", "info")["where"])

    def test_the_file_in_the_data_directory_is_read(self):
        self.data.mkdir()
        (self.data / "everfold.conf").write_text("actor = ada\n")
        self.assertEqual("ada", self.setting("actor")["value"])

    def test_init_remembers_the_stores_that_flags_chose(self):
        self.data.mkdir()
        conf = self.data / "everfold.conf"
        conf.write_text("[log]\nlevel = error\n")
        self.ok("init", "--journal", f"sqlite:{self.dir}/j.db", "--views", f"sqlite:{self.dir}/v.db")
        for key, name in (("journal", "j.db"), ("views", "v.db")):
            row = self.setting(key)
            self.assertEqual((f"sqlite:{self.dir}/{name}", "file"), (row["value"], row["origin"]))
        self.assertEqual("error", self.setting("log.level")["value"])
        self.ok("event", "append", "s", "--type", "t", "--data", "{}")
        self.assertEqual(1, self.ok("status", "-o", "json").json()["journal"]["position"])
        # The environment and a flag still go before it; init again changes nothing.
        text = conf.read_text()
        other = {"EVERFOLD_VIEWS": f"sqlite:{self.dir}/w.db"}
        self.assertEqual("environment", self.setting("views", env=other)["origin"])
        self.ok("init")
        answer = self.ok("init", "--views", f"sqlite:{self.dir}/w.db")
        self.assertIn('another value for "views"', answer.err)
        self.assertEqual(text, conf.read_text())

    def test_init_remembers_a_relative_path_as_an_absolute_one(self):
        self.data.mkdir()
        self.ok("init", "--views", f"sqlite:{self.data}/../v.db")
        self.assertEqual(f"sqlite:{self.dir}/v.db", self.setting("views")["value"])

    def test_init_without_flags_writes_no_settings(self):
        self.ok("init", env={"EVERFOLD_VIEWS": f"sqlite:{self.data}/v.db"})
        self.assertFalse((self.data / "everfold.conf").exists())

    def test_a_file_that_is_no_database_is_named(self):
        path = self.write("notes.txt", "notes " * 500)
        self.refused(1, "status", "--journal", f"sqlite:{path}", saying=f"{path} is not an SQLite database")
        self.refused(1, "init", "--views", f"sqlite:{path}", saying=f"{path} is not an SQLite database")

    def test_the_file_may_be_named_by_the_environment(self):
        conf = self.write("b.conf", "actor = bob\n")
        self.assertEqual("bob", self.setting("actor", env={"EVERFOLD_CONFIG": str(conf)})["value"])

    def test_the_actor_is_the_user_unless_it_is_set(self):
        self.assertEqual("tester", self.setting("actor")["value"])
        self.assertRegex(self.setting("actor", env={"USER": None})["value"], r"^uid \d+$")

    def test_a_settings_file_that_is_not_there_is_not_found(self):
        self.refused(3, "status", "--config", self.dir / "none.conf", saying="none.conf")

    def test_an_unknown_key_is_refused_with_a_suggestion(self):
        conf = self.write("c.conf", "tenat = x\n")
        self.refused(2, "status", "--config", conf, saying='did you mean "tenant"')
        self.refused(2, "status", env={"EVERFOLD_TENAT": "x"}, saying="EVERFOLD_TENANT")

    def test_every_setting_refuses_a_bad_value(self):
        for key, value in (("output", "xml"), ("log.level", "loud"), ("log.format", "xml"),
                           ("mode", "fast"), ("outbox.enabled", "maybe"), ("worker.enabled", "2"),
                           ("shadow_worker.enabled", ""), ("compat.apply_wins", "x"),
                           ("outbox.partitions", "0"), ("outbox.partitions", "1025"),
                           ("types.strict", "very"), ("store.busy", "soon")):
            conf = self.write("bad.conf", f"{key} = {value}\n")
            self.refused(2, "config", "check", conf, saying="bad.conf:1")

    def test_config_check_reports_ok_or_the_error(self):
        good = self.write("good.conf", "mode = shadow_only\n")
        bad = self.write("bad.conf", "\nmode = fast\n")
        self.assertEqual(f"OK ({good}, mode shadow_only)\n",
                         self.ok("config", "check", good).out)
        self.assertEqual({"ok": True, "file": str(good), "mode": "shadow_only"},
                         self.ok("config", "check", good, "-o", "json").json())
        self.refused(2, "config", "check", bad, saying="bad.conf:2")
        self.refused(3, "config", "check", self.dir / "none.conf")
        problem = self.refused(2, "config", "check", bad, "-o", "json").problem()
        self.assertEqual("bad_input", problem["code"])


class Mode(Case):
    def mode(self, outbox=None, worker=None, shadow=None, **more):
        env = {"EVERFOLD_OUTBOX_ENABLED": outbox, "EVERFOLD_WORKER_ENABLED": worker,
               "EVERFOLD_SHADOW_WORKER_ENABLED": shadow}
        env.update(more)
        return self.run_it("config", "check", env=env)

    def holds(self, mode, *flags, **more):
        answer = self.mode(*flags, **more)
        self.assertEqual((0, f"OK (no settings file, mode {mode})\n"), (answer.code, answer.out),
                         answer.err)

    def cannot_hold(self, why, *flags, **more):
        answer = self.mode(*flags, **more)
        self.assertEqual(2, answer.code, answer.out)
        self.assertIn(why, answer.err)

    def test_nothing_set_is_outbox_apply_only(self):
        self.holds("outbox_apply_only")

    def test_the_flags_lead_to_the_three_modes(self):
        self.holds("inline_apply_only", "false", "false", "false")
        self.holds("inline_apply_only", "false")
        self.holds("outbox_apply_only", "true", "true", "false")
        self.holds("outbox_apply_only", "true", "true")
        self.holds("shadow_only", "true", "false", "true")
        self.holds("shadow_only", "true", None, "true")

    def test_a_worker_without_an_outbox_is_refused(self):
        self.cannot_hold("worker.enabled is on and outbox.enabled is off", "false", "true")
        self.cannot_hold("worker.enabled is on and outbox.enabled is off", None, "true")

    def test_a_shadow_worker_without_an_outbox_is_refused(self):
        self.cannot_hold("shadow_worker.enabled is on and outbox.enabled is off",
                         "false", "false", "true")

    def test_both_workers_are_refused_unless_apply_wins(self):
        self.cannot_hold("are both on", "true", "true", "true")
        self.holds("outbox_apply_only", "true", "true", "true",
                   EVERFOLD_COMPAT_APPLY_WINS="true")

    def test_an_outbox_without_a_worker_needs_the_mode_enqueue_only(self):
        self.cannot_hold("the outbox would not be drained", "true")
        self.cannot_hold("the outbox would not be drained", "true", "false", "false")
        self.holds("enqueue_only", "true", "false", "false", EVERFOLD_MODE="enqueue_only")

    def test_a_mode_by_name_holds(self):
        for name in ("inline_apply_only", "outbox_apply_only", "shadow_only",
                     "inline_then_outbox", "enqueue_only"):
            self.holds(name, EVERFOLD_MODE=name)

    def test_a_flag_that_contradicts_the_mode_is_refused(self):
        self.cannot_hold("mode is inline_apply_only, which needs outbox.enabled = false",
                         "true", EVERFOLD_MODE="inline_apply_only")
        self.cannot_hold("mode is shadow_only, which needs worker.enabled = false",
                         None, "true", EVERFOLD_MODE="shadow_only")
        self.cannot_hold("mode is outbox_apply_only, which needs shadow_worker.enabled = false",
                         None, None, "true", EVERFOLD_MODE="outbox_apply_only")

    def test_a_journal_is_not_opened_in_a_mode_that_cannot_hold(self):
        self.refused(2, "event", "log", "--journal", "memory:",
                     env={"EVERFOLD_WORKER_ENABLED": "true"}, saying="outbox.enabled is off")

    def test_the_mode_is_logged_once_at_level_info(self):
        answer = self.ok("event", "log", "--journal", "memory:", "--log-level", "info",
                         "--log-format", "json", env={"EVERFOLD_MODE": "shadow_only"})
        self.assertEqual(1, answer.err.count('"shadow_only"'))
