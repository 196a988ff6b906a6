"""outbox report, requeue, requeue-dead, skip."""
from support import ROW_KEYS, TIME, Case


class Outbox(Case):
    def setUp(self):
        super().setUp()
        self.init()

    def report(self, *words):
        return self.ok("outbox", "report", "-o", "json", *words).json()

    def three_with_a_dead_head(self):
        for i in range(3):
            self.append("s", "order.placed", str(i))
        self.append("other", "order.placed")
        self.fixture("totals", "s", 1, "dead", "no such\ncustomer", "s", 2, "pending", "",
                     "other", 1, "failed", "later")

    def test_an_empty_outbox_is_reported(self):
        self.assertEqual('{"mode":"outbox","summary":{"pending":0,"processing":0,"failed":0,'
                         '"dead":0,"blocked":0,"oldest":null},"rows":[],"next":null}\n',
                         self.ok("outbox", "report", "-o", "json").out)
        self.assertEqual("pending 0  processing 0  failed 0  dead 0  blocked 0\noldest: none\n",
                         self.ok("outbox", "report").out)

    def test_an_append_is_pending_in_the_apply_lane(self):
        self.append("s", "order.placed")
        report = self.report()
        self.assertEqual(["mode", "summary", "rows", "next"], list(report))
        self.assertEqual(["pending", "processing", "failed", "dead", "blocked", "oldest"],
                         list(report["summary"]))
        row = report["rows"][0]
        self.assertEqual(ROW_KEYS, list(row))
        self.assertEqual(row, report["summary"]["oldest"])
        self.assertRegex(row.pop("partition"), "^p[0-9]{2}$")
        self.assertEqual(("*", "", "s", 1, 1, "order.placed", "pending", 0, None, ""), tuple(row.values())[:10])
        self.assertRegex(row["enqueued_at"], TIME)

    def test_no_rows_are_written_without_an_outbox(self):
        self.ok("event", "append", "s", "--type", "t", "--data", "{}",
                env={"EVERFOLD_OUTBOX_ENABLED": "false"})
        self.assertEqual(0, self.report()["summary"]["pending"])

    def test_failed_dead_and_blocked_rows_are_distinguished(self):
        self.three_with_a_dead_head()
        report = self.report()
        summary = report["summary"]
        self.assertEqual((1, 0, 1, 1, 1), tuple(summary[k] for k in
                         ("pending", "processing", "failed", "dead", "blocked")))
        self.assertEqual("other", summary["oldest"]["stream"])
        self.assertEqual(["dead", "pending", "failed"], [r["status"] for r in report["rows"]])
        dead = report["rows"][0]
        self.assertEqual(("totals", 8, None, "no such\ncustomer"),
                         tuple(dead[k] for k in ("lane", "attempt_count", "next_attempt_at",
                                                 "last_error")))
        self.assertRegex(report["rows"][2]["next_attempt_at"], TIME)

    def test_rows_are_picked_by_stream_type_error_partition_and_age(self):
        self.three_with_a_dead_head()

        def picked(*words):
            rows = self.ok("outbox", "report", "-o", "json", *words).json()["rows"]
            return [f'{r["stream"]} {r["seq"]}' for r in rows]
        head, behind, other = picked()
        self.assertEqual([head, behind], picked("--stream", head.split()[0]))
        self.assertEqual([], picked("--stream", "nobody"))
        self.assertEqual([head], picked("--error", "No Such"))
        self.assertEqual([], picked("--types", "nothing.*"))
        self.assertEqual([], picked("--older", "1h"))
        self.assertEqual([head, behind, other], picked("--older", "1ms"))
        partition = self.report()["rows"][2]["partition"]
        self.assertIn(other, picked("--partition", partition))
        self.refused(2, "outbox", "report", "--partition", "7", saying="'7' is not a partition")

    def test_the_text_has_a_line_a_row_and_one_for_its_error(self):
        self.three_with_a_dead_head()
        out = self.ok("outbox", "report").out.splitlines()
        self.assertEqual("pending 1  processing 0  failed 1  dead 1  blocked 1", out[0])
        self.assertTrue(out[1].startswith("oldest: failed"), out[1])
        self.assertEqual("    later", out[2])
        self.assertTrue(out[3].startswith("dead        lane totals  s seq 1  position 1  order.placed"))
        self.assertEqual("    no such\\ncustomer", out[4])
        self.assertTrue(out[5].endswith("blocked"))

    def test_the_report_is_filtered(self):
        self.three_with_a_dead_head()
        self.append("third", "t", "{}", "--tenant", "acme")
        streams = lambda *w: [(r["stream"], r["seq"]) for r in self.report(*w)["rows"]]
        self.assertEqual([("s", 1)], streams("--status", "dead"))
        self.assertEqual([("other", 1)], streams("--status", " FAILED "))
        self.assertEqual([("s", 2)], streams("--status", "blocked"))
        self.assertEqual([("third", 1)], streams("--lane", "*"))
        self.assertEqual([("third", 1)], streams("--tenant", "acme"))
        self.assertEqual(4, len(streams()))
        self.assertEqual([("s", 1), ("s", 2)], streams("--limit", "2"))

    def test_a_long_report_is_read_page_by_page(self):
        text = "".join(f'{{"stream":"s{i}","type":"t","data":1,"id":"e{i}"}}\n' for i in range(450))
        self.ok("event", "import", "-", stdin=text)
        self.assertEqual(50, len(self.report()["rows"]))
        rows = self.report("--limit", "1000")["rows"]
        self.assertEqual([f"s{i}" for i in range(450)], [r["stream"] for r in rows])

    def test_bad_filters_are_refused(self):
        self.refused(2, "outbox", "report", "--status", "done", saying="--status is 'done'")
        for limit in ("0", "-1", "x"):
            self.refused(2, "outbox", "report", "--limit", limit, saying="--limit is")

    def test_requeue_puts_a_dead_row_back(self):
        self.three_with_a_dead_head()
        answer = self.ok("outbox", "requeue", "s", "1", "-o", "json").json()
        self.assertEqual(["mode", "requeued", "rows"], list(answer))
        self.assertEqual(("outbox-requeue", 1), (answer["mode"], answer["requeued"]))
        self.assertEqual(("pending", 0, ""), tuple(answer["rows"][0][k] for k in
                         ("status", "attempt_count", "last_error")))
        self.assertEqual((0, 0), tuple(self.report()["summary"][k] for k in ("dead", "blocked")))

    def test_requeue_of_a_row_that_is_not_dead_is_not_found(self):
        self.three_with_a_dead_head()
        self.refused(3, "outbox", "requeue", "s", "2")
        self.refused(3, "outbox", "requeue", "nothing", "1")
        self.refused(3, "outbox", "requeue", "s", "1", "--lane", "another")
        self.refused(3, "outbox", "requeue", "s", "1", "--tenant", "acme")
        for seq in ("0", "x", "1.5"):
            self.refused(2, "outbox", "requeue", "s", seq, saying="SEQ is")

    def test_requeue_dead_goes_oldest_first(self):
        for stream in ("a", "b", "c"):
            self.append(stream)
        self.fixture("totals", "a", 1, "dead", "x", "b", 1, "dead", "x", "c", 1, "dead", "x")
        answer = self.ok("outbox", "requeue-dead", "--limit", "2", "-o", "json").json()
        self.assertEqual(("outbox-requeue-dead", 2), (answer["mode"], answer["requeued"]))
        self.assertEqual(["a", "b"], [r["stream"] for r in answer["rows"]])
        self.assertEqual(0, self.ok("outbox", "requeue-dead", "--lane", "another", "-o",
                                    "json").json()["requeued"])
        self.assertIn("requeued 1\n", self.ok("outbox", "requeue-dead").out)
        self.refused(2, "outbox", "requeue-dead", "--limit", "0", saying="--limit is '0'")
        self.refused(2, "outbox", "requeue-dead", "--all", "--limit", "3", saying="cannot be combined")
        self.assertIn("requeued 0\n", self.ok("outbox", "requeue-dead", "--tenant", "a").out)

    def test_audit_entries_have_action_actor_and_reason(self):
        self.three_with_a_dead_head()
        self.assertEqual([], self.ok("audit", "ls", "-o", "json").json())
        self.assertIn("no audit entries", self.ok("audit", "ls").err)
        self.ok("outbox", "requeue", "s", "1", "--reason", "the program is mended")
        self.fixture("totals", "s", 1, "dead", "x")
        self.ok("outbox", "skip", "s", "1", "--lane", "totals", "--reason", "sent by mistake",
                env={"EVERFOLD_ACTOR": "ana"})
        skip, requeue = self.ok("audit", "ls", "-o", "ndjson").lines()
        self.assertEqual(["id", "at", "action", "actor", "reason", "lane", "tenant", "stream", "seq", "rows"],
                         list(skip))
        self.assertRegex(skip["at"], TIME)
        self.assertEqual(("skip", "ana", "sent by mistake", "totals", "s", 1), tuple(
            skip[k] for k in ("action", "actor", "reason", "lane", "stream", "seq")))
        self.assertEqual(("requeue", "tester", "the program is mended"), tuple(
            requeue[k] for k in ("action", "actor", "reason")))
        table = self.ok("audit", "ls", "--limit", "1").out
        self.assertIn("sent by mistake", table)
        self.assertNotIn("the program is mended", table)
        self.refused(2, "audit", "ls", "--limit", "0", saying="--limit")

    def test_an_unknown_lane_is_refused_with_what_a_lane_is(self):
        self.three_with_a_dead_head()
        answer = self.refused(3, "outbox", "report", "--lane", "nope", saying='no lane "nope"')
        self.assertIn("a lane is *, a projection or a publisher", answer.err)
        for lane in ("*", "totals"):
            self.ok("outbox", "report", "--lane", lane)

    def test_skip_needs_a_lane_and_a_reason(self):
        self.three_with_a_dead_head()
        self.refused(2, "outbox", "skip", "s", "1", "--reason", "x", saying="needs --lane")
        self.refused(2, "outbox", "skip", "s", "1", "--lane", "totals", saying="needs --reason")
        self.refused(3, "outbox", "skip", "s", "3", "--lane", "totals", "--reason", "x")
        answer = self.ok("outbox", "skip", "s", "1", "--lane", "totals", "--reason", "known",
                         "-o", "json").json()
        self.assertEqual(["mode", "skipped", "rows"], list(answer))
        self.assertEqual(("outbox-skip", 1), (answer["mode"], answer["skipped"]))
