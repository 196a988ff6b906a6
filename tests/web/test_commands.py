"""Every button beside the command that does the same: what is shown is run in a shell, and does it.

Nobody works on this server, so that nothing moves but by commands: a run stays queued, a row stays dead.
"""
import contextlib
import json
import os
import sqlite3
import subprocess
import tempfile
from pathlib import Path

import support

from page import CUSTOMERS, Page, fixture
from support import everfold, make_token

PEOPLE = """projection people version {}
  view data.id

upcast person.joined from 1 to 2
  data.name = data.first + " " + data.last

on person.joined
  name = data.name
  share = 1 / data.good
"""
# The page, the button, what is filled in, the command that is shown then, its exit code, and where its doing is seen:
# a path of the API, and what is in the answer. In this order, for one thing leads to another.
BUTTONS = [
    ("runs/RUN", "Cancel", {"Reason": "not now", "Type": "customers"}, "run cancel RUN --reason 'not now'", 0,
     "/v1/runs/RUN", '"state":"cancelled"'),
    ("projection/customers", "Verify", {"Reason": "a look"}, "projection verify customers --reason 'a look'", 0,
     "/v1/runs", '"reason":"a look"'),
    ("projection/customers", "Rebuild", {"Build and compare only": True, "Reason": "it's new"},
     "projection rebuild customers --no-switch --reason 'it'\\''s new'", 0, "/v1/runs?open", "\"reason\":\"it's new\""),
    (None, "work"),
    ("projection/customers", "Compare", {}, "projection diff customers --generations 1,2", 0,
     "/v1/projections/customers", '"generation":1'),
    ("projection/customers", "Switch", {"Reason": "faster"}, "projection switch customers --generation 2 --reason faster", 0,
     "/v1/projections/customers", '"generation":2'),
    ("projection/customers", "Roll back", {"Reason": "slower", "Type": "customers"},
     "projection rollback customers --reason slower", 0, "/v1/projections/customers", '"generation":1'),
    ("projection/customers", "Retire", {"Reason": "old", "Type": "customers"},
     "projection retire customers --generation 2 --reason old", 0, "/v1/audit?limit=1", '"action":"retire"'),
    ("projection/customers", "Pause", {"Reason": "quiet"}, "projection pause customers --reason quiet", 0,
     "/v1/projections/customers", '"state":"paused"'),
    ("projection/customers", "Resume", {"Reason": "loud"}, "projection resume customers --reason loud", 0,
     "/v1/projections/customers", '"state":"catching_up"'),
    ("projection/customers", "Rebuild in place", {"Reason": "a disk", "Type": "customers"},
     "projection rebuild customers --in-place --reason 'a disk'", 0, "/v1/runs?open", '"reason":"a disk"'),
    (None, "work"),
    ("projections", "Deploy a program", {"Program": CUSTOMERS.replace("customers", "buyers")},
     "projection deploy buyers.fold", 0, "/v1/projections/buyers", '"version":1'),
    ("projection/people", "New version", {"Program": PEOPLE.format(2)}, "projection deploy people.fold", 0,
     "/v1/projections/people", '"version":2'),
    ("outbox?lane=people&status=dead", "Requeue dead", {"At most": "1", "Type": "people"},
     "outbox requeue-dead --lane people --limit 1", 0, "/v1/outbox?lane=people&limit=1", '"status":"pending"'),
    ("row/people/bad-1/1", "Release", {"Reason": "it is mended"},
     "outbox requeue bad-1 1 --lane people --reason 'it is mended'", 0, "/v1/audit?limit=1", '"reason":"it is mended"'),
    ("row/people/bad-2/1", "Try now", {}, "outbox replay bad-2 1 --lane people", 1, "/v1/outbox?lane=people", "bad-2"),
    ("row/people/bad-3/1", "Skip", {"Reason": "a test's", "Type": "bad-3"},
     "outbox skip bad-3 1 --lane people --reason 'a test'\\''s'", 0, "/v1/audit?limit=1", '"action":"skip"'),
    ("events", "Append an event", {"Stream": "new 1", "Type": "t", "Data": '{"a":"b"}'},
     "event append 'new 1' --type t --data '{\"a\":\"b\"}'", 0, "/v1/streams/new%201", '"seq":1'),
    ("publishers", "Add a publisher", {"Name": "copy", "To": "file:/tmp/nowhere/copy", "Types": "order.*", "Paused": True},
     "publisher add copy --to file:/tmp/nowhere/copy --types 'order.*' --paused", 0, "/v1/publishers/copy", '"types":"order.*"'),
    ("publishers/archive", "Pause", {"Reason": "they move"}, "publisher pause archive --reason 'they move'", 0, "/v1/publishers/archive", '"paused":true'),
    ("publishers/archive", "Resume", {}, "publisher resume archive", 0, "/v1/publishers/archive", '"paused":false'),
    ("publishers/archive", "Remove", {"Type": "archive", "Reason": "they left"},
     "publisher rm archive --reason 'they left'", 0, "/v1/publishers/archive", '"status":404'),
    (None, "gap"),
    ("gaps", "Repair", {"Reason": "told late"}, "gaps repair --reason 'told late'", 0, "/v1/gaps", '"gaps":[]'),
]
PAGES = ["", "projections", "projection/customers", "projection/people", "outbox?lane=people", "row/people/bad-1/1",
         "row/people/bad-2/1", "crew", "events", "stream/p-1", "event/e-1", "views/people", "view/people/1", "publishers", "publishers/archive", "runs",
         "runs/RUN", "gaps", "tokens", "audit"]
# Those that the table of tests/web/test_acts.py has: with them this machine is not served without one any more.
OF_TOKENS = {"Make a token", "Revoke"}


def joined(stream, person, good):
    return {"stream": stream, "type": "person.joined", "schema": 1, "id": "e-" + person,
            "data": {"id": person, "first": "Ada", "last": "Byron", "good": good}}


class Commands(Page):
    arguments = ("--workers", "0")

    @classmethod
    def prepare(cls):
        cls.server.token = make_token(cls.server.data, "--scope", "admin")["token"]  # publishers are for administrators
        ask = cls.server.ask
        for name, program in (("customers", CUSTOMERS), ("people", PEOPLE.format(1))):
            ask("PUT", f"/v1/projections/{name}", program)
        ask("POST", "/v1/events", [joined("p-1", "1", 1), joined("p-2", "2", 1)])
        cls.work()
        ask("POST", "/v1/events", [joined(f"bad-{i}", f"x{i}", 0) for i in range(4)])
        fixture(cls.server.data, "people", *(word for i, status in enumerate(("dead", "dead", "failed", "dead"))
                                             for word in (f"bad-{i}", 1, status, "handler person.joined, line 8")))
        ask("PUT", "/v1/publishers/archive", {"url": f"file:{cls.server.dir}/out"})
        everfold(cls.server.data, "type", "set", "sent", "--publish", "yes")
        ask("POST", "/v1/streams/out-1/events", {"type": "sent", "data": {}})
        cls.run_id = ask("POST", "/v1/projections/customers:verify", {"reason": "to have one"}).json()["id"]
        cls.place = tempfile.TemporaryDirectory(prefix="everfold-commands-")
        cls.addClassCleanup(cls.place.cleanup)

    @classmethod
    def work(cls):
        everfold(cls.server.data, "work", "--drain", "--silent", "--no-leasing", codes=(0, 6))

    @classmethod
    def gap(cls):
        """An event that has no row in the queue."""
        place = cls.server.ask("POST", "/v1/streams/p-1/events", {"type": "person.joined", "schema": 2,
                               "data": {"id": "1", "name": "Ada", "good": 1}}).json()
        with contextlib.closing(sqlite3.connect(cls.server.data / "journal.db", timeout=30)) as store, store:
            assert store.execute("delete from outbox_queue where id = (1 << 48) + ?", (place["position"],)).rowcount == 1

    @classmethod
    def shell(cls, line, cwd=None):
        """As a person who has copied it: the code, and what was said."""
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60, cwd=cwd,
                              env={**os.environ, "EVERFOLD_DATA": str(cls.server.data),
                                   "PATH": str(Path(support.EVERFOLD).parent) + ":" + os.environ["PATH"]})
        return done.returncode, done.stdout + done.stderr

    def named(self, text):
        return text.replace("RUN", self.run_id)

    def look_around(self):
        """What stands on buttons that have a command, and the commands that stand on pages."""
        buttons, lines = set(), set()
        for page in PAGES:
            self.b.go(self.named(page))
            buttons |= set(self.b.js("[...document.querySelectorAll('main button[title^=everfold]')].map((n) => n.textContent)"))
            lines |= set(self.b.js("[...document.querySelectorAll('main .command code')].map((n) => n.textContent)"))
        return buttons, lines

    def shown(self, page, words, fields):
        """The command beside a button, with what is filled in."""
        self.b.go("audit")  # so that it is drawn again
        self.b.go(page)
        self.b.wait(f"find({json.dumps(words)}, 'button')")
        if not self.b.js(f"find({json.dumps(words)}, 'button').dataset.command"):
            return self.b.js(f"find({json.dumps(words)}, 'button').title")
        self.b.press(words)
        for label, value in fields.items():
            self.b.fill(label, value)
        command = self.dialog_command()
        self.assertFalse(self.b.js("top_().querySelector('[type=submit]').disabled"))
        self.b.press("Cancel")
        return command

    def test_rows_are_filtered_by_what_people_look_for(self):
        rows = "[...document.querySelectorAll('main tbody tr')].map((r) => r.children[0].textContent.split(' ')[0])"
        self.b.go("outbox")
        self.b.press("More filters")
        for fill, left in ((("Lane", "people"), ["bad-0", "bad-1", "bad-2", "bad-3"]), (("Lane", "customers"), []),
                           (("Lane", "people"), ["bad-0", "bad-1", "bad-2", "bad-3"]), (("Tenant", "acme"), []),
                           (("Tenant", ""), ["bad-0", "bad-1", "bad-2", "bad-3"]),
                           (("Stream", "bad-1"), ["bad-1"]), (("Stream", ""), ["bad-0", "bad-1", "bad-2", "bad-3"]),
                           (("Error", "LINE 8"), ["bad-0", "bad-1", "bad-2", "bad-3"]), (("Error", "line 9"), []),
                           (("Error", ""), ["bad-0", "bad-1", "bad-2", "bad-3"]), (("Type", "person.*"), ["bad-0", "bad-1", "bad-2", "bad-3"]),
                           (("Older than", "1h"), []), (("Older than", ""), ["bad-0", "bad-1", "bad-2", "bad-3"])):
            self.b.fill(*fill)
            self.b.wait(f"JSON.stringify({rows}) === {json.dumps(json.dumps(left, separators=(',', ':')))}")
        self.b.press("Failed")
        self.b.wait(f"JSON.stringify({rows}) === '[\"bad-2\"]'")
        self.assertEqual("#/outbox?lane=people&types=person.*&status=failed", self.b.js("location.hash"))
        self.assertEqual(["everfold outbox report --status failed --lane people --types 'person.*'"],
                         self.b.js("[...document.querySelectorAll('main .command code')].map((n) => n.textContent)"))

    def test_with_a_press_a_gap_is_repaired_and_a_run_is_cancelled(self):
        self.gap()
        self.b.go("gaps")
        self.b.wait("document.querySelector('main tbody td')?.textContent === 'p-1'")
        self.b.press("Repair")
        self.submit()
        self.b.wait_words("No gaps.")
        run = self.ask("POST", "/v1/projections/people:verify", {}).json()["id"]
        self.b.go(f"runs/{run}")
        self.b.wait_words("queued")
        self.b.press("Cancel")
        self.b.fill("Reason", "too early")
        self.b.fill("Type", "people")
        self.submit()
        self.b.wait("document.querySelector('h1 .badge').textContent === 'cancelled'")
        self.assertEqual("too early", self.get("/v1/audit?limit=1").json()[0]["reason"])
        self.nothing_wrong()

    def test_an_event_of_an_older_schema_is_shown_as_handlers_see_it(self):
        self.b.go("event/e-1")
        self.b.wait_words("from schema 1 to 2")
        shown = "[...document.querySelectorAll('pre.json')].map((n) => n.textContent.includes('Ada Byron'))"
        self.assertEqual([False, False, True], self.b.js(shown))

    def test_a_publisher_is_made_paused_resumed_and_removed(self):
        self.b.go("publishers")
        self.b.press("Add a publisher")
        self.b.fill("Name", "second")
        self.b.fill("To", "gopher:nowhere")
        self.b.js("top_().querySelector('[type=submit]').click()")
        self.b.wait("document.querySelector('dialog .trouble').textContent.includes('gopher')")
        self.b.fill("To", f"file:{self.place.name}/second")
        self.submit()
        self.b.press("second")
        self.b.wait_words("Settings")
        self.b.press("Pause")
        self.submit()
        self.b.wait("document.querySelector('h1 .badge').textContent === 'paused'")
        self.b.press("Resume")
        self.submit()
        self.b.wait("document.querySelector('h1 .badge').textContent === 'well'")
        self.b.press("Remove")
        self.b.fill("Type", "second")
        self.assertTrue(self.b.js("top_().querySelector('[type=submit]').disabled"))
        self.b.fill("Reason", "it was a test")
        self.submit()
        self.b.wait("location.hash === '#/publishers' && !find('second', 'a')")
        self.assertEqual(("publisher_remove", "second", "it was a test"),
                         tuple(self.get("/v1/audit?limit=1").json()[0][k] for k in ("action", "lane", "reason")))
        self.b.press("archive")
        self.b.wait("document.querySelector('h1 .badge').textContent === 'at work'")
        self.assertEqual("#/outbox?lane=archive&status=pending", self.b.js("find('1', 'dd a').getAttribute('href')"))
        self.nothing_wrong(allowed=["400"])

    def test_releasing_tries_it_first(self):
        self.b.go("row/people/bad-0/1")
        self.b.press("Release")
        self.b.wait("document.querySelector('dialog .notice.bad')?.textContent.includes('It would fail.')")
        self.b.press("Cancel")

    def test_what_is_shown_beside_a_button_does_what_it_does(self):
        buttons, lines = self.look_around()
        self.assertGreater(len(lines), 12)
        for line in lines - {f"everfold run watch {self.run_id}"}:  # which waits for a worker
            fails = "--validate" in line and "bad-" in line
            self.assertEqual(int(fails), (done := self.shell(line))[0], (line, done))
        for page, words, *more in BUTTONS:
            if page is None:
                getattr(self, words)()
                continue
            fields, command, code, path, answer = more
            with self.subTest(button=words):
                line = self.shown(self.named(page), words, fields)
                self.assertEqual("everfold " + self.named(command), line)
                if "Program" in fields:
                    (Path(self.place.name) / line.split()[-1]).write_text(fields["Program"])
                if "404" in answer:  # an open page would request removed items
                    self.b.go("crew")
                self.assertEqual(code, (done := self.shell(line, self.place.name))[0], done)
                self.assertIn(answer, self.get(self.named(path)).body.decode())
        self.assertEqual(set(), buttons - {b[1] for b in BUTTONS} - OF_TOKENS - {"Follow", "Try it"})
        self.nothing_wrong()
