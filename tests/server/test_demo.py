"""The first day: serve --demo."""
import os
import re
import subprocess

from support import Case, Server, wait_until


class Demo(Case):
    @classmethod
    def make_server(cls):
        return Server("--demo", "--demo-rate", "200", data=False)

    def test_the_demo_prints_commands_that_work(self):
        said = wait_until(lambda: "curl -N" in self.server.said() and self.server.said())
        self.assertIn("demo shop with simulated traffic", said)
        tries = re.findall(r"^  (?!export).*(?:everfold|curl) .*", said, re.MULTILINE)
        self.assertEqual(5, len(tries), said)
        env = {**os.environ, "EVERFOLD_SERVER": re.search(r"EVERFOLD_SERVER=(\S+)", said)[1]}
        for line in tries:
            self.check_command(line, env, live=" top " in line or "curl" in line)
        self.assertRegex(self.get("/v1/overview").json()["journal"]["url"],
                         f"^sqlite:{re.escape(str(self.server.dir))}/everfold-demo[^/]*/journal.db$")

    def check_command(self, line, env, live):
        """Runs a command that the demo suggests. One that runs until it is stopped is stopped by its id once it has
        printed something. Output goes to files: a pipe would stay open for as long as any descendant holds it."""
        out, err = self.server.dir / "suggested.out", self.server.dir / "suggested.err"
        with open(out, "wb") as stdout, open(err, "wb") as stderr:
            process = subprocess.Popen(["sh", "-c", "exec " + line], stdin=subprocess.DEVNULL, stdout=stdout,
                                       stderr=stderr, env=env)
        self.addCleanup(lambda: process.poll() is None and (process.kill(), process.wait()))
        if live:
            wait_until(lambda: out.stat().st_size or process.poll() is not None, limit_s=120)
            self.assertIsNone(process.poll(), (line, err.read_text()))
            process.terminate()
        code = process.wait(timeout=120)
        self.assertTrue(out.stat().st_size, (line, err.read_text()))
        if not live:
            self.assertEqual(0, code, (line, err.read_text()))

    def test_customers_come_and_are_folded(self):
        best = wait_until(lambda: self.get("/v1/views/customer_orders?sort=-total&limit=1")
                          .json()["items"])
        self.assertGreater(best[0]["data"]["total"], 0)
        self.assertEqual("Tea", wait_until(lambda: self.get("/v1/views/products/tea").json()
                                           .get("data"))["name"])
        first = self.get("/v1/events?after=2000&limit=1").json()
        wait_until(lambda: len(self.get("/v1/events?after=2010&limit=20").json()) == 20)
        self.assertTrue(first)

    def test_a_poison_order_blocks_only_its_stream(self):
        row = wait_until(lambda: self.get("/v1/outbox?status=failed&lane=customer_orders")
                         .json()["rows"])[0]
        self.assertIn("unknown", row["last_error"])
