"""Reads of one's own writes beside events that fail: only the streams that failed are affected."""
import threading

import kit
from kit import Journey, on_stores, wait_until

STREAMS, EVENTS, POISON = 1_000, 100_000, 3

V1 = """projection totals version 1
  view stream
on paid
  total += data.amount
"""
V2 = V1.replace("version 1", "version 2").replace(
    "data.amount", "if is_number(data.amount) then data.amount else 0")
LOG = V1.replace("totals", "ordered").replace("  view stream", "  order by log\n  view stream")


def payments():
    """Streams s0, s1, … in turn. The last events of the first few are poison."""
    for number in range(EVENTS):
        stream, seq = number % STREAMS, number // STREAMS
        last = seq == EVENTS // STREAMS - 1
        yield {"stream": f"s{stream}", "type": "paid", "id": f"{stream}-{seq}",
               "data": {"amount": "a text" if last and stream < POISON else 1}}


@on_stores("sqlite", "lmdb", "postgres")
class ReadsBesideFailures(Journey):
    def append(self, stream, amount=1, tenant=None):
        answer = self.http("POST", f"/v1/streams/{stream}/events", {"type": "paid", "data": {"amount": amount}},
                           headers={"X-Tenant-Id": tenant} if tenant else None)
        self.assertEqual(201, answer.status, str(answer))
        return answer.json()["token"]

    def read(self, view, how, projection="totals", tenant=None):
        return self.http("GET", f"/v1/views/{projection}/{view}?{how}&wait=30s",
                         headers={"X-Tenant-Id": tenant} if tenant else None)

    def total(self, *words, **more):
        answer = self.read(*words, **more)
        self.assertEqual(200, answer.status, str(answer))
        return answer.json()["data"]["total"]

    def assert_blocked(self, answer, stream, seq):
        self.assertEqual((424, "blocked"), (answer.status, answer.json()["code"]), str(answer))
        self.assertEqual(seq, answer.json()["found"])
        self.assertIn(f'"{stream}" at seq {seq}', answer.json()["detail"])

    def test_only_the_blocked_streams_are_affected(self):
        per_stream = EVENTS // STREAMS
        self.ef("init")
        self.deploy(V1)
        self.import_events(payments())
        self.serve()
        wait_until(lambda: self.projection("totals")[0]["blocked_streams"] == POISON, "the poison events have failed")

        self.assertEqual(per_stream + 1, self.total("s900", "at_least=" + self.append("s900")))
        self.assert_blocked(self.read("s1", "at_least=" + self.append("s1")), "s1", per_stream)
        batch = self.http("POST", "/v1/events", [{"stream": f"s{n}", "type": "paid", "data": {"amount": 1}}
                                                 for n in (901, 902)]).json()
        self.assertEqual(per_stream + 1, self.total("s901", "at_least=" + batch[0]["token"]))
        mixed = self.http("POST", "/v1/events", [{"stream": f"s{n}", "type": "paid", "data": {"amount": 1}}
                                                 for n in (2, 903)]).json()
        self.assert_blocked(self.read("s903", "at_least=" + mixed[1]["token"]), "s2", per_stream)

        current = self.read("s903", "current")
        self.assertEqual((200, POISON, per_stream + 1),
                         (current.status, current.json()["blocked_streams"], current.json()["data"]["total"]))
        self.ef("projection", "wait", "totals", "--timeout", "60s")
        row, = self.projection("totals")
        self.assertEqual((0, POISON, POISON + 2, 0), (row["lag_events"], row["blocked_streams"], row["blocked_events"],
                                                      row["unaccounted"]))
        self.skip_clears(per_stream)

    def skip_clears(self, per_stream):
        for n in range(POISON):
            self.ef("outbox", "skip", f"s{n}", per_stream, "--lane", "totals", "--reason", "a test")
        wait_until(lambda: self.projection("totals")[0]["blocked_streams"] == 0, "nothing is blocked")
        self.assertEqual(per_stream + 1, self.total("s1", "at_least=" + self.append("s1")))
        self.assertEqual(0, self.read("s1", "current").json()["blocked_streams"])

    def test_a_read_with_a_token_reflects_its_position(self):
        self.ef("init")
        self.deploy(V2)
        self.serve()
        for number in range(1, 201):
            token = self.append(f"s{number % 7}")
            for path in (f"/s{number % 7}?", "?where=total%20%3E%200&limit=1&"):
                answer = self.http("GET", f"/v1/views/totals{path}at_least={token}&wait=30s").json()
                self.assertEqual(number, answer["as_of"], str(answer))

    def test_a_version_that_is_not_active_does_not_disturb_the_active_one(self):
        self.ef("init")
        self.deploy(V2)
        self.serve()
        wait_until(lambda: self.projection("totals")[0]["state"] == "live", "the active version is live")
        self.deploy(V1.replace("version 1", "version 3"), name="v3.fold")
        wait_until(lambda: [p["state"] for p in self.projection("totals")] == ["live", "live"], "both are live")
        self.assertEqual(0, self.total("s1", "at_least=" + self.append("s1", "a text")))
        wait_until(lambda: self.projection("totals")[1]["blocked_streams"] == 1, "the other version has failed")
        self.assertEqual(2, self.total("s1", "at_least=" + self.append("s1", 2)))
        current = self.read("s1", "current").json()
        self.assertEqual((0, 2), (current["blocked_streams"], current["as_of"]))

    def test_a_blocked_tenant_of_a_log_ordered_projection_says_so(self):
        self.ef("init")
        self.deploy(LOG)
        self.serve()
        token = self.append("s1", "a text", tenant="bad")
        wait_until(lambda: self.projection("ordered")[0]["blocked_streams"] == 1, "the tenant is blocked")
        self.assert_blocked(self.read("s1", "at_least=" + token, "ordered", "bad"), "s1", 1)
        self.assertEqual(5, self.total("s1", "at_least=" + self.append("s1", 5, tenant="good"), projection="ordered",
                                       tenant="good"))


if __name__ == "__main__":
    kit.unittest.main()


@on_stores("sqlite", "lmdb", "postgres")
class ManyReaders(Journey):
    READERS, TURNS = 24, 20

    def test_every_reader_sees_its_own_write_and_waits_for_no_other_stream(self):
        """The worker is another process; one stream is blocked meanwhile."""
        self.ef("init")
        self.deploy(V1)
        self.serve("--workers", "0")
        self.start("work")
        self.http("POST", "/v1/streams/bad/events", {"type": "paid", "data": {"amount": "a text"}})
        wrong = []

        def read_own_writes(name):
            total = 0
            for turn in range(self.TURNS):
                answer = self.http("POST", f"/v1/streams/{name}/events", {"type": "paid", "data": {"amount": turn}})
                total += turn
                token = answer.json()["token"]
                view = self.http("GET", f"/v1/views/totals/{name}?at_least={token}&wait=30s")
                if view.status != 200 or view.json()["data"]["total"] != total:
                    wrong.append((name, turn, str(view)))
                    return
        readers = [threading.Thread(target=read_own_writes, args=(f"r{n}",)) for n in range(self.READERS)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(kit.TIME_LIMIT_S)
        self.assertEqual([], wrong)
        self.assertEqual({f"r{n}": sum(range(self.TURNS)) for n in range(self.READERS)},
                         {view: data["total"] for view, data in self.views("totals").items()})
