#!/usr/bin/env python3
"""test_probe.py EVERFOLD - probes are answered while the views in PostgreSQL are locked."""
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest

BINARY = None
URL = os.environ.get('POSTGRES_URL')
PROGRAM = '''projection counts version 1
  view stream

on added
  n += 1
'''
HELD_S = 6


class Probe(unittest.TestCase):
    def setUp(self):
        room = tempfile.TemporaryDirectory(prefix='everfold-probe-')
        self.addCleanup(room.cleanup)
        self.log = open(os.path.join(room.name, 'log'), 'wb+')
        self.addCleanup(self.log.close)
        self.env = {**os.environ, 'EVERFOLD_JOURNAL': URL}
        subprocess.run([BINARY, 'init'], env=self.env, cwd=room.name, check=True, capture_output=True, timeout=60)
        self.server = subprocess.Popen([BINARY, 'serve', '--listen', '127.0.0.1:0'], env=self.env, cwd=room.name,
                                       stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)
        self.addCleanup(self.stop)
        self.port = int(self.wait_for(lambda: re.search(rb'serves at http://127.0.0.1:(\d+)', self.said()))[1])

    def stop(self):
        self.server.terminate()
        self.server.wait(60)

    def said(self):
        with open(self.log.name, 'rb') as f:
            return f.read()

    def wait_for(self, condition):
        until = time.monotonic() + 60
        while time.monotonic() < until:
            value = condition()
            if value:
                return value
            time.sleep(0.02)
        self.fail(f'it did not happen in time: {self.said()}')

    def ask(self, method, path, body=None):
        c = http.client.HTTPConnection('127.0.0.1', self.port, timeout=60)
        began = time.monotonic()
        c.request(method, path, body=body)
        answer = c.getresponse()
        data = answer.read()
        c.close()
        return answer.status, data, time.monotonic() - began

    def test_a_locked_table_of_views_stops_no_probe(self):
        self.assertEqual(200, self.ask('PUT', '/v1/projections/counts', PROGRAM)[0])
        event = json.dumps({'type': 'added', 'data': {}})
        self.assertEqual(201, self.ask('POST', '/v1/streams/s1/events', event)[0])
        self.wait_for(lambda: self.ask('GET', '/v1/views/counts/s1')[0] == 200)
        lock = subprocess.Popen(['psql', '-X', '-q', URL, '-c', 'BEGIN; LOCK TABLE everfold_views.view; '
                                 f"SELECT 'held'; SELECT pg_sleep({HELD_S}); COMMIT"], stdout=subprocess.DEVNULL)
        self.addCleanup(lock.wait)
        self.addCleanup(lock.kill)
        answers = []
        reads = [threading.Thread(target=lambda: answers.append(self.ask('GET', '/v1/views/counts/s1'))) for _ in range(8)]

        def is_locked():
            sql = "SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted AND relation = 'everfold_views.view'::regclass"
            return b'1' in subprocess.run(['psql', '-X', '-A', '-t', '-q', URL, '-c', sql], capture_output=True, check=True).stdout

        self.wait_for(is_locked)
        for read in reads:
            read.start()
        time.sleep(0.3)  # they are on their way; a probe that came before them would show nothing
        slowest = max(self.ask('GET', '/livez')[2] for _ in range(5))
        self.assertLess(slowest, HELD_S / 2)
        self.assertIsNone(lock.poll())
        for read in reads:
            read.join()
        self.assertEqual({200}, {status for status, _, _ in answers})


if __name__ == '__main__':
    BINARY = os.path.abspath(sys.argv.pop(1))
    unittest.main()
