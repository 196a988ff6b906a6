"""A server with some work for each test class, and a browser that looks at it, one for a file."""
import json
import subprocess
import unittest

import support
from browser import Browser
from support import Case

CUSTOMERS = support.CUSTOMERS
STRICT = """projection strict version {}
  view data.customer

on order.placed
  orders += 1
  total  += {}
"""


def fixture(data, lane, *words):
    """Rows of a lane that have failed or are dead: played by a worker that fails."""
    done = subprocess.run([support.FIXTURE, f"sqlite:{data}/journal.db", lane, *map(str, words)],
                          capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise AssertionError(done.stderr)


class Page(Case):
    """`self.b` is a browser at the monitor's first page."""

    browser = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.prepare()
        if not Page.browser:
            Page.browser = Browser()
            unittest.addModuleCleanup(Page.close_browser)
        cls.b = Page.browser
        cls.b.size(1280, 900)

    @staticmethod
    def close_browser():
        Page.browser.close()
        Page.browser = None

    @classmethod
    def prepare(cls):
        pass

    def setUp(self):
        self.b.open(self.server.url + "/")
        if self.server.token:  # as if it had been typed in
            self.b.js(f"sessionStorage.setItem('everfold.token', {json.dumps(self.server.token)})")
            self.b.open(self.server.url + "/")
        self.b.requests.clear()
        self.b.troubles.clear()

    def nothing_wrong(self, allowed=()):
        """Nothing was thrown, and nothing was asked of anybody else."""
        troubles = [t for t in self.b.troubles if not any(a in t for a in allowed)]
        self.assertEqual([], troubles)
        self.assertEqual([], [u for u in self.b.requests
                              if not u.startswith((self.server.url + "/", "about:", "data:"))])

    def submit(self):
        """Press what the open dialog is for; it closes when it is done."""
        self.b.js("top_().querySelector('[type=submit]').click()")
        self.b.wait("!document.querySelector('dialog')")

    def dialog_command(self):
        return self.b.wait("document.querySelector('dialog[open] .command code')?.textContent")
