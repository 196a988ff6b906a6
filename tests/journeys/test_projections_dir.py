"""`serve --projections DIR`: the directory is deployed at each start, and never takes a projection back."""
from kit import CUSTOMERS_FOLD, EVENTS, Journey, customer_totals, on_stores, orders, wait_until

V2 = CUSTOMERS_FOLD.replace("version 1", "version 2").replace("orders += 1", "orders += 2")


@on_stores("sqlite", "lmdb", "postgres")
class Directory(Journey):
    def versions(self):
        return sorted((row["version"], row["generation"]) for row in self.projection("customers"))

    def serve_until_live(self):
        process = self.serve("--projections", self.dir / "programs")
        self.ef("projection", "wait", "customers", "--timeout", "120s")
        return process

    def wait_for_version_2(self):
        wait_until(lambda: [row for row in self.projection("customers") if row["version"] == 2 and row["state"] == "live"
                            and row["lag_events"] == 0], "version 2 is live")

    def test_a_restart_does_not_deploy_an_older_or_retired_version_again(self):
        events = list(orders(EVENTS // 5))
        self.ef("init")
        self.import_events(events)
        (self.dir / "programs").mkdir()
        self.write("programs/customers.fold", CUSTOMERS_FOLD)
        process = self.serve_until_live()
        self.assertEqual(customer_totals(events), self.customer_views())
        # A release by hand: version 2 is active, version 1 is retired. The directory is not changed.
        self.deploy(V2)
        self.wait_for_version_2()
        self.ef("projection", "switch", "customers", "--version", "2")
        self.ef("projection", "retire", "customers", "--version", "1")
        before = self.versions()
        self.assertEqual([2], [version for version, _ in before])
        self.assertEqual(0, self.end(process))
        for _ in range(2):
            process = self.serve_until_live()
            self.assertEqual(before, self.versions())
            self.assertEqual(0, self.end(process))
            log = process.log.read_text()
            self.assertRegex(log, 'projection "customers" version 1 is not deployed again: (it was retired, and )?version 2 is active')
        # A person may still do it, and a higher version in the directory is deployed.
        self.write("programs/customers.fold", V2.replace("version 2", "version 3"))
        self.serve_until_live()
        self.assertEqual([2, 3], [version for version, _ in self.versions()])
        self.deploy(CUSTOMERS_FOLD)
        self.assertEqual([1, 2, 3], [version for version, _ in self.versions()])

    def test_a_higher_version_that_was_retired_is_not_deployed_again(self):
        self.ef("init")
        (self.dir / "programs").mkdir()
        self.write("programs/1.fold", CUSTOMERS_FOLD)
        self.write("programs/2.fold", V2)
        self.import_events(orders(100))
        process = self.serve_until_live()
        self.wait_for_version_2()
        self.ef("projection", "retire", "customers", "--generation", "2")  # as the monitor does
        self.assertEqual([(1, 1)], self.versions())
        for _ in range(2):
            self.assertEqual(0, self.end(process))
            process = self.serve_until_live()
            self.assertEqual([(1, 1)], self.versions())
            self.assertIn('projection "customers" version 2 is not deployed again: it was retired, and version 1 is active',
                          process.log.read_text())
        # By hand it can be, and it then stays.
        self.deploy(V2, name="by_hand.fold")
        self.wait_for_version_2()
        self.assertEqual(0, self.end(process))
        process = self.serve_until_live()
        self.assertEqual([1, 2], [version for version, _ in self.versions()])
        self.assertNotIn("not deployed", process.log.read_text())

    def test_a_version_that_is_still_kept_is_no_reason_to_complain(self):
        self.ef("init")
        (self.dir / "programs").mkdir()
        self.write("programs/1.fold", CUSTOMERS_FOLD)
        self.write("programs/2.fold", V2)
        process = self.serve_until_live()
        self.wait_for_version_2()
        self.ef("projection", "switch", "customers", "--version", "2")
        before = self.versions()
        self.end(process)
        process = self.serve_until_live()
        self.assertEqual(before, self.versions())
        self.assertNotIn("not deployed", process.log.read_text())
