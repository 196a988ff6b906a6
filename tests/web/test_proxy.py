"""The monitor behind a reverse proxy, under a path of its own."""
import json
import urllib.error
import urllib.request

from page import CUSTOMERS, Page
from proxy import Proxy
from support import wait_until


class BehindProxy(Page):
    arguments = ("--path", "/tools/everfold")

    @classmethod
    def prepare(cls):
        ask = cls.server.ask
        ask("PUT", "/v1/projections/customers", CUSTOMERS)
        ask("POST", "/v1/streams/o-1/events", {"type": "order.placed", "data": {"customer": "ann", "amount": 1}})
        wait_until(lambda: ask("GET", "/v1/views/customers/ann").status == 200)

    def proxy(self, strips):
        proxy = Proxy(self.server.url, "/tools/everfold", strips)
        self.addCleanup(proxy.close)
        return proxy

    def check_pages(self, proxy, address):
        self.b.open(address)
        self.b.requests.clear()
        self.b.troubles.clear()
        self.b.wait("find('Overview', 'h1')")
        self.b.press("Projections")
        self.b.wait("find('customers', 'td')")
        self.b.press("Workers")
        self.b.wait("find('Workers and partitions', 'h1')")
        self.b.wait("!document.querySelector('main').hasAttribute('aria-busy')")
        self.assertEqual([], self.b.troubles)
        self.assertEqual([], proxy.others)
        self.assertEqual([], [u for u in self.b.requests if not u.startswith((proxy.url + "/", "about:", "data:"))])

    def test_a_proxy_that_passes_the_prefix_on(self):
        proxy = self.proxy(strips=False)
        self.check_pages(proxy, proxy.url + "/")
        self.check_pages(proxy, proxy.url)  # without the slash it is led to it

    def test_a_proxy_that_takes_the_prefix_off(self):
        proxy = self.proxy(strips=True)
        self.check_pages(proxy, proxy.url + "/")

    def test_the_api_is_there_with_and_without_the_prefix_and_names_its_server(self):
        for base in (self.server.url, self.server.url + "/tools/everfold"):
            with urllib.request.urlopen(base + "/openapi.json") as response:
                self.assertEqual(["/tools/everfold"], [s["url"] for s in json.load(response)["servers"]])
            with urllib.request.urlopen(base + "/v1/views/customers/ann") as response:
                self.assertEqual("ann", json.load(response)["view_id"])
                self.assertIsNone(response.headers.get("Set-Cookie"))
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(self.server.url + "/tools/everfoldish/v1/views/customers/ann")
        self.assertEqual(404, refused.exception.code)
