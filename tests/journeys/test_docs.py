"""The commands of the tutorial, of the how-to pages and of docs/reference/http.md run in the order in which they stand.

A page is a script. Its parts are:

    ```sh                        commands. They run in one bash with `set -euo pipefail`, in an empty directory
    ```text                      directly after a ```sh block: what that block prints. `…` stands for anything within a
                                 line, and alone on a line for any lines
    <!-- file: NAME -->          the code block below it is written to the file NAME
    <!-- run … -->               commands that readers do not see: they prepare what the text takes for granted
    <!-- not run: REASON -->     the code block below it is for reading only

The directory has `events.ndjson` (20,000 orders) and `customers.fold`, except for the tutorial. `everfold`, `curl`, `psql` and
`pkg-config` are on the path. Port 7450 of a page becomes a free one, and DATABASE the URL of an empty database.

`curl` is curl, except that an error status fails the command, a subscription (`-N`) ends after
two seconds, and a request without an Authorization header carries $EVERFOLD_TOKEN, as the pages say.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import kit
from kit import CUSTOMERS_FOLD, Journey, free_port, orders, postgres_database

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
sys.path.insert(0, str(ROOT / "tests" / "check"))
from readme import printed_as_told  # noqa: E402

PART = re.compile(r"<!-- run\n(?P<hidden>.*?)^-->$|"
                  r"(?:^<!-- (?:(?P<skip>not run: [^\n]+)|file: (?P<file>[^\n]+)) -->\n+)?"
                  r"^```(?P<language>\w*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
DATABASE = "postgres://app@db.example/shop"  # as the pages write it

CURL = r"""#!/usr/bin/env bash
# curl as the pages use it: errors fail, subscriptions end.
set -u
options=(--silent --show-error --fail-with-body) live=no authorized=no
for word; do
    [[ $word == -N ]] && live=yes
    [[ $word == Authorization:* ]] && authorized=yes
done
[[ $authorized == yes || -z ${EVERFOLD_TOKEN:-} ]] || options+=(-H "Authorization: Bearer $EVERFOLD_TOKEN")
if [[ $live == no ]]; then
    exec "$REAL_CURL" "${options[@]}" --max-time 60 "$@"
fi
code=0
"$REAL_CURL" "${options[@]}" --max-time 2 "$@" || code=$?
[[ $code == 28 ]] # a subscription ends only by the time limit
"""

PKG_CONFIG = r"""#!/usr/bin/env bash
# Answers for the library in the build directory, which is not installed.
echo "-I{root}/include -L{libraries} -leverfold -Wl,-rpath,{libraries}"
"""


class Page:
    """A page as a bash script, with what its blocks are expected to print."""

    def __init__(self, text, name):
        self.name, self.blocks, self.expected = name, 0, []
        self.lines = ["set -euo pipefail",
                      f"trap 'echo \"{name}:$DOCS_LINE: failed: $BASH_COMMAND\" >&2' ERR", "set -E"]
        parts = list(PART.finditer(text))
        for part, following in zip(parts, parts[1:] + [None]):
            line = text.count("\n", 0, part.start()) + 1
            self.add(part, following, line, text)

    def add(self, part, following, line, text):
        if part["hidden"] is not None:
            self.lines.append(f"DOCS_LINE={line}\n{part['hidden']}")
        elif part["file"]:
            self.lines.append(f"cat > {part['file']} <<'END_OF_FILE'\n{part['body']}END_OF_FILE")
        elif part["language"] == "sh" and not part["skip"]:
            self.blocks += 1
            shown = following and following["language"] == "text" and not text[part.end():following.start()].strip()
            if shown:
                self.expected.append((line, following["body"]))
            # Output that the page shows goes to a file, to be compared; file descriptor 9 is where it went before.
            redirect = (f'exec 9>&1 >"$DOCS_OUTPUT/{line}"\n', "exec >&9 9>&-\n") if shown else ("", "")
            self.lines.append(f"DOCS_LINE={line}\n{redirect[0]}{part['body']}{redirect[1]}")

    def script(self):
        return "\n".join(self.lines)

    def wrong_output(self, directory):
        """A line for each block that printed something else than the page shows."""
        for line, told in self.expected:
            path = directory / str(line)
            printed = path.read_text(encoding="utf-8") if path.exists() else "nothing: it did not run\n"
            if printed and not printed.endswith("\n"):
                printed += "\n"
            if not printed_as_told(told, printed):
                yield f"{self.name}:{line}: the page shows\n{told}and the command printed\n{printed}"


class Docs(Journey):
    def tools(self):
        """The directory that is first on the path."""
        tools = self.dir / "bin"
        tools.mkdir()
        libraries = pathlib.Path(kit.EVERFOLD).parent.parent
        (tools / "everfold").symlink_to(kit.EVERFOLD)
        for name, text in (("curl", CURL), ("pkg-config", PKG_CONFIG.format(root=ROOT, libraries=libraries))):
            (tools / name).write_text(text, encoding="utf-8")
            (tools / name).chmod(0o755)
        return tools

    def environment_of(self, name):
        path = f"{self.tools()}:{os.environ['PATH']}"
        if DATABASE in (DOCS / name).read_text(encoding="utf-8"):
            path = f"{kit.postgres().binaries}:{path}"
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("EVERFOLD_", "PG"))}
        environment.update({"PATH": path, "REAL_CURL": shutil.which("curl"), "TMPDIR": str(self.dir),
                            "DOCS_PAGE": name, "DOCS_OUTPUT": str(self.dir / "output")})
        return environment

    def page(self, name):
        text = (DOCS / name).read_text(encoding="utf-8").replace("7450", str(free_port()))
        if DATABASE in text:
            text = text.replace(DATABASE, postgres_database(f"docs_{os.getpid()}_{free_port()}"))
        return Page(text, f"docs/{name}")

    def run_page(self, name, least, prepared=True):
        """Runs a page; `least` blocks must be in it, so that a page whose blocks lost their language fails."""
        work = self.dir / "work"
        work.mkdir()
        (self.dir / "output").mkdir()
        if prepared:
            shutil.copy(self.write_events("events.ndjson", orders(20_000)), work / "events.ndjson")
            (work / "customers.fold").write_text(CUSTOMERS_FOLD, encoding="utf-8")
        page = self.page(name)
        self.assertGreaterEqual(page.blocks, least)
        log = self.dir / "page.log"
        with open(log, "wb") as out:
            process = subprocess.Popen(["bash", "-c", page.script()], cwd=work, env=self.environment_of(name),
                                       stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                       start_new_session=True)
            try:
                code = process.wait(timeout=kit.TIME_LIMIT_S)
            except subprocess.TimeoutExpired:
                code = "timeout"
            finally:
                try:  # the page's own background processes, which are in its session
                    os.killpg(process.pid, 15)
                except ProcessLookupError:
                    pass
        self.assertEqual(0, code, log.read_text(errors="replace")[-6000:])
        self.assertEqual([], list(page.wrong_output(self.dir / "output")))

    def test_commands_of_the_tutorial_run(self):
        self.run_page("tutorial.md", 20, prepared=False)

    def test_commands_of_the_http_page_run(self):
        self.run_page("reference/http.md", 12)

    def test_commands_of_the_operating_page_run(self):
        self.run_page("howto/operate.md", 3)

    def test_commands_of_the_page_about_poison_events_run(self):
        self.run_page("howto/poison-events.md", 5)

    def test_commands_of_the_page_about_backups_run(self):
        self.run_page("howto/backup.md", 4)

    def test_commands_of_the_page_about_changes_run(self):
        self.run_page("howto/change-a-projection.md", 5)

    def test_commands_of_the_page_about_scaling_run(self):
        self.run_page("howto/scale-out.md", 4)

    def test_commands_of_the_page_about_outbox_tables_run(self):
        self.run_page("howto/outbox-table.md", 4)

    @unittest.skipUnless(shutil.which("node"), "node is not installed")
    def test_commands_of_the_node_page_run(self):
        self.run_page("howto/node.md", 3)

    def test_commands_of_the_python_page_run(self):
        self.run_page("howto/python.md", 3)

    def test_commands_of_the_c_page_run(self):
        self.run_page("howto/c.md", 2)


class Pages(unittest.TestCase):
    def test_every_how_to_page_is_run(self):
        source = pathlib.Path(__file__).read_text(encoding="utf-8")
        for path in sorted((DOCS / "howto").glob("*.md")):
            if path.name != "fold-cookbook.md":  # run by tests/check/manual.py
                self.assertIn(f'run_page("howto/{path.name}"', source)

    def test_a_block_that_is_not_run_has_a_reason(self):
        source = pathlib.Path(__file__).read_text(encoding="utf-8")
        for path in sorted(DOCS.rglob("*.md")):
            name, text = str(path.relative_to(DOCS)), path.read_text(encoding="utf-8")
            self.assertNotIn("<!-- not run -->", text, name)
            if f'run_page("{name}"' not in source and not path.name.startswith("fold-"):  # those: tests/check/manual.py
                blocks = [part["body"] for part in PART.finditer(text) if part["language"] == "sh" and not part["skip"]]
                self.assertEqual([], blocks, name)


class Parser(unittest.TestCase):
    def run_text(self, text):
        page = Page(text, "page.md")
        directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        done = subprocess.run(["bash", "-c", page.script()], capture_output=True, text=True, cwd=directory,
                              env={**os.environ, "DOCS_OUTPUT": str(directory)})
        return page, done, list(page.wrong_output(directory))

    def test_hidden_parts_and_blocks_run_and_others_do_not(self):
        page, done, _ = self.run_text("a\n<!-- run\necho hidden\n-->\n```sh\necho shown\n```\n"
                                      "<!-- not run: it fails -->\n```sh\nexit 1\n```\n```json\n{}\n```\n")
        self.assertEqual((0, "hidden\nshown\n", 1), (done.returncode, done.stdout, page.blocks))

    def test_a_failing_command_is_named_with_its_line(self):
        _, done, _ = self.run_text("x\n```sh\nfalse\n```\n")
        self.assertEqual(1, done.returncode)
        self.assertIn("page.md:2: failed: false", done.stderr)

    def test_a_file_is_written(self):
        _, done, _ = self.run_text("<!-- file: a.txt -->\n```c\nint $a;\n```\n\n```sh\ncat a.txt\n```\n")
        self.assertEqual((0, "int $a;\n"), (done.returncode, done.stdout))

    def test_output_is_compared_with_the_text_block_after_the_commands(self):
        good = "```sh\necho one two\n```\n\n```text\none …\n```\n"
        self.assertEqual([], self.run_text(good)[2])
        self.assertIn("page.md:1: the page shows", self.run_text(good.replace("one …", "two …"))[2][0])
        self.assertEqual([], self.run_text(good.replace("\n\n```text", "\n\nElsewhere:\n\n```text").replace("one …", "x"))[2])
