"""The command line itself: words, options, help, completion, the manual page."""
import os
import pty
import shutil
import subprocess
import unittest

import support
from support import Case

COMMANDS = ["init", "event append", "event import", "event ls", "event log", "event show",
            "type ls", "type set", "fold check", "fold explain", "fold test", "projection deploy",
            "projection ls", "projection show", "projection failures", "projection pause",
            "projection resume", "projection wait", "view get", "view query", "view export", "view explain", "view at",
            "work", "outbox report", "outbox requeue", "outbox requeue-dead",
            "outbox skip", "lease ls", "worker ls", "partition ls", "partition sync", "status", "top", "doctor", "config show", "config check", "completion", "help", "version"]


class Words(Case):
    def test_help_lists_every_command(self):
        out = self.ok("--help").out
        for command in COMMANDS:
            self.assertIn(f"  {command}", out)
        self.assertNotIn("man-page", out)
        self.assertEqual(out, self.ok("help").out)

    def test_every_command_explains_itself(self):
        for command in COMMANDS:
            out = self.ok(*command.split(), "--help").out
            self.assertTrue(out.startswith(f"everfold {command} - "), out)
            self.assertIn("Usage: everfold " + command, out)
            self.assertIn("Example:", out)
            self.assertEqual(out, self.ok("help", *command.split()).out)

    def test_a_group_explains_itself(self):
        self.assertIn("event append STREAM", self.ok("event", "--help").out)
        self.assertEqual(self.ok("event", "--help").out, self.ok("help", "event").out)

    def test_the_version_is_printed(self):
        self.assertRegex(self.ok("--version").out, r"^everfold \d+\.\d+\.\d+\n$")
        self.assertEqual(self.ok("--version").out, self.ok("version").out)
        version = self.ok("version", "-o", "json").out
        self.assertRegex(version, r'^{"version":"\d+\.\d+\.\d+"}\n$')

    def test_no_command_is_a_usage_error(self):
        self.refused(2, saying="no command given")
        self.refused(2, "event", saying="event needs a subcommand")

    def test_an_unknown_command_suggests_the_nearest(self):
        self.refused(2, "stauts", saying="did you mean: everfold status")
        self.refused(2, "event", "apend", saying="did you mean: everfold event append")
        self.refused(2, "deploy", "x.fold", saying="did you mean: everfold projection deploy")
        self.refused(2, "ls", saying="see: everfold --help")
        self.refused(2, "help", "nothing", saying="unknown command 'nothing'")
        for words, meant in ((("outbox", "requeue", "dead"), "everfold outbox requeue-dead"),
                             (("outbox", "requue"), "everfold outbox requeue"), (("requeue-dead",), "everfold outbox")):
            self.assertIn(f"did you mean: {meant}",
                          self.refused(2, "help", *words, saying=f"unknown command '{' '.join(words)}'").err)

    def test_an_unknown_option_suggests_the_nearest(self):
        self.refused(2, "event", "append", "s", "--tpye", "t", saying="did you mean: --type")
        self.refused(2, "--jurnal", "memory:", "status", saying="did you mean: --journal")
        self.refused(2, "status", "-z", saying="status has no option -z")

    def test_an_option_without_its_value_is_refused(self):
        self.refused(2, "event", "append", "s", "--type", saying="--type needs a value")
        self.refused(2, "status", "-o", saying="-o needs a value")
        self.refused(2, "status", "--quiet=yes", saying="--quiet takes no value")

    def test_missing_and_surplus_arguments_are_refused(self):
        self.refused(2, "event", "ls", saying="event ls needs STREAM")
        self.refused(2, "outbox", "requeue", "s", saying="outbox requeue needs SEQ")
        self.refused(2, "status", "now", saying="status: unexpected argument 'now'")

    def test_common_options_may_stand_anywhere(self):
        for words in (["--journal", "memory:", "event", "log"],
                      ["event", "--journal", "memory:", "log"],
                      ["event", "log", "--journal", "memory:"]):
            self.assertEqual("[]\n", self.ok(*words, "-o", "json").out)

    def test_a_server_that_is_not_there_is_named(self):
        self.refused(5, "--server", "http://127.0.0.1:1", "status",
                     saying="http://127.0.0.1:1 cannot be reached")

    def test_errors_are_problem_objects_with_json(self):
        problem = self.refused(2, "event", "ls", "-o", "json").problem()
        self.assertEqual(["type", "title", "status", "code", "detail", "hint"], list(problem))
        self.assertEqual(400, problem["status"])
        self.assertEqual("bad_input", problem["code"])

    def test_a_wrong_output_format_is_refused(self):
        self.refused(2, "status", "-o", "xml", saying="table")

    def test_a_full_disk_under_stdout_is_an_error(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([support.BINARY, "--help"], stdout=full, stderr=subprocess.PIPE,
                                  env=self.environment())
        self.assertEqual(1, done.returncode)
        self.assertIn(b"writing to stdout failed", done.stderr)


class Completion(Case):
    def complete(self, *words):
        return self.ok("complete", "--", *words).out.split()

    def test_words_complete_out_of_the_tables(self):
        self.assertIn("event", self.complete(""))
        self.assertNotIn("man-page", self.complete(""))
        self.assertEqual(["append", "import", "ls", "log", "show"], self.complete("event", ""))
        self.assertEqual(["table", "json", "ndjson"], self.complete("event", "log", "-o", ""))
        self.assertEqual(["@dir"], self.complete("--data", ""))
        self.assertEqual(["@file"], self.complete("event", "import", ""))
        self.assertIn("--expected-seq", self.complete("event", "append", "--"))
        self.assertEqual(["yes", "no"], self.complete("type", "set", "x", "--publish", ""))

    def test_another_shell_is_refused(self):
        self.refused(2, "completion", "fish", saying="must be bash or zsh")

    def path_with_everfold(self):
        bin_dir = self.dir / "bin"
        bin_dir.mkdir()
        os.symlink(support.BINARY, bin_dir / "everfold")
        return f"{bin_dir}:{os.environ['PATH']}"

    @unittest.skipUnless(shutil.which("bash"), "no bash here")
    def test_bash_completes_a_command(self):
        script = ('eval "$(everfold completion bash)" || exit 1\n'
                  "COMP_WORDS=(everfold event ap); COMP_CWORD=2; _everfold\n"
                  'echo "${COMPREPLY[@]}"\n'
                  "COMP_WORDS=(everfold -o ''); COMP_CWORD=2; _everfold\n"
                  'echo "${COMPREPLY[@]}"\n')
        done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True,
                              env=self.environment(PATH=self.path_with_everfold()))
        self.assertEqual("append\ntable json ndjson\n", done.stdout, done.stderr)

    @unittest.skipUnless(shutil.which("zsh"), "no zsh here")
    def test_zsh_completes_a_command(self):
        script = ("compdef() { :; }\n"
                  "compadd() { shift; print -r -- \"$@\"; }\n"
                  'eval "$(everfold completion zsh)" || exit 1\n'
                  "words=(everfold event ''); CURRENT=3; _everfold\n")
        done = subprocess.run(["zsh", "-f", "-c", script], capture_output=True, text=True,
                              env=self.environment(PATH=self.path_with_everfold()))
        self.assertEqual("append import ls log show\n", done.stdout, done.stderr)


class ManualPage(Case):
    def test_the_manual_page_has_every_command_and_setting(self):
        page = self.ok("man-page").out.replace("\\-", "-")
        for command in COMMANDS:
            self.assertIn(f".SS everfold {command}", page)
        self.assertIn("\\fBstore.busy\\fR", page)

    @unittest.skipUnless(shutil.which("groff"), "no groff here")
    def test_groff_takes_it(self):
        done = subprocess.run(["groff", "-k", "-man", "-Tutf8", "-ww"], input=self.ok("man-page").out,
                              capture_output=True, text=True)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertIn("everfold", done.stdout)


class Terminal(Case):
    def on_a_terminal(self, *words, env=None):
        """Run with stdout on a pseudo-terminal; what it showed."""
        ours, theirs = pty.openpty()
        done = subprocess.Popen([support.BINARY, *words], stdout=theirs, stderr=subprocess.DEVNULL,
                                env=self.environment(**(env or {})), cwd=self.dir)
        os.close(theirs)
        shown = b""
        try:
            while True:
                piece = os.read(ours, 65536)
                if not piece:
                    break
                shown += piece
        except OSError:
            pass
        done.wait(timeout=support.TIME_LIMIT_S)
        os.close(ours)
        return shown.decode()

    def test_colours_are_for_terminals_and_can_be_turned_off(self):
        self.assertIn("\033[1m", self.on_a_terminal("config", "show"))
        self.assertNotIn("\033", self.on_a_terminal("config", "show", "--no-color"))
        self.assertNotIn("\033", self.on_a_terminal("config", "show", env={"NO_COLOR": "1"}))
        self.assertNotIn("\033", self.ok("config", "show").out)
