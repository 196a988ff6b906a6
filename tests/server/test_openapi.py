"""/openapi.json is true: every operation of it is asked, and every answer fits what it says."""
import json
import re
import tempfile
from pathlib import Path

from support import CUSTOMERS, Case, wait_until

POISON = """projection strict version 1
  view data.customer

on order.placed
  total += data.amount / data.count
"""
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float),
         "boolean": bool, "null": type(None)}


def is_type(value, name):
    return isinstance(value, TYPES[name]) and not (
        isinstance(value, bool) and name in ("integer", "number"))


def mistakes(document, schema, value, at="$"):
    """What of the schema the value breaks; a member that is not in it is a mistake as well."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return mistakes(document, document["components"]["schemas"][name], value, at)
    if "oneOf" in schema:
        found = [mistakes(document, s, value, at) for s in schema["oneOf"]]
        return [] if sum(not f for f in found) == 1 else [f"{at}: not one of: {found}"]
    if "enum" in schema and value not in schema["enum"]:
        return [f"{at}: {value!r} is not among {schema['enum']}"]
    if "type" in schema:
        names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(is_type(value, n) for n in names):
            return [f"{at}: {value!r} is not {names}"]
    out = []
    if isinstance(value, dict) and "properties" in schema:
        if not schema.get("additionalProperties"):
            out += [f"{at}.{k}: not in the schema" for k in value if k not in schema["properties"]]
        out += [f"{at}.{k}: missing" for k in schema["required"] if k not in value]
        for k in value.keys() & schema["properties"].keys():
            out += mistakes(document, schema["properties"][k], value[k], f"{at}.{k}")
    if isinstance(value, list) and "items" in schema:
        for i, item in enumerate(value):
            out += mistakes(document, schema["items"], item, f"{at}[{i}]")
    return out


OUT = tempfile.TemporaryDirectory(prefix="everfold-openapi-")


class OpenApi(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.document = cls.server.ask("GET", "/openapi.json").json()
        cls.server.ask("PUT", "/v1/projections/customers", CUSTOMERS)
        cls.server.ask("PUT", "/v1/projections/strict", POISON)
        for i in range(3):
            cls.server.ask("POST", "/v1/streams/o-1/events",
                           {"type": "order.placed", "id": f"e-{i}",
                            "data": {"customer": "c", "amount": 1, "count": i}})
        wait_until(lambda: cls.server.ask("GET", "/v1/projections/strict/failures").json())
        wait_until(lambda: cls.server.ask("GET", "/v1/views/customers/c").status == 200)
        run = cls.server.ask("POST", "/v1/projections/customers:verify", {})
        cls.run_id = run.json()["id"]
        wait_until(lambda: cls.server.ask("GET", f"/v1/runs/{cls.run_id}").json()["state"] == "completed")

    token = None  # once one is created, no request is served without

    def ask(self, *arguments, **named):
        return super().ask(*arguments, **{"token": self.token, **named})

    EVENT = {"type": "t", "data": {}}
    ROW = {"stream": "o-1", "seq": 1, "lane": "strict", "reason": "a test"}
    # Operation: what stands for the names of its path, and the body. In the order they are asked.
    ASKED = {
        "appendToStream": (["w"], EVENT), "appendMany": ([], [{**EVENT, "stream": "w"}]),
        "readStream": (["o-1"], None), "readLog": ([], None), "readEvent": (["e-1"], None),
        "explainView": (["customers", "c"], None), "getView": (["customers", "c"], None),
        "findViews": (["customers"], None), "showProjection": (["customers"], None),
        "listProjections": ([], None), "listFailures": (["strict"], None),
        "deployProjection": (["customers"], CUSTOMERS), "tryDraft": (["strict"], POISON),
        "pauseProjection": (["customers"], {}),
        "resumeProjection": (["customers"], {}), "reportOutbox": ([], None),
        "replayRow": ([], ROW), "requeue": ([], ROW), "requeueDead": ([], {}), "skip": ([], ROW),
        "skipDead": ([], {"lane": "strict", "reason": "test"}), "groupOutbox": ([], None),
        "audit": ([], None), "listRuns": ([], None), "showRun": (["RUN"], None),
        "cancelRun": (["RUN"], {}), "rebuildProjection": (["customers"], {}),
        "verifyProjection": (["strict"], {}), "switchProjection": (["customers"], {"generation": 1}),
        "rollbackProjection": (["customers"], {}), "listGaps": ([], None), "listLeases": ([], None),
        "listWorkers": ([], None), "listPartitions": ([], None), "livez": ([], None),
        "readyz": ([], None), "healthz": ([], None), "version": ([], None), "metrics": ([], None),
        "openapi": ([], None), "listTypes": ([], None), "showType": (["t"], None),
        "setType": (["t"], {"publish": True}), "status": ([], None), "listLanes": ([], None),
        "syncPartitions": ([], {"dry_run": True, "count": 32}), "showScope": (["customers"], None),
        "diffProjection": (["customers"], None), "retireProjection": (["customers"], {"generation": 99}),
        "seedProjection": (["customers"], '{"view_id":"a","data":{}}'),
        "lookAtReplay": ([], {"validate": True}), "replay": ([], {"projection": "strict"}),
        "repairGaps": ([], {}),
        "overview": ([], None), "whoami": ([], None), "history": ([], None),
        "explainProjection": (["customers"], None),
        "tryEvent": (["strict"], {"stream": "o-1", "seq": 1}), "viewHistory": (["customers", "c"], None),
        "listStreams": ([], None), "showStream": (["o-1"], None), "listTokens": ([], None),
        "setPublisher": (["out"], {"url": f"file:{OUT.name}/out"}), "listPublishers": ([], None),
        "showPublisher": (["out"], None), "pausePublisher": (["out"], {}),
        "resumePublisher": (["out"], {}), "removePublisher": (["out"], None),
        "followEvents": ([], None), "followViews": (["customers"], None),
        "followView": (["customers", "c"], None),
        "revokeToken": (["nobody"], {}),
        "createToken": ([], {"scopes": "admin", "note": "the last: from here on a token is needed"}),
    }
    # What the state of things may refuse: a row that is not dead, a run that is over …
    MAY_FAIL = {"requeue", "cancelRun", "switchProjection", "rollbackProjection", "verifyProjection",
                "replayRow", "diffProjection", "retireProjection", "seedProjection", "replay",
                "revokeToken"}

    def operations(self):
        return {o["operationId"]: (path, method.upper(), o)
                for path, methods in self.document["paths"].items() for method, o in methods.items()}

    def test_the_document_names_every_operation_once(self):
        self.assertEqual("3.1.0", self.document["openapi"])
        self.assertEqual(sorted(self.ASKED), sorted(self.operations()))
        self.assertLess(len(self.ASKED), 128)  # EF__ROUTES_MAX
        text = json.dumps(self.document)
        for kind, name in set(re.findall(r'"#/components/(\w+)/(\w+)"', text)):
            self.assertIn(name, self.document["components"][kind])

    def test_the_page_has_an_example_of_every_path(self):
        page = (Path(__file__).parents[2] / "docs" / "reference" / "http.md").read_text()
        for path in self.document["paths"]:
            example = re.sub(r"\\{\w+\\}", "[^/ ?']+", re.escape(path))
            self.assertRegex(page, rf"curl .*127\.0\.0\.1:7450{example}(?=['? \n])|"
                                   rf"\n    (curl .*)?http://127\.0\.0\.1:7450{example}\n|"
                                   rf"curl .*{example}\n", path)

    def fill(self, path, values):
        for value in values:
            start, end = path.index("{"), path.index("}")
            path = path[:start] + (self.run_id if value == "RUN" else value) + path[end + 1:]
        return path

    def resolve(self, part):
        if "$ref" in part:
            _, kind, name = part["$ref"].rsplit("/", 2)
            return self.document["components"][kind][name]
        return part

    def test_the_page_and_the_document_list_every_code(self):
        page = (Path(__file__).parents[2] / "docs" / "reference" / "http.md").read_text()
        rows = re.findall(r"^\| (\d{3}) \| `(\w+)` \| [^|]+ \| (\d) \|$", page, re.MULTILINE)
        codes = self.document["components"]["schemas"]["Code"]["enum"]
        self.assertEqual(sorted(codes), sorted(code for _, code, _ in rows))
        described = {(name[5:], code) for name, response in self.document["components"]["responses"].items()
                     for code in re.findall(r"`(\w+)`", response["description"]) if name != "Error"}
        described.add(("405", "method_not_allowed"))
        self.assertEqual(described, {(status, code) for status, code, _ in rows})

    def test_headers_of_requests_and_answers_are_described(self):
        operations = self.operations()

        def headers(name):
            return {p["name"] for p in map(self.resolve, operations[name][2]["parameters"]) if p["in"] == "header"}
        self.assertLessEqual({"If-Match", "Idempotency-Key", "X-Tenant-Id", "traceparent"}, headers("appendToStream"))
        self.assertIn("Everfold-Token", headers("getView"))
        self.assertIn("Last-Event-ID", headers("followEvents"))
        self.assertEqual(set(), headers("livez"))
        self.assertEqual({"Everfold-Next", "Everfold-More"}, set(operations["readLog"][2]["responses"]["200"]["headers"]))
        self.assertIn("Retry-After", self.document["components"]["responses"]["Error503"]["headers"])
        self.assertEqual({"application/json", "application/x-ndjson", "application/cloudevents+json",
                          "application/cloudevents-batch+json"},
                         set(operations["appendMany"][2]["requestBody"]["content"]))
        answer = self.ask("GET", "/v1/events?limit=1", headers={"Accept": "application/cloudevents-batch+json"})
        self.check(operations["readLog"][2], answer)
        self.assertEqual("application/cloudevents-batch+json", answer.headers["Content-Type"].split(";")[0])
        known = set(answer.headers) - {"Date", "Content-Length", "Content-Type", "Connection", "Vary", "Cache-Control",
                                       "X-Content-Type-Options"}
        self.assertLessEqual(known, set(operations["readLog"][2]["responses"]["200"]["headers"]))

    def test_any_json_is_data_and_meta(self):
        body = self.document["components"]["schemas"]["NewEvent"]
        for data in ({"a": 1}, [1], "text", 7, None, True):
            event = {"type": "t", "data": data}
            self.assertEqual([], mistakes(self.document, body, event))
            self.assertEqual(201, self.ask("POST", "/v1/streams/any-json/events", event).status)

    def check(self, operation, answer):
        responses = operation["responses"]
        said = self.resolve(responses.get(str(answer.status), responses["default"]))
        media = answer.headers["Content-Type"].split(";")[0]
        self.assertIn(media, said["content"], (answer.status, answer.body))
        value = answer.json() if "json" in media else answer.body.decode()
        self.assertEqual([], mistakes(self.document, said["content"][media]["schema"], value))

    def test_every_operation_answers_as_the_document_says(self):
        operations = self.operations()
        for name, (values, body) in self.ASKED.items():
            path, method, operation = operations[name]
            with self.subTest(operation=name):
                if name.startswith("follow"):
                    c = self.server.connect()
                    c.request(method, self.fill(path, values))
                    response = c.getresponse()
                    self.assertEqual((200, True), (response.status, response.headers["Content-Type"] in
                                                   operation["responses"]["200"]["content"]))
                    c.close()
                    continue
                answer = self.server.ask_as_owner(method, self.fill(path, values), body)
                self.check(operation, answer)
                if name not in self.MAY_FAIL:
                    self.assertIn(answer.status, (200, 201, 202), answer.body)
                self.assertNotEqual(405, answer.status)
                if name == "createToken":
                    type(self).token = answer.json()["token"]
                self.assertNotIn(b"nothing at this path", answer.body)

    def test_a_problem_and_a_parameter_are_as_the_document_says(self):
        for path, method, operation in self.operations().values():
            if method != "GET" or operation["operationId"] in ("livez",):
                continue
            values = ["customers", "c"] if "projection" in path else ["nobody"]
            target = self.fill(path, values[:path.count("{")])
            answer = self.server.ask_as_owner(method, target + "?there_is_no_such=1")
            self.check(operation, answer)
            self.assertEqual(400, answer.status, target)

    def test_the_validator_finds_what_is_wrong(self):
        schema = {"$ref": "#/components/schemas/Event"}
        event = self.get("/v1/events/e-1").json()
        self.assertEqual([], mistakes(self.document, schema, event))
        for wrong in ({**event, "seq": "1"}, {**event, "odd": 1}, {k: event[k] for k in list(event)[1:]}):
            self.assertEqual(1, len(mistakes(self.document, schema, wrong)))
