#!/usr/bin/env python3
"""test_trips.py EVERFOLD - how often a request waits for a PostgreSQL server that is far away.

Everything goes through a proxy that delays answers and counts round trips. Journal and views are in one
database, or in two. A server without workers is asked several times, and the least count is compared: what
it does in the background is counted too.
"""
import os
import subprocess
import sys
import time
import unittest
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, '..', 'support')]
import postgres_server  # noqa: E402
import test_network  # noqa: E402
from proxy import Proxy  # noqa: E402

DELAY_S = 0.02
TRIES = 6
EVENTS = 20


class Trips(test_network.Case):
    """In one database."""

    def setUp(self):
        super().setUp()
        self.proxy = Proxy(test_network.SERVER.port, DELAY_S)
        self.addCleanup(self.proxy.close)
        self.far = self.proxy.url(self.name)
        self.deploy()
        self.append(EVENTS)
        self.ok('work', '--drain')

    def start_server(self):
        """Its URL."""
        self.views = self.views and self.proxy.url(self.views.rsplit('/', 1)[1])
        said = os.path.join(self.dir, 'said')
        with open(said, 'w', encoding='utf-8') as out:
            server = subprocess.Popen([test_network.BINARY, 'serve', '--workers', '0', '--listen', '127.0.0.1:0'],
                                      stdout=out, stderr=out, env=self.environment(self.far))
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        self.wait_for('the server', lambda: 'http://' in test_network.text_of(said))
        text = test_network.text_of(said)
        return text[text.index('http://'):].split()[0].rstrip('/')

    def get(self, url):
        with urllib.request.urlopen(url, timeout=60) as answer:
            return answer.read().decode()

    def trips_of(self, act):
        """The least number of round trips of several attempts."""
        counts = []
        for _ in range(TRIES):
            time.sleep(0.1)
            before = self.proxy.trips
            act()
            counts.append(self.proxy.trips - before)
        return min(counts), counts

    def test_reads_wait_for_few_round_trips(self):
        url = self.start_server()
        most = {'/v1/views/shop/w1': 2, '/v1/views/shop?limit=3': 2,
                '/v1/views/shop?where=n%20%3E%201': 2}
        found = {path: self.trips_of(lambda path=path: self.get(url + path)) for path in most}
        self.assertEqual({}, {path: found[path] for path in most if found[path][0] > most[path]})


class TripsToTwo(Trips):
    """In two databases."""

    def deploy(self):
        self.psql(f'CREATE DATABASE {self.name}_views', database='postgres')
        self.views = f'{self.url}_views'
        super().deploy()


def main():
    test_network.BINARY = os.path.abspath(sys.argv.pop(1))
    if not postgres_server.programs():
        print('there is no PostgreSQL server to start')
        return 77
    with postgres_server.Server() as test_network.SERVER:
        return not unittest.main(exit=False).result.wasSuccessful()


if __name__ == '__main__':
    sys.exit(main())
