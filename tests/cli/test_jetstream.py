"""JetStream as the journal: a real nats-server, with holes, poison, kills, older copies and lost acknowledgements."""
import datetime
import json
import os
import pathlib
import re
import shutil
import signal
import sys
import threading
import time
import unittest
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import postgres_server  # noqa: E402

from broker import Authority, Broker, Credentials, DeafProxy, Password, free_port  # noqa: E402
from support import Case, interrupt  # noqa: E402

# Its views say in which order the events came, and not only how many.
PROGRAM = """projection totals version {version}
  view data.who

on paid
  count += 1
  sum += data.amount * {factor}
  last = data.n ?? 0
  seen push data.n ?? 0
"""
METRICS_PAGE = pathlib.Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"


def ours(n, who="a", amount=1, tenant="acme", stream=None, **more):
    return (f"tenant.{tenant}.aggregate.account.{stream or who}",
            {"type": "paid", "data": {"who": who, "amount": amount, "n": n}, "id": f"e{n}", **more},
            {"Nats-Msg-Id": f"e{n}"})


def mixed(numbers):
    """Five views, and seven streams that each feed all of them."""
    return [ours(n, who=f"w{n % 5}", stream=f"s{n % 7}") for n in numbers]


def folded(messages):
    """What the program makes of them, in their order."""
    views = {}
    for _, body, _ in messages:
        data = body["data"]
        view = views.setdefault(data["who"], {"count": 0, "sum": 0, "last": 0, "seen": []})
        view["count"] += 1
        view["sum"] += data["amount"]
        view["last"] = data["n"]
        view["seen"].append(data["n"])
    return views


class Trace:
    """What strace has written down: how often an acknowledgement was sent while something that was written to a file was
    not synced yet. What is written to a file that was opened for that is synced by it."""

    def __init__(self, text, file):
        self.writes = self.acknowledged = self.too_early = 0
        dirty, through, syncing = False, set(), {}
        for line in text.splitlines():
            thread, call = line.split(None, 1)
            opened = re.match(r"openat\(.*?, (\S+?)(?:, \w+)?\) = (\d+)<", call)
            written = re.match(r"pwrite(?:64|v)\((\d+)<([^>]*)>", call)
            synced = re.match(r"f(?:data)?sync\(\d+<([^>]*)>(.*)", call)
            if opened:
                (through.add if "O_DSYNC" in opened[1] else through.discard)(opened[2])
            elif written and written[2].endswith(file):
                self.writes += 1
                dirty = dirty or written[1] not in through
            elif synced and "unfinished" in synced[2]:
                syncing[thread] = synced[1]
            elif synced or "sync resumed>" in call:
                dirty = dirty and not (synced[1] if synced else syncing.pop(thread)).endswith(file)
            elif "PUB $JS.ACK." in call and "resumed" not in call:
                self.acknowledged += call.count("PUB $JS.ACK.")
                self.too_early += dirty


class Jetstream(Case):
    def setUp(self):
        super().setUp()
        self.broker = Broker(self.dir / "broker")
        self.broker.start()
        self.addCleanup(lambda: self.broker.process.poll() is None and self.broker.kill())
        self.options, self.port, self.views_url = "", self.broker.port, None

    def environment(self, **more):
        url = f"nats://127.0.0.1:{self.port}/EVENTS{self.options}"
        return super().environment(**{"EVERFOLD_JOURNAL": url, "EVERFOLD_VIEWS": self.views_url, **more})

    def begin(self, *subjects):
        self.broker.make_stream(*(subjects or ["tenant.*.aggregate.*.*"]))
        self.init()
        self.deploy()

    def deploy(self, version=1, factor=1):
        path = self.dir / "totals.fold"
        path.write_text(PROGRAM.format(version=version, factor=factor))
        self.ok("projection", "deploy", path)

    def work(self, leaves=False):
        return (self.leaves if leaves else self.ok)("work", "--drain", "--no-leasing")

    def views(self, tenant="acme"):
        answer = self.ok("view", "query", "totals", "--tenant", tenant, "-o", "json").json()
        return {v["view_id"]: v["data"] for v in answer["items"]}

    def totals(self, tenant="acme"):
        return {who: (data["count"], data["sum"]) for who, data in self.views(tenant).items()}

    def shown(self):
        return self.ok("projection", "show", "totals", "-o", "json").json()

    def settled(self, position):
        """All is read, and all adds up."""
        end = time.monotonic() + 120
        while time.monotonic() < end:
            shown = self.shown()
            if shown["position"] == position and shown["state"] == "live":
                self.assertEqual(0, shown["unaccounted"])
                return shown
            time.sleep(0.1)
        self.fail(f"it does not come to position {position}: {shown}")

    def until(self, what, limit_s=120):
        """What it says as soon as that is true."""
        end = time.monotonic() + limit_s
        while not (answer := what()):
            self.assertLess(time.monotonic(), end, "that did not happen in time")
            time.sleep(0.05)
        return answer

    def serve(self):
        """A server with its workers; what reads its metrics."""
        port = free_port()
        server = self.start("serve", "--quiet", "--listen", f"127.0.0.1:{port}")
        self.addCleanup(lambda: server.poll() is None and server.kill())

        def scrape():
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
                lines = answer.read().decode().splitlines()
            return {name.removeprefix("everfold_"): float(value) for name, value in
                    (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}

        def is_up():
            try:
                return scrape()
            except OSError:
                return None
        self.until(is_up)
        return server, scrape

    def consumer(self):
        """What the broker says of the one durable that there is; None while it is made anew.

        One that goes or comes while the broker writes the list is a null in it."""
        consumers = self.broker.ask("$JS.API.CONSUMER.LIST.EVENTS", {})["consumers"] or []
        durables = [c for c in consumers if c and c["config"].get("durable_name")]
        self.assertLessEqual(len(durables), 1)
        return durables[0] if durables else None

    def acknowledged(self, position):
        """Everything up to there, and the broker has heard it."""
        def is_heard():
            found = self.consumer()
            return found and found["ack_floor"]["stream_seq"] == position and found
        return self.until(is_heard)

    # --- reading -----------------------------------------------------------------------------

    def test_envelopes_of_all_kinds_become_events_and_positions_are_sequences(self):
        self.begin()
        data = b'{"who" : "b","amount":2.50}'
        self.broker.publish([
            ours(1),
            ("tenant.acme.aggregate.account.b",
             {"specversion": "1.0", "id": "ce-1", "source": "/till", "type": "paid",
              "data": {"who": "b", "amount": 2}}, {}),
            ("tenant.acme.aggregate.account.b", data,
             {"ce-specversion": "1.0", "ce-id": "ce-2", "ce-source": "/till", "ce-type": "paid",
              "Content-Type": "application/json"}),
            ours(4, tenant="globex", who="c", amount=7),
            ("tenant._.aggregate._.plain", {"type": "paid", "data": {"who": "d", "amount": 9}},
             {"Nats-Msg-Id": "mine"})])
        self.work()
        self.assertEqual({"a": (1, 1), "b": (2, 4.5)}, self.totals())
        self.assertEqual({"c": (1, 7)}, self.totals("globex"))
        self.assertEqual({"d": (1, 9)}, self.totals(""))
        log = self.ok("event", "log", "--tenant", "acme", "-o", "json").json()
        self.assertEqual([(1, "account.a", "e1"), (2, "account.b", "ce-1"), (3, "account.b", "ce-2")],
                         [(e["position"], e["stream"], e["id"]) for e in log])
        self.assertEqual("/till", log[1]["meta"]["source"])
        self.assertIn(data.decode(), self.ok("event", "ls", "account.b", "--tenant", "acme", "-o",
                                             "ndjson").out) # the bytes that came
        self.assertEqual("mine", self.ok("event", "log", "-o", "json").json()[0]["id"])
        self.assertEqual(3, self.ok("view", "get", "totals", "b", "--tenant", "acme", "-o",
                                    "json").json()["last_event_sequence"])
        self.settled(5)
        self.assertRegex(self.acknowledged(5)["name"], "-totals-1$")

    def test_holes_and_other_subjects_are_passed_and_the_accounts_add_up(self):
        self.begin("tenant.*.aggregate.*.*", "other.>")
        self.broker.publish([ours(1), ("other.x", b"?", {}), ours(2), ours(3), ours(4),
                             ("other.y", b"?", {})])
        self.broker.delete(4)
        self.work()
        self.assertEqual({"a": (3, 3)}, self.totals())
        self.settled(6)
        self.broker.delete(5) # the last one that was applied: nothing is lost by that
        self.broker.publish([("other.z", b"?", {})])
        self.work()
        self.settled(7)
        self.broker.publish([ours(5)])
        self.work()
        self.assertEqual({"a": (4, 4)}, self.totals())
        self.settled(8)

    def test_a_filter_reads_a_part_of_the_stream(self):
        self.options = "?subject=tenant.globex.>"
        self.begin()
        self.broker.publish([ours(1), ours(2, tenant="globex")])
        self.work()
        self.assertEqual({}, self.totals())
        self.assertEqual({"a": (1, 1)}, self.totals("globex"))
        self.refused(2, "event", "append", "account.a", "--tenant", "acme", "--type", "paid",
                     "--data", "{}", saying="reads only tenant.globex.aggregate.*.*")

    def test_appending(self):
        self.begin()
        add = ["event", "append", "account.a", "--tenant", "acme", "--type", "paid", "--data",
               '{"who":"a","amount":3}']
        self.ok(*add, "--expected-seq", "0", "--id", "one")
        self.refused(4, *add, "--expected-seq", "0", saying="is at seq 1")
        self.ok(*add, "--expected-seq", "1")
        self.assertTrue(self.ok(*add, "--id", "one", "-o", "json").json()["duplicate"])
        self.refused(4, *add[:-1], '{"who":"a","amount":4}', "--id", "one", saying="another event")
        self.work()
        self.assertEqual({"a": (2, 6)}, self.totals())

    def test_unsupported_operations_on_jetstream_are_refused_with_a_message(self):
        self.data.mkdir()
        self.ok("init", env={"EVERFOLD_JOURNAL": f"sqlite:{self.data}/control.db"})
        self.refused(3, "projection", "ls", saying="there is no stream EVENTS")
        self.begin()
        self.ok(*"type set paid --publish yes".split())
        self.refused(2, "publisher", "add", "p", "--to", "file:/tmp/x", saying="queues no events")
        self.refused(2, "event", "show", "e1", saying="does not find events by id")
        lines = "".join(json.dumps({"stream": "account.a", "type": "paid", "data": {}}) + "\n"
                        for _ in range(2))
        self.refused(2, "event", "import", "-", stdin=lines, saying="append them one by one")
        self.options = "?subjects=x"
        self.refused(2, "status", saying="the keys are subject, creds, ca")

    def test_doctor_and_status_report_what_jetstream_does_not_check(self):
        self.begin()
        self.broker.publish([ours(1)])
        self.assertIn("not checked", self.ok("doctor", "--deep").out)
        shown = self.ok("status").out
        self.assertIn("acknowledges before it syncs", shown)
        self.assertNotIn("streams", shown)

    def test_a_stream_with_work_queue_retention_is_refused(self):
        self.broker.make_stream("tenant.>", retention="workqueue")
        self.refused(2, "init", saying='needs retention "limits"')

    # --- failure -----------------------------------------------------------------------------

    def behind(self, tenant="acme"):
        """The scope of a tenant that has stopped; None while it has not."""
        found = [s for s in self.shown()["scopes"] if s["tenant"] == tenant and s["retries"]]
        return found[0] if found else None

    def failures(self, *more):
        """By position."""
        found = self.ok("projection", "failures", "totals", "-o", "json", *more).json()
        return {f["position"]: f for f in found}

    def check_delays(self):
        """It is tried again after 250 ms, and each time twice as long after."""
        due = {}

        def is_tried_again():
            scope = self.behind()
            due[scope["retries"]] = datetime.datetime.fromisoformat(scope["next_try_at"])
            return scope["retries"] >= 5
        opened = datetime.datetime.fromisoformat(self.failures()[2]["recorded_at"])
        self.until(is_tried_again)
        for tries, at in due.items():
            least_ms = sum(250 * 2 ** n for n in range(tries))
            self.assertGreaterEqual((at - opened).total_seconds() * 1000, least_ms - 5, due)

    def test_a_message_that_is_no_event_stops_its_tenant_or_is_skipped_and_recorded(self):
        alarms = METRICS_PAGE.read_text().split("Worth an alarm")[1]
        failing, skipped = ('projection_failures{projection="totals"}',
                            'projection_events_total{projection="totals",outcome="skipped"}')
        self.begin()
        server, scrape = self.serve()
        quiet = scrape()
        self.assertEqual((0, 0), (quiet[failing], quiet["jetstream_unreadable_total"]))
        self.broker.publish([ours(1), ("tenant.acme.aggregate.account.a", b"not json", {}), ours(2),
                             ("tenant.initech.aggregate.account.a", b"", {"Status": "404"}),
                             ours(3, tenant="globex"), ("tenant.acme.aggregate.a%61.b", b"{}", {})])
        scope = self.until(self.behind)
        self.assertEqual("unreadable", scope["error_code"])
        self.assertIn("position 2 is not an event", scope["error"])
        self.check_delays()
        self.assertEqual({"a": (1, 1)}, self.totals())
        self.assertEqual({"a": (1, 1)}, self.totals("globex")) # which does not wait
        record = self.failures()
        self.assertEqual({2, 4}, set(record))
        self.assertEqual([("unreadable", True)] * 2, [(f["code"], f["open"]) for f in record.values()])
        self.assertGreaterEqual(record[2]["attempts"], 5)
        loud = scrape()
        self.assertEqual(2, loud[failing])
        self.assertIn("\neverfold_projection_failures > 0\n", alarms)
        self.assertEqual(3, loud["jetstream_unreadable_total"])  # each message once, however often it is read
        self.assertIn("\nincrease(everfold_jetstream_unreadable_total[10m]) > 0\n", alarms)
        self.ok("projection", "deploy", self.dir / "totals.fold", "--on-error", "skip", "--reason",
                "the till is broken")
        self.until(lambda: self.totals() == {"a": (2, 2)})
        record = self.failures("--all")
        self.assertEqual(("unreadable", False), (record[2]["code"], record[2]["open"]))
        self.assertIsNotNone(record[2]["resolved_at"])
        self.assertGreaterEqual(scrape()[skipped], 1)
        self.assertIn('\nincrease(everfold_projection_events_total{outcome="skipped"}[10m]) > 0\n', alarms)
        said = interrupt(server).err
        self.assertNotIn("Sanitizer", said)

    def test_a_broker_restored_from_an_older_copy_is_noticed(self):
        first, lost, later = (mixed(range(*n)) for n in ((0, 10), (10, 15), (20, 30)))
        self.begin()
        self.broker.publish(first)
        self.work()
        self.broker.kill()
        shutil.copytree(self.broker.folder, self.dir / "copy")
        self.broker.start()
        self.broker.publish(lost)
        worker = self.start("work", "--no-leasing", "--silent")
        self.settled(15)
        self.broker.kill()
        shutil.rmtree(self.broker.folder)
        os.rename(self.dir / "copy", self.broker.folder)
        self.broker.start()
        # It grows past the cursor, with other events at the places of those that were lost.
        self.broker.publish(later)
        end = time.monotonic() + 120
        while self.shown()["state"] != "failed" and time.monotonic() < end:
            time.sleep(0.1)
        worker.send_signal(signal.SIGTERM)
        worker.communicate()
        answer = self.work(leaves=True) # and it stays so
        self.assertEqual("failed", self.shown()["state"])
        self.assertEqual(folded(first + lost), self.views())
        failures = self.ok("projection", "show", "totals").out
        self.assertIn("rebuild the projection", failures + answer.err)
        self.ok("projection", "rebuild", "totals", "--in-place", "--wait")
        self.settled(20)
        self.assertEqual(folded(first + later), self.views())

    def test_acknowledgements_that_are_lost_change_nothing(self):
        proxy = DeafProxy(self.broker.port)
        self.addCleanup(proxy.close)
        self.port, self.options = proxy.port, "?in_flight=100&batch=30&ack_wait=1"
        self.begin()
        events = mixed(range(520))
        self.broker.publish(events[:400])
        server, scrape = self.serve()
        self.settled(400)
        time.sleep(1.5) # what is not acknowledged is delivered again
        self.broker.publish(events[400:500])
        self.settled(500)
        self.assertGreater(proxy.lost, 0)
        self.assertEqual(folded(events[:500]), self.views())
        self.check_metrics(scrape, events[500:])
        self.assertEqual(0, interrupt(server, signal.SIGTERM).code)
        self.assertEqual(folded(events), self.views())

    def check_metrics(self, scrape, more):
        """Redeliveries, lag and latency are there, and true."""
        lag, late = (f'projection_lag_{unit}{{projection="totals"}}' for unit in ("events", "seconds"))
        seen = scrape()
        self.assertGreater(seen["jetstream_redelivered_total"], 0)
        self.assertEqual((0, 0), (seen[lag], seen[late]))
        self.assertGreater(seen["projection_batch_duration_seconds_sum"], 0)
        self.assertGreater(seen["handler_duration_seconds_count"], 0)
        self.ok("projection", "pause", "totals")
        self.broker.publish(more)
        self.until(lambda: scrape()[lag] == len(more) and scrape()[late] > 0)
        self.ok("projection", "resume", "totals")
        self.settled(self.broker.last())
        self.assertEqual(0, scrape()[lag])
        self.assertGreater(scrape()["projection_batch_duration_seconds_count"],
                           seen["projection_batch_duration_seconds_count"])

    # --- limits and acknowledgements -----------------------------------------------------------

    def test_it_catches_up_and_goes_live_by_one_consumer_that_keeps_its_limits(self):
        self.options = "?in_flight=90&batch=25&ack_wait=30"
        self.begin()
        events = mixed(range(3000))
        self.broker.publish(events[:2900])
        server, scrape = self.serve()
        infos = [self.until(self.consumer)]

        def is_live():
            infos.extend(self.consumer() for _ in range(20))
            return self.shown()["state"] == "live"
        self.until(is_live)
        self.assertNotIn(None, infos)
        self.assertTrue([i for i in infos if 0 < i["ack_floor"]["stream_seq"] < 2900], "it is not seen at work")
        for at in range(2900, 3000, 10):
            self.broker.publish(events[at:at + 10])
            infos.append(self.acknowledged(at + 10))
        self.assertEqual(1, len({i["created"] for i in infos}))
        self.assertEqual({90}, {i["config"]["max_ack_pending"] for i in infos})
        pending = {i["num_ack_pending"] for i in infos}
        self.assertLessEqual(max(pending), 90)
        self.assertEqual(0, infos[-1]["num_ack_pending"])
        self.assertEqual({0}, {i["num_redelivered"] for i in infos})
        seen = scrape()
        self.assertGreaterEqual(seen["projection_batch_events_count"], 3000 / 25)
        self.assertEqual(seen["projection_batch_events_count"], seen['projection_batch_events_bucket{le="25"}'])
        interrupt(server)
        self.assertEqual(folded(events), self.views())

    def check_synced_before(self, file):
        """A worker does ten live events one by one, with its writes, syncs and acknowledgements written down."""
        self.begin()
        calls = self.dir / "calls"
        worker = self.start(
            "work", "--no-leasing", "--silent", env={"ASAN_OPTIONS": "detect_leaks=0"},
            before=["strace", "-D", "-f", "-y", "-s", "4000", "-o", calls, "-e", "signal=none", "-e",
                    "trace=openat,pwrite64,pwritev,fdatasync,fsync,write,writev,sendto,sendmsg"])
        for n in range(10):
            self.broker.publish([ours(n)])
            self.acknowledged(n + 1)
        interrupt(worker, signal.SIGTERM)
        trace = Trace(calls.read_text(errors="replace"), file)
        self.assertGreaterEqual(trace.writes, 10)
        self.assertGreaterEqual(trace.acknowledged, 10)
        self.assertEqual(0, trace.too_early, f"of {trace.acknowledged}")
        self.assertEqual(folded([ours(n) for n in range(10)]), self.views())

    @unittest.skipUnless(shutil.which("strace"), "there is no strace")
    def test_what_is_acknowledged_was_synced_before(self):
        self.check_synced_before("/views.db-wal")

    @unittest.skipUnless(shutil.which("strace"), "there is no strace")
    def test_what_is_acknowledged_was_synced_before_with_views_in_lmdb(self):
        self.views_url = f"lmdb:{self.dir}/views"
        self.check_synced_before("/data.mdb")

    # --- kills -------------------------------------------------------------------------------

    def pids(self):
        return {w["id"]: w["pid"] for w in self.ok("worker", "ls", "-o", "json").json()}

    def owner(self):
        """The worker that reads for the projection."""
        end = time.monotonic() + 120
        while time.monotonic() < end:
            leases = self.ok("lease", "ls", "-o", "json").json()
            owners = [l["holder"] for l in leases if l["kind"] == "scope" and l["live"]]
            self.assertLessEqual(len(owners), 1)
            pids = self.pids()
            if owners and owners[0] in pids:
                return pids[owners[0]]
            time.sleep(0.05)
        self.fail("nobody reads")

    def test_broker_and_replicas_are_killed_and_paused_and_the_totals_are_exact(self):
        self.options = "?batch=20"
        self.begin()
        workers = {}
        for _ in range(3):
            worker = self.start("work", "--silent", env={"EVERFOLD_WORKER_LEASE_TTL": "1s"})
            workers[worker.pid] = worker
        events = mixed(range(1200))
        self.broker.publish(events[:300])
        paused = workers.pop(self.owner())
        self.broker.kill()
        time.sleep(0.2) # it must not sleep in a commit: the others would wait for its lock
        paused.send_signal(signal.SIGSTOP) # with a lease, and perhaps a batch in flight
        self.broker.start()
        self.broker.publish(events[300:600])
        self.settled(600) # by another one
        dead = workers.pop(self.owner())
        self.broker.publish(events[600:900])
        dead.send_signal(signal.SIGKILL)
        paused.send_signal(signal.SIGCONT) # it goes on as if nothing had been
        self.broker.publish(events[900:1200])
        self.settled(1200)
        for worker in (paused, *workers.values()):
            worker.send_signal(signal.SIGTERM)
        for worker in (paused, dead, *workers.values()):
            worker.communicate()
        self.assertEqual(folded(events), self.views())

    def publish_on(self, events, enough):
        """As somebody who does not give up: what was not acknowledged is sent again, with the same ids."""
        while not enough.is_set() and len(events) < 50000:
            some = mixed(range(len(events), len(events) + 20))
            end = time.monotonic() + 60
            while True:
                try:
                    self.broker.publish(some)
                    break
                except OSError:
                    if time.monotonic() > end:
                        raise
                    time.sleep(0.05)
            events += some
            time.sleep(0.02)

    def check_kills_under_load(self, *homes):
        """Two workers with data directories of their own, if there are two: one reads, the other stands by."""
        self.options = "?batch=50"
        self.begin()
        events, enough, workers, dead = [], threading.Event(), {}, []

        def hire(home):
            worker = self.start("work", "--silent", env={"EVERFOLD_WORKER_LEASE_TTL": "1s",
                                                         "EVERFOLD_DATA": str(home)})
            workers[worker.pid] = (worker, home)
            self.until(lambda: worker.pid in self.pids().values()) # one that finds no broker when it starts ends
        for n in range(2):
            hire(homes[n % len(homes)])
        publisher = threading.Thread(target=self.publish_on, args=(events, enough))
        publisher.start()
        self.addCleanup(enough.set)
        for again in range(4):
            worker, home = workers.pop(self.owner())
            worker.send_signal(signal.SIGKILL)
            dead.append(worker)
            before = self.broker.last()
            self.until(lambda: self.shown()["position"] > before) # by the other
            hire(home)
            self.broker.kill() if again % 2 else self.broker.stop()
            self.broker.start()
        self.assertTrue(publisher.is_alive(), "there was no load")
        enough.set()
        publisher.join()
        self.assertEqual(len(events), self.broker.last()) # nothing twice, nothing lost
        self.settled(len(events))
        for worker, _ in workers.values():
            self.assertIsNone(worker.poll())
            worker.send_signal(signal.SIGTERM)
        for worker in (*dead, *(w for w, _ in workers.values())):
            worker.communicate()
        self.assertEqual(folded(events), self.views())
        self.ok("projection", "verify", "totals")

    def test_jetstream_in_and_lmdb_out_are_exact_and_in_order_while_workers_and_broker_are_killed(self):
        self.views_url = f"lmdb:{self.dir}/views"
        self.check_kills_under_load(self.data)

    @unittest.skipUnless(postgres_server.programs(), "there is no PostgreSQL server to start")
    def test_replicas_with_nothing_in_common_but_broker_and_postgres_take_over_from_each_other(self):
        server = postgres_server.Server()
        self.addCleanup(server.close)
        self.views_url = server.url
        self.check_kills_under_load(self.data, self.dir / "elsewhere")

    # --- generations -------------------------------------------------------------------------

    def durables(self):
        consumers = self.broker.ask("$JS.API.CONSUMER.LIST.EVENTS", {})["consumers"] or []
        return sorted(c["config"]["durable_name"].split("-", 2)[2] for c in consumers if c and c["config"].get("durable_name"))

    def test_the_consumer_of_a_retired_generation_is_removed_from_the_broker(self):
        self.begin()
        self.broker.publish(mixed(range(1, 21)))
        self.work()
        self.deploy(version=2)
        self.work()
        self.assertEqual(2, len(self.durables()))
        self.ok("projection", "switch", "totals", "--version", "2")
        self.ok("projection", "retire", "totals", "--version", "1")
        self.work()
        self.assertEqual(1, len(self.durables()))
        self.assertTrue(self.durables()[0].endswith("-2"), self.durables())

    def retire_while_stopped(self, server, version):
        """The worker does nothing meanwhile. It may have been stopped with the lock of a store: then once more."""
        server.send_signal(signal.SIGSTOP)
        answer = self.run_it("projection", "retire", "totals", "--version", version, env={"EVERFOLD_STORE_BUSY": "100ms"})
        if answer.code != 0:
            self.assertEqual(5, answer.code, answer.err)
            server.send_signal(signal.SIGCONT)
        return answer.code == 0

    def test_a_worker_that_reads_while_a_generation_is_retired_leaves_no_consumer(self):
        """A worker that reads once more for a generation that another process removes makes its consumer again. Here
        the test makes it, after the removal and before the worker goes on."""
        self.begin()
        self.broker.publish(mixed(range(200)))
        server, _ = self.serve()
        self.settled(200)
        self.deploy(version=2)
        self.until(lambda: {p["state"] for p in self.ok("projection", "ls", "-o", "json").json()} == {"live"})
        self.ok("projection", "switch", "totals", "--version", 2)
        self.broker.publish(mixed(range(200, 210)))
        self.until(lambda: {p["position"] for p in self.ok("projection", "ls", "-o", "json").json()} == {210})
        config = next(c["config"] for c in self.broker.ask("$JS.API.CONSUMER.LIST.EVENTS", {})["consumers"]
                      if c["config"].get("durable_name", "").endswith("-totals-1"))
        self.until(lambda: self.retire_while_stopped(server, 1))
        self.assertNotIn("totals-1", self.durables())
        made = self.broker.ask(f"$JS.API.CONSUMER.DURABLE.CREATE.EVENTS.{config['durable_name']}",
                               {"stream_name": "EVENTS", "config": config})
        self.assertNotIn("error", made)
        self.assertIn("totals-1", self.durables())
        server.send_signal(signal.SIGCONT)
        self.broker.publish(mixed(range(210, 220)))
        self.settled(220)
        self.until(lambda: self.durables() == ["totals-2"])

    def test_rebuild_versions_switch_and_seed(self):
        self.begin()
        self.broker.publish([ours(n, who=f"w{n % 3}", amount=n) for n in range(30)])
        self.broker.delete(7)
        self.work()
        before = self.totals()
        digest = self.settled(30)["digest"]
        self.ok("projection", "verify", "totals")
        self.ok("projection", "rebuild", "totals", "--wait")
        self.assertEqual(digest, self.settled(30)["digest"])
        self.deploy(version=2, factor=10)
        self.work()
        self.assertEqual(before, self.totals()) # queries still read version 1
        self.ok("projection", "switch", "totals", "--version", "2")
        self.assertEqual({k: (c, 10 * s) for k, (c, s) in before.items()}, self.totals())
        self.ok("projection", "rollback", "totals")
        self.assertEqual(before, self.totals())
        exported = self.ok("view", "export", "totals", "--tenant", "acme").out
        (self.dir / "seed.ndjson").write_text(exported)
        self.broker.publish([ours(100, who="w0", amount=5)])
        self.ok("view", "seed", "totals", self.dir / "seed.ndjson", "--position", "30", "--tenant",
                "acme")
        self.work()
        shown = self.ok("projection", "ls", "-o", "json").json()
        self.assertEqual([31] * len(shown), [p["position"] for p in shown], shown)
        self.assertEqual([0] * len(shown), [p["unaccounted"] for p in shown], shown)
        self.assertEqual(before["w0"][1] + 5, self.totals()["w0"][1])


class Secure(Case):
    """Whom the journal lets itself be read from, and by whom."""

    def setUp(self):
        super().setUp()
        self.url = None

    def environment(self, **more):
        return super().environment(**{"EVERFOLD_JOURNAL": self.url, **more})

    def reach(self, url, authority=None, access=None):
        """A broker with one event in its stream; `url` has a place for the port."""
        broker = Broker(self.dir / "broker", authority, access)
        broker.start()
        self.addCleanup(lambda: broker.process.poll() is None and broker.kill())
        broker.make_stream("tenant.>")
        broker.publish([ours(1)])
        self.url = url.format(port=broker.port)

    def check_it_is_read(self):
        self.init()
        self.assertIn('"id":"e1"', self.ok("event", "log", "--tenant", "acme", "-o", "ndjson").out)

    def reach_by_tls(self, host):
        own = Authority(self.dir / "authority", host)
        self.reach(f"tls://me:pw@127.0.0.1:{{port}}/EVENTS?ca={own.ca}", own, Password)

    def test_a_broker_with_a_certificate_for_its_host_is_read(self):
        self.reach_by_tls("IP:127.0.0.1")
        self.check_it_is_read()

    def test_one_with_a_certificate_for_another_host_is_not(self):
        self.reach_by_tls("DNS:elsewhere.example")
        self.refused(5, "init", saying="SSL")

    def test_credentials_let_in(self):
        own = Credentials(self.dir / "own")
        self.reach(f"nats://127.0.0.1:{{port}}/EVENTS?creds={own.file}", access=own)
        self.check_it_is_read()

    def test_a_wrong_password_does_not(self):
        self.reach("nats://me:no@127.0.0.1:{port}/EVENTS", access=Password)
        self.refused(5, "init", saying="Authentication Violation")
