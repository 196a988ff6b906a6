"""Server-sent events: a subscriber that reconnects after restarts and kills misses nothing and receives nothing twice."""
import http.client
import json
import random
import signal
import threading
import time
import urllib.error
import urllib.request

from kit import EVENTS, Journey, on_stores, orders, to_json, wait_until


class Subscriber(threading.Thread):
    """Follows the journal from the beginning. Reconnects with Last-Event-ID until it is told to stop."""

    def __init__(self, journey):
        super().__init__(daemon=True)
        self.journey, self.got, self.last, self.stop, self.connections = journey, [], None, False, 0

    def run(self):
        while not self.stop:
            try:
                self.follow()
            except (OSError, urllib.error.URLError, ValueError):
                time.sleep(0.05)

    def follow(self):
        headers = {"Last-Event-ID": self.last} if self.last else {}
        request = urllib.request.Request(self.journey.server_url + "/v1/subscribe/events?after=0", headers=headers)
        identity = None
        with urllib.request.urlopen(request, timeout=5) as stream:
            self.connections += 1
            for line in stream:
                if self.stop:
                    return
                field, _, value = line.decode().rstrip("\n").partition(": ")
                if field == "id":
                    identity = value
                elif field == "data":
                    event = json.loads(value)
                    self.got.append((event["position"], event["id"]))
                    self.last = identity


def of_tenant(tenant):
    return {"X-Tenant-Id": tenant} if tenant else {}


class Served(Journey):
    """A server that is ended and started again on the same port."""

    def append_batches(self, events, tenant=""):
        for first in range(0, len(events), 1_000):
            body = "\n".join(to_json(e) for e in events[first:first + 1_000])
            answer = self.http("POST", "/v1/events", body,
                               {"Content-Type": "application/x-ndjson", **of_tenant(tenant)})
            self.assertEqual(201, answer.status, str(answer))

    def serve_again(self, port):
        process = self.start("serve", "--listen", f"127.0.0.1:{port}")

        def answers():
            self.assertIsNone(process.poll(), process.log.read_text()[-4000:])
            try:
                return self.http("GET", "/livez").status == 200
            except OSError:
                return False
        wait_until(answers, "serve answers again")
        return process


@on_stores("sqlite", "postgres")
class Subscribe(Served):
    def test_a_subscriber_sees_every_event_once_over_restarts(self):
        events = list(orders(EVENTS))
        self.ef("init")
        server = self.serve()
        port = self.server_url.rsplit(":", 1)[1]
        subscriber = Subscriber(self)
        subscriber.start()
        for number, how in enumerate((signal.SIGTERM, signal.SIGKILL, signal.SIGTERM, None)):
            part = events[number * EVENTS // 4:(number + 1) * EVENTS // 4]
            self.append_batches(part)
            if how is not None:
                self.end(server, how)
                server = self.serve_again(port)
        wait_until(lambda: len(subscriber.got) >= EVENTS, "every event was received")
        time.sleep(0.2)  # a duplicate would come now
        subscriber.stop = True
        self.assertEqual([(n + 1, e["id"]) for n, e in enumerate(events)], subscriber.got)
        self.assertGreaterEqual(subscriber.connections, 4)


LINKS_FOLD = """projection links version 1
  view stream

on linked
  target = data.to
on poked
  let who = target
  view format("t {}", who)
    n += 1
on cleared
  let who = target
  view format("t {}", who)
    delete
on ended
  delete
"""


def links(count, seed=7):
    """Events whose views have ids that come from other views; an event is for a link that is there. Links share no
    target: the order of events is certain within a stream only."""
    dice, target = random.Random(seed), {}
    for _ in range(count):
        link, chance = f"L{dice.randrange(400)}", dice.random()
        if link not in target or chance < 0.3:
            target[link] = f"{link}-{dice.randrange(10)}"
            yield {"stream": link, "type": "linked", "data": {"to": target[link]}}
        elif chance < 0.9:
            yield {"stream": link, "type": "poked", "data": {}}
        elif chance < 0.95:
            yield {"stream": link, "type": "cleared", "data": {}}
        else:
            del target[link]
            yield {"stream": link, "type": "ended", "data": {}}


def link_views(events):
    """The views that `events` lead to, and the ids of all that ever existed."""
    views, ever = {}, set()
    for event in events:
        link = event["stream"]
        if event["type"] == "linked":
            views[link] = {"target": event["data"]["to"]}
            ever.add(link)
        elif event["type"] == "ended":
            del views[link]
        else:
            name = "t " + views[link]["target"]
            if event["type"] == "cleared":
                views.pop(name, None)
            else:
                views[name] = {"n": views.get(name, {"n": 0})["n"] + 1}
                ever.add(name)
    return views, ever


class Cache(threading.Thread):
    """Keeps the views of a tenant by following them: reads after a reset, then every frame. It is cut off after a
    random number of frames and goes on with Last-Event-ID."""

    def __init__(self, journey, seed, tenant="", view=None):
        super().__init__(daemon=True)
        self.journey, self.dice, self.tenant, self.view = journey, random.Random(seed), tenant, view
        self.views, self.ids, self.resets, self.last, self.stop = {}, set(), [], None, False
        self.connections, self.broken = 0, None

    def run(self):
        while not self.stop:
            try:
                self.follow()
            except urllib.error.HTTPError as refused:  # shown by the test
                if refused.code != 503:
                    self.broken = refused.read()
                    return
            except (OSError, http.client.HTTPException):
                time.sleep(0.05)
            except Exception as problem:
                self.broken = problem
                raise

    def follow(self):
        path = "/v1/subscribe/views/links" + (f"/{self.view}" if self.view else "")
        headers = {**of_tenant(self.tenant), **({"Last-Event-ID": self.last} if self.last else {})}
        request = urllib.request.Request(self.journey.server_url + path, headers=headers)
        left, frame = self.dice.choice((1, 3, 50, 2_000, 5_000)), {}
        with urllib.request.urlopen(request, timeout=20) as stream:
            self.connections += 1
            for line in stream:
                if self.stop or left == 0:
                    return
                field, _, value = line.decode().rstrip("\n").partition(": ")
                if field:
                    frame[field] = value
                elif "data" in frame:
                    self.take(frame["event"], json.loads(frame["data"]))
                    self.last, frame, left = frame["id"], {}, left - 1
                else:
                    frame = {}

    def take(self, event, data):
        if event == "reset":
            self.resets.append(data["reason"])
            self.views = self.read()
            return
        self.ids.add(data["view_id"])
        if event == "gone":
            self.views.pop(data["view_id"], None)
        else:
            self.views[data["view_id"]] = data["data"]

    def read(self):
        found, after = {}, ""
        while True:
            answer = self.journey.http("GET", f"/v1/views/links?limit=1000{after}", headers=of_tenant(self.tenant))
            if answer.status != 200:
                raise OSError(str(answer))
            page = answer.json()
            found.update({v["view_id"]: v["data"] for v in page["items"] if self.view in (None, v["view_id"])})
            if not page.get("next"):
                return found
            after = "&after=" + page["next"]


@on_stores("sqlite", "lmdb", "postgres")
class FollowedViews(Served):
    def wait_equal(self, cache, views):
        try:
            wait_until(lambda: cache.broken or cache.views == views, "a cache is equal to the views")
        except AssertionError:
            differ = {name for name in views.keys() | cache.views.keys() if views.get(name) != cache.views.get(name)}
            self.assertEqual({name: views.get(name) for name in differ},
                             {name: cache.views.get(name) for name in differ})
            raise
        self.assertIsNone(cache.broken)

    def test_caches_that_are_cut_off_at_random_are_equal_to_the_views(self):
        events = list(links(EVENTS))
        few = list(links(200, seed=8))
        wanted, ever = link_views(events)
        self.ef("init")
        self.deploy(LINKS_FOLD)
        server = self.serve()
        port = self.server_url.rsplit(":", 1)[1]
        caches = [Cache(self, seed) for seed in range(3)]
        quiet, one = Cache(self, 3, tenant="quiet"), Cache(self, 4, view="L7")
        for cache in (*caches, quiet, one):
            cache.start()
        wait_until(lambda: all(c.resets or c.broken for c in caches), "following has begun")
        for number in range(10):
            self.append_batches(events[number * EVENTS // 10:(number + 1) * EVENTS // 10])
            self.append_batches(few[number * 20:(number + 1) * 20], tenant="quiet")
            if number in (3, 6):
                self.end(server, signal.SIGKILL)
                server = self.serve_again(port)
        for tenant in ([], ["--tenant", "quiet"]):  # leases of the servers that were killed expire first
            self.ef("projection", "wait", "links", "--timeout", "250s", *tenant)
        few_wanted, few_ever = link_views(few)
        only = {name: data for name, data in wanted.items() if name == "L7"}
        for cache, views, ids in (*((c, wanted, ever) for c in caches), (quiet, few_wanted, few_ever),
                                  (one, only, {"L7"})):
            self.wait_equal(cache, views)
            self.assertEqual(set(), cache.ids - ids)  # nothing was invented
            self.assertEqual(["started"], cache.resets)
        time.sleep(0.5)  # nothing comes that is not so
        for cache in (*caches, quiet, one):
            cache.stop = True
        self.assertTrue(all(c.views == wanted for c in caches) and quiet.views == few_wanted)
        self.assertGreater(sum(c.connections for c in caches), 20)
