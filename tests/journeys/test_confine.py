"""Publishers that are set over HTTP reach only files below the directories that the settings name."""
import json
import os

from kit import Journey, wait_until


class Confine(Journey):
    def put(self, url, **more):
        return self.http_as_owner("PUT", "/v1/publishers/p", {"url": url, **more})

    def check_refused(self, answer, word):
        self.assertEqual(403, answer.status, str(answer))
        self.assertEqual("forbidden", answer.json()["code"])
        self.assertIn(word, answer.json()["detail"])
        self.assertEqual(404, self.http("GET", "/v1/publishers/p").status)

    def test_without_the_setting_no_file_can_be_named(self):
        self.ef("init")
        self.serve()
        self.check_refused(self.put(f"file:{self.dir}/target.txt"), "publish.directories")
        self.check_refused(self.put("https://example.org/", secret="file:/etc/hostname"), "publish.directories")
        self.check_refused(self.put("nats://127.0.0.1:4222/x", secret="file:/etc/hostname"), "publish.directories")
        self.check_refused(self.put("nats://127.0.0.1:4222/x?creds=/etc/hostname"), "publish.directories")
        self.check_refused(self.put("https://example.org/", secret="env:PGPASSWORD"), "EVERFOLD_SECRET_")
        self.assertEqual(200, self.put("https://example.org/", secret="env:EVERFOLD_SECRET_HOOK").status)

    def test_files_are_written_below_the_directory_and_nowhere_else(self):
        allowed, outside = self.dir / "out", self.dir / "outside"
        for folder in (allowed, outside):
            folder.mkdir()
        foreign = allowed / "foreign.txt"
        foreign.write_text("line one\nline two without newline")
        os.symlink(outside, allowed / "way")
        os.symlink(outside / "end.ndjson", allowed / "end.ndjson")
        self.ef("init")
        self.ef("type", "set", "sold", "--publish", "yes")
        self.serve(env={"EVERFOLD_PUBLISH_DIRECTORIES": f"/nowhere,{allowed}/"})
        for path in (f"{self.dir}/target.txt", f"{allowed}/../target.txt", f"{allowed}", f"{allowed}x/y", "out/y",
                     f"{allowed}/./y", f"{allowed}//y"):
            self.check_refused(self.put(f"file:{path}"), "publish.directories")
        for name, url in (("good", f"{allowed}/good.ndjson"), ("way", f"{allowed}/way/in.ndjson"),
                          ("end", f"{allowed}/end.ndjson"), ("foreign", f"{foreign}")):
            self.assertEqual(200, self.http_as_owner("PUT", f"/v1/publishers/{name}", {"url": f"file:{url}"}).status)
        self.ef("event", "append", "s-1", "--type", "sold", "--data", "{}")
        wait_until(lambda: (allowed / "good.ndjson").exists() and (allowed / "good.ndjson").read_text(), "it is published")
        self.assertEqual("s-1", json.loads((allowed / "good.ndjson").read_text())["subject"])

        def errors():
            shown = {p["name"]: (p["sink"] or {}).get("error") for p in self.http("GET", "/v1/publishers").json()}
            return shown if all(shown[name] for name in ("way", "end", "foreign")) else None
        shown = wait_until(errors, "the other sinks report an error")
        self.assertIn("not created by a publisher", shown["foreign"])
        self.assertIsNone(shown["good"])
        self.assertEqual("line one\nline two without newline", foreign.read_text())
        self.assertEqual([], list(outside.iterdir()))

    def test_the_local_command_line_may_name_any_file(self):
        self.ef("init")
        self.ef("type", "set", "sold", "--publish", "yes")
        self.ef("publisher", "add", "p", "--to", f"file:{self.dir}/target.ndjson")
        self.ef("event", "append", "s-1", "--type", "sold", "--data", "{}")
        self.ef("work", "--drain", "--silent")
        self.assertEqual("s-1", json.loads((self.dir / "target.ndjson").read_text())["subject"])
