"""Appending and reading events over HTTP, ours and CloudEvents."""
import json

from support import Case

APPEND_KEYS = ["stream", "seq", "position", "id", "duplicate", "token"]
EVENT_KEYS = ["tenant", "stream", "seq", "position", "id", "type", "schema", "time", "recorded_at",
              "data", "meta"]


class Append(Case):
    def test_one_event_answers_one_object_and_an_array_an_array(self):
        one = self.ask("POST", "/v1/streams/a-1/events", {"type": "t", "data": {"n": 1}})
        self.assertEqual((201, APPEND_KEYS), (one.status, list(one.json())))
        many = self.ask("POST", "/v1/streams/a-1/events",
                        [{"type": "t", "data": {}}, {"type": "t", "data": {}}])
        self.assertEqual([2, 3], [p["seq"] for p in many.json()])

    def test_the_same_id_again_is_200_and_a_duplicate(self):
        event = {"type": "t", "data": {"n": 1}, "id": "once"}
        first = self.ask("POST", "/v1/streams/dup/events", event)
        again = self.ask("POST", "/v1/streams/dup/events", event)
        self.assertEqual((201, 200), (first.status, again.status))
        self.assertEqual((first.json()["position"], True),
                         (again.json()["position"], again.json()["duplicate"]))
        other = self.ask("POST", "/v1/streams/dup/events", {**event, "data": {"n": 2}})
        self.refused(409, "id_conflict", other)

    def test_idempotency_key_is_the_id(self):
        for status in (201, 200):
            answer = self.ask("POST", "/v1/streams/key/events", {"type": "t", "data": {}},
                              headers={"Idempotency-Key": "k-1"})
            self.assertEqual((status, "k-1"), (answer.status, answer.json()["id"]))

    def test_if_match_and_expected_seq_conflict_with_the_actual_seq(self):
        self.append("match", expected_seq=0)
        new = self.ask("POST", "/v1/streams/match/events", {"type": "t", "data": {}, "expected_seq": 0})
        self.refused(409, "seq_conflict", new)
        self.assertEqual((0, 1), (new.json()["asked"], new.json()["found"]))
        self.append("anywhere", expected_seq=None)
        self.append("anywhere", expected_seq=None)
        ok = self.ask("POST", "/v1/streams/match/events", {"type": "t", "data": {}},
                      headers={"If-Match": '"1"'})
        self.assertEqual(201, ok.status)
        late = self.ask("POST", "/v1/streams/match/events", {"type": "t", "data": {}},
                        headers={"If-Match": "1"})
        self.refused(409, "seq_conflict", late)
        self.assertEqual((1, 2), (late.json()["asked"], late.json()["found"]))

    def test_a_batch_over_many_streams_is_all_or_none(self):
        lines = "\n".join(json.dumps({"stream": f"b-{i}", "type": "t", "data": {}})
                          for i in range(3))
        answer = self.ask("POST", "/v1/events", lines, {"Content-Type": "application/x-ndjson"})
        self.assertEqual(["b-0", "b-1", "b-2"], [p["stream"] for p in answer.json()])
        bad = self.ask("POST", "/v1/events", [{"stream": "b-9", "type": "t", "data": {}},
                                              {"stream": "b-9", "data": {}}])
        self.assertIn("event 2: type is missing", self.refused(400, "bad_input", bad))
        self.assertEqual(404, self.get("/v1/streams/b-9/events").status)

    def test_bytes_come_back_as_they_were(self):
        raw = '{"type":"t","data":{ "n" : 1.50, "big":9007199254740993 },"meta":{"who": "é"}}'
        self.ask("POST", "/v1/streams/raw/events", raw.encode(),
                 {"Content-Type": "application/json"})
        body = self.get("/v1/streams/raw/events").body.decode()
        self.assertIn('"data":{ "n" : 1.50, "big":9007199254740993 },"meta":{"who": "é"}', body)

    def test_concurrent_appends_get_their_own_responses(self):
        """More than are begun with early (EARLY_COUNT); each connection asks again."""
        clients = [self.server.connect() for _ in range(48)]
        for turn in range(4):
            for i, c in enumerate(clients):
                data = {"type": "t", "data": {}, "id": f"at-once-{turn}-{i}"}
                c.request("POST", f"/v1/streams/at-once-{i}/events",
                          "{" if i == 7 else json.dumps(data),
                          {"Content-Type": "application/json"})
            for i, c in enumerate(clients):
                answer = c.getresponse()
                body = json.loads(answer.read())
                if i == 7:
                    self.assertEqual((400, "bad_json"), (answer.status, body["code"]))
                else:
                    self.assertEqual((201, turn + 1, f"at-once-{turn}-{i}"),
                                     (answer.status, body["seq"], body["id"]))
        for c in clients:
            c.close()

    def test_bad_input_is_named_and_changes_nothing(self):
        for body, code, words in [
                ('{"type":"t"}', "bad_input", "data is missing"),
                ('{"type":"t","data":{},"x":1}', "bad_input", 'unknown key "x"'),
                ('{"type":"t","data":{"a":1,"a":2}}', "bad_json", ""),
                ('{"type":"t","data":', "bad_json", ""),
                ('[]', "bad_input", "no event"),
                ('[1]', "bad_json", "event 1 is not an object"),
                ('"x"', "bad_json", "neither an event"),
                ('', "bad_json", "")]:
            answer = self.ask("POST", "/v1/streams/bad/events", body,
                              {"Content-Type": "application/json"})
            self.assertIn(words, self.refused(400, code, answer))
        self.refused(415, "unsupported_media_type", self.ask("POST", "/v1/streams/bad/events", "a=b",
                                                {"Content-Type": "text/plain"}))
        self.refused(404, "not_found", self.get("/v1/streams/bad/events"))


class Read(Case):
    def test_a_stream_by_seq_the_log_by_position_an_event_by_id(self):
        for i in range(5):
            self.append("r/1".replace("/", "%2F"), "k.a" if i % 2 else "k.b", {"i": i}, id=f"r-{i}")
        events = self.get("/v1/streams/r%2F1/events?from_seq=2&limit=2")
        self.assertEqual([2, 3], [e["seq"] for e in events.json()])
        self.assertEqual(EVENT_KEYS, list(events.json()[0]))
        self.assertEqual("4", events.headers["Everfold-Next"])
        log = self.get("/v1/events?type=k.a&limit=1")
        self.assertEqual(["r-1"], [e["id"] for e in log.json()])
        after = log.headers["Everfold-Next"]
        self.assertEqual(["r-3"], [e["id"] for e in
                                   self.get(f"/v1/events?type=k.a&after={after}").json()])
        self.assertEqual("r/1", self.get("/v1/events/r-4").json()["stream"])
        self.refused(404, "not_found", self.get("/v1/events/nobody"))

    def test_a_parameter_that_is_wrong_or_unknown_is_named(self):
        self.append("p")
        self.assertIn("limit is '0'", self.refused(400, "bad_input",
                                                   self.get("/v1/events?limit=0")))
        self.assertIn("'limt'", self.refused(400, "bad_input", self.get("/v1/events?limt=1")))
        self.assertIn("given twice", self.refused(400, "bad_input",
                                                  self.get("/v1/events?limit=1&limit=2")))
        self.assertIn("bad escape", self.refused(400, "bad_input",
                                                 self.get("/v1/streams/%ZZ/events")))


class Cloud(Case):
    EVENT = {"specversion": "1.0", "id": "ce-1", "source": "/shop", "type": "order.placed",
             "subject": "ce-stream", "time": "2026-11-16T09:30:00Z",
             "correlationid": "c-7", "datacontenttype": "application/json", "data": {"n": 1}}

    def test_structured_in_and_out(self):
        answer = self.ask("POST", "/v1/events", json.dumps(self.EVENT),
                          {"Content-Type": "application/cloudevents+json"})
        self.assertEqual(("ce-stream", 201), (answer.json()["stream"], answer.status))
        ours = self.get("/v1/events/ce-1").json()
        self.assertEqual({"source": "/shop", "correlationid": "c-7"}, ours["meta"])
        back = self.get("/v1/events/ce-1", Accept="application/cloudevents+json")
        self.assertEqual("application/cloudevents+json", back.headers["Content-Type"])
        for key in ("specversion", "id", "source", "type", "subject", "correlationid", "data"):
            self.assertEqual(self.EVENT[key], back.json()[key])
        self.assertEqual(20, len(back.json()["sequence"]))

    def test_batch_and_binary(self):
        batch = [{**self.EVENT, "id": f"cb-{i}"} for i in range(2)]
        answer = self.ask("POST", "/v1/streams/over/events", json.dumps(batch),
                          {"Content-Type": "application/cloudevents-batch+json"})
        self.assertEqual(["over", "over"], [p["stream"] for p in answer.json()])
        answer = self.ask("POST", "/v1/streams/bin/events", '{"x":1.0}',
                          {"ce-specversion": "1.0", "ce-id": "bin-1", "ce-source": "/%C3%A9",
                           "ce-type": "t", "Content-Type": "application/json"})
        self.assertEqual(201, answer.status, answer.body)
        event = self.get("/v1/events/bin-1")
        self.assertEqual("/é", event.json()["meta"]["source"])
        self.assertIn(b'"data":{"x":1.0}', event.body)

    def test_a_body_in_binary_mode_adds_no_attribute(self):
        headers = {"ce-specversion": "1.0", "ce-id": "ce-body", "ce-source": "/shop", "ce-type": "order.placed",
                   "ce-subject": "ce-body", "Content-Type": "application/json"}
        for body in ('{"a":1},"time":"1999-01-01T00:00:00Z","trusted":"yes"', '{"a":1},"x":{"y":1}', '1,"id":"other"',
                     '{"a":1} {"b":2}'):
            self.refused(400, "bad_json", self.ask("POST", "/v1/streams/ce-body/events", body, headers))
        self.assertEqual(404, self.get("/v1/streams/ce-body").status)
        self.assertEqual(201, self.ask("POST", "/v1/streams/ce-body/events", '{"a":1}', headers).status)

    def test_what_is_no_cloudevent_is_refused(self):
        for change, words in [({"specversion": "0.3"}, "1.0 is needed"), ({"source": ""}, "source"),
                              ({"data_base64": "AA=="}, "data_base64"),
                              ({"datacontenttype": "text/plain"}, "only JSON"),
                              ({"Upper": 1}, "lower-case"), ({"ext": {}}, "neither text")]:
            answer = self.ask("POST", "/v1/events", json.dumps({**self.EVENT, **change}),
                              {"Content-Type": "application/cloudevents+json"})
            self.assertIn(words, self.refused(400, "bad_input", answer))

    def test_the_trace_goes_with_the_event(self):
        trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        placed = self.ask("POST", "/v1/streams/tr/events", {"type": "t", "data": {}},
                          headers={"traceparent": trace}).json()
        self.assertEqual({"traceparent": trace}, self.get("/v1/events/" + placed["id"]).json()["meta"])
        bad = self.ask("POST", "/v1/streams/tr/events", {"type": "t", "data": {}},
                       headers={"traceparent": "nonsense"})
        self.assertIn("traceparent", self.refused(400, "bad_input", bad))
