"""What stands in events is shown, and never run; much of it does not slow the page down."""
import json
import os
import sqlite3
from urllib.parse import quote

from page import Page
from support import Server, everfold, wait_until

EVIL = "<img src=x onerror=hacked=1><script>hacked=1</script>'\"`${hacked=1}&lt;"
TYPE = "<img/src=x/onerror=hacked=1>"
BIDI = "\u202egnp.exe\u0007"
BIG = "123456789012345678901234567890.10"
PROGRAM = """# %s
projection evil version 1
  view data.who

on *
  last = data.text
  n = data.n + 1
""" % EVIL


class Hostile(Page):
    @classmethod
    def prepare(cls):
        ask = cls.server.ask
        assert ask("PUT", "/v1/projections/evil", PROGRAM).status == 200
        data = '{"who":%s,"text":%s,"n":%s,"9":1,"1":2}'
        for stream, n in ((EVIL, BIG), (BIDI, '"no number"')):
            answer = ask("POST", f"/v1/streams/{quote(stream, safe='')}/events", json.dumps({
                "type": TYPE, "id": "id " + stream, "data": 0, "meta": {"causation_id": EVIL, "x": EVIL}})
                .replace('"data": 0', '"data": ' + data % (json.dumps(EVIL), json.dumps(BIDI), n)),
                headers={"Content-Type": "application/json"})
            assert answer.status == 201, answer.body
        wait_until(lambda: ask("GET", "/v1/projections/evil/failures").json())
        wait_until(lambda: ask("GET", "/v1/views/evil/" + quote(EVIL, safe="")).status == 200)
        ask("POST", "/v1/projections/evil:pause", {"reason": EVIL})
        ask("POST", "/v1/projections/evil:resume", {"reason": EVIL})
        ask("POST", "/v1/projections/evil:verify", {"reason": EVIL})

    def pages(self):
        evil, bidi = quote(EVIL, safe=""), quote(BIDI, safe="")
        return ["", "projections", "projection/evil", "outbox", f"outbox?lane={evil}", f"row/evil/{bidi}/1", "crew",
                "events", f"events?find={evil}&type={quote(TYPE)}", f"stream/{evil}", f"stream/{bidi}",
                f"event/{quote('id ' + EVIL, safe='')}", "views/evil", "views/evil?as=json", f"views/evil?where={evil}",
                f"view/evil/{evil}", "runs", "gaps", "tokens", "audit", f"{evil}/{evil}?{evil}"]

    def test_nothing_that_is_shown_is_run(self):
        for page in self.pages():
            self.b.js(f"location.hash = {json.dumps('#/' + page)}")
            self.b.wait("!document.querySelector('main').hasAttribute('aria-busy') && "
                        "document.querySelector('main h1, main .notice')")
            with self.subTest(page=page):
                self.assertEqual([0, "undefined"], self.b.js(
                    "[document.querySelectorAll('main img, main script, main iframe, main [onerror]').length, typeof hacked]"))
        self.b.press("Follow") if self.b.js("!!find('Follow')") else None
        self.assertEqual([], [t for t in self.b.troubles if "status of 4" not in t])
        self.assertEqual("undefined", self.b.js("typeof hacked"))

    def test_what_got_in_all_the_same_would_not_run_nor_reach_anybody(self):
        self.b.js("""(() => {
            const script = document.createElement("script");
            script.textContent = "hacked = 1";
            const image = document.createElement("div");
            image.innerHTML = EVIL + '<img src="http://127.0.0.1:9/x"><style>body { display: none }</style>';
            document.body.append(script, image);
        })()""".replace("EVIL", json.dumps(EVIL)))
        reached = self.b.js("Promise.allSettled([fetch('http://127.0.0.1:9/'), import('http://127.0.0.1:9/x.js'), "
                            "import('data:text/javascript,window.hacked=1')]).then((all) => all.map((r) => r.status))")
        self.assertEqual(["rejected"] * 3, reached)
        self.assertEqual(["undefined", "block"], self.b.js("[typeof hacked, getComputedStyle(document.body).display]"))
        refused = [t for t in self.b.troubles if "Content Security Policy" in t]
        self.assertGreaterEqual(len(refused), 5, self.b.troubles)

    def test_characters_that_are_not_seen_are_shown(self):
        self.b.go(f"stream/{quote(BIDI, safe='')}")
        self.b.wait_words("U+202E")
        self.b.wait_words("U+0007")
        self.assertNotIn("\u202e", self.b.text())

    def test_numbers_keep_their_digits_and_keys_their_order(self):
        self.b.go(f"event/{quote('id ' + EVIL, safe='')}")
        self.b.wait_words(BIG)
        keys = self.b.wait("[...document.querySelectorAll('pre.json')][0] && "
                           "[...document.querySelectorAll('pre.json')[0].querySelectorAll('.json-key')].map((k) => k.textContent)")
        self.assertEqual(['"who"', '"text"', '"n"', '"9"', '"1"'], keys)
        self.b.go(f"view/evil/{quote(EVIL, safe='')}")
        self.b.wait_words("123456789012345678901234567891.1")

    def test_a_command_with_odd_names_is_quoted_for_a_shell(self):
        self.b.go(f"row/evil/{quote(BIDI, safe='')}/1")
        self.b.press("Skip")
        command = self.b.wait("document.querySelector('dialog[open] .command code')?.textContent")
        self.assertIn(r"$'\xe2\x80\xaegnp.exe\x07' 1 --lane evil", command)
        self.b.press("Cancel")


class Much(Page):
    """WEB_DEAD dead rows; script/soak has 100,000."""

    DEAD = int(os.environ.get("WEB_DEAD", "3000"))

    @classmethod
    def setUpClass(cls):
        cls.first = Server()
        cls.first.stop()
        cls.data = cls.first.data
        lines = "".join('{"stream":"s-%d","type":"t","data":{}}\n' % i for i in range(cls.DEAD))
        (cls.first.dir / "events").write_text(lines)
        everfold(cls.data, "event", "import", str(cls.first.dir / "events"))
        store = sqlite3.connect(cls.data / "journal.db")
        lane = store.execute("insert into lane(name, kind, enabled, types) values ('gone', 1, 1, '')").lastrowid
        store.execute("insert into retry_row select ?, position, 0, stream, seq, 3, 0, 1, 8, 0, "
                      "'no program digests this', recorded, 1, 0 from event", (lane,))
        store.commit()
        store.close()
        super().setUpClass()

    @classmethod
    def make_server(cls):
        return Server(data=cls.data)

    def memory_mib(self):
        with open(f"/proc/{self.server.process.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024

    def answers(self):
        """The slowest and the largest answer since the page was opened: ms, bytes of it."""
        return self.b.js("""(() => { const all = performance.getEntriesByType("resource").filter((e) => e.name.includes("/v1/"));
            return [Math.max(...all.map((e) => e.duration)), Math.max(...all.map((e) => e.decodedBodySize))]; })()""")

    def test_many_dead_rows_slow_no_page(self):
        before = self.memory_mib()
        print(f"{self.DEAD} dead rows: page, ms until it is drawn, slowest answer in ms, largest in bytes")
        for page, drawn in (("outbox?status=dead", "document.querySelectorAll('main tbody tr').length === 50"),
                            (f"outbox?stream=s-{self.DEAD // 2}", "document.querySelectorAll('main tbody tr').length === 1"),
                            ("outbox?error=nowhere", "find('Search on') || find('No rows.', 'p')"),
                            ("", "document.querySelectorAll('.card').length > 5"), ("crew", "document.querySelector('.tile')"),
                            (f"row/gone/s-{self.DEAD // 2}/1", "find('Release')"), ("gaps", "find('everfold gaps detect', 'code')"),
                            ("events", "document.querySelectorAll('main tbody tr').length >= 50"), ("audit", "find('everfold audit ls', 'code')")):
            self.b.open(self.server.url + "/#/" + page)
            self.b.wait(drawn)
            took, (slowest, largest) = self.b.js("performance.now()"), self.answers()
            print(f"  {page or 'overview':24} {took:6.0f} {slowest:6.0f} {largest:7}")
            self.assertLess(took, 5000, page)
            self.assertLess(largest, 200000, page)
        after = self.memory_mib()
        print(f"  the server's memory: {before:.0f} MiB before, {after:.0f} MiB after")
        self.assertLess(after - before, 64)

    def test_many_dead_rows_are_paged(self):
        self.b.wait_words(f"{self.DEAD} events are dead")
        self.b.go("outbox?status=dead")
        self.b.wait("document.querySelectorAll('main tbody tr').length === 50")
        self.b.requests.clear()
        self.b.press("Next 50")
        self.b.wait("location.hash.includes('after=')")
        self.b.wait("document.querySelector('main tbody td').textContent.startsWith('s-50')")
        self.assertEqual(50, self.b.js("document.querySelectorAll('main tbody tr').length"))
        asked = [u for u in self.b.requests if "/v1/outbox" in u]
        self.assertTrue(asked and all("limit=50" in u for u in asked), asked)
        self.assertIn(f"{self.DEAD:,}", self.b.text())
        self.nothing_wrong()
