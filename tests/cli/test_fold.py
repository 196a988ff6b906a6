"""fold check, explain, test."""
import pathlib

from support import Case

SHOP = pathlib.Path(__file__).resolve().parent.parent.parent / "examples" / "shop"

COUNTER = """\
projection counter version 1
  view data.who

on counted
  n += data.by
"""

WRONG = """\
projection counter version 1
  view data.who

on counted
  size = lenght(data.by)
"""

TESTED = """\
program counter.fold

case it adds up
given
  {"stream":"s","type":"counted","data":{"who":"ada","by":1}}
  {"stream":"s","type":"counted","data":{"who":"ada","by":0.50}}
expect
  {"view_id":"ada","data":{"n":%s}}
"""


class Check(Case):
    def test_a_right_program_is_ok(self):
        path = self.write("counter.fold", COUNTER)
        self.assertEqual(f"{path}: ok\n", self.ok("fold", "check", path).out)
        self.assertEqual([], self.ok("fold", "check", path, "-o", "json").json())

    def test_the_programs_of_the_shop_are_ok(self):
        answer = self.ok("fold", "check", SHOP / "customer_orders.fold", SHOP / "products.fold")
        self.assertEqual((2, ""), (answer.out.count(": ok\n"), answer.err))

    def test_a_mistake_has_its_place_and_a_caret(self):
        path = self.write("wrong.fold", WRONG)
        err = self.refused(2, "fold", "check", path).err
        self.assertIn(f"{path}:5:10: error: ", err)
        self.assertIn("length", err)
        lines = err.splitlines()
        source = next(i for i, line in enumerate(lines) if "lenght(data.by)" in line
                      and ": error:" not in line)
        self.assertEqual(lines[source].index("lenght"), lines[source + 1].index("^"))

    def test_mistakes_are_an_array_with_json(self):
        path = self.write("wrong.fold", WRONG)
        answer = self.run_it("fold", "check", path, "-o", "json")
        self.assertEqual((2, ""), (answer.code, answer.err))
        mistake = answer.json()[0]
        self.assertEqual(["file", "line", "column", "length", "severity", "message", "suggestion"],
                         list(mistake))
        self.assertEqual((str(path), 5, 10, "error", "length"), tuple(mistake[k] for k in
                         ("file", "line", "column", "severity", "suggestion")))

    def test_every_file_is_looked_at(self):
        right, wrong = self.write("counter.fold", COUNTER), self.write("wrong.fold", WRONG)
        answer = self.run_it("fold", "check", wrong, right, wrong)
        self.assertEqual((2, f"{right}: ok\n"), (answer.code, answer.out))
        self.assertEqual(2, answer.err.count(": error: "))
        both = self.run_it("fold", "check", wrong, right, wrong, "-o", "ndjson")
        self.assertEqual([str(wrong), str(wrong)], [m["file"] for m in both.lines()])

    def test_stdin_is_a_program_too(self):
        self.assertEqual("-: ok\n", self.ok("fold", "check", "-", stdin=COUNTER).out)

    def test_a_file_that_is_not_there_is_not_found(self):
        self.refused(3, "fold", "check", "nothing.fold", saying="nothing.fold could not be opened")

    def test_control_characters_of_a_program_do_not_reach_the_terminal(self):
        path = self.write("evil.fold", COUNTER + "  n = \x1b[2J lenght(1)\n")
        self.assertNotIn("\x1b", self.refused(2, "fold", "check", path).err)


class Explain(Case):
    def test_explain_shows_the_compiled_program(self):
        path = SHOP / "customer_orders.fold"
        self.assertIn("order.placed", self.ok("fold", "explain", path).out)
        self.assertEqual(dict, type(self.ok("fold", "explain", path, "-o", "json").json()))
        self.assertEqual(self.ok("fold", "explain", path, "-o", "json").out,
                         self.ok("-o", "json", "fold", "explain", path).out)
        self.assertTrue(self.ok("fold", "explain", path, "-o", "dot").out.startswith("digraph"))

    def test_another_form_is_refused(self):
        self.refused(2, "fold", "explain", SHOP / "products.fold", "-o", "svg",
                     saying="must be text, json or dot")

    def test_an_error_of_a_program_has_its_place(self):
        path = self.write("wrong.fold", WRONG)
        self.refused(2, "fold", "explain", path, saying=f"{path}:5:10: error: ")
        self.refused(2, "fold", "explain", path, "-o", "dot", saying=f"{path}:5:10: error: ")
        problem = self.refused(2, "fold", "explain", path, "-o", "json").problem()
        self.assertEqual("bad_input", problem["code"])


class Test(Case):
    def setUp(self):
        super().setUp()
        self.write("counter.fold", COUNTER)

    def test_the_shop_s_cases_pass(self):
        answer = self.ok("fold", "test", SHOP / "shop.test")
        self.assertIn("7 cases, 0 failed", answer.out)
        self.assertEqual(7, answer.out.count("ok    "))

    def test_a_case_passes_by_the_worth_of_its_numbers(self):
        path = self.write("counter.test", TESTED % "1.50")
        self.assertEqual(f"ok    {path}:3: it adds up\n1 case, 0 failed\n",
                         self.ok("fold", "test", path).out)

    def test_a_difference_is_shown_by_path(self):
        path = self.write("counter.test", TESTED % '2,"more":[true]')
        answer = self.run_it("fold", "test", path)
        self.assertEqual((1, ""), (answer.code, answer.err))
        self.assertEqual(f"FAIL  {path}:3: it adds up\n"
                         f"      {path}:8: counter ada: n\n"
                         "          expected  2\n"
                         "          found     1.5\n"
                         f"      {path}:8: counter ada: more\n"
                         "          expected  [true]\n"
                         "          found     nothing\n"
                         "1 case, 1 failed\n", answer.out)

    def test_the_same_with_json(self):
        path = self.write("counter.test", TESTED % "2")
        answer = self.run_it("fold", "test", path, "-o", "json")
        self.assertEqual(1, answer.code)
        case, = answer.json()
        self.assertEqual(["file", "line", "case", "passed", "problems"], list(case))
        self.assertEqual((str(path), 3, "it adds up", False),
                         tuple(case[k] for k in ("file", "line", "case", "passed")))
        self.assertEqual([{"line": 8, "projection": "counter", "tenant": "", "view_id": "ada",
                           "path": "n", "expected": 2, "found": 1.5, "message": None}],
                         case["problems"])

    def test_a_view_that_must_not_be_there(self):
        path = self.write("counter.test", TESTED.replace('{"n":%s}', "null"))
        answer = self.run_it("fold", "test", path)
        self.assertEqual(1, answer.code)
        self.assertIn("          expected  nothing\n          found     {\"n\":1.5}\n", answer.out)
        text = TESTED.replace('"view_id":"ada","data":{"n":%s}', '"view_id":"bob","data":null')
        self.ok("fold", "test", self.write("other.test", text))

    def test_a_failure_is_expected_or_the_case_fails(self):
        text = TESTED.replace('"by":1}', '"by":"x"}').replace('{"n":%s}', "null")
        answer = self.run_it("fold", "test", self.write("a.test", text))
        self.assertEqual(1, answer.code)
        self.assertIn("s seq 1 (counted) failed: ", answer.out)
        text = text.replace("expect\n", "fail data.by\nexpect\n")
        self.ok("fold", "test", self.write("b.test", text))

    def test_a_failure_that_did_not_happen_fails_the_case(self):
        path = self.write("a.test", (TESTED % "1.5").replace("expect\n", "fail no number\nexpect\n"))
        answer = self.run_it("fold", "test", path)
        self.assertEqual(1, answer.code)
        self.assertIn(f"{path}:7: no event failed with a message that contains: no number", answer.out)

    def test_a_projection_by_log_that_stops_fails_the_case(self):
        self.write("counter.fold", COUNTER.replace("  view", "  order by log\n  view"))
        text = TESTED.replace('"by":1}', '"by":"x"}').replace('{"n":%s}', "null")
        answer = self.run_it("fold", "test", self.write("a.test", text))
        self.assertEqual(1, answer.code)
        self.assertIn('projection "counter" failed at position 1 and stopped', answer.out)
        self.ok("fold", "test", self.write("b.test", TESTED % "1.5"))

    def test_an_event_that_is_refused_fails_the_case(self):
        path = self.write("a.test", (TESTED % "1").replace('"by":1}}', '"by":1},"expected_seq":7}'))
        answer = self.run_it("fold", "test", path)
        self.assertEqual(1, answer.code)
        self.assertIn(f"{path}:5: append refused", answer.out)

    def test_mistakes_in_a_test_file_have_their_line(self):
        case = "program counter.fold\ncase a\n"
        for line, saying, text in (
                (1, "the file has no case", "program counter.fold\n"),
                (1, "no program before the first case", "case a\nexpect\n"),
                (2, "the case expects nothing", case),
                (2, "case needs a name", "program counter.fold\ncase\n"),
                (3, "expected program, case", case + "gives\n"),
                (3, "an object must follow", case + "{}\n"),
                (4, "stream is missing", case + "given\n{}\n"),
                (4, "a view needs view_id", case + "expect\n{}\n"),
                (4, "unknown key: a view has", case + 'expect\n{"id":"a","data":{}}\n'),
                (4, "program must come before", case + "expect\nprogram b.fold\n"),
                (5, "given must come before expect",
                 case + 'expect\n{"view_id":"a","data":null}\ngiven\n')):
            path = self.write("wrong.test", text)
            self.refused(2, "fold", "test", path, saying=f"{path}:{line}: {saying}")

    def test_a_program_with_a_mistake_is_shown(self):
        self.write("counter.fold", WRONG)
        path = self.write("counter.test", TESTED % "1")
        self.refused(2, "fold", "test", path, saying="counter.fold:5:10: error: ")

    def test_several_programs_need_the_projection_s_name(self):
        self.write("other.fold", COUNTER.replace("counter", "other"))
        text = "program other.fold\n" + TESTED % "1.5"
        answer = self.run_it("fold", "test", self.write("a.test", text))
        self.assertIn('the view needs the key "projection"', answer.out)
        named = text.replace('{"view_id"', '{"projection":"other","view_id"')
        self.ok("fold", "test", self.write("b.test", named))
        unknown = text.replace('{"view_id"', '{"projection":"third","view_id"')
        answer = self.run_it("fold", "test", self.write("c.test", unknown))
        self.assertIn('unknown projection "third"', answer.out)

    def test_times_are_the_same_every_day(self):
        self.write("last.fold", "projection last version 1\n  view stream\n\non *\n  at = time\n")
        path = self.write("last.test", "program last.fold\ncase c\ngiven\n"
                          '{"stream":"a","type":"t","data":{}}\n{"stream":"b","type":"t","data":{}}\n'
                          'expect\n{"view_id":"b","data":{"at":"2000-01-01T00:00:01.000000Z"}}\n')
        self.ok("fold", "test", path)
