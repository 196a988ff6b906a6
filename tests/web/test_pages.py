"""Every page, as a person comes to it: by its menu, by keys, on a phone, in the dark."""
import json

from page import CUSTOMERS, STRICT, Page
from support import make_token, wait_until

PAGES = ["Overview", "Projections", "Outbox", "Workers", "Streams", "Views", "Publishers", "Runs", "Gaps", "Tokens", "Audit"]
DEEP = ["projection/customers", "row/strict/o-bad/1", "stream/o-1", "event/e-1", "views/customers",
        "view/customers/ann"]


class Pages(Page):
    @classmethod
    def prepare(cls):
        cls.server.token = make_token(cls.server.data, "--scope", "admin")["token"]  # who sees every page
        ask = cls.server.ask
        ask("PUT", "/v1/projections/customers", CUSTOMERS)
        ask("PUT", "/v1/projections/strict", STRICT.format(1, "data.amount / data.count"))
        for i in range(12):
            ask("POST", "/v1/streams/o-1/events", {"type": "order.placed", "id": f"e-{i}",
                "data": {"customer": "ann", "amount": i + 1, "count": 1},
                "meta": {"causation_id": f"e-{i - 1}"} if i else {}})
        ask("POST", "/v1/streams/o-bad/events", {"type": "order.placed",
                                                 "data": {"customer": "bob", "amount": 1, "count": 0}})
        wait_until(lambda: ask("GET", "/v1/projections/strict/failures").json())
        wait_until(lambda: ask("GET", "/v1/views/customers/ann").status == 200)
        wait_until(lambda: ask("GET", "/v1/history").json())
        ask("POST", "/v1/projections/customers:verify", {"reason": "to have a run"})
        ask("PUT", "/v1/publishers/archive", {"url": f"file:{cls.server.dir}/out", "types": "order.*"})

    def test_each_page_is_reached_by_the_menu_and_has_its_heading(self):
        for name in PAGES:
            self.b.press(name)
            self.b.wait(f"document.querySelector('nav [aria-current]')?.textContent.startsWith({json.dumps(name)})")
            self.b.wait("!document.querySelector('main').hasAttribute('aria-busy')")
            with self.subTest(page=name):
                self.assertEqual([1, 1, 1, 1], self.b.js(
                    "['h1', 'header', 'nav[aria-label=Pages]', 'main'].map((s) => document.querySelectorAll(s).length)"))
        self.nothing_wrong()

    def test_what_was_published_is_shown_with_its_time(self):
        self.ask("PUT", "/v1/types/parcel.sent", {"publish": True})
        self.ask("PUT", "/v1/publishers/post", {"url": f"file:{self.server.dir}/parcels", "types": "parcel.*"})
        for _ in range(2):
            self.append("parcel-7", "parcel.sent")
        wait_until(lambda: len(self.get("/v1/outbox?status=published").json()["rows"]) == 2)
        self.b.go("outbox")
        self.b.press("Published")
        self.b.wait("find('parcel-7', 'td')")
        heads = self.b.js("[...document.querySelector('main table').querySelectorAll('th')].map((c) => c.textContent)")
        self.assertEqual(["Event", "Status", "Lane", "Type", "Partition", "Position", "Since", "Published"], heads)
        row = self.b.js("[...document.querySelector('main tbody tr').children].map((c) => c.textContent.trim())")
        self.assertEqual(["published", "post", "parcel.sent"], row[1:4])
        self.assertIn("· 2", row[0])  # the last comes first
        at = self.b.js("document.querySelector('main tbody tr td:last-child time').getAttribute('datetime')")
        self.assertEqual(self.get("/v1/outbox?status=published").json()["rows"][0]["published_at"], at)
        self.assertIn("everfold outbox report --status published",
                      self.b.js("[...document.querySelectorAll('.command code')].map((c) => c.textContent)"))
        self.b.go("outbox?status=published&stream=nobody")
        self.b.wait_words("No published rows are kept.")
        self.nothing_wrong()

    def test_the_overview_says_how_it_is(self):
        for words in ("failed and", "Lag", "Backlog", "Dead", "Blocked", "Quarantined", "Workers", "Appended", "Folded",
                      "Events a second", "acks survive", "customers", "strict"):
            self.b.wait_words(words)
        self.assertEqual(2, self.b.js("document.querySelectorAll('figure.chart svg').length"))

    def test_a_projection_shows_program_graph_and_failures(self):
        self.b.go("projection/strict")
        self.b.wait_words("division by zero")
        self.assertGreater(self.b.js("document.querySelectorAll('.dag .node').length"), 3)
        self.assertEqual("  total  += data.amount / data.count",
                         self.b.js("document.querySelector('.program li.bad code').textContent"))

    def test_with_a_new_version_an_older_failure_is_offered_for_a_dry_run(self):
        self.b.go("row/strict/o-bad/1")
        self.b.wait("document.querySelector('.notice .excerpt')?.textContent.includes('data.amount / data.count')")
        self.ask("PUT", "/v1/projections/strict", STRICT.format(2, "data.amount"))
        wait_until(lambda: [g["state"] for g in self.get("/v1/projections/strict").json()["generations"]] == ["live"] * 2)
        self.b.wait_words("Version 2 is deployed: try the event with it below.")
        self.assertEqual(1, self.b.js("document.querySelectorAll('.notice .excerpt').length"))  # version 1 is queried still
        self.b.press("Try it")
        self.b.wait_words("This generation has applied it already.")
        self.ask("POST", "/v1/projections/strict:switch", {"generation": 2})
        self.b.wait_words("It is not in the outbox.")  # only version 1 lacked it
        self.assertEqual(0, self.b.js("document.querySelectorAll('.notice .excerpt').length"))
        self.b.go("projection/strict")
        self.b.wait_words("projection strict version 2")
        self.assertEqual(0, self.b.js("document.querySelectorAll('.program li.bad').length"))
        self.b.go("")
        self.b.wait_words("All is well")

    def test_workers_count_down_and_partitions_have_owners(self):
        self.b.go("crew")
        self.b.wait("document.querySelectorAll('.tile.owned').length === 16")
        before = self.b.wait("document.querySelector('.tile .countdown').textContent")
        self.b.wait(f"document.querySelector('.tile .countdown').textContent !== {json.dumps(before)}")

    def test_streams_are_searched_and_an_event_shows_its_causes(self):
        self.b.go("events")
        self.b.fill("Find", "o-1")
        self.b.press("stream o-1")
        self.b.wait("document.querySelectorAll('.timeline li').length === 12")
        self.b.go("event/e-5")
        self.b.wait_words("caused by")
        links = self.b.js("[...document.querySelectorAll('.lineage a')].map((a) => a.hash)")
        self.assertEqual(["#/event/e-4", "#/event/e-6"], links)

    def test_events_that_come_in_are_followed(self):
        self.b.go("events")
        self.b.press("Follow")
        self.b.wait_words("Nothing has come in")
        self.ask("POST", "/v1/streams/fresh/events", {"type": "thing.new", "data": {}})
        self.b.wait("[...document.querySelectorAll('section[aria-label=\"Coming in\"] td')]"
                    ".some((td) => td.textContent.includes('thing.new'))")
        self.b.press("Stop following")

    def test_views_are_asked_with_completion_and_travel_in_time(self):
        self.b.go("views/customers")
        self.b.wait_words("ann")
        self.b.js("document.getElementById('where').focus()")
        self.b.typed("tot")
        self.b.wait("document.querySelector('#offers li')?.textContent === 'total'")
        self.b.key("Tab")
        self.b.typed(" > 1000000")
        self.b.key("Enter")
        self.b.wait_words("No view matches")
        self.b.go("views/customers?where=total+%3E")
        self.b.wait_words("The query is invalid")
        self.b.go("view/customers/ann")
        self.b.wait_words("12 of 12")
        self.b.js("find('◀').click()")
        self.b.wait_words("11 of 12")
        self.b.js("(() => { const s = document.querySelector('[type=range]'); s.value = 4; "
                  "s.dispatchEvent(new Event('input', {bubbles: true})) })()")
        self.b.wait_words("5 of 12")
        self.assertEqual('{\n  "orders": 5,\n  "total": 15\n}', self.b.js(
            "[...document.querySelectorAll('pre.json')].at(-1).textContent"))
        self.assertEqual(["everfold view get customers ann", "everfold view at customers ann --position 5"], self.b.js(
            "[...document.querySelectorAll('.command code')].map((n) => n.textContent)"))
        self.b.js("find('▶').focus()")
        for _ in range(6):
            self.b.key("Enter")
        self.b.wait_words("11 of 12")
        self.assertEqual(["orders", "total"], self.b.js(
            "[...document.querySelectorAll('.changes code')].map((c) => c.textContent)"))
        self.assertEqual(["11", "66"], self.b.js(
            "[...document.querySelectorAll('.changes ins')].map((c) => c.textContent)"))

    def test_a_moment_that_is_looked_at_stays_while_a_view_goes_on(self):
        self.ask("PUT", "/v1/projections/lists", "projection lists version 1\n  view data.k\n\non listed\n  n += 1\n"
                                                 "  last push data.i keep 3\n")

        def listed(numbers):
            self.ask("POST", "/v1/events", [{"stream": "l", "type": "listed", "data": {"k": "a", "i": i}} for i in numbers])
            wait_until(lambda: (v := self.get("/v1/views/lists/a")).status == 200 and v.json()["data"]["n"] == numbers[-1])
        listed(range(1, 206))
        self.b.go("view/lists/a")
        self.b.wait_words("200 of 200")
        for _ in range(3):
            self.b.js("find('◀').click()")
        self.b.wait_words("197 of 200")
        # A list that has changed is described by its new and removed items.
        self.assertEqual([["last[0]", "199", None], ["last[2]", None, "202"], ["n", "201", "202"]], self.b.js(
            "[...document.querySelectorAll('.changes li')].map((l) => ['code', 'del', 'ins'].map((k) => l.querySelector(k)?.textContent ?? null))"))
        listed(range(206, 211))
        self.b.wait_words("192 of 200")
        self.assertEqual("202", self.b.js("document.querySelector('.changes ins').textContent"))

    def test_it_is_read_on_a_phone_in_the_dark_by_keys_and_by_ear(self):
        """Each page at two widths: nothing sticks out, what is pressed has a name and is reached by keys, and what is
        read stands out from what is behind it (WCAG AA, from the colours as computed), in the light and in the dark."""
        for width, dark in ((360, True), (1280, False)):
            self.b.size(width, 800, dark)
            for page in ["", "projections", "outbox", "crew", "events", "publishers", "publishers/archive", "runs", "gaps",
                         "tokens", "audit", *DEEP]:
                self.b.go(page)
                with self.subTest(page=page, width=width):
                    self.assertLessEqual(self.b.js("document.documentElement.scrollWidth"), width)
                    self.looks_well()
        self.b.size(1280, 900)

    def looks_well(self):
        self.assertEqual([], self.b.nameless())
        self.assertEqual([], self.b.js("unreachable()"))
        for theme, paper in (("light", 247), ("dark", 18)):
            self.b.js(f"document.documentElement.dataset.theme = '{theme}'")
            self.assertEqual(paper, self.b.js(
                "Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])"))
            self.assertEqual([], self.b.js("contrast()"), theme)
        self.b.js("delete document.documentElement.dataset.theme")

    def test_it_is_worked_by_keys_alone(self):
        self.b.key("Tab")
        self.assertEqual("Skip to the page", self.b.js("document.activeElement.textContent"))
        names = []
        for _ in range(16):
            self.b.key("Tab")
            names.append(self.b.js("document.activeElement.textContent.trim()"))
        for name in PAGES[:5]:
            self.assertIn(name, names)
        self.b.go("projections")
        self.b.js("find('Deploy a program').focus()")
        self.b.key("Enter")
        self.b.wait("document.querySelector('dialog[open]')")
        self.assertTrue(self.b.js("document.querySelector('dialog[open]').contains(document.activeElement)"))
        self.b.key("Escape")
        self.b.wait("!document.querySelector('dialog')")

    def test_a_hidden_tab_asks_for_nothing(self):
        # Its time goes twenty times as fast: it asks every 150 ms, until it is hidden.
        self.b.js("window.hurried = setTimeout; window.setTimeout = (f, ms) => hurried(f, ms / 20)")
        look = "Object.defineProperty(document, 'hidden', {value: %s, configurable: true});" \
               "document.dispatchEvent(new Event('visibilitychange'))"
        self.b.js(look % "false")
        wait_until(lambda: self.b.text() and sum("/v1/overview" in u for u in self.b.requests) > 3)
        self.b.js(look % "true")
        self.b.js("new Promise((done) => hurried(done, 500))")
        self.b.requests.clear()
        self.b.js("new Promise((done) => hurried(done, 800))")
        self.assertEqual([], self.b.requests)
        self.b.js(look % "false")
        wait_until(lambda: self.b.text() and self.b.requests)
