"""Values at the edges: data nested as deep as allowed, numbers with more digits than arithmetic has, and filters on fields
that some views lack. Every way in accepts the same, and every store returns the same."""
import subprocess

import kit
from kit import Journey, on_stores

DEEPEST = 128
NUMBERS = ["1e38", "123456789012345678901234567890123456789012345", "-1e-50", "1.5e300", "0.1e-998", "12.50"]

COPY = """projection copies version 1
  view stream
  index v

on t
  v = data.v
  all = data
"""

OPTIONAL = """projection people version 1
  view stream
  index age

on t
  name = data.name
  age = data.age
"""


def nested(depth):
    return "[" * depth + "]" * depth


@on_stores("sqlite", "lmdb", "postgres")
class Values(Journey):
    def query(self, *words):
        return [row["view_id"] for row in self.ef("view", "query", *words, "-o", "json").json()["items"]]

    def test_data_has_the_same_depth_limit_by_every_door(self):
        self.ef("init")
        self.serve()
        event = '{"type":"t","data":%s}'
        cloud = '{"specversion":"1.0","id":"%s","source":"s","type":"t","subject":"s","data":%s}'
        json_type = {"Content-Type": "application/json"}
        doors = {
            "event append": lambda d: self.run_ef("event", "append", "s", "--type", "t", "--data", d).code == 0,
            "event import": lambda d: self.run_ef("event", "import", "-", "--quiet",
                                                  stdin='{"stream":"s","type":"t","data":%s}\n' % d).code == 0,
            "through the server": lambda d: self.run_ef("event", "append", "s", "--type", "t", "--data", d, "--server",
                                                        self.server_url).code == 0,
            "one event": lambda d: self.post("/v1/streams/s/events", event % d, json_type),
            "an array": lambda d: self.post("/v1/streams/s/events", "[%s]" % (event % d), json_type),
            "many streams": lambda d: self.post("/v1/events", '{"stream":"s","type":"t","data":%s}' % d,
                                                {"Content-Type": "application/x-ndjson"}),
            "a CloudEvent": lambda d: self.post("/v1/streams/s/events", cloud % (len(d), d),
                                                {"Content-Type": "application/cloudevents+json"}),
            "CloudEvents": lambda d: self.post("/v1/streams/s/events", "[%s]" % (cloud % (len(d) + 1, d)),
                                               {"Content-Type": "application/cloudevents-batch+json"}),
        }
        if self.STORE == "postgres":
            doors["SQL"] = lambda d: self.append_sql(event % d)
        for depth, taken in ((DEEPEST, True), (DEEPEST + 1, False)):
            self.assertEqual({door: taken for door in doors}, {door: append(nested(depth)) for door, append in doors.items()})
        # What came in can be read, exported and imported again.
        for options in ((), ("--server", self.server_url)):
            lines = self.ef("event", "ls", "s", "-o", "ndjson", *options).out.splitlines()
            self.assertEqual(len(doors), len(lines))
            for line in lines:
                self.assertIn('"data":' + nested(DEEPEST), line)

    def post(self, path, body, headers):
        return self.http("POST", path, body, headers).status in (200, 201)

    def append_sql(self, event):
        try:
            kit.sql(self.stores["EVERFOLD_JOURNAL"], f"SELECT everfold.append('', 's', NULL, '[{event}]');")
        except AssertionError as error:
            self.assertIn("too_large", str(error))
            return False
        return True

    def test_a_number_of_any_size_is_copied_as_it_was_written(self):
        self.ef("init")
        lines = "".join('{"stream":"s%d","type":"t","data":{"v":%s}}\n' % (n, text) for n, text in enumerate(NUMBERS))
        self.ef("event", "import", "-", "--quiet", stdin=lines)
        self.deploy(COPY)
        self.ef("work", "--drain")
        self.assertEqual(0, self.projection("copies")[0]["failures"])
        exported = self.ef("view", "export", "copies").out
        for text in NUMBERS[:-1]:
            self.assertIn('"v":%s}' % text, exported)
            self.assertIn('"all":{"v":%s}' % text, exported)
        self.assertIn('"v":12.5}', exported)  # an exact number is printed without trailing zeros
        rising = ["s2", "s4", "s5", "s0", "s1", "s3"]
        self.assertEqual(rising, self.query("copies", "--sort", "v"))
        self.assertEqual(rising, self.query("copies", "--sort", "all.v"))
        self.assertEqual(["s0", "s1", "s3"], sorted(self.query("copies", "--where", "v > 13")))
        self.assertEqual(["s2", "s4"], sorted(self.query("copies", "--where", "all.v < 0.001")))
        self.assertEqual(["s4"], self.query("copies", "--where", "v > 0 and v < 1"))
        self.ef("projection", "verify", "copies")

    def test_a_term_that_has_no_value_is_false_and_its_opposite_true(self):
        self.ef("init")
        people = {"ann": {"name": "Ann", "age": 30}, "bob": {"name": "Bob"}, "cy": {"name": 7, "age": "old"},
                  "dee": {"name": None, "age": 70}}
        self.import_events({"stream": who, "type": "t", "data": data} for who, data in people.items())
        self.deploy(OPTIONAL)
        self.ef("work", "--drain")

        def older(data, than):
            return isinstance(data.get("age"), int) and data["age"] > than

        def starts(data):
            return isinstance(data.get("name"), str) and data["name"].startswith("A")

        for text, holds in (("age > 40", lambda d: older(d, 40)), ("not (age > 40)", lambda d: not older(d, 40)),
                            ('not starts_with(name, "A")', lambda d: not starts(d)),
                            ('age > 40 or starts_with(name, "A")', lambda d: older(d, 40) or starts(d)),
                            ('not (age > 40 or starts_with(name, "A"))', lambda d: not (older(d, 40) or starts(d))),
                            ('age != null and not (age > 40)',
                             lambda d: d.get("age") is not None and not older(d, 40))):
            self.assertEqual(sorted(who for who, data in people.items() if holds(data)),
                             sorted(self.query("people", "--where", text)), text)


class FullDisk(Journey):
    """Views in LMDB on a file system of 3 MB that is mounted for these commands only."""
    STORE = "lmdb"
    SCRIPT = """
        mount -t tmpfs -o size=3m none {views} || exit 77
        {ef} init --quiet && {ef} event import {events} --quiet && {ef} projection deploy {program} || exit 1
        {ef} work --drain -o json; echo "full: $?"
        mount -o remount,size=64m {views} || exit 1
        {ef} work --drain -o json >/dev/null; echo "room: $?"
        {ef} view query copies --count -o json
    """

    def test_a_full_disk_is_named_and_work_continues_when_there_is_room(self):
        (self.dir / "views").mkdir()
        events = self.write_events("events.ndjson", ({"stream": f"s{n}", "type": "t", "data": {"v": "x" * 200}, "id": str(n)}
                                                     for n in range(20_000)))
        script = self.SCRIPT.format(views=self.dir / "views", ef=kit.EVERFOLD, events=events,
                                    program=self.write("program.fold", COPY))
        done = subprocess.run(["unshare", "--mount", "--map-root-user", "sh", "-c", script], capture_output=True, text=True,
                              cwd=self.dir, env=self.environment(), timeout=kit.TIME_LIMIT_S)
        if done.returncode in (1, 77) and "full:" not in done.stdout:
            self.skipTest(f"no file system can be mounted here: {done.stderr[-200:]}")
        self.assertIn("full: 1", done.stdout, done.stderr)
        self.assertIn('"code":"disk_full"', done.stderr)
        self.assertIn("room: 0", done.stdout, done.stderr)
        self.assertIn('"count":20000', done.stdout)
