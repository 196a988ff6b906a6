"""Server-sent events: live, resumed, and ended by a stop."""
import json
import threading

from support import CUSTOMERS, Case, Server, wait_until


class Follower:
    """Reads a subscription in a thread; `frames` are (event, id, data)."""

    def __init__(self, server, path, headers=None):
        self.connection = server.connect(timeout=30)
        self.connection.request("GET", path, headers=headers or {})
        self.response = self.connection.getresponse()
        self.frames, self.ended = [], False
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        frame = {}
        try:
            for line in self.response:
                line = line.decode().rstrip("\n")
                if line.startswith(":"):
                    continue
                if line:
                    key, value = line.split(": ", 1)
                    frame[key] = value
                elif frame:
                    self.frames.append((frame["event"], int(frame["id"]), json.loads(frame["data"])))
                    frame = {}
        except (OSError, ValueError):
            pass
        self.ended = True

    def close(self):
        self.connection.sock.close()


class Subscribe(Case):
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

    def test_other_tenants_are_not_heard(self):
        f = Follower(self.server, "/v1/subscribe/events", {"X-Tenant-Id": "here"})
        self.ask("POST", "/v1/streams/x/events", {"type": "t", "data": {}},
                 headers={"X-Tenant-Id": "there"})
        self.ask("POST", "/v1/streams/x/events", {"type": "t", "data": {}},
                 headers={"X-Tenant-Id": "here"})
        wait_until(lambda: f.frames)
        self.assertEqual(["here"], [x[2]["tenant"] for x in f.frames])


class Stop(Case):
    def test_a_stop_ends_subscriptions_and_answers_what_is_in_hand(self):
        server = Server()
        f = Follower(server, "/v1/subscribe/events")
        self.assertEqual(0, server.stop())
        wait_until(lambda: f.ended)
