"""Files that are moved, replaced or removed under a running server: a loud stop, and never an event that was
acknowledged and is gone."""
import shutil

from kit import Journey, wait_until

PROGRAM = """projection totals version 1
  view stream
on paid
  total += data.amount
"""


class Files(Journey):
    def append(self, amount):
        return self.http("POST", "/v1/streams/s/events", {"type": "paid", "data": {"amount": amount}})

    def journal_files(self):
        return sorted((self.dir / "data").glob("journal.db*"))

    def refused(self, name):
        answer = self.append(9)
        self.assertEqual("damaged", answer.json()["code"], str(answer))
        self.assertIn(name, answer.json()["detail"])
        return answer.json()["detail"]

    def test_a_journal_that_is_replaced_takes_no_more_events(self):
        self.ef("init")
        server = self.serve()
        self.assertEqual(201, self.append(1).status)
        aside, copy = self.dir / "aside", self.dir / "copy"
        aside.mkdir()
        copy.mkdir()
        for file in self.journal_files():
            shutil.copy2(file, copy)
        self.assertEqual(201, self.append(2).status)
        for file in self.journal_files():
            file.rename(aside / file.name)
        self.refused("journal.db")
        for file in copy.iterdir():
            shutil.copy2(file, self.dir / "data")
        self.refused("journal.db")
        self.refused("journal.db")  # and it does not open the other one meanwhile
        self.end(server)
        for file in self.journal_files():
            file.unlink()
        for file in aside.iterdir():
            file.rename(self.dir / "data" / file.name)
        self.assertEqual([1, 2], [e["data"]["amount"] for e in self.ef("event", "log", "-o", "json").json()])

    def test_a_lock_file_that_is_removed_stops_writing(self):
        self.ef("init")
        server = self.serve()
        self.assertEqual(201, self.append(1).status)
        (self.dir / "data" / "journal.db-lock").unlink()
        self.assertIn("moved or removed", self.refused("journal.db-lock"))
        self.end(server)
        self.serve()
        self.assertEqual(201, self.append(2).status)

    def test_views_that_are_moved_are_named(self):
        self.ef("init")
        self.deploy(PROGRAM)
        self.ef("event", "append", "s", "--type", "paid", "--data", '{"amount":1}')
        server = self.serve()
        wait_until(lambda: self.http("GET", "/v1/views/totals/s").status == 200, "the view is there")
        for file in sorted((self.dir / "data").glob("views.db*")):
            file.rename(self.dir / file.name)
        self.assertEqual(201, self.append(2).status)
        wait_until(lambda: "views.db" in server.log.read_text(), "the log names the file")
        self.end(server)
        for file in sorted(self.dir.glob("views.db*")):
            file.rename(self.dir / "data" / file.name)
        self.ef("work", "--drain")
        self.assertEqual({"s": {"total": 3}}, self.views("totals"))

    def test_a_directory_that_is_moved_stops_writing_and_loses_nothing(self):
        self.ef("init")
        server = self.serve()
        data, aside = self.dir / "data", self.dir / "aside"
        self.assertEqual(201, self.append(1).status)
        data.rename(aside)
        acknowledged = [1]

        def is_refused():
            if self.append(2).status == 201:
                acknowledged.append(2)
                return False
            return True

        wait_until(is_refused, "an append is refused")
        self.assertIn("moved or removed", self.refused("journal.db-lock"))
        self.end(server)
        aside.rename(data)
        self.assertEqual(acknowledged, [e["data"]["amount"] for e in self.ef("event", "log", "-o", "json").json()])
