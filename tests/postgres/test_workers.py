#!/usr/bin/env python3
"""test_crew.py EVERFOLD [KILLS ZOMBIES STOPS] - workers and writers as processes on one PostgreSQL database, journal
and views, under whatever befalls processes: killed at work and while they start, stopped past the end of their leases
and woken, with the server stopped at once now and then.

Writers append with ids and begin a file anew when they were ended in it. Each stream is one writer's, so what a
view must hold is known to the last item, in order.
"""
import json
import os
import random
import signal
import subprocess
import sys
import time
import unittest

import test_network as network

KILLS, ZOMBIES, STOPS = 12, 4, 1
WORKERS, WRITERS, STREAMS, LINES = 3, 2, 4, 120
LEASE_S = 2  # as network.QUICK has it
PROGRAM = '''projection trail version 1
  view stream

on bought
  n += 1
  last = data.n
  trail push data.n keep 1000
'''


class Writer:
    """Imports one file after the other; a file counts when its import has said that it is done."""

    def __init__(self, case, number):
        self.case, self.number, self.count, self.process = case, number, 0, None
        self.path = os.path.join(case.dir, f'writer{number}')
        self.next_file()

    def stream_of(self, n):
        return f'w{self.number}-{n % STREAMS}'

    def next_file(self):
        first = self.count
        self.count += LINES
        with open(self.path, 'w', encoding='utf-8') as f:
            for n in range(first, self.count):
                f.write(json.dumps({'stream': self.stream_of(n), 'type': 'bought', 'id': f'{self.number}-{n}',
                                    'data': {'n': n}}) + '\n')

    def start(self):
        self.process = subprocess.Popen([network.BINARY, 'event', 'import', self.path], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, env=self.case.environment(self.case.url))

    def go_on(self):
        """Whatever became of the last import."""
        if self.process is None or self.process.poll() is None:
            return
        if self.process.returncode == 0:
            self.next_file()
        self.start()

    def finish(self):
        self.process.wait(network.TIME_LIMIT_S)
        for _ in range(20):
            if self.process.returncode == 0:
                return
            self.start()
            self.process.wait(network.TIME_LIMIT_S)
        raise AssertionError('a file cannot be imported')

    def expected(self):
        views = {}
        for n in range(self.count):
            view = views.setdefault(self.stream_of(n), {'n': 0, 'trail': []})
            view['n'] += 1
            view['last'] = n
            view['trail'] = (view['trail'] + [n])[-1000:]
        return views


class Crew(network.Case):
    def setUp(self):
        super().setUp()
        self.dice = random.Random(int(os.environ.get('EVERFOLD_SEED') or 4711))
        self.ok('init')
        path = os.path.join(self.dir, 'trail.fold')
        with open(path, 'w', encoding='utf-8') as f:
            f.write(PROGRAM)
        self.ok('projection', 'deploy', path)
        self.made = 0
        self.workers = [self.worker() for _ in range(WORKERS)]
        self.writers = [Writer(self, k) for k in range(WRITERS)]
        for writer in self.writers:
            writer.start()

    def worker(self):
        self.made += 1
        return self.start_worker(self.url, f'worker{self.made}')

    def pause(self, most):
        """Writers go on meanwhile."""
        until = time.monotonic() + self.dice.uniform(0, most)
        while time.monotonic() < until:
            time.sleep(0.02)
            for writer in self.writers:
                writer.go_on()

    def kill_one(self):
        k = self.dice.randrange(WORKERS + WRITERS)
        if k < WORKERS:
            self.workers[k][0].kill()
            self.workers[k][0].wait()
            self.workers[k] = self.worker()
        else:
            self.writers[k - WORKERS].process.kill()

    def stop_one_past_its_leases(self):
        zombie = self.dice.choice(self.workers)[0]
        zombie.send_signal(signal.SIGSTOP)
        self.pause(0)
        time.sleep(LEASE_S + self.dice.uniform(0.2, 0.6))
        zombie.send_signal(signal.SIGCONT)

    def stop_server(self):
        network.SERVER.stop(signal.SIGQUIT)
        network.SERVER.start()

    def finish(self):
        for writer in self.writers:
            writer.finish()
        total = str(sum(w.count for w in self.writers))
        self.wait_for('the views', lambda: total == self.psql(
            "SELECT coalesce(sum((doc ->> 'n')::int), 0) FROM everfold_views.views"))
        for worker, said in self.workers:
            self.end_worker(worker, said)
        return total

    def check(self):
        total = self.finish()
        expected = {}
        for writer in self.writers:
            expected.update(writer.expected())
        rows = [json.loads(r) for r in self.ok('view', 'export', 'trail').splitlines()]
        self.assertEqual(expected, {r['view_id']: r['data'] for r in rows})
        self.assertEqual(f'{total}|{total}', self.psql('SELECT count(*), max(position) FROM everfold.event'))
        self.assertEqual('0', self.psql('SELECT count(*) FROM everfold.outbox'))
        self.ok('projection', 'verify', 'trail')
        shown = json.loads(self.ok('projection', 'show', 'trail', '-o', 'json'))
        self.assertEqual((0, 0), (shown['unaccounted'], shown['quarantined']))
        gone = "'%s'" % "', '".join(str(w.pid) for w, _ in self.workers)
        self.assertEqual('0', self.psql(f'SELECT count(*) FROM everfold.worker WHERE pid::text IN ({gone})'))
        found = [r for r in self.run_it('doctor', '--deep').stdout.splitlines() if r.startswith('FAIL')]
        self.assertEqual(['durability'], [r.split()[1] for r in found])

    def test_views_are_correct_after_workers_are_killed_stopped_or_cut_off(self):
        acts = ([self.kill_one] * KILLS + [self.stop_one_past_its_leases] * ZOMBIES + [self.stop_server] * STOPS)
        self.dice.shuffle(acts)
        for act in acts:
            self.pause(0.6)
            act()
        self.check()
        print(f'{KILLS} kills, {ZOMBIES} stops past a lease, {STOPS} stops of the server; '
              f'{sum(w.count for w in self.writers)} events', file=sys.stderr)


def main():
    global KILLS, ZOMBIES, STOPS
    network.BINARY = os.path.abspath(sys.argv.pop(1))
    if len(sys.argv) > 1:
        KILLS, ZOMBIES, STOPS = (int(sys.argv.pop(1)) for _ in range(3))
    if not network.postgres_server.programs():
        print('there is no PostgreSQL server to start')
        return 77
    with network.postgres_server.Server() as network.SERVER:
        return not unittest.main(exit=False).result.wasSuccessful()


if __name__ == '__main__':
    sys.exit(main())
