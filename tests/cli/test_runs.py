"""replay, gaps, run, and the generations of a projection."""
import signal
import sqlite3

from support import Case, interrupt, wait_for_handler

RUN_KEYS = ["id", "mode", "projection", "tenant", "state", "requested_at", "started_at",
            "finished_at", "from", "to", "processed", "total", "error", "reason"]
GAP_KEYS = ["tenant", "projection", "stream", "applied_seq", "expected_next_seq", "journal_seq",
            "replayed"]

SUMS = """projection sums version 1
  view data.of
on added
  n += 1
  sum += 1 / data.good
"""


class Runs(Case):
    def setUp(self):
        super().setUp()
        self.init()
        self.program = self.write("sums.fold", SUMS)
        self.ok("projection", "deploy", self.program)
        self.work()

    def work(self, leaves=False):
        (self.leaves if leaves else self.ok)("work", "--drain", "--silent", "--no-leasing")

    def add(self, stream="s", good=1):
        return self.append(stream, "added", f'{{"of":"a","good":{good}}}')

    def deploy_second(self):
        self.program.write_text(SUMS.replace("version 1", "version 2").replace("n += 1", "n += 2"))
        self.ok("projection", "deploy", self.program)

    def json(self, *words, **more):
        return self.ok(*words, "-o", "json", **more).json()

    def acts(self):
        return [f"{a['action']} {a['lane'] or ''} {a['reason'] or ''}" for a in self.json("audit", "ls")]

    def view(self):
        return self.json("view", "get", "sums", "a")["data"]

    def past_the_outbox(self):
        """An append that nobody folds: no outbox, and the view store is not there."""
        self.ok("event", "append", "s", "--type", "added", "--data", '{"of":"a","good":1}',
                env={"EVERFOLD_OUTBOX_ENABLED": "false", "EVERFOLD_WORKER_ENABLED": "false",
                     "EVERFOLD_VIEWS": "memory:"})


class Rebuild(Runs):
    def test_rebuild_waits_and_switches(self):
        self.add()
        self.work()
        run = self.json("projection", "rebuild", "sums", "--wait", "--reason", "new disk")
        self.assertEqual(RUN_KEYS, list(run)[:len(RUN_KEYS)])
        self.assertEqual(("rebuild", "completed", "sums", 1, "new disk"),
                         tuple(run[k] for k in ("mode", "state", "projection", "processed",
                                                "reason")))
        self.assertEqual(2, self.json("projection", "show", "sums")["generation"])
        self.assertEqual({"n": 1, "sum": 1}, self.view())

    def test_rebuild_without_wait_is_done_by_a_worker(self):
        self.add()
        run = self.json("projection", "rebuild", "sums")
        self.assertEqual("queued", run["state"])
        self.refused(4, "projection", "rebuild", "sums", saying=run["id"])
        self.refused(4, "replay", saying=run["id"])
        self.work()
        self.assertEqual("completed", self.json("run", "show", run["id"])["state"])
        self.ok("run", "watch", run["id"])

    def test_rebuild_in_place_leaves_nothing_beside_it(self):
        self.add()
        self.work()
        self.assertEqual("completed",
                         self.json("projection", "rebuild", "sums", "--in-place", "--wait")["state"])
        self.assertEqual([2], [p["generation"] for p in self.json("projection", "ls")
                               if p["name"] == "sums"])
        self.assertEqual({"n": 1, "sum": 1}, self.view())

    def test_an_unknown_one_is_not_found(self):
        for verb in ("rebuild", "verify", "rollback"):
            self.refused(3, "projection", verb, "none", saying="none")
        self.refused(2, "projection", "rebuild", "sums", "--in-place", "--no-switch")

    def test_a_queued_run_is_cancelled(self):
        run = self.json("projection", "rebuild", "sums")
        self.assertEqual("cancelled", self.json("run", "cancel", run["id"], "--reason", "too soon")["state"])
        self.assertEqual(["cancel sums too soon", "rebuild sums ", "deploy sums "], self.acts())
        self.refused(4, "run", "cancel", run["id"], saying="cancelled")
        self.refused(3, "run", "cancel", "nobody", saying="nobody")
        self.assertEqual(1, self.run_it("run", "watch", run["id"]).code)
        self.assertEqual([], self.json("run", "ls", "--open"))
        self.assertEqual([run["id"]], [r["id"] for r in self.json("run", "ls")])
        self.assertIn("cancelled", self.ok("run", "ls").out)

    def test_a_watch_is_ended_by_a_signal(self):
        run = self.json("projection", "rebuild", "sums")
        watch = self.start("run", "watch", run["id"])
        wait_for_handler(watch, signal.SIGINT)
        self.assertEqual(130, interrupt(watch).code)


class Route(Runs):
    def test_switch_rollback_and_retire(self):
        self.add()
        self.work()
        self.deploy_second()
        self.refused(4, "projection", "switch", "sums", "--version", 2, saying="lacks 1 event")
        self.work()
        self.assertEqual(2, self.json("projection", "switch", "sums", "--version", 2)["version"])
        self.assertEqual(2, self.view()["n"])
        self.refused(4, "projection", "retire", "sums", "--version", 2, saying="switch to another")
        self.assertEqual(1, self.json("projection", "rollback", "sums")["version"])
        self.assertEqual(1, self.view()["n"])
        self.ok("projection", "retire", "sums", "--version", 2, "--reason", "it doubles")
        self.assertEqual(["retire sums it doubles", "rollback sums ", "switch sums "], self.acts()[:3])
        self.assertEqual(1, len(self.json("projection", "ls")))
        self.refused(3, "projection", "rollback", "sums", saying="retired")

    def test_one_of_version_and_generation_is_needed(self):
        self.refused(2, "projection", "switch", "sums")
        self.refused(2, "projection", "retire", "sums", "--version", 1, "--generation", 1)

    def test_diff_shows_where_they_differ(self):
        self.add()
        self.work()
        self.deploy_second()
        self.work()
        answer = self.run_it("projection", "diff", "sums", "--versions", "1,2")
        self.assertEqual(1, answer.code)
        self.assertIn("n: 1 -> 2", answer.out)
        answer = self.run_it("projection", "diff", "sums", "--versions", "1,2", "-o", "json")
        self.assertEqual([{"tenant": "", "view_id": "a", "left": {"n": 1, "sum": 1},
                           "right": {"n": 2, "sum": 1}}], answer.json()["differences"])
        self.assertEqual(1, answer.json()["different"])
        self.assertEqual(0, self.json("projection", "diff", "sums", "--versions", "1,1")["different"])
        self.refused(3, "projection", "diff", "sums", "--versions", "1,9")
        self.refused(2, "projection", "diff", "sums", "--versions", "1")


class Verify(Runs):
    def test_verify_passes_for_views_that_match_the_events(self):
        self.add()
        self.work()
        answer = self.json("projection", "verify", "sums")
        self.assertEqual((True, 1, 0), (answer["equal"], answer["views"], answer["differences"]))
        self.assertEqual(1, len(self.json("projection", "ls")))

    def test_a_view_that_was_changed_is_named(self):
        self.add()
        self.work()
        store = sqlite3.connect(self.data / "views.db")
        (table,) = [name for (name,) in store.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name = 'view'")]
        store.execute(f"UPDATE {table} SET data = replace(data, '1', '7')")
        store.commit()
        store.close()
        answer = self.run_it("projection", "verify", "sums", "-o", "json")
        self.assertEqual(1, answer.code, answer.err)
        self.assertEqual([{"tenant": "", "view_id": "a"}], answer.json()["examples"])


class BesideLiveWork(Runs):
    """A worker is at work and events keep coming."""

    def setUp(self):
        super().setUp()
        lines = "".join(f'{{"stream":"s{i % 7}","type":"added","data":{{"of":"v{i % 5}","good":1}}}}\n'
                        for i in range(3000))
        self.events = self.write("events.ndjson", lines)
        self.worker = self.start("work", "--silent", "--interval-ms", "50")
        self.addCleanup(self.stop)

    def stop(self):
        if self.worker.poll() is None:
            answer = interrupt(self.worker)
            self.assertNotIn("Sanitizer", answer.err)

    def while_importing(self, *words):
        importing = self.start("event", "import", self.events)
        try:
            return self.run_it(*words, "-o", "json")
        finally:
            importing.communicate(timeout=120)

    def total(self):
        return sum(v["data"]["n"] for v in self.ok("view", "export", "sums").lines())

    def test_a_verification_has_no_false_alarm(self):
        answer = self.while_importing("projection", "verify", "sums")
        self.assertEqual(0, answer.code, answer.err + answer.out)
        self.assertTrue(answer.json()["equal"])
        self.ok("projection", "wait", "sums", "--timeout", "60s")
        self.assertEqual(3000, self.total())

    def test_a_rebuild_loses_and_doubles_nothing(self):
        answer = self.while_importing("projection", "rebuild", "sums", "--wait")
        self.assertEqual(0, answer.code, answer.err + answer.out)
        self.assertNotIn("differ", answer.err)
        self.ok("projection", "wait", "sums", "--timeout", "60s")
        self.assertEqual(3000, self.total())
        self.assertEqual({0}, {p["unaccounted"] for p in self.json("projection", "ls")})
        self.stop()
        self.assertEqual(1, len({p["digest"] for p in self.json("projection", "ls")}))


class Replay(Runs):
    def test_a_replay_changes_nothing_that_is_applied(self):
        self.add()
        self.work()
        self.assertIn("events 1, applied 0, duplicates 1", self.ok("replay").out)
        run = self.json("replay", "--projection", "sums", "--stream", "s")
        self.assertEqual(("replay", "completed", 1),
                         (run["mode"], run["state"], run["processed"]))
        self.assertEqual({"n": 1, "sum": 1}, self.view())

    def test_a_dry_run_counts(self):
        for _ in range(3):
            self.add()
        count = lambda *words: self.json("replay", "--dry-run", *words)["events"]
        self.assertEqual(3, count())
        self.assertEqual(2, count("--from-position", 2, "--to-position", 3))
        self.assertEqual(1, count("--stream", "s", "--after-seq", 1, "--until-seq", 2))
        self.assertEqual(0, count("--type", "other"))
        self.assertEqual(0, count("--to-date", "2020-01-01"))
        self.assertEqual(3, count("--from-date", "2020-01-01"))
        self.assertEqual([], self.json("run", "ls"))

    def test_a_window_that_cannot_be_is_a_mistake(self):
        self.refused(2, "replay", "--from-position", 3, "--to-position", 2, saying="above")
        self.refused(2, "replay", "--from-date", "2026-02-01", "--to-date", "2026-01-01")
        self.refused(2, "replay", "--after-seq", 1, saying="stream")
        self.refused(2, "replay", "--from-date", "yesterday", saying="RFC 3339")
        self.refused(3, "replay", "--projection", "none")
        self.assertEqual(0, self.json("replay", "--stream", "nowhere")["processed"])

    def test_a_validation_lists_the_events_that_fail(self):
        self.add()
        self.add(good=0)
        answer = self.run_it("replay", "--validate", "-o", "json")
        self.assertEqual(1, answer.code)
        self.assertEqual(1, answer.json()["failed"])
        self.assertEqual(2, answer.json()["warnings"][0]["seq"])
        self.assertEqual([], self.json("run", "ls"))
        self.work(leaves=True)
        self.assertEqual({"n": 1, "sum": 1}, self.view())


class Gaps(Runs):
    def test_a_gap_is_found_and_repaired(self):
        self.add()
        self.work()
        self.assertEqual({"mode": "gap-detect", "gaps": []}, self.json("gaps", "detect"))
        self.past_the_outbox()
        gaps = self.json("gaps", "detect")["gaps"]
        self.assertEqual(GAP_KEYS, list(gaps[0]))
        self.assertEqual(("sums", "s", 1, 2, 2, 0), tuple(gaps[0][k] for k in GAP_KEYS[1:]))
        self.assertEqual({"n": 1, "sum": 1}, self.view())
        repaired = self.json("gaps", "repair", "--reason", "the outbox was off")
        self.assertEqual("gap_repair  the outbox was off", self.acts()[0])
        self.assertEqual(("gap-repair", 1), (repaired["mode"], repaired["gaps"][0]["replayed"]))
        self.assertEqual({"n": 2, "sum": 2}, self.view())
        self.assertIn("no gaps", self.ok("gaps", "detect").err)

    def test_a_worker_repairs_when_it_starts(self):
        self.past_the_outbox()
        self.work()
        self.assertEqual({"n": 1, "sum": 1}, self.view())

    def test_a_queued_event_is_no_gap(self):
        self.add()
        self.assertEqual([], self.json("gaps", "detect")["gaps"])


class OutboxReplay(Runs):
    def test_outbox_replay_retries_a_failed_event_at_once(self):
        self.add(good=0)
        self.refused(3, "outbox", "replay", "s", 1, saying="no retry row")
        self.work(leaves=True)
        answer = self.run_it("outbox", "replay", "s", 1, "-o", "json")
        self.assertEqual(1, answer.code)
        self.assertEqual(("outbox-replay", 1, 2),
                         (answer.json()["mode"], answer.json()["left"],
                          answer.json()["rows"][0]["attempt_count"]))


class Seed(Runs):
    def export(self):
        return self.ok("view", "export", "sums").out

    def test_a_seeded_generation_continues_after_its_position(self):
        self.add()
        self.add("t")
        self.work()
        views = self.write("views.ndjson", self.export())
        self.add()
        run = self.json("view", "seed", "sums", views, "--position", 2)
        self.assertEqual(("seed", "completed", 1), (run["mode"], run["state"], run["processed"]))
        self.work()
        answer = self.json("projection", "diff", "sums", "--generations", "1,2")
        self.assertEqual((1, 0), (answer["views"], answer["different"]))
        shown = self.json("projection", "switch", "sums", "--generation", 2)
        self.assertEqual((2, 0, 0), (shown["generation"], shown["unaccounted"],
                                     shown["lag_events"]))
        self.assertEqual({"n": 3, "sum": 3}, self.view())
        self.assertEqual({"mode": "gap-detect", "gaps": []}, self.json("gaps", "detect"))

    def test_a_wrong_line_is_named_and_nothing_is_kept(self):
        self.add()
        self.work()
        line = self.export()
        for text, saying in ((line + "{}\n", "line 2: view_id is missing"),
                             (line + "nonsense\n", "line 2: "),
                             (line + line, "given twice"),
                             (line.replace('"as_of":1', '"as_of":9'), "line 1: as_of")):
            views = self.write("views.ndjson", text)
            self.refused(2, "view", "seed", "sums", views, "--position", 1, saying=saying)
            self.assertEqual(1, len(self.json("projection", "ls")))
        self.assertEqual({"failed"}, {r["state"] for r in self.json("run", "ls")})
        self.refused(2, "view", "seed", "sums", views, "--position", 7, saying="head")
        self.refused(2, "view", "seed", "sums", views, saying="--position")
        self.refused(3, "view", "seed", "none", views, "--position", 1)
        self.refused(3, "view", "seed", "sums", "nofile", "--position", 1)
