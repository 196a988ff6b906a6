"""The first day: serve --demo."""
import os
import re
import subprocess

from support import Case, Server, wait_until


class Demo(Case):
    @classmethod
    def make_server(cls):
        return Server("--demo", "--demo-rate", "200", data=False)

    def test_the_shop_is_open_and_says_what_to_try(self):
        said = wait_until(lambda: "curl -N" in self.server.said() and self.server.said())
        self.assertIn("The shop is open", said)
        tries = re.findall(r"^  (?!export).*(?:everfold|curl) .*", said, re.MULTILINE)
        self.assertEqual(5, len(tries), said)
        env = {**os.environ, "EVERFOLD_SERVER": re.search(r"EVERFOLD_SERVER=(\S+)", said)[1]}
        for line in tries:
            live = " top " in line or "curl" in line
            done = subprocess.run(["timeout", "1" if live else "60", "sh", "-c", line], capture_output=True,
                                  env=env, timeout=90)
            self.assertEqual(124 if live else 0, done.returncode, (line, done.stderr))
            self.assertTrue(done.stdout, line)
        self.assertRegex(self.get("/v1/overview").json()["journal"]["url"],
                         f"^sqlite:{re.escape(str(self.server.dir))}/everfold-demo[^/]*/journal.db$")

    def test_customers_come_and_are_folded(self):
        best = wait_until(lambda: self.get("/v1/views/customer_orders?sort=-total&limit=1")
                          .json()["items"])
        self.assertGreater(best[0]["data"]["total"], 0)
        self.assertEqual("Tea", wait_until(lambda: self.get("/v1/views/products/tea").json()
                                           .get("data"))["name"])
        first = self.get("/v1/events?after=2000&limit=1").json()
        wait_until(lambda: len(self.get("/v1/events?after=2010&limit=20").json()) == 20)
        self.assertTrue(first)

    def test_a_poison_order_holds_back_nobody_else(self):
        row = wait_until(lambda: self.get("/v1/outbox?status=failed&lane=customer_orders")
                         .json()["rows"])[0]
        self.assertIn("a lot", row["last_error"])
