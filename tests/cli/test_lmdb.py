"""Views in LMDB: the same commands and answers, from several processes at once."""
import os

from support import Shop, interrupt


class Lmdb(Shop):
    def setUp(self):
        super().setUp()
        self.url = f"lmdb:{self.dir}/views"

    def environment(self, **more):
        return super().environment(**{"EVERFOLD_VIEWS": self.url, **more})

    def test_events_are_folded_queried_and_rebuilt(self):
        self.check_shop()

    def test_a_worker_and_readers_share_the_folder(self):
        self.fold_some()
        worker = self.start("work", "--silent")
        for i in range(4):
            token = self.append("s9", "bought", '{"who":"w2","price":10}')["token"]
            row = self.ok("view", "get", "shop", "w2", "--at-least", token, "-o", "json").json()
            self.assertEqual((5 + i, 36 + 10 * i), (row["data"]["n"], row["data"]["total"]))
        self.assertEqual(0, interrupt(worker).code)
        self.assertEqual([("w2", 8, 66)], self.totals("--where", "total > 22"))

    def test_status_and_doctor_say_where_the_views_are(self):
        self.fold_some()
        self.assertIn(f"views       {self.url}\n", self.ok("status").out)
        self.assertEqual(self.url, self.ok("status", "-o", "json").json()["views_url"])
        self.assertIn(self.url, self.ok("doctor", "--deep").out)

    def test_a_folder_of_something_else_is_named(self):
        self.ok("init", env={"EVERFOLD_VIEWS": None})
        self.refused(3, "projection", "ls", saying="there is no view store")
        os.mkdir(self.dir / "views")
        (self.dir / "views" / "data.mdb").write_bytes(b"g" * 9000)
        self.refused(1, "projection", "ls", saying="no LMDB file")
        self.assertEqual(6, self.run_it("doctor").code)
