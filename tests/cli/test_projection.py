"""projection deploy, ls, show, pause, resume, wait."""
import threading

from support import TIME, Case
from test_fold import COUNTER, SHOP, WRONG

PROJECTION_KEYS = ["name", "version", "generation", "order", "state", "position", "lag_events",
                   "lag_seconds", "views", "digest", "unaccounted", "failures", "quarantined",
                   "blocked_streams", "blocked_events", "blocked_seconds", "reached", "scopes_behind", "on_error", "scopes"]

SCOPE_KEYS = ["name", "tenant", "any_tenant", "state", "position", "pending", "pending_more",
              "synced_at", "retries", "next_try_at", "error_code", "error"]

SHARES = """projection shares version 1
  order by log
  view "all"
on counted
  n += 12 / data.by
"""

MOVED = """\
projection counter version 2
  view data.who
  schema 2

migrate from 1 to 2
  sum.n = n
  unset n

on counted
  sum.n += data.by
"""

FAILURE_KEYS = ["projection", "version", "generation", "tenant", "stream", "seq", "position",
                "event_id", "code", "message", "line", "attempts", "open", "recorded_at", "resolved_at"]


class Projection(Case):
    def setUp(self):
        super().setUp()
        self.init()
        self.path = self.write("counter.fold", COUNTER)

    def deploy(self):
        return self.ok("projection", "deploy", self.path, "-o", "json").json()

    def count(self, who="ada", by=1):
        return self.append("s", "counted", f'{{"who":"{who}","by":{by}}}')

    def show(self):
        return self.ok("projection", "show", "counter", "-o", "json").json()

    def test_deploy_answers_the_projection(self):
        answer = self.deploy()
        self.assertEqual(PROJECTION_KEYS, list(answer))
        self.assertEqual(("counter", 1, "stream", 0, 0), tuple(answer[k] for k in
                         ("name", "version", "order", "position", "views")))
        self.assertRegex(answer["digest"], "^[0-9a-f]{32}$")

    def test_deploying_the_same_text_again_has_no_effect(self):
        first = self.deploy()
        self.assertEqual(first["generation"], self.deploy()["generation"])
        self.assertEqual(1, len(self.ok("projection", "ls", "-o", "json").json()))

    def test_on_error_is_set_to_skip_and_back_to_stop(self):
        self.assertEqual("stop", self.deploy()["on_error"])
        told = self.ok("projection", "deploy", self.path, "--on-error", "skip", "--reason", "late is worse",
                       "-o", "json").json()
        self.assertEqual(("skip", 1), (told["on_error"], told["generation"]))
        self.assertEqual("skip", self.deploy()["on_error"])
        self.assertIn("on error    skip\n", self.ok("projection", "show", "counter").out)
        acts = self.ok("audit", "ls", "-o", "json").json()
        self.assertEqual(["deploy", "on_error", "deploy", "deploy"], [act["action"] for act in acts])
        act = acts[1]
        self.assertEqual(("on_error", "counter", "late is worse"), (act["action"], act["lane"], act["reason"]))
        self.ok("projection", "deploy", self.path, "--on-error", "stop")
        self.assertEqual("stop", self.show()["on_error"])
        self.refused(2, "projection", "deploy", self.path, "--on-error", "go", saying="stop or skip")
        self.refused(2, "projection", "deploy", self.path, "--reason", "x", saying="--on-error")

    def test_several_files_answer_an_array(self):
        answer = self.ok("projection", "deploy", SHOP / "customer_orders.fold",
                         SHOP / "products.fold", "-o", "json").json()
        self.assertEqual(["customer_orders", "products"], [p["name"] for p in answer])

    def test_a_program_with_a_mistake_is_not_deployed_nor_the_others_of_the_call(self):
        wrong = self.write("wrong.fold", WRONG)
        self.refused(2, "projection", "deploy", self.path, wrong, saying=f"{wrong}:5:10: error: ")
        self.assertEqual([], self.ok("projection", "ls", "-o", "json").json())
        problem = self.refused(2, "projection", "deploy", wrong, "--quiet", "-o", "json").problem()
        self.assertEqual("bad_input", problem["code"])

    def test_another_text_under_a_version_is_refused_with_the_command_to_run(self):
        self.deploy()
        self.path.write_text(COUNTER.replace("data.by", "data.by * 2"))
        answer = self.refused(4, "projection", "deploy", self.path, saying="version 2")
        self.assertIn(f"run: everfold projection deploy {self.path}", answer.err)

    def test_a_new_version_stands_beside_the_old_one(self):
        self.deploy()
        self.path.write_text(COUNTER.replace("version 1", "version 2"))
        self.assertEqual(2, self.deploy()["version"])
        self.assertEqual({1, 2}, {p["version"] for p in
                                  self.ok("projection", "ls", "-o", "ndjson").lines()})
        self.assertEqual(1, self.show()["version"])

    def test_ls_is_a_table_for_people(self):
        self.assertIn("no projections", self.ok("projection", "ls").err)
        self.deploy()
        out = self.ok("projection", "ls").out
        self.assertIn("NAME", out)
        self.assertIn("counter", out)

    def test_show_has_the_program(self):
        self.deploy()
        out = self.ok("projection", "show", "counter").out
        self.assertIn("    projection counter version 1\n", out)
        self.assertIn("    on counted\n", out)

    def test_an_unknown_one_is_not_found(self):
        for verb in ("show", "failures", "pause", "resume", "wait"):
            self.refused(3, "projection", verb, "nothing", saying="nothing")

    def test_a_paused_projection_continues_where_it_stopped(self):
        self.deploy()
        self.count()
        self.ok("work", "--drain")
        paused = self.ok("projection", "pause", "counter", "-o", "json").json()
        self.assertEqual(("paused", 1), (paused["state"], paused["position"]))
        self.count()
        self.ok("work", "--drain")
        self.assertEqual(1, self.ok("view", "get", "counter", "ada", "-o", "json").json()["data"]["n"])
        self.ok("projection", "resume", "counter", "--reason", "the disk is back")
        self.assertEqual(["resume the disk is back", "pause "], [
            f"{a['action']} {a['reason'] or ''}" for a in self.ok("audit", "ls", "-o", "json").json()[:2]])
        self.ok("work", "--drain")
        self.assertEqual(2, self.ok("view", "get", "counter", "ada", "-o", "json").json()["data"]["n"])
        live = self.show()
        self.assertEqual(("live", 2, 0, 0), tuple(live[k] for k in
                         ("state", "position", "lag_events", "unaccounted")))

    def test_views_of_a_paused_projection_are_as_of_its_position(self):
        self.deploy()
        self.count()
        self.ok("work", "--drain")
        self.ok("projection", "pause", "counter")
        self.count()
        self.ok("work", "--drain")
        paused = self.show()
        self.assertEqual(("paused", 1, 1, 0), tuple(paused[k] for k in
                         ("state", "position", "lag_events", "unaccounted")))
        self.refused(5, "view", "get", "counter", "ada", "--current", "--timeout", "10ms")

    def test_a_resumed_projection_reads_only_new_events(self):
        self.deploy()
        self.ok("work", "--drain")
        for _ in range(6):
            self.count()
        self.ok("work", "--drain")
        self.ok("projection", "pause", "counter")
        self.count()
        self.ok("work", "--drain")
        self.ok("projection", "resume", "counter")
        self.assertIn("caught up 1 ", self.ok("work", "--drain").out)
        self.assertEqual(7, self.ok("view", "get", "counter", "ada", "-o", "json").json()["data"]["n"])

    def test_an_event_that_failed_before_a_pause_is_retried_after_it(self):
        self.deploy()
        self.ok("work", "--drain")
        self.count()
        self.append("bad", "counted", '{"who":"bob","by":"x"}')
        self.count()
        self.leaves("work", "--drain")
        self.ok("projection", "pause", "counter")
        self.ok("projection", "resume", "counter")
        self.assertIn("caught up 2 ", self.leaves("work", "--drain").out)
        self.assertEqual(2, self.ok("view", "get", "counter", "ada", "-o", "json").json()["data"]["n"])

    def test_in_place_takes_over_the_views(self):
        self.deploy()
        self.count(by=3)
        self.ok("work", "--drain")
        self.path.write_text(MOVED)
        taken = self.ok("projection", "deploy", "--in-place", self.path, "-o", "json").json()
        self.assertEqual((2, 1, "migrating", 1), tuple(taken[k] for k in
                         ("version", "generation", "state", "views")))
        get = ("view", "get", "counter", "ada", "-o", "json")
        self.assertEqual({"sum": {"n": 3}}, self.ok(*get).json()["data"])
        self.refused(5, "view", "query", "counter", saying="are being migrated")
        self.refused(5, "view", "export", "counter", saying="are being migrated")
        self.count(by=4)
        self.ok("work", "--drain")
        self.assertEqual(("live", 2, 0, 0), tuple(self.show()[k] for k in
                         ("state", "position", "lag_events", "unaccounted")))
        self.assertEqual({"sum": {"n": 7}}, self.ok(*get).json()["data"])
        self.assertIn('{"n":7}', self.ok("view", "query", "counter").out)
        self.ok("projection", "verify", "counter")
        self.ok("doctor", "--deep")

    def test_in_place_refuses_a_version_that_does_not_follow_and_changes_nothing(self):
        self.refused(3, "projection", "deploy", "--in-place", self.path,
                     saying="nothing to change in place")
        before = self.deploy()
        self.path.write_text(COUNTER.replace("version 1", "version 2"))
        self.refused(2, "projection", "deploy", "--in-place", self.path,
                     saying="in place the schema must be higher")
        self.path.write_text(MOVED.replace("version 2", "version 1"))
        answer = self.refused(4, "projection", "deploy", "--in-place", self.path,
                              saying="give the program a new version")
        self.assertNotIn("then run: everfold projection deploy", answer.err)
        self.assertEqual([before], self.ok("projection", "ls", "-o", "json").json())

    def test_wait_returns_when_the_position_is_reached(self):
        self.deploy()
        self.count()
        worker = threading.Timer(0.3, lambda: self.ok("work", "--drain"))
        worker.start()
        answer = self.ok("projection", "wait", "counter", "--timeout", "60s", "-o", "json").json()
        worker.join()
        self.assertEqual(1, answer["position"])
        self.ok("projection", "wait", "counter", "--position", "1", "--timeout", "0")

    def test_wait_times_out_and_reports_the_position(self):
        self.deploy()
        self.count()
        problem = self.refused(5, "projection", "wait", "counter", "--timeout", "50ms", "-o",
                               "json").problem()
        self.assertEqual(("timeout", 1, 0), tuple(problem[k] for k in ("code", "asked", "found")))
        self.refused(5, "projection", "wait", "counter", "--position", "9", "--timeout", "10ms")
        self.refused(2, "projection", "wait", "counter", "--timeout", "soon", saying="10s")

    def test_a_failure_is_counted_and_listed(self):
        self.deploy()
        self.count(by='"x"')
        self.leaves("work", "--drain")
        self.assertEqual(1, self.show()["failures"])
        row, = self.ok("outbox", "report", "--lane", "counter", "-o", "json").json()["rows"]
        self.assertIn("data.by", row["last_error"])

    def test_failures_are_listed_and_over_once_the_event_is_passed(self):
        self.deploy()
        self.ok("work", "--drain")
        self.append("bad", "counted", '{"who":"bob","by":"x"}', "--id", "e-1")
        self.leaves("work", "--drain")
        failure, = self.ok("projection", "failures", "counter", "-o", "json").json()
        self.assertEqual(FAILURE_KEYS, list(failure))
        self.assertEqual(("counter", "", "bad", 1, 1, "e-1", "fold_error", True, None),
                         tuple(failure[k] for k in ("projection", "tenant", "stream", "seq", "position",
                                                    "event_id", "code", "open", "resolved_at")))
        self.assertIn("data.by", failure["message"])
        self.assertEqual("  n += data.by", COUNTER.split("\n")[failure["line"] - 1])
        self.assertRegex(failure["recorded_at"], TIME)
        out = self.ok("projection", "failures", "counter").out
        self.assertIn("bad seq 1  position 1  version 1  attempts 1  since ", out)
        self.assertIn("    handler counted", out)
        self.assertIn("            bad seq 1", self.ok("projection", "show", "counter").out)
        self.ok("outbox", "skip", "bad", "1", "--lane", "counter", "--reason", "a mistake")
        self.ok("work", "--drain")
        self.assertEqual("[]\n", self.ok("projection", "failures", "counter", "-o", "json").out)
        self.assertIn("no open failures", self.ok("projection", "failures", "counter").err)
        over, = self.ok("projection", "failures", "counter", "--all", "-o", "ndjson").lines()
        self.assertFalse(over["open"])
        self.assertRegex(over["resolved_at"], TIME)
        self.assertIn("attempts 1  over ", self.ok("projection", "failures", "counter", "--all").out)

    def test_show_has_the_latest_five_failures_and_the_command_for_the_others(self):
        self.deploy()
        self.ok("work", "--drain")
        for i in range(7):
            self.append(f"bad-{i}", "counted", '{"who":"bob","by":"x"}')
        self.leaves("work", "--drain")
        out = self.ok("projection", "show", "counter").out
        self.assertEqual(5, out.count(" seq 1  position "))
        self.assertIn("bad-6 seq 1", out)
        self.assertNotIn("bad-1 seq 1", out)
        self.assertIn("all of them: everfold projection failures counter", out)
        self.assertEqual(7, len(self.ok("projection", "failures", "counter", "-o", "json").json()))
        self.assertEqual(2, len(self.ok("projection", "failures", "counter", "--limit", "2", "-o",
                                        "json").json()))

    def test_commands_without_a_view_store_advise_init(self):
        for path in self.data.glob("views.db*"):
            path.unlink()
        self.refused(3, "projection", "ls", saying="run: everfold init")
        self.init()
        self.assertEqual([], self.ok("projection", "ls", "-o", "json").json())

    def test_status_shows_projections(self):
        self.deploy()
        self.count()
        found, = self.ok("status", "-o", "json").json()["projections"]
        self.assertEqual(PROJECTION_KEYS, list(found))
        self.assertIn("counter version 1", self.ok("status").out)
        for path in self.data.glob("views.db*"):
            path.unlink()
        self.assertEqual([], self.ok("status", "-o", "json").json()["projections"])


class Scopes(Case):
    """A projection in the order of the log, of two tenants: one event of b is bad."""

    def setUp(self):
        super().setUp()
        self.init()
        self.ok("projection", "deploy", self.write("shares.fold", SHARES))
        for tenant, by in (("a", 1), ("b", 2), ("b", 0), ("a", 3), ("b", 4)):
            self.append("s", "counted", f'{{"by":{by}}}', "--tenant", tenant)
        self.leaves("work", "--drain", "--quiet")

    def view(self, tenant):
        return self.ok("view", "get", "shares", "all", "--tenant", tenant, "-o",
                       "json").json()["data"]

    def show(self, *more):
        return self.ok("projection", "show", "shares", "-o", "json", *more).json()

    def test_one_tenant_stops_and_the_others_go_on(self):
        self.assertEqual({"n": 16}, self.view("a"))
        self.assertEqual({"n": 6}, self.view("b"))
        shown = self.show()
        self.assertEqual(("live", 2, 0, 1, 2, 0, 1), tuple(shown[k] for k in (
            "state", "position", "lag_events", "blocked_streams", "blocked_events", "unaccounted", "scopes_behind")))
        others, behind = shown["scopes"]
        self.assertEqual(SCOPE_KEYS, list(behind))
        self.assertEqual(("live", 5, 0, True), tuple(others[k] for k in (
            "state", "position", "pending", "any_tenant")))
        self.assertRegex(others["name"], r"^\*:shares:[0-7]$")
        self.assertRegex(behind["name"], "^b:shares:[0-7]$")
        self.assertEqual(("b", "retrying", 2, 2), tuple(behind[k] for k in (
            "tenant", "state", "position", "pending")))
        self.assertGreaterEqual(behind["retries"], 1)
        self.assertRegex(behind["next_try_at"], TIME)
        self.assertEqual("fold_error", behind["error_code"])
        self.assertIn("divi", behind["error"])
        found, = self.ok("status", "-o", "json").json()["projections"]
        self.assertEqual(behind["name"], found["scopes"][1]["name"])

    def test_projection_show_lists_scopes_that_lag_with_their_error(self):
        for words in (("projection", "show", "shares"), ("status",)):
            out = self.ok(*words).out
            self.assertRegex(out, r"b:shares:[0-7]  retrying  position 2  pending 2  synced ")
            self.assertRegex(out, r"retries \d+, next .*divi")

    def test_projection_show_of_a_tenant_has_only_its_scope(self):
        one, = self.show("--tenant", "a")["scopes"]
        self.assertEqual(("live", 5, 0, 0), tuple(one[k] for k in (
            "state", "position", "pending", "retries")))
        self.append("s", "counted", '{"by":6}', "--tenant", "b")
        one, = self.show("--tenant", "a")["scopes"]
        self.assertEqual(0, one["pending"])
        one, = self.show("--tenant", "b")["scopes"]
        self.assertEqual(3, one["pending"])
        self.assertIn("a:shares:", self.ok("projection", "show", "shares", "--tenant", "a").out)

    def test_wait_is_for_the_tenant_that_is_given_or_for_all(self):
        self.ok("projection", "wait", "shares", "--tenant", "a")
        self.refused(4, "projection", "wait", "shares", "--tenant", "b", "--timeout", "100s", saying="blocked")
        shown = self.ok("projection", "wait", "shares", "-o", "json").json()  # all but the blocked tenant
        self.assertEqual((5, 1), (shown["reached"], shown["blocked_streams"]))

    def test_a_read_that_asks_for_all_events_waits_for_its_own_tenant_only(self):
        self.assertEqual(5, self.ok("view", "get", "shares", "all", "--tenant", "a", "--current",
                                    "-o", "json").json()["as_of"])
        self.refused(4, "view", "get", "shares", "all", "--tenant", "b", "--current",
                     "--timeout", "10ms")

    def test_resume_retries_at_once_and_resets_the_count(self):
        self.ok("projection", "resume", "shares")
        self.assertEqual(0, self.show()["scopes"][1]["retries"])
        self.ok("work", "--once", "--quiet")
        self.assertEqual(1, self.show()["scopes"][1]["retries"])
