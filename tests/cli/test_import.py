"""event import: lines, bad lines, batches, progress, memory."""
import json
import os
import pty
import signal
import subprocess
import sys
import time

import support
from support import Case

LINE = '{"stream":"s","type":"t","data":%s,"id":"e%d"}\n'


def lines(count, first=0):
    return "".join(LINE % (i, i) for i in range(first, first + count))


class Interrupted(Case):
    """A pipe gives the lines, so that the import is known to be in the middle of them."""

    def stop(self, number, *words):
        self.init()
        process = self.start("event", "import", "-", "--batch", "10", *words, stdin=subprocess.PIPE)
        process.stdin.write(lines(25).encode())
        process.stdin.flush()
        self.wait_for_events(20)
        process.send_signal(number)
        process.wait(timeout=support.TIME_LIMIT_S)  # although the pipe is still open
        out, err = process.communicate()
        return support.Answer(process.returncode, out.decode(), err.decode())

    def wait_for_events(self, count):
        end = time.monotonic() + support.TIME_LIMIT_S
        while time.monotonic() < end:
            if len(self.ok("event", "log", "-o", "ndjson").lines()) >= count:
                return
            time.sleep(0.02)
        self.fail(f"{count} events did not come")

    def test_an_interrupt_ends_the_import_with_a_summary(self):
        answer = self.stop(signal.SIGINT, "-o", "json")
        summary = answer.json()
        self.assertEqual((130, 20, True), (answer.code, summary["events"], summary["stopped"]))
        self.assertIn("a second run is safe", answer.err)
        self.assertEqual(20, len(self.ok("event", "log", "-o", "ndjson").lines()))
        again = self.ok("event", "import", "-", "-o", "json", stdin=lines(25)).json()
        self.assertEqual((25, 20, False), tuple(again[k] for k in ("events", "duplicates", "stopped")))

    def test_the_summary_of_an_interrupted_import_says_stopped(self):
        answer = self.stop(signal.SIGTERM)
        self.assertEqual(143, answer.code)
        self.assertTrue(answer.out.startswith("stopped: 20 events, 0 duplicates"), answer.out)


class Import(Case):
    def setUp(self):
        super().setUp()
        self.init()

    def events(self):
        return self.ok("event", "log", "--limit", "0", "--all-tenants", "-o", "ndjson").lines()

    def test_a_file_becomes_events(self):
        path = self.write("e.ndjson", lines(25))
        answer = self.ok("event", "import", path, "-o", "json")
        self.assertEqual("", answer.err)
        summary = answer.json()
        self.assertEqual(["events", "duplicates", "bad", "seconds", "events_per_second", "dry_run",
                          "stopped"],
                         list(summary))
        self.assertEqual((25, 0, 0, False), tuple(summary[k] for k in
                                                  ("events", "duplicates", "bad", "dry_run")))
        self.assertEqual(list(range(25)), [e["data"] for e in self.events()])
        self.assertRegex(self.ok("event", "import", path).out,
                         r"^25 events, 25 duplicates, 0 bad, [0-9.]+ seconds, \d+ events/s\n$")
        self.assertEqual(25, len(self.events()))

    def test_every_key_of_a_line_counts(self):
        self.ok("event", "import", "-", stdin=json.dumps({
            "tenant": "acme", "stream": "s\u00e9", "type": "t", "id": "e", "expected_seq": 0,
            "schema": 7, "time": "2026-01-01T00:00:00Z", "data": None, "meta": {"a": "b"}}) + "\n")
        event = self.events()[0]
        self.assertEqual(("acme", "sé", "t", "e", 7, "2026-01-01T00:00:00.000000Z", None, {"a": "b"}),
                         tuple(event[k] for k in ("tenant", "stream", "type", "id", "schema", "time",
                                                  "data", "meta")))

    def test_the_bytes_of_data_and_meta_are_kept(self):
        for i, data in enumerate(['{ "a" : 1.0 }', '"\\u00e9\\n\\""', "1.50e3", "[ ]", "true", '"}"',
                                  '{"a":"}\\\\"}', "-0.0"]):
            line = f' {{"stream":"b","type":"t" , "data" : {data} ,"id":"b{i}","meta": {{ }} }} \n'
            self.ok("event", "import", "-", stdin=line)
            shown = self.ok("event", "show", f"b{i}", "-o", "json").out
            self.assertIn(f'"data":{data},"meta":{{ }}}}', shown)

    def test_blank_lines_and_a_missing_last_newline_are_fine(self):
        self.ok("event", "import", "-", stdin="\n \r\n" + lines(2) + "\n" + lines(1, 2).rstrip("\n"))
        self.assertEqual(3, len(self.events()))
        self.assertEqual(0, self.ok("event", "import", "-", "-o", "json", stdin="").json()["events"])

    def test_a_bad_line_names_its_number_and_ends_the_import(self):
        text = lines(10) + '{"stream":"s","type":"t"}\n' + lines(5, 10)
        answer = self.refused(2, "event", "import", "-", "--batch", "4", stdin=text,
                              saying="line 11: data is missing")
        self.assertIn("8 events were imported before this batch, none of this batch", answer.err)
        self.assertIn("a second run is safe, because every line read so far has an id", answer.err)
        self.assertEqual(8, len(self.events()))

    def test_a_bad_line_is_reported_with_its_error(self):
        for line, saying in (
                ("nonsense", "line 1: "), ("[]", "not a JSON object"),
                ('{"type":"t","data":1}', "stream is missing"),
                ('{"stream":"s","data":1}', "type is missing"),
                ('{"stream":"s","type":"t","data":1,"colour":2}', 'unknown key "colour"'),
                ('{"stream":"s","type":"t","data":1,"d\\u0061ta":2}', "line 1: "),
                ('{"stream":7,"type":"t","data":1}', "stream is not a string"),
                ('{"stream":"","type":"t","data":1}', "stream"),
                ('{"stream":"s","type":"a b","data":1}', "type"),
                ('{"stream":"s","type":"t","data":1,"expected_seq":-1}', "expected_seq is not"),
                ('{"stream":"s","type":"t","data":1,"expected_seq":"1"}', "expected_seq is not"),
                ('{"stream":"s","type":"t","data":1,"schema":0}', "schema is not"),
                ('{"stream":"s","type":"t","data":1,"schema":1.5}', "schema is not"),
                ('{"stream":"s","type":"t","data":1,"time":"now"}', "time is not RFC 3339"),
                ('{"stream":"s","type":"t","data":1,"id":""}', "id is empty"),
                ('{"stream":"s","type":"t","data":1,"meta":[]}', "meta")):
            self.refused(2, "event", "import", "-", stdin=line + "\n", saying=saying)
        self.assertEqual([], self.events())

    def test_an_escaped_key_is_the_key(self):
        self.ok("event", "import", "-", stdin='{"str\\u0065am":"s","type":"t","data":1,"id":"x"}\n')
        self.assertEqual("s", self.events()[0]["stream"])

    def test_skip_bad_continues_and_reports(self):
        text = lines(3) + "nonsense\n" + lines(3, 3) + '{"stream":"s","type":"t","data":0,"id":"e0"}\n' \
            + '{"stream":"s","type":"t","data":"other","id":"e1"}\n' + lines(1, 9)
        answer = self.run_it("event", "import", "-", "--skip-bad", "-o", "json", stdin=text)
        self.assertEqual(1, answer.code, answer.err)
        self.assertIn("line 4: ", answer.err)
        self.assertIn("line 9: ", answer.err)
        self.assertEqual((8, 1, 2), tuple(answer.json()[k] for k in ("events", "duplicates", "bad")))
        self.assertEqual([0, 1, 2, 3, 4, 5, 9], [e["data"] for e in self.events()])

    def test_many_bad_lines_are_counted_not_listed(self):
        answer = self.run_it("event", "import", "-", "--skip-bad", stdin="x\n" * 100)
        self.assertEqual(1, answer.code)
        self.assertEqual(26, len(answer.err.splitlines()))
        self.assertIn("100 bad", answer.out)

    def test_a_conflict_names_its_line(self):
        text = lines(2) + '{"stream":"s","type":"t","data":1,"id":"x","expected_seq":2}\n' \
            + '{"stream":"s","type":"t","data":1,"id":"y","expected_seq":7}\n' + lines(2, 2)
        self.refused(4, "event", "import", "-", stdin=text, saying="everfold: line 4: ")
        self.ok("event", "import", "-", stdin=lines(2))
        changed = lines(1) + '{"stream":"s","type":"t","data":"other","id":"e1"}\n'
        self.refused(4, "event", "import", "-", stdin=changed, saying="everfold: line 2: ")
        twice = lines(1, 5) + lines(1, 6) + '{"stream":"s","type":"t","data":0,"id":"e5"}\n'
        self.refused(4, "event", "import", "-", stdin=twice, saying="everfold: line 3: ")
        self.refused(2, "event", "import", "-", stdin=lines(1, 8).replace('"t"', '"u"'),
                     env={"EVERFOLD_TYPES_STRICT": "true"}, saying="everfold: line 1: ")

    def test_lines_without_an_id_are_warned_about_once(self):
        answer = self.ok("event", "import", "-", stdin='{"stream":"s","type":"t","data":1}\n' * 3)
        self.assertEqual(1, answer.err.count("has no id"))
        answer = self.refused(2, "event", "import", "-",
                              stdin='{"stream":"s","type":"t","data":1}\nx\n')
        self.assertIn("a second run appends lines without an id again", answer.err)

    def test_dry_run_only_checks(self):
        self.assertTrue(self.ok("event", "import", "-", "--dry-run", "-o", "json",
                                stdin=lines(3)).json()["dry_run"])
        self.refused(2, "event", "import", "-", "--dry-run", stdin=lines(3) + "x\n", saying="line 4")
        self.assertEqual([], self.events())

    def test_a_line_past_the_limit_is_refused_and_can_be_skipped(self):
        long = '{"stream":"s","type":"t","data":"' + "x" * (3 * 1024 * 1024) + '"}\n'
        self.refused(2, "event", "import", "-", stdin=lines(1) + long, saying="line 2: line is longer")
        answer = self.run_it("event", "import", "-", "--skip-bad", "-o", "json",
                             stdin=lines(1) + long + lines(1, 1))
        self.assertEqual((2, 1), tuple(answer.json()[k] for k in ("events", "bad")))

    def test_large_events_fit_in(self):
        big = '"' + "y" * (1024 * 1024 - 2) + '"'
        text = "".join(LINE % (big, i) for i in range(12))
        self.assertEqual(12, self.ok("event", "import", "-", "-o", "json", stdin=text).json()["events"])

    def test_bad_files_and_options_are_refused(self):
        self.refused(3, "event", "import", self.dir / "none.ndjson", saying="none.ndjson")
        self.refused(2, "event", "import", self.dir, saying="is a directory")
        for batch in ("0", "10001", "x"):
            self.refused(2, "event", "import", "-", "--batch", batch, saying="--batch is")

    def test_a_tenant_given_by_flag_is_for_lines_without_one(self):
        self.ok("event", "import", "-", "--tenant", "acme", stdin=lines(1))
        self.assertEqual("acme", self.events()[0]["tenant"])


class Progress(Case):
    def test_the_bar_is_drawn_on_a_terminal_only(self):
        self.init()
        path = self.write("e.ndjson", lines(3000))
        ours, theirs = pty.openpty()
        done = subprocess.Popen([support.BINARY, "event", "import", str(path), "--batch", "100"],
                                stdout=subprocess.PIPE, stderr=theirs, env=self.environment())
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 65536):
                shown += piece
        except OSError:
            pass
        out, _ = done.communicate(timeout=support.TIME_LIMIT_S)
        os.close(ours)
        self.assertEqual(0, done.returncode)
        self.assertIn(b"3000 events", out)
        self.assertRegex(shown.decode(), r"importing \[[=> ]{20}\] +\d+%  [0-9.]+ K?B of [0-9.]+ KB  "
                                         r"\d+ events/s  ETA \d+:\d\d")
        self.assertTrue(shown.endswith(b"\r\x1b[K"))
        self.assertEqual("", self.ok("event", "import", path).err)


class Memory(Case):
    def test_fifty_thousand_lines_stay_under_64_mb(self):
        self.init()
        path = self.dir / "big.ndjson"
        with open(path, "w") as out:
            for i in range(50000):
                out.write(f'{{"stream":"s{i % 100}","type":"t","data":{{"n":{i},'
                          f'"text":"{"z" * 150}"}},"id":"e{i}"}}\n')
        # A process of its own, so that the children's maximum is this one's.
        script = ("import resource, subprocess, sys\n"
                  "code = subprocess.run(sys.argv[1:]).returncode\n"
                  "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
                  "sys.exit(code)\n")
        done = subprocess.run([sys.executable, "-c", script, support.BINARY, "event", "import",
                               str(path)], capture_output=True, text=True, env=self.environment(),
                              timeout=600)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("50000 events, 0 duplicates, 0 bad", done.stdout)
        kilobytes = int(done.stdout.split()[-1])
        if "asan" in os.environ.get("EVERFOLD_TEST_BUILD", ""):
            self.skipTest("sanitizers keep freed memory")
        self.assertLess(kilobytes, 64 * 1024)
