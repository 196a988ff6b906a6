"""Every example that help shows is run, as it stands, by a shell."""
import os
import re
import shutil
import signal
import subprocess
import time

import support
from support import Case
from test_fold import SHOP

EVENT_ID = "0190c0de-0000-7000-8000-000000000001"
TOKEN = ('{"id":"5f0c2d9be1a7c344","scopes":"read","created_at":"2026-11-16T08:00:00Z","hash":"' +
         "0" * 64 + '"}\n')


class HelpExamples(Case):
    def setUp(self):
        """A shop that has everything the examples speak of. Each runs in a copy of it."""
        super().setUp()
        self.made = self.dir / "made"
        self.made.mkdir()
        self.data = self.made / "everfold-data"
        shutil.copytree(SHOP, self.made / "shop")
        shutil.copytree(SHOP, self.made / "examples" / "shop")
        shutil.copy(SHOP / "events.ndjson", self.made)
        (self.made / "everfold.conf").write_text("store.busy = 5s\n")
        (self.made / "bin").mkdir()
        os.symlink(support.BINARY, self.made / "bin" / "everfold")
        self.init()
        (self.data / "tokens").write_text(TOKEN)
        self.ok("projection", "deploy", SHOP / "customer_orders.fold")
        self.ok("event", "import", SHOP / "events.ndjson")
        self.ok("event", "append", "order-1", "--type", "order.note", "--data", "{}", "--id", EVENT_ID)
        for _ in range(6):
            self.append("order-1", "order.note")
        self.fixture("totals", "order-1", 7, "dead", "no total")
        self.leaves("work", "--drain", "--no-leasing")
        self.ok("publisher", "add", "mail", "--to", "file:mail.ndjson")

    def commands(self):
        """All of them, out of the manual page, which is made from the same tables as help."""
        heads = re.findall(r"^\.SS everfold ((?:[a-z][a-z-]* ?)+)",
                           self.ok("man-page").out.replace("\\-", "-"), re.MULTILINE)
        return [head.strip() for head in heads]

    def example_of(self, command):
        out = self.ok("help", *command.split()).out
        self.assertEqual(1, out.count("\nExample:\n"), out)
        return out.split("\nExample:\n")[1].strip()

    def shell(self, place, line):
        """How the line is run here: paths of the system become ours, a program that is not there a
        plain copy, and what goes on until interrupted is interrupted."""
        line = line.replace("/srv/", f"{place}/srv/").replace("/etc/", f"{place}/")
        line = line.replace(":7450", ":0")  # any port that is free
        if not shutil.which("dot"):
            line = line.replace("dot -Tsvg", "cat")
        env = self.environment(PATH=f"{place}/bin:{os.environ['PATH']}", EVERFOLD_DATA=None)
        return subprocess.Popen(["bash", "-euo", "pipefail", "-c", line], cwd=place, env=env,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, start_new_session=True)

    def run_example(self, place, line):
        process = self.shell(place, line)
        if "--follow" in line or "everfold serve" in line:
            self.assertTrue((process.stdout if "--follow" in line else process.stderr).readline())
            time.sleep(0.1)
            os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=support.TIME_LIMIT_S)
        self.assertNotIn(b"Sanitizer", err)
        return process.returncode, out.decode(), err.decode()

    def prepare_example(self, place, command):
        """Makes the backup, or the restored copy, that the example of a command takes for granted."""
        if command in ("backup verify", "restore", "journal adopt"):
            self.assertEqual(0, self.run_example(place, "everfold backup backup-1")[0])
        if command == "journal adopt":
            shutil.rmtree(place / "everfold-data")
            self.assertEqual(0, self.run_example(place, "everfold restore backup-1")[0])

    def test_they_all_run(self):
        commands = self.commands()
        self.assertIn("event append", commands)
        self.assertIn("help", commands)
        self.assertGreater(len(commands), 30)
        for number, command in enumerate(commands):
            with self.subTest(command=command):
                line = self.example_of(command)
                self.assertIn(f"everfold {command}", line)
                place = self.dir / f"run{number}"
                shutil.copytree(self.made, place, symlinks=True)
                self.prepare_example(place, command)
                code, out, err = self.run_example(place, line)
                # There is a dead row of a projection that is not deployed: a drain says so, and a replay leaves it.
                expected = 6 if "--drain" in line else 1 if command == "outbox replay" else 0
                self.assertEqual(expected, code, f"{line}\n{out}{err}")
                shutil.rmtree(place)
