"""The commands of docs/operating.md and docs/http.md run in the order in which they stand.

A page is a script: its ```sh blocks, and what stands in comments of the form `<!-- run` … `-->`, which readers do not
see and which prepare what the text takes for granted. A block after `<!-- not run -->` is for reading only. All of it
runs in one bash with `set -euo pipefail`, in an empty directory, with `everfold` and `curl` on the path. The page's
port 7450 becomes a free one.

`curl` is curl, except that an error status fails the command, a subscription (`-N`) ends after
two seconds, and a request without an Authorization header carries $EVERFOLD_TOKEN, as the pages say.
"""
import os
import pathlib
import re
import shutil
import subprocess
import unittest

import kit
from kit import CUSTOMERS_FOLD, Journey, free_port, orders

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PART = re.compile(r"<!-- run\n(?P<hidden>.*?)^-->$|^(?P<skip><!-- not run -->\n+)?```(?P<language>\w*)\n(?P<body>.*?)^```$",
                  re.MULTILINE | re.DOTALL)

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


def script_of(text, name):
    """The page as a bash script. DOCS_LINE names the line of the page that runs."""
    parts = ["set -euo pipefail", f"trap 'echo \"{name}:$DOCS_LINE: failed: $BASH_COMMAND\" >&2' ERR", "set -E"]
    count = 0
    for match in PART.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if match["hidden"] is not None:
            parts.append(f"DOCS_LINE={line}\n{match['hidden']}")
        elif match["language"] == "sh" and not match["skip"]:
            count += 1
            parts.append(f"DOCS_LINE={line}\n{match['body']}")
    return "\n".join(parts), count


class Docs(Journey):
    def run_page(self, name, least):
        """Runs a page; `least` blocks must be in it, so that a page whose blocks lost their language fails."""
        tools = self.dir / "bin"
        tools.mkdir()
        (tools / "everfold").symlink_to(kit.EVERFOLD)
        (tools / "curl").write_text(CURL, encoding="utf-8")
        (tools / "curl").chmod(0o755)
        work = self.dir / "work"
        work.mkdir()
        kit_events = self.write_events("events.ndjson", orders(20_000))
        shutil.copy(kit_events, work / "events.ndjson")
        (work / "customers.fold").write_text(CUSTOMERS_FOLD, encoding="utf-8")
        text = (ROOT / "docs" / name).read_text(encoding="utf-8")
        script, count = script_of(text.replace("7450", str(free_port())), f"docs/{name}")
        self.assertGreaterEqual(count, least)
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("EVERFOLD_", "PG"))}
        environment.update({"PATH": f"{tools}:{os.environ['PATH']}", "REAL_CURL": shutil.which("curl"),
                            "TMPDIR": str(self.dir), "DOCS_PAGE": name})
        log = self.dir / "page.log"
        with open(log, "wb") as out:
            process = subprocess.Popen(["bash", "-c", script], cwd=work, env=environment, stdin=subprocess.DEVNULL,
                                       stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
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

    def test_commands_of_the_http_page_run(self):
        self.run_page("http.md", 12)

    def test_commands_of_the_operating_page_run(self):
        self.run_page("operating.md", 3)


class Parser(unittest.TestCase):
    def test_hidden_parts_and_blocks_run_and_others_do_not(self):
        text = "a\n<!-- run\necho hidden\n-->\n```sh\necho shown\n```\n<!-- not run -->\n```sh\nexit 1\n```\n```json\n{}\n```\n"
        script, count = script_of(text, "page.md")
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
        self.assertEqual((0, "hidden\nshown\n", 1), (done.returncode, done.stdout, count))

    def test_a_failing_command_is_named_with_its_line(self):
        done = subprocess.run(["bash", "-c", script_of("x\n```sh\nfalse\n```\n", "page.md")[0]], capture_output=True,
                              text=True)
        self.assertEqual(1, done.returncode)
        self.assertIn("page.md:2: failed: false", done.stderr)
