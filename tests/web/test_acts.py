"""What an operator does: a poison event from its sight to its end, a rebuild there and back, tokens."""
import json
import shlex

from page import CUSTOMERS, STRICT, Page, fixture
from support import Server, everfold, make_token, wait_until


class Poison(Page):
    """The event is dead, and one waits behind it, before the server is started."""

    @classmethod
    def setUpClass(cls):
        first = Server(env={"EVERFOLD_RETRY_APPLY_BASE": "1ms"})
        first.ask("PUT", "/v1/projections/strict", STRICT.format(1, "data.amount / data.count"))
        wait_until(lambda: first.ask("GET", "/v1/projections/strict").json()["state"] == "live")
        for count in (0, 2):
            first.ask("POST", "/v1/streams/p-1/events",
                      {"type": "order.placed", "data": {"customer": "eve", "amount": 6, "count": count}})
        wait_until(lambda: first.ask("GET", "/v1/outbox?status=dead").json()["rows"])
        first.stop()
        cls.data = first.data
        cls.first = first
        super().setUpClass()

    @classmethod
    def make_server(cls):
        return Server(data=cls.data)

    def test_a_poison_event_is_seen_opened_fixed_and_gone(self):
        b = self.b
        b.wait_words("1 event is dead and needs an operator; 2 events of 1 stream are blocked.")
        b.press("Outbox")
        b.press("Dead")
        b.press("p-1 · 1")
        b.wait_words("division by zero")
        b.wait_words("total  += data.amount / data.count")
        b.press("Try it")
        b.wait_words("It would fail.")
        b.go("projection/strict")
        b.press("New version")
        program = b.js("document.querySelector('dialog textarea').value")
        self.assertIn("version 2", program)
        b.fill("Program", program.replace("data.amount / data.count", "if data.count > 0 then data.amount / data.count else 0"))
        self.assertEqual("everfold projection deploy strict.fold", self.dialog_command())
        b.press("Deploy")
        b.wait("document.querySelectorAll('section table tbody tr').length >= 2")
        wait_until(lambda: [g["state"] for g in self.get("/v1/projections/strict").json()["generations"]] == ["live"] * 2)
        b.press("Switch")
        self.assertEqual("everfold projection switch strict --generation 2", self.dialog_command())
        b.fill("Reason", "it divides with care")
        b.js("top_().querySelector('[type=submit]').click()")
        b.wait_words("g2 queried")
        b.press("Retire")
        self.assertTrue(b.js("top_().querySelector('[type=submit]').disabled"))
        b.fill("Type", "strict")
        self.assertTrue(b.js("top_().querySelector('[type=submit]').disabled"))
        b.fill("Reason", "it cannot digest p-1")
        b.js("top_().querySelector('[type=submit]').click()")
        b.wait("!document.querySelector('dialog')")
        b.go("row/strict/p-1/1")
        b.wait_words("It is not in the outbox.")  # the switch was enough: nothing has to be released
        b.press("Try it")
        b.wait_words("This generation has applied it already.")
        b.go("outbox")
        b.wait_words("No rows.")
        b.go("")
        b.wait_words("All is well")
        self.assertEqual({"orders": 2, "total": 3}, self.get("/v1/views/strict/eve").json()["data"])
        b.go("audit")
        for words in ("switch", "retire", "deploy", "it divides with care", "it cannot digest p-1"):
            b.wait_words(words)
        self.nothing_wrong()


class Rebuild(Page):
    @classmethod
    def prepare(cls):
        cls.server.ask("PUT", "/v1/projections/customers", CUSTOMERS)
        events = [{"stream": f"s-{i % 50}", "type": "order.placed", "data": {"customer": f"c{i % 20}", "amount": i}}
                  for i in range(2000)]
        for i in range(0, 2000, 500):
            cls.server.ask("POST", "/v1/events", events[i:i + 500])
        wait_until(lambda: cls.server.ask("GET", "/v1/projections/customers").json()["lag_events"] == 0)

    def state(self):
        return self.get("/v1/projections/customers").json()

    def test_a_rebuild_is_started_watched_compared_switched_and_rolled_back(self):
        b = self.b
        b.go("projection/customers")
        b.press("Rebuild")
        b.fill("Build and compare only", True)
        self.assertEqual("everfold projection rebuild customers --no-switch", self.dialog_command())
        self.submit()
        wait_until(lambda: len(self.state()["generations"]) == 2 and
                   self.state()["generations"][1]["state"] == "live")
        b.press("Compare")
        b.wait_words("20 views compared, none differs.")
        b.press("Switch")
        self.submit()
        wait_until(lambda: self.state()["generation"] == 2)
        b.wait_words("g2 queried")
        b.press("Roll back")
        b.fill("Reason", "a test")
        b.fill("Type", "customers")
        self.submit()
        wait_until(lambda: self.state()["generation"] == 1)
        b.wait_words("g1 queried")
        b.go("")
        b.wait_words("not queried v1 · g2")
        self.assertNotIn("not queried v1 · g1", b.text())
        b.go("projection/customers")
        b.press("Pause")
        self.submit()
        b.wait_words("paused")
        b.press("Resume")
        self.submit()
        b.wait("find('Pause')")
        b.go("runs")
        b.press("rebuild")
        b.wait_words("2,000 of 2,000 events")
        self.nothing_wrong()

    def test_an_unavailable_sink_is_shown_on_the_overview(self):
        everfold(self.server.data, "type", "set", "sent", "--publish", "yes")
        self.server.ask_as_owner("PUT", "/v1/publishers/hook", {"url": "http://127.0.0.1:9/x", "allow_private": True})
        self.server.ask("POST", "/v1/streams/out-1/events", {"type": "sent", "data": {}})
        self.b.go("")
        self.b.wait_words("Publisher hook cannot deliver and retries.")
        self.b.go("publishers/hook")
        self.b.wait_words("Delivery fails; it is retried.")
        self.server.ask_as_owner("DELETE", "/v1/publishers/hook?discard=true&reason=a%20test")
        self.b.go("")
        self.b.wait("!document.body.innerText.includes('cannot deliver')")
        self.nothing_wrong(allowed=["404"])

    def test_an_invalid_program_is_reported_in_the_dialog(self):
        self.b.go("projections")
        self.b.press("Deploy a program")
        self.b.fill("Program", "projection broken version 1\n  view data.x\n\non a\n  y ++ 1\n")
        self.b.js("top_().querySelector('[type=submit]').click()")
        self.b.wait_words("line 5")
        self.b.press("Cancel")
        self.nothing_wrong(allowed=["400"])


# What a reader presses: it changes nothing but what is shown.
LOOKING = ["Copy", "Follow", "As JSON", "Ask", "Try it", "◀", "▶"]


class Tokens(Page):
    @classmethod
    def prepare(cls):
        cls.server.ask("PUT", "/v1/projections/customers", CUSTOMERS)
        cls.server.ask("POST", "/v1/streams/s-1/events", {"type": "order.placed", "id": "e-1",
                                                          "data": {"customer": "ann", "amount": 1}})
        wait_until(lambda: cls.server.ask("GET", "/v1/views/customers/ann").status == 200)
        cls.reader = make_token(cls.server.data, "--scope", "read")["token"]
        cls.admin = make_token(cls.server.data, "--scope", "admin")["token"]
        wait_until(lambda: cls.server.ask("GET", "/v1/status").status == 401)

    def give(self, token):
        self.b.wait("document.querySelector('dialog.token')")
        self.b.fill("Token", token)
        self.b.press("Look")
        self.b.wait("document.querySelector('main h1')")

    def test_a_reader_sees_everything_and_presses_nothing(self):
        self.b.js("sessionStorage.clear()")
        self.b.open(self.server.url + "/")
        self.give(self.reader)
        self.b.wait_words("read only")
        for page in ("", "projections", "projection/customers", "outbox", "row/customers/s-1/1", "crew", "events",
                     "stream/s-1", "event/e-1", "views/customers", "view/customers/ann", "publishers", "gaps", "runs", "audit"):
            self.b.go(page)
            self.assertEqual([], self.b.js("[...document.querySelectorAll('main button')].map((n) => n.textContent)"
                                           f".filter((t) => !{json.dumps(LOOKING)}.includes(t))"), page)
            self.assertNotIn("This token is not allowed to do that.", self.b.text())
        self.assertNotIn("Tokens", self.b.text())
        self.assertIsNone(self.b.js("localStorage.getItem('everfold.token')"))

    def test_an_administrator_makes_a_token_and_ends_it(self):
        self.b.js("sessionStorage.clear()")
        self.b.open(self.server.url + "/")
        self.give(self.admin)
        self.b.press("Tokens")
        self.b.press("Make a token")
        self.b.fill("Note", "for the wall")
        shown = self.dialog_command()
        self.assertEqual("everfold token create --scope read --expires 90d --note 'for the wall'", shown)
        self.b.press("Make it")
        secret = self.b.wait("document.querySelector('main .notice code')?.textContent")
        self.assertEqual(200, self.ask("GET", "/v1/status", token=secret).status)
        name = secret.split("_")[1]
        again = json.loads(everfold(self.server.data, *shlex.split(shown)[1:], "-o", "json"))
        self.assertEqual((["read"], "for the wall"), (again["scopes"], again["note"]))
        self.b.js(f"[...document.querySelectorAll('main tr')].find((r) => r.textContent.includes('{name}'))"
                  ".querySelector('button').click()")
        self.b.fill("Reason", "a test")
        self.b.fill("Type", name)
        shown = self.dialog_command()
        self.assertEqual(f"everfold token revoke {name} --reason 'a test'", shown)
        everfold(self.server.data, *shlex.split(shown.replace(name, again["id"]))[1:])
        self.b.press("Revoke")
        for ended in (secret, again["token"]):
            wait_until(lambda t=ended: self.ask("GET", "/v1/status", token=t).status == 401)
        self.nothing_wrong(allowed=["401"])
