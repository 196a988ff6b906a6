"""init, event append, ls, log, show; and a session as the README tells it."""
import os
import signal
import stat

import support
from support import APPEND_KEYS, EVENT_KEYS, TIME, Case, interrupt


class Init(Case):
    def test_init_creates_a_data_directory_that_only_its_owner_can_read(self):
        answer = self.ok("init", "-o", "json").json()
        self.assertEqual(["data", "journal", "journal_id", "partitions", "created", "views"],
                         list(answer))
        self.assertEqual((True, 16), (answer["created"], answer["partitions"]))
        self.assertEqual(0o700, stat.S_IMODE(os.stat(self.data).st_mode))

    def test_init_is_idempotent_and_reports_an_existing_store(self):
        self.init()
        self.append()
        self.assertIn(" exists (", self.init().out)
        self.assertFalse(self.ok("init", "-o", "json").json()["created"])
        self.assertEqual(1, len(self.ok("event", "log", "-o", "json").json()))

    def test_partitions_are_of_a_new_journal(self):
        self.assertEqual(4, self.ok("init", "--partitions", "4", "-o", "json").json()["partitions"])
        again = self.ok("init", "--partitions", "8", "-o", "json")
        self.assertEqual(4, again.json()["partitions"])
        self.assertIn("keeps its 4 partitions", again.err)
        self.refused(2, "init", "--partitions", "0", saying="partitions")

    def test_directories_above_are_made_too(self):
        self.ok("init", "--data", self.dir / "a" / "b")
        self.assertTrue((self.dir / "a" / "b" / "journal.db").exists())
        self.ok("init", "--data", f"{self.dir}/c/d//")
        self.assertEqual(0o700, stat.S_IMODE(os.stat(self.dir / "c" / "d").st_mode))

    def test_a_file_in_its_place_is_refused(self):
        self.data.write_text("")
        self.refused(2, "init", saying="is not a directory")

    def test_commands_without_a_store_advise_init(self):
        self.refused(3, "status", saying="run: everfold init")
        self.refused(3, "event", "append", "s", "--type", "t", "--data", "{}",
                     saying="run: everfold init")
        answer = self.refused(3, "--data", "other", "event", "log")
        self.assertIn("run: everfold init --data other", answer.err)


class Append(Case):
    def setUp(self):
        super().setUp()
        self.init()

    def test_append_prints_seq_and_position(self):
        first = self.append("order-1", "order.placed", '{"amount": 12.50}')
        self.assertEqual(APPEND_KEYS, list(first))
        self.assertEqual(("order-1", 1, 1, False),
                         tuple(first[k] for k in ("stream", "seq", "position", "duplicate")))
        self.assertRegex(first["id"], r"^[0-9a-f]{8}-[0-9a-f]{4}-7")
        second = self.append("order-1")
        self.assertEqual((2, 2), (second["seq"], second["position"]))
        table = self.ok("event", "append", "order-1", "--type", "t", "--data", "{}").out
        self.assertRegex(table, r"^STREAM +SEQ +POSITION +ID +DUPLICATE +TOKEN\norder-1 +3 +3 ")

    def test_the_same_id_again_is_a_duplicate(self):
        first = self.append("s", "t", '{"a":1}', "--id", "e-1")
        again = self.append("s", "t", '{"a":1}', "--id", "e-1")
        self.assertEqual("e-1", again["id"])
        self.assertTrue(again["duplicate"])
        self.assertEqual((first["seq"], first["position"]), (again["seq"], again["position"]))

    def test_the_same_id_with_other_content_is_a_conflict(self):
        self.append("s", "t", '{"a":1}', "--id", "e-1")
        answer = self.refused(4, "event", "append", "s", "--type", "t", "--data", '{"a":2}', "--id",
                              "e-1", "-o", "json")
        self.assertEqual("id_conflict", answer.problem()["code"])

    def test_expected_seq_is_compared(self):
        self.append("s", "t", "{}", "--expected-seq", "0")
        self.append("s", "t", "{}", "--expected-seq", "1")
        problem = self.refused(4, "event", "append", "s", "--type", "t", "--data", "{}",
                               "--expected-seq", "1", "-o", "json").problem()
        self.assertEqual(["type", "title", "status", "code", "detail", "asked", "found", "hint"],
                         list(problem))
        self.assertEqual(("seq_conflict", 409, 1, 2),
                         tuple(problem[k] for k in ("code", "status", "asked", "found")))
        self.refused(4, "event", "append", "s", "--type", "t", "--data", "{}", "--expected-seq", "0")

    def test_data_is_kept_byte_for_byte(self):
        data = '{ "b" : 1.50e2,\t"a":[ 1 , 2 ], "k":"\\u00e9\\/" }'
        at = self.append("s", "t", data, "--meta", '{ "x":  1 }')
        shown = self.ok("event", "show", at["id"], "-o", "json").out
        self.assertIn(f'"data":{data},"meta":{{ "x":  1 }}', shown)

    def test_data_may_be_read_from_stdin(self):
        answer = self.ok("event", "append", "s", "--type", "t", "--data", "-", "-o", "json",
                         stdin='[1,\n2]\n').json()
        self.assertIn('"data":[1,\n2],', self.ok("event", "show", answer["id"], "-o", "json").out)

    def test_every_option_refuses_a_bad_value(self):
        common = ("event", "append", "s", "--type", "t", "--data", "{}")
        for option, value, saying in (
                ("--expected-seq", "-1", "--expected-seq is '-1'"),
                ("--expected-seq", "x", "must be an integer >= 0"),
                ("--expected-seq", "99999999999999999999", "--expected-seq"),
                ("--schema", "0", "--schema is '0'"), ("--schema", "2147483648", "--schema"),
                ("--time", "yesterday", "RFC 3339"), ("--meta", "[]", "meta"),
                ("--meta", "{", "--meta"), ("--meta", "", "--meta is empty"),
                ("--id", "", "--id is empty"), ("--id", "x" * 256, "id"),
                ("--tenant", "x" * 256, "tenant")):
            self.refused(2, *common, option, value, saying=saying)

    def test_bad_data_is_refused(self):
        for data in ("", "{", '{"a":1,"a":2}', "nan", '{"a":"\\ud800"}', "1 2"):
            self.refused(2, "event", "append", "s", "--type", "t", "--data", data, saying="--data")
        self.refused(2, "event", "append", "s", "--type", "t", "--data", "-", saying="empty")
        self.refused(2, "event", "append", "s", "--type", "t", "--data", "-",
                     stdin='"' + "x" * (1024 * 1024) + '"')

    def test_type_and_data_are_needed(self):
        self.refused(2, "event", "append", "s", "--data", "{}", saying="needs --type")
        self.refused(2, "event", "append", "s", "--type", "t", saying="needs --data")
        self.refused(2, "event", "append", "s", "--type", "has space", "--data", "{}")
        self.refused(2, "event", "append", "", "--type", "t", "--data", "{}", saying="stream")

    def test_both_meanings_of_data_may_stand_in_one_command(self):
        other = self.dir / "other"
        self.ok("init", "--data", other)
        words = ("event", "append", "s", "--type", "t")
        self.ok(*words, "--data", other, "--data", "{}")
        self.ok(*words, "--data", "{}", "--data", other)
        self.ok("--data", other, *words, "--data", "{}")
        self.assertEqual(3, len(self.ok("event", "ls", "s", "--data", other, "-o", "json").json()))
        self.refused(2, *words, "--data", "{}", "--data", "[]", saying="given twice")

    def test_a_strict_journal_refuses_types_that_were_not_set(self):
        strict = {"EVERFOLD_TYPES_STRICT": "true"}
        self.refused(2, "event", "append", "s", "--type", "t", "--data", "{}", env=strict,
                     saying="everfold type set")
        self.ok("type", "set", "t")
        self.ok("event", "append", "s", "--type", "t", "--data", "{}", env=strict)


class Read(Case):
    def setUp(self):
        super().setUp()
        self.init()

    def test_an_event_has_its_keys_in_order(self):
        at = self.append("s", "t", '{"a":1}', "--time", "2026-01-02T03:04:05+01:00", "--schema", "3")
        event = self.ok("event", "show", at["id"], "-o", "json").json()
        self.assertEqual(EVENT_KEYS, list(event))
        self.assertEqual(("", "s", 1, 1, "t", 3, "2026-01-02T02:04:05.000000Z", {"a": 1}, {}),
                         tuple(event[k] for k in ("tenant", "stream", "seq", "position", "type",
                                                  "schema", "time", "data", "meta")))
        self.assertRegex(event["recorded_at"], TIME)
        self.assertEqual([event], self.ok("event", "ls", "s", "-o", "json").json())
        self.assertEqual([event], self.ok("event", "log", "-o", "ndjson").lines())
        self.assertIn("data        {\"a\":1}\n", self.ok("event", "show", at["id"]).out)

    def test_ndjson_is_a_line_an_event_whatever_the_data(self):
        at = self.append("s", "t", '{"a":\r\n"x\\ny"}', "--meta", "{\n}")
        self.assertIn('{"a":\r\n"x\\ny"}', self.ok("event", "ls", "s", "-o", "json").out)
        for words in (("ls", "s"), ("log",), ("show", at["id"])):
            lines = self.ok("event", *words, "-o", "ndjson").out.splitlines()
            self.assertEqual(1, len(lines))
            self.assertIn('"data":{"a":  "x\\ny"},"meta":{ }', lines[0])

    def test_what_is_not_there_is_not_found(self):
        self.refused(3, "event", "show", "nothing")
        self.refused(3, "event", "ls", "nothing")
        problem = self.refused(3, "event", "ls", "nothing", "-o", "json").problem()
        self.assertEqual(("not_found", 404), (problem["code"], problem["status"]))

    def test_ls_goes_from_a_seq_and_stops_at_a_limit(self):
        for i in range(5):
            self.append("s", "t", str(i))
        seqs = lambda *w: [e["seq"] for e in self.ok("event", "ls", "s", "-o", "json", *w).json()]
        self.assertEqual([1, 2, 3, 4, 5], seqs())
        self.assertEqual([3, 4, 5], seqs("--from-seq", "3"))
        self.assertEqual([2, 3], seqs("--from-seq", "2", "--limit", "2"))
        self.assertEqual([], seqs("--from-seq", "6"))

    def test_log_goes_after_a_position_by_type_and_by_tenant(self):
        self.append("a", "order.placed")
        self.append("b", "order.paid")
        self.append("a", "mail.sent", "{}", "--tenant", "acme")
        at = lambda *w: [e["position"] for e in self.ok("event", "log", "-o", "json", *w).json()]
        self.assertEqual([1, 2], at())
        self.assertEqual([2], at("--after", "1"))
        self.assertEqual([1, 2], at("--type", "order.*"))
        self.assertEqual([2], at("--type", "order.paid"))
        self.assertEqual([], at("--type", "order"))
        self.assertEqual([3], at("--tenant", "acme"))
        self.assertEqual([1, 2, 3], at("--all-tenants"))
        self.assertEqual([1], at("--limit", "1", "--all-tenants"))
        self.assertTrue(self.ok("event", "log", "--all-tenants").out.startswith("TENANT  STREAM"))

    def test_numbers_are_checked(self):
        for words in (("ls", "s", "--limit", "-1"), ("ls", "s", "--from-seq", "0"),
                      ("ls", "s", "--limit", "1x"), ("log", "--after", "-1"), ("log", "--limit", "")):
            self.refused(2, "event", *words, saying="must be an integer")
        self.refused(2, "event", "log", "--tenant", "a", "--all-tenants", saying="cannot be combined")

    def test_more_than_a_page_is_read_page_by_page(self):
        lines = "".join(f'{{"stream":"s{i % 3}","type":"t{i % 2}.x","data":{i},"id":"e{i}"}}\n'
                        for i in range(1000))
        self.ok("event", "import", "-", stdin=lines)
        numbers = lambda *w: [e["data"] for e in self.ok("event", *w, "-o", "ndjson").lines()]
        self.assertEqual(list(range(1000)), numbers("log"))  # an export has no limit
        self.assertEqual(list(range(1000)), numbers("log", "--limit", "0"))
        self.assertEqual(list(range(450)), numbers("log", "--limit", "450"))
        self.assertEqual(list(range(1, 1000, 2)), numbers("log", "--type", "t1.*", "--limit", "0"))
        self.assertEqual(list(range(0, 1000, 3)), numbers("ls", "s0", "--limit", "0"))
        self.assertEqual(list(range(0, 903, 3)), numbers("ls", "s0", "--limit", "301"))
        table = self.ok("event", "log", "--limit", "0").out.splitlines()
        self.assertEqual(1001, len(table))

    def test_tables_escape_what_a_terminal_would_obey(self):
        self.append("evil\u202e\u009b\u001b[2J", "t", '"\u202e\u2066"')
        out = self.ok("event", "log").out
        self.assertIn("evil\\u202e\\u009b\\u001b[2J", out)
        self.assertIn('"\\u202e\\u2066"', out)
        err = self.refused(3, "event", "ls", "\u001b[2J").err
        self.assertNotIn("\u001b", err)

    def test_tables_are_cut_to_the_width(self):
        self.append("s", "t", '"' + "é" * 500 + '"')
        for line in self.ok("event", "ls", "s", env={"COLUMNS": "130"}).out.splitlines():
            self.assertLessEqual(len(line), 130)
        self.assertIn("…", self.ok("event", "ls", "s", env={"COLUMNS": "130"}).out)
        whole = self.ok("event", "ls", "s").out
        self.assertIn("é" * 499 + "…", whole)
        self.assertNotIn("\\x", whole)


class Follow(Case):
    def setUp(self):
        super().setUp()
        self.init()
        self.append("s", "t", "1")

    def test_follow_prints_new_events_and_ends_on_a_signal(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.start("event", "log", "--follow", "-o", "json")
            self.addCleanup(process.kill)
            self.assertIn(b'"data":1', process.stdout.readline())
            at = self.append("s", "t", '"new"')
            line = process.stdout.readline()
            while b'"new"' not in line or f'"seq":{at["seq"]},'.encode() not in line:
                line = process.stdout.readline()
                self.assertTrue(line)
            answer = interrupt(process, number)
            self.assertEqual((0, ""), (answer.code, answer.err))

    def test_follow_ends_at_its_limit(self):
        process = self.start("event", "log", "-f", "--limit", "2", "-o", "ndjson")
        self.addCleanup(process.kill)
        process.stdout.readline()
        self.append("s", "t", "2")
        out, _ = process.communicate(timeout=support.TIME_LIMIT_S)
        self.assertIn(b'"data":2', out)
        self.assertEqual(0, process.returncode)

    def test_follow_ends_when_the_pipe_is_closed(self):
        process = self.start("event", "log", "--follow", "-o", "ndjson")
        self.addCleanup(process.kill)
        process.stdout.readline()
        process.stdout.close()
        self.assertEqual(0, process.wait(timeout=support.TIME_LIMIT_S))
        self.assertEqual(b"", process.stderr.read())
        process.stderr.close()

    def test_head_ends_a_long_listing_quietly(self):
        lines = "".join(f'{{"stream":"s","type":"t","data":"{"x" * 500}","id":"e{i}"}}\n'
                        for i in range(2000))
        self.ok("event", "import", "-", stdin=lines)
        for form in ("table", "json", "ndjson"):
            process = self.start("event", "log", "--limit", "0", "-o", form)
            process.stdout.readline()
            process.stdout.close()
            self.assertEqual(0, process.wait(timeout=support.TIME_LIMIT_S))
            self.assertEqual(b"", process.stderr.read())
            process.stderr.close()


class Types(Case):
    def setUp(self):
        super().setUp()
        self.init()

    def test_a_type_is_set_and_listed(self):
        answer = self.ok("type", "set", "a.b", "--intent", "audit_only", "--publish", "yes",
                         "-o", "json").json()
        self.assertEqual({"name": "a.b", "intent": "audit_only", "publish": True,
                          "alias_of": None}, answer)
        self.assertEqual(["name", "intent", "publish", "alias_of"], list(answer))
        self.assertEqual([answer], self.ok("type", "ls", "-o", "json").json())
        self.assertIn("audit_only", self.ok("type", "ls").out)

    def test_type_set_changes_only_the_given_options(self):
        self.ok("type", "set", "a", "--intent", "replay_only", "--publish", "yes")
        answer = self.ok("type", "set", "a", "--publish", "no", "-o", "json").json()
        self.assertEqual(("replay_only", False), (answer["intent"], answer["publish"]))

    def test_an_alias_is_read_as_its_type(self):
        self.ok("type", "set", "order.placed")
        self.ok("type", "set", "order.created", "--alias-of", "order.placed")
        at = self.append("s", "order.created")
        event = self.ok("event", "show", at["id"], "-o", "json").json()
        self.assertEqual("order.placed", event["type"])
        self.refused(2, "type", "set", "x", "--alias-of", "x")

    def test_an_alias_of_an_unknown_type_is_refused_with_the_command_that_creates_it(self):
        answer = self.refused(3, "type", "set", "order.created", "--alias-of", "order.plcaed",
                              saying='no type "order.plcaed"')
        self.assertIn("everfold type set order.plcaed", answer.err)
        self.assertEqual([], self.ok("type", "ls", "-o", "json").json())

    def test_bad_values_are_refused(self):
        self.refused(2, "type", "set", "a", "--intent", "none", saying="--intent is 'none'")
        self.refused(2, "type", "set", "a", "--publish", "maybe", saying="--publish is 'maybe'")
        self.refused(2, "type", "set", "a b")

    def test_no_types_is_an_empty_list(self):
        self.assertEqual("[]\n", self.ok("type", "ls", "-o", "json").out)
        self.assertEqual("", self.ok("type", "ls", "-o", "ndjson").out)


class Session(Case):
    def test_the_commands_of_a_first_session_work(self):
        here = {"EVERFOLD_DATA": None}
        self.ok("init", env=here)
        self.ok("event", "append", "order-1", "--type", "order.placed", "--data", '{"amount": 12.5}',
                "--id", "o1-placed", env=here)
        self.ok("event", "append", "order-1", "--type", "order.paid", "--data", "{}",
                "--expected-seq", "1", env=here)
        self.assertIn("order.placed", self.ok("event", "ls", "order-1", env=here).out)
        self.assertIn("pending 2", self.ok("outbox", "report", env=here).out)
        self.assertIn("position 2", self.ok("status", env=here).out)
        self.ok("doctor", env=here)
        self.assertTrue((self.dir / "everfold-data" / "journal.db").exists())
