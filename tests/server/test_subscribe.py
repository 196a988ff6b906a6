"""Server-sent events: live, resumed, and ended by a stop."""
import json
import re
import socket
import threading
import time

from support import CUSTOMERS, Case, Server, everfold, make_token, wait_until


class Follower:
    """Reads a subscription in a thread; `frames` are (event, id, data), `resets` the data of resets."""

    def __init__(self, server, path, headers=None):
        self.connection = server.connect(timeout=30)
        self.connection.request("GET", path, headers=headers or {})
        self.response = self.connection.getresponse()
        self.frames, self.resets, self.ended, self.last_id, self.beats = [], [], False, None, 0
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def lines(self):
        """Read in blocks: the lines of a chunked response, one by one, take Python a minute for 80 MB."""
        rest = b""
        while block := self.response.read1(1 << 18):
            *lines, rest = (rest + block).split(b"\n")
            yield from lines

    def read(self):
        frame = {}
        try:
            for line in self.lines():
                line = line.decode()
                if line.startswith(":"):
                    self.beats += 1
                    continue
                if line:
                    key, value = line.split(": ", 1)
                    frame[key] = value
                elif frame:
                    self.last_id, data = frame["id"], json.loads(frame["data"])
                    if frame["event"] == "reset":
                        self.resets.append(data)
                    else:
                        self.frames.append((frame["event"], frame["id"], data))
                    frame = {}
        except (OSError, ValueError):
            pass
        self.ended = True

    def close(self):
        self.connection.sock.close()


SETTING = """projection setting version 1
  view data.name

on value.set
  value = data.to
on value.added
  value += data.by
"""


class Subscribe(Case):
    @classmethod
    def make_server(cls):
        return Server(env={"EVERFOLD_SERVER_HEARTBEAT": "1s"})

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server.ask("PUT", "/v1/projections/customers", CUSTOMERS)

    def placed(self, customer, amount):
        return self.append("s-" + customer, data={"customer": customer, "amount": amount})

    def test_events_from_a_position_on_and_live(self):
        first = self.placed("live", 1)
        f = Follower(self.server, f"/v1/subscribe/events?after={first['position'] - 1}")
        self.assertEqual("text/event-stream", f.response.headers["Content-Type"])
        second = self.placed("live", 2)
        wait_until(lambda: len(f.frames) >= 2)
        self.assertEqual([("event", str(first["position"])), ("event", str(second["position"]))],
                         [x[:2] for x in f.frames[:2]])
        again = Follower(self.server, "/v1/subscribe/events",
                         {"Last-Event-ID": str(first["position"])})
        wait_until(lambda: again.frames)
        self.assertEqual(str(second["position"]), again.frames[0][1])

    def test_every_change_of_a_view_reaches_every_follower(self):
        followers = [Follower(self.server, "/v1/subscribe/views/customers/many") for _ in range(20)]
        for i in range(50):
            self.placed("many", 1)
        for f in followers:
            wait_until(lambda f=f: f.frames and f.frames[-1][2]["data"]["total"] == 50)
            totals = [x[2]["data"]["total"] for x in f.frames]
            self.assertEqual(sorted(totals), totals)
            self.assertEqual(["started"], [r["reason"] for r in f.resets])

    def test_a_projection_and_what_is_refused(self):
        f = Follower(self.server, "/v1/subscribe/views/customers")
        self.placed("whole", 3)
        wait_until(lambda: [x for x in f.frames if x[2]["view_id"] == "whole"])
        self.refused(404, "not_found", self.get("/v1/subscribe/views/nobody"))
        self.refused(400, "bad_input", self.get("/v1/subscribe/events?after=-1"))
        self.refused(400, "bad_input", self.get("/v1/subscribe/events", Last_Event_ID="x"))
        for path in ("/v1/subscribe/views/customers", "/v1/subscribe/views/customers/one"):
            self.refused(400, "bad_input", self.get(path + "?after=3"))

    def test_an_idle_follower_gets_heartbeats(self):
        quiet = Follower(self.server, "/v1/subscribe/events", {"X-Tenant-Id": "quiet"})
        wait_until(lambda: quiet.beats > 2)
        self.assertEqual(([], False), (quiet.frames, quiet.ended))

    def lazy(self, tenant):
        """A follower of all events that takes next to nothing from the network by itself."""
        s = socket.socket()
        self.addCleanup(s.close)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.settimeout(20)
        s.connect((self.server.host, self.server.port))
        s.sendall(f"GET /v1/subscribe/events?after=0 HTTP/1.0\r\nHost: {self.server.host}\r\n"
                  f"X-Tenant-Id: {tenant}\r\n\r\n".encode())
        return s

    def test_one_that_does_not_read_is_let_go_and_goes_on_where_it_was(self):
        others = Follower(self.server, "/v1/subscribe/events?after=0", {"X-Tenant-Id": "large"})
        lazy = self.lazy("large")
        for i in range(60):
            self.ask("POST", "/v1/streams/large/events", {"type": "t", "data": {"i": i, "text": "x" * 200000}},
                     headers={"X-Tenant-Id": "large"})
        wait_until(lambda: len(others.frames) == 60)
        got = b"".join(iter(lambda: lazy.recv(1 << 20), b""))
        whole = re.findall(rb"id: (\d+)\ndata: (.*)\n\n", got)
        told = [json.loads(data)["data"]["i"] for _, data in whole]
        self.assertEqual(list(range(len(told))), told)
        self.assertTrue(0 < len(told) < 60, len(told))
        back = Follower(self.server, "/v1/subscribe/events",
                        {"X-Tenant-Id": "large", "Last-Event-ID": whole[-1][0].decode()})
        wait_until(lambda: len(back.frames) == 60 - len(told))
        self.assertEqual(list(range(len(told), 60)), [x[2]["data"]["i"] for x in back.frames])

    def test_a_follower_that_lags_far_behind_catches_up_on_one_connection(self):
        for _ in range(5):
            self.ask("POST", "/v1/streams/far/events",
                     [{"type": "t", "data": {"text": "x" * 2000}} for _ in range(1000)],
                     headers={"X-Tenant-Id": "far"})
        lazy, frames, edge = self.lazy("far"), 0, b""
        while frames < 5000:
            time.sleep(0.0005)
            piece = lazy.recv(1 << 16)
            self.assertTrue(piece, f"it was let go after {frames} events")
            frames += (edge + piece).count(b"\nid: ")
            edge = (edge + piece)[-4:]  # one that is cut is counted with the next piece

    def test_a_follower_gets_no_events_of_other_tenants(self):
        f = Follower(self.server, "/v1/subscribe/events", {"X-Tenant-Id": "here"})
        self.ask("POST", "/v1/streams/x/events", {"type": "t", "data": {}},
                 headers={"X-Tenant-Id": "there"})
        self.ask("POST", "/v1/streams/x/events", {"type": "t", "data": {}},
                 headers={"X-Tenant-Id": "here"})
        wait_until(lambda: f.frames)
        self.assertEqual(["here"], [x[2]["tenant"] for x in f.frames])


LINKS = """projection links version 1
  view stream

on linked
  target = data.to
on poked
  let who = target
  view format("t {}", who)
    n += 1
on ended
  delete
"""


class Followed(Case):
    """Every change is reported, and nothing else is."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server.ask("PUT", "/v1/projections/links", LINKS)

    def append_to(self, tenant, *events):
        answer = self.ask("POST", "/v1/events", [{"stream": s, "type": t, "data": d} for s, t, d in events],
                          headers={"X-Tenant-Id": tenant})
        self.assertEqual(201, answer.status, answer.body)

    def follow(self, tenant, last=None, view=""):
        headers = {"X-Tenant-Id": tenant, **({"Last-Event-ID": last} if last else {})}
        f = Follower(self.server, "/v1/subscribe/views/links" + view, headers)
        self.addCleanup(f.close)
        return f

    def view(self, tenant, name):
        return self.ask("GET", "/v1/views/links/" + name, headers={"X-Tenant-Id": tenant})

    def test_a_view_whose_id_comes_from_another_view_is_reported(self):
        self.append_to("state", ("L1", "linked", {"to": "A"}))
        wait_until(lambda: self.view("state", "L1").status == 200)
        f = self.follow("state")
        wait_until(lambda: f.resets)
        self.assertEqual({"projection": "links", "reason": "started", "as_of": f.resets[0]["as_of"]}, f.resets[0])
        self.append_to("state", ("L1", "poked", {}), ("L1", "linked", {"to": "B"}))
        wait_until(lambda: len(f.frames) == 2)
        self.append_to("state", ("L2", "linked", {"to": "C"}))
        wait_until(lambda: len(f.frames) == 3)
        self.assertEqual({("view", "L1", "B"), ("view", "t A", None), ("view", "L2", "C")},
                         {(e, d["view_id"], d["data"].get("target")) for e, _, d in f.frames})
        self.append_to("state", ("L2", "ended", {}))
        wait_until(lambda: len(f.frames) == 4)
        self.assertEqual(("gone", "L2", None), (f.frames[3][0], f.frames[3][2]["view_id"], f.frames[3][2]["data"]))

    def test_a_follower_goes_on_from_any_frame_without_a_reset(self):
        f = self.follow("resumed")
        wait_until(lambda: f.resets)
        begin = f.last_id
        for n in range(5):
            self.append_to("resumed", *((f"r{n}-{i}", "linked", {"to": "x"}) for i in range(20)))
        wait_until(lambda: len(f.frames) == 100)
        for at in (0, 1, 37, 98, 99):
            back = self.follow("resumed", f.frames[at][1])
            self.append_to("resumed", (f"r-{at}", "linked", {"to": "x"}))
            wait_until(lambda: any(d["view_id"] == f"r-{at}" for _, _, d in back.frames))
            got = {d["view_id"] for _, _, d in back.frames}
            self.assertEqual(set(), {d["view_id"] for _, _, d in f.frames[at + 1:100]} - got)
            self.assertEqual([], back.resets)
        whole = self.follow("resumed", begin)
        wait_until(lambda: len(whole.frames) == 105)
        self.assertEqual([], whole.resets)

    def test_a_follower_gets_no_changes_of_a_busy_other_tenant(self):
        f, one = self.follow("quiet"), self.follow("quiet", view="/q")
        wait_until(lambda: f.resets and one.resets)
        for n in range(10):
            self.append_to("noisy", *((f"n{i}", "linked", {"to": str(n)}) for i in range(100)))
        self.append_to("quiet", ("p", "linked", {"to": "x"}), ("q", "linked", {"to": "x"}))
        wait_until(lambda: len(f.frames) == 2 and one.frames)
        self.assertEqual({"p", "q"}, {d["view_id"] for _, _, d in f.frames})
        self.assertEqual(["q"], [d["view_id"] for _, _, d in one.frames])
        self.assertEqual({"quiet"}, {d["tenant"] for _, _, d in f.frames + one.frames})

    def test_a_place_that_is_malformed_is_refused_and_one_that_is_not_valid_is_reset(self):
        for bad in ("3", "3;4", "3.", ".4", "0.4", "3.4.5", "x", "3." + "9" * 19):
            self.refused(400, "bad_input", self.get("/v1/subscribe/views/links", Last_Event_ID=bad))
        live = self.follow("places")
        wait_until(lambda: live.resets)
        generation, number = live.last_id.split(".")
        for place, reason in ((f"{generation}.1", "expired"), (f"{generation}.{int(number) + 10 ** 9}", "expired"),
                              (f"{int(generation) + 77}.{number}", "switched")):
            f = self.follow("places", place)
            wait_until(lambda: f.resets)
            self.assertEqual([reason], [r["reason"] for r in f.resets])
            self.append_to("places", ("p" + place, "linked", {"to": "x"}))
            wait_until(lambda: f.frames)
            self.assertEqual(["p" + place], [d["view_id"] for _, _, d in f.frames])

    def test_a_switch_resets_followers_without_an_append(self):
        name = "switched"
        program = LINKS.replace("links", name)
        self.ask("PUT", f"/v1/projections/{name}", program)
        f = Follower(self.server, f"/v1/subscribe/views/{name}")
        self.addCleanup(f.close)
        wait_until(lambda: f.resets)
        self.ask("PUT", f"/v1/projections/{name}", program.replace("version 1", "version 2"))
        wait_until(lambda: all(p["state"] == "live"
                               for p in self.get(f"/v1/projections/{name}").json()["generations"]))
        answer = self.ask("POST", f"/v1/projections/{name}:switch", {"version": 2, "reason": "a test"})
        self.assertIn(answer.status, (200, 201, 202, 204), answer.body)
        wait_until(lambda: len(f.resets) == 2)
        self.assertEqual(["started", "switched"], [r["reason"] for r in f.resets])
        self.append("after-switch", "linked", {"to": "x"})
        wait_until(lambda: f.frames)


class Failing(Case):
    """An event that fails holds up its own stream, and what follows in it is reported when it goes through."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server.ask("PUT", "/v1/projections/setting", SETTING)

    def set(self, name, to):
        return self.append("set-" + name, "value.set", {"name": name, "to": to})

    def add(self, name, stream, by):
        return self.append("add-" + stream, "value.added", {"name": name, "by": by})

    def told(self, follower, name):
        return [x[2]["data"]["value"] for x in follower.frames if x[2]["view_id"] == name]

    def failed(self, position):
        rows = self.get("/v1/outbox?lane=setting&limit=1000").json()["rows"]
        return [r for r in rows if r["position"] == position]

    def test_commits_of_other_processes_are_followed_also_late_ones(self):
        live = Follower(self.server, "/v1/subscribe/views/setting")
        self.set("a", "no number")
        poison = self.add("a", "a", 1)
        self.add("b", "a", 5)  # blocked by it, though nothing is wrong with it
        wait_until(lambda: self.failed(poison["position"]))
        self.set("c", 1)
        wait_until(lambda: self.told(live, "c"))
        self.assertEqual([], self.told(live, "b"))
        self.assertLess(live.frames[-1][2]["as_of"], poison["position"])
        now = Follower(self.server, "/v1/subscribe/views/setting")
        resumed = live.last_id

        self.set("a", 10)
        self.ask("POST", "/v1/outbox:replay", {"stream": "add-a", "seq": 1, "lane": "setting"})
        back = Follower(self.server, "/v1/subscribe/views/setting", {"Last-Event-ID": resumed})
        one = Follower(self.server, "/v1/subscribe/views/setting/b", {"Last-Event-ID": resumed})
        for follower in (live, now, back):
            wait_until(lambda f=follower: self.told(f, "b") == [5] and self.told(f, "a")[-1] == 11)
        wait_until(lambda: self.told(one, "b") == [5])
        self.assertEqual([], self.told(back, "c"))
        self.assertEqual([], back.resets + one.resets)

    def test_what_is_skipped_lets_its_stream_go_on_without_an_append(self):
        self.set("s", "no number")
        poison = self.add("s", "skipped", 1)
        self.add("t", "skipped", 7)
        wait_until(lambda: self.failed(poison["position"]))
        f = Follower(self.server, "/v1/subscribe/views/setting/t")
        time.sleep(1.5)  # it waits as when idle
        self.ask("POST", "/v1/outbox:skip",
                 {"stream": "add-skipped", "seq": 1, "lane": "setting", "reason": "a test"})
        wait_until(lambda: self.told(f, "t") == [7])


LARGE = """projection large version 1
  view stream

on page.written
  text = data.text
on page.seen
  seen += 1
"""


class Large(Case):
    """90 views of 900 KB that change together: more than a step of the hub may hold."""
    VIEWS, BYTES = 90, 900_000

    def test_followers_of_large_views_get_every_change_and_others_do_not_wait(self):
        self.server.ask("PUT", "/v1/projections/large", LARGE)
        for n in range(self.VIEWS):
            self.append(f"page-{n}", "page.written", {"text": "x" * self.BYTES})
        wait_until(lambda: self.server.ask("GET", f"/v1/views/large/page-{self.VIEWS - 1}").status == 200)
        start = Follower(self.server, "/v1/subscribe/views/large")
        wait_until(lambda: start.resets)
        start.close()
        resume = {"Last-Event-ID": start.last_id}
        for first in range(0, self.VIEWS, 10):
            self.ask("POST", "/v1/events", [{"stream": f"page-{n}", "type": "page.seen", "data": {}}
                                            for n in range(first, first + 10)])
        wait_until(lambda: self.server.ask("GET", f"/v1/views/large/page-{self.VIEWS - 1}").json()["data"].get("seen"))
        one = Follower(self.server, "/v1/subscribe/views/large/page-70", resume)
        every = Follower(self.server, "/v1/subscribe/views/large", resume)
        quick = Follower(self.server, "/v1/subscribe/events?type=ping")
        for turn in range(20):
            sent = time.monotonic()
            self.append("ping", "ping", {})
            wait_until(lambda: len(quick.frames) > turn)
            self.assertLess(time.monotonic() - sent, 30)
        wait_until(lambda: one.frames)
        # A step reads few of them, and the next one must not wait for the poll of an idle topic, a second later.
        wait_until(lambda: len({data["view_id"] for _, _, data in every.frames}) == self.VIEWS, 30)
        self.assertEqual([("view", "page-70", 1)], [(e, d["view_id"], d["data"]["seen"]) for e, _, d in one.frames])
        self.assertEqual({(f"page-{n}", 1) for n in range(self.VIEWS)},
                         {(d["view_id"], d["data"]["seen"]) for _, _, d in every.frames})
        self.assertEqual([], one.resets + every.resets)
        for follower in (one, every, quick):
            follower.close()


class Revoked(Case):
    def test_a_token_that_is_revoked_ends_its_subscriptions(self):
        open_to_all = Follower(self.server, "/v1/subscribe/events")
        one, other = (make_token(self.server.data, "--scope", "read,append") for _ in range(2))
        wait_until(lambda: open_to_all.ended)  # the first token ends what this machine may do

        def follow(token):
            return Follower(self.server, "/v1/subscribe/events",
                            {"Authorization": "Bearer " + token["token"]})
        ends, stays = follow(one), follow(other)
        self.ask("POST", "/v1/streams/x/events", {"type": "t", "data": {}}, token=other["token"])
        wait_until(lambda: ends.frames and stays.frames)
        everfold(self.server.data, "token", "revoke", one["id"])
        wait_until(lambda: ends.ended)
        self.ask("POST", "/v1/streams/x/events", {"type": "t", "data": {}}, token=other["token"])
        wait_until(lambda: len(stays.frames) == 2)
        self.assertEqual((1, False), (len(ends.frames), stays.ended))


class Stop(Case):
    def test_a_stop_ends_subscriptions_and_answers_what_is_in_hand(self):
        server = Server()
        f = Follower(server, "/v1/subscribe/events")
        self.assertEqual(0, server.stop())
        wait_until(lambda: f.ended)
