"""With log.format=json every line that a service writes to stderr is one JSON object, and an error is told once."""
import contextlib
import json
import signal
import sqlite3

import kit
from kit import CUSTOMERS_FOLD, Journey, orders, wait_until

JSON = {"EVERFOLD_LOG_FORMAT": "json", "EVERFOLD_LOG_LEVEL": "info"}


class JsonLog(Journey):
    def lines(self, process):
        out = []
        for line in process.log.read_text().splitlines():
            try:
                out.append(json.loads(line))
            except ValueError:
                self.fail(f"not JSON: {line}")
            self.assertEqual(["time", "level", "message"], list(out[-1])[:3])
            self.assertIn(out[-1]["level"], ("debug", "info", "warn", "error"))
        return out

    def messages(self, process):
        return [line["message"] for line in self.lines(process)]

    def test_serve_from_start_to_stop(self):
        self.ef("init")
        (self.dir / "programs").mkdir()
        self.write("programs/c.fold", CUSTOMERS_FOLD)
        process = self.serve("--access-log", "--projections", self.dir / "programs", env=JSON)
        self.assertEqual(201, self.http("POST", "/v1/streams/s/events", {"type": "t", "data": {}}).status)
        self.assertEqual(401, self.http("GET", "/v1/events", headers={"Authorization": "Bearer evf_no"}).status)
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: any("reloaded settings" in m for m in self.messages(process)), "settings are read again")
        (self.dir / "data" / "everfold.conf").write_text("server.body = no size\n")
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: any("reload failed" in m for m in self.messages(process)), "a bad file is refused")
        self.assertEqual(0, self.end(process))
        found = self.messages(process)
        self.assertIn(f"everfold serves at {self.server_url}".removeprefix("everfold: "), found)
        self.assertIn("stopping", found)
        requests = [line for line in self.lines(process) if line["message"] == "request"]
        self.assertEqual({"127.0.0.1"}, {line["client"] for line in requests})
        self.assertEqual([401], [line["status"] for line in requests if line["operation"] == "readLog"])

    def test_a_service_that_cannot_start_says_so_in_json(self):
        self.ef("init")
        (self.dir / "programs").mkdir()
        self.write("programs/bad.fold", "projection bad version 1\n  view data.x\n\non a\n  y ++ 1\n")
        for words in (["serve", "--projections", self.dir / "programs"], ["serve", "--listen", "nowhere"],
                      ["serve", "--projections", self.dir / "none"], ["serve", "--nonsense"][:1] + ["--workers", "x"],
                      ["work", "--interval-ms", "x"], ["work", "--once", "--drain"]):
            process = self.start(*words, env=JSON)
            self.assertNotEqual(0, process.wait(timeout=kit.WAIT_LIMIT_S))
            errors = [line for line in self.lines(process) if line["level"] == "error"]
            self.assertEqual(1, len(errors), errors)
            self.assertIn("code", errors[0])

    def test_a_store_error_is_logged_once(self):
        """Another program holds the view store: each step of a worker fails until it lets go."""
        self.ef("init")
        self.deploy(CUSTOMERS_FOLD)
        for words in (["work", "--silent"], ["serve", "--listen", "127.0.0.1:0"]):
            self.import_events(orders(1_000, seed=len(words)))
            with contextlib.closing(sqlite3.connect(self.dir / "data" / "views.db", isolation_level=None)) as holder:
                holder.execute("BEGIN EXCLUSIVE")
                process = self.start(*words, env={**JSON, "EVERFOLD_STORE_BUSY": "100ms"})
                wait_until(lambda: len(self.failures(process)) > 2 or process.poll() is not None, "some steps fail")
            if process.poll() is None:
                wait_until(lambda: self.projection("customers")[0]["lag_events"] == 0, "it goes on")
            self.end(process)
            told = [(line["error"], line.get("task"), line["time"][:21]) for line in self.failures(process)]
            self.assertEqual(len(told), len(set(told)), told)
            self.assertEqual([], [m for m in self.messages(process) if "trying again" in m])

    def failures(self, process):
        return [line for line in self.lines(process) if line.get("error")]
