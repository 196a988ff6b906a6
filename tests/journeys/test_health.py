"""What an operator sees: doctor, status, /readyz and the health sentence name what is wrong and what to do."""
import kit
from kit import CUSTOMERS_FOLD, Journey, orders


class Health(Journey):
    def checks(self, *words, code=0):
        """check -> list of its lines, as `doctor` reports them."""
        found = {}
        for check in self.ef("doctor", "-o", "json", *words, code=code).json()["checks"]:
            found.setdefault(check["check"], []).append(check)
        return found


class APausedProjection(Health):
    def assert_doctor_names_it(self):
        found = self.checks()["projections"]
        self.assertEqual(["warn"], [check["state"] for check in found])
        self.assertRegex(found[0]["detail"],
                         r"^customers is paused since \d{4}-\d\d-\d\dT[0-9:.]+Z by traveller: repairs; 100 events behind$")
        self.assertEqual("run: everfold projection resume customers", found[0]["fix"])

    def test_doctor_names_it_and_how_to_resume(self):
        self.ef("init")
        self.deploy(CUSTOMERS_FOLD)
        self.ef("work", "--drain")
        self.ef("projection", "pause", "customers", "--reason", "repairs")
        self.import_events(orders(100))
        self.ef("work", "--drain")
        self.assert_doctor_names_it()
        self.serve("--workers", "0")
        self.stores = {**self.stores, "EVERFOLD_SERVER": self.server_url}
        self.assert_doctor_names_it()
        self.ef("projection", "resume", "customers")
        self.assertNotIn("paused", str(self.checks()))


if __name__ == "__main__":
    kit.unittest.main()
