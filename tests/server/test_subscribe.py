"""Server-sent events: live, resumed, and ended by a stop."""
import json
import re
import socket
import threading
import time

from support import CUSTOMERS, Case, Server, everfold, make_token, wait_until


class Follower:
    """Reads a subscription in a thread; `frames` are (event, id, data)."""

    def __init__(self, server, path, headers=None):
        self.connection = server.connect(timeout=30)
        self.connection.request("GET", path, headers=headers or {})
        self.response = self.connection.getresponse()
        self.frames, self.ended, self.last_id, self.beats = [], False, None, 0
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        frame = {}
        try:
            for line in self.response:
                line = line.decode().rstrip("\n")
                if line.startswith(":"):
                    self.beats += 1
                    continue
                if line:
                    key, value = line.split(": ", 1)
                    frame[key] = value
                elif frame:
                    self.last_id = frame["id"]
                    self.frames.append((frame["event"], int(frame["id"].split(";")[0]),
                                        json.loads(frame["data"])))
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
        self.assertEqual([("event", first["position"]), ("event", second["position"])],
                         [x[:2] for x in f.frames[:2]])
        again = Follower(self.server, "/v1/subscribe/events",
                         {"Last-Event-ID": str(first["position"])})
        wait_until(lambda: again.frames)
        self.assertEqual(second["position"], again.frames[0][1])

    def test_every_change_of_a_view_reaches_every_follower(self):
        followers = [Follower(self.server, "/v1/subscribe/views/customers/many") for _ in range(20)]
        for i in range(50):
            last = self.placed("many", 1)
        for f in followers:
            wait_until(lambda f=f: f.frames and f.frames[-1][2]["data"]["total"] == 50)
            totals = [x[2]["data"]["total"] for x in f.frames]
            self.assertEqual(sorted(totals), totals)
            self.assertGreaterEqual(f.frames[-1][1], last["position"])

    def test_a_projection_and_what_is_refused(self):
        f = Follower(self.server, "/v1/subscribe/views/customers")
        self.placed("whole", 3)
        wait_until(lambda: [x for x in f.frames if x[2]["view_id"] == "whole"])
        self.refused(404, "not_found", self.get("/v1/subscribe/views/nobody"))
        self.refused(400, "bad_input", self.get("/v1/subscribe/events?after=-1"))
        self.refused(400, "bad_input", self.get("/v1/subscribe/events", Last_Event_ID="x"))

    def test_a_follower_without_news_is_told_so(self):
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

    def test_whoever_is_far_behind_catches_up_on_one_connection(self):
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

    def test_other_tenants_are_not_heard(self):
        f = Follower(self.server, "/v1/subscribe/events", {"X-Tenant-Id": "here"})
        self.ask("POST", "/v1/streams/x/events", {"type": "t", "data": {}},
                 headers={"X-Tenant-Id": "there"})
        self.ask("POST", "/v1/streams/x/events", {"type": "t", "data": {}},
                 headers={"X-Tenant-Id": "here"})
        wait_until(lambda: f.frames)
        self.assertEqual(["here"], [x[2]["tenant"] for x in f.frames])


class Failing(Case):
    """An event that fails holds up its own stream, and what follows in it is told when it goes."""

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

    def test_others_are_heard_and_the_late_ones_too(self):
        live = Follower(self.server, "/v1/subscribe/views/setting")
        self.set("a", "no number")
        poison = self.add("a", "a", 1)
        behind = self.add("b", "a", 5)  # waits behind it, though nothing is wrong with it
        wait_until(lambda: self.failed(poison["position"]))
        last = self.set("c", 1)
        wait_until(lambda: self.told(live, "c"))
        self.assertEqual([], self.told(live, "b"))
        self.assertEqual(f"{last['position']};{poison['position']}", live.last_id)
        self.assertEqual(poison["position"] - 1, live.frames[-1][2]["as_of"])
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
        self.set("c", 2)
        for follower in (live, now, back):
            wait_until(lambda f=follower: self.told(f, "c")[-1:] == [2])
            self.assertNotIn(";", follower.last_id)
        self.assertGreater(behind["position"], poison["position"])

    def test_what_is_passed_over_lets_its_stream_go_on(self):
        self.set("s", "no number")
        poison = self.add("s", "skipped", 1)
        self.add("t", "skipped", 7)
        wait_until(lambda: self.failed(poison["position"]))
        f = Follower(self.server, "/v1/subscribe/views/setting/t")
        self.ask("POST", "/v1/outbox:skip",
                 {"stream": "add-skipped", "seq": 1, "lane": "setting", "reason": "a test"})
        wait_until(lambda: self.told(f, "t") == [7])

    def test_a_place_that_never_was_is_refused(self):
        path = "/v1/subscribe/views/setting"
        for bad in ("3;", "3;4", "3;2,1", "3;0", "3;1;2", ";1", "9" * 19, "9;" + "1," * 70):
            self.refused(400, "bad_input", self.get(path, Last_Event_ID=bad))
        self.refused(400, "bad_input", self.get("/v1/subscribe/events", Last_Event_ID="3;1"))
        there = self.set("place", 1)["position"]
        other = Follower(self.server, path, {"Last-Event-ID": f"{there};{there}",
                                             "X-Tenant-Id": "another"})
        wait_until(lambda: other.ended)


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
        before = self.server.ask("GET", "/v1/status").json()["head"]["position"]
        for start in range(0, self.VIEWS, 10):
            self.ask("POST", "/v1/events", [{"stream": f"page-{n}", "type": "page.seen", "data": {}}
                                            for n in range(start, start + 10)])
        wait_until(lambda: self.server.ask("GET", f"/v1/views/large/page-{self.VIEWS - 1}").json()["data"].get("seen"))
        one = Follower(self.server, f"/v1/subscribe/views/large/page-70?after={before}")
        every = Follower(self.server, f"/v1/subscribe/views/large?after={before}")
        quick = Follower(self.server, "/v1/subscribe/events?type=ping")
        for turn in range(20):
            sent = time.monotonic()
            self.append("ping", "ping", {})
            wait_until(lambda: len(quick.frames) > turn)
            self.assertLess(time.monotonic() - sent, 5)
        wait_until(lambda: one.frames)
        wait_until(lambda: len({data["view_id"] for _, _, data in every.frames}) == self.VIEWS, 60)
        self.assertEqual([("view", "page-70", 1)], [(e, d["view_id"], d["data"]["seen"]) for e, _, d in one.frames])
        self.assertEqual({(f"page-{n}", 1) for n in range(self.VIEWS)},
                         {(d["view_id"], d["data"]["seen"]) for _, _, d in every.frames})
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
