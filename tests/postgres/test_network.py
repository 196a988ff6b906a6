#!/usr/bin/env python3
"""test_network.py EVERFOLD - a PostgreSQL journal and views behind a network that fails.

A server of its own for all tests, a database for each. What was appended has to be in the views once,
whatever was lost when: a fault is put at the first commit, then at the second, until a run ends without
meeting it.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, '..', 'support')]
import postgres_server  # noqa: E402
from proxy import Proxy  # noqa: E402

BINARY = None
SERVER = None
PROGRAM = '''projection shop version 1
  view data.who

on bought
  n += 1
  total += data.price

on spoiled
  n += data.none.at.all + 1
'''
TIME_LIMIT_S = 120
# Ends the back end that moves a mark, the first time that one is moved. Numbers of a sequence are not
# given back when a transaction is rolled back.
KILL_ONCE = '''
CREATE SEQUENCE moves;
CREATE FUNCTION kill_once() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.position <> OLD.position AND nextval('moves') = 1 THEN
        PERFORM pg_terminate_backend(pg_backend_pid());
    END IF;
    RETURN NEW;
END $$;
'''
# Notes with each mark that is moved how many watermarks its own transaction has written.
WATCH = '''
CREATE TABLE moved(watermarks bigint);
CREATE FUNCTION watch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.position <> OLD.position THEN
        INSERT INTO moved SELECT count(*) FROM everfold_views.watermark
         WHERE xmin = pg_current_xact_id()::xid;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER watch BEFORE UPDATE ON everfold.outbox_mark FOR EACH ROW EXECUTE FUNCTION watch();
'''


class Case(unittest.TestCase):
    maxDiff = None
    count = 0

    def setUp(self):
        Case.count += 1
        self.name = f't{Case.count}'
        self.dir = tempfile.mkdtemp(prefix='everfold-network-')
        self.addCleanup(shutil.rmtree, self.dir)
        self.psql(f'CREATE DATABASE {self.name}', database='postgres')
        self.bought = 0
        self.proxy = Proxy(SERVER.port)
        self.addCleanup(self.proxy.close)
        self.url = SERVER.url.rsplit('/', 1)[0] + '/' + self.name
        self.far = self.proxy.url(self.name)

    def psql(self, sql, database=None):
        url = SERVER.url.rsplit('/', 1)[0] + '/' + (database or self.name)
        done = subprocess.run([os.path.join(SERVER.binaries, 'psql'), '-XqAt', '-v', 'ON_ERROR_STOP=1',
                               url], input=sql, capture_output=True, text=True, check=False,
                              timeout=TIME_LIMIT_S)
        self.assertEqual('', done.stderr)
        return done.stdout.strip()

    def environment(self, url):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(('EVERFOLD_', 'PG'))}
        return {**kept, 'EVERFOLD_DATA': self.dir, 'EVERFOLD_JOURNAL': url, 'EVERFOLD_VIEWS': url}

    def run_it(self, *words, url=None, stdin=''):
        done = subprocess.run([BINARY, *words], check=False, capture_output=True, text=True, input=stdin,
                              env=self.environment(url or self.url), timeout=TIME_LIMIT_S)
        self.assertNotIn('Sanitizer', done.stderr)
        return done

    def ok(self, *words, **more):
        done = self.run_it(*words, **more)
        self.assertEqual(0, done.returncode, f'{words}: {done.stderr}{done.stdout}')
        return done.stdout

    def deploy(self):
        self.ok('init')
        path = os.path.join(self.dir, 'shop.fold')
        with open(path, 'w', encoding='utf-8') as f:
            f.write(PROGRAM)
        self.ok('projection', 'deploy', path)
        self.ok('work', '--drain')

    def lines(self, count, kind='bought'):
        """Lines of an import, each with an id that no other has."""
        first = self.bought
        self.bought += count
        return ''.join(json.dumps({'stream': f's{n % 7}', 'type': kind, 'id': f'id-{n}',
                                   'data': {'who': f'w{n % 5}', 'price': n}}) + '\n'
                       for n in range(first, first + count))

    def append(self, count, **more):
        self.ok('event', 'import', '-', stdin=self.lines(count), **more)

    def check_totals(self):
        """Each event is in its view once, and nothing waits."""
        rows = [json.loads(r) for r in self.ok('view', 'query', 'shop', '-o', 'ndjson').splitlines()]
        expected = {}
        for n in range(self.bought):
            view = expected.setdefault(f'w{n % 5}', {'n': 0, 'total': 0})
            view['n'] += 1
            view['total'] += n
        self.assertEqual(expected, {r['view_id']: r['data'] for r in rows})
        self.assertEqual('0', self.psql('SELECT count(*) FROM everfold.outbox'))
        self.assertEqual(str(self.bought), self.psql('SELECT count(*) FROM everfold.event'))

    def check_all(self):
        self.check_totals()
        # The server of the tests does without fsync, which doctor finds, and nothing else.
        found = [r for r in self.run_it('doctor', '--deep').stdout.splitlines() if r.startswith('FAIL')]
        self.assertEqual(['durability'], [r.split()[1] for r in found])

    def lose_each(self, answer, act):
        """Do it with the first commit lost, with the second, until none is met: how many were."""
        for nth in range(1, 100):
            self.proxy.lose(nth, answer)
            act()
            if not self.proxy.met:
                self.check_all()
                return nth - 1
        raise AssertionError('there is no end to the commits')


class OneCommit(Case):
    """Journal and views in one database: an apply and its mark are one transaction."""

    def test_a_mark_moves_with_the_watermarks_of_its_batch(self):
        self.deploy()
        self.psql(WATCH)
        self.append(20)
        self.ok('work', '--drain')
        self.check_all()
        self.assertEqual('t', self.psql('SELECT count(*) > 0 AND min(watermarks) > 0 FROM moved'))

    def test_a_back_end_that_ends_between_apply_and_mark_has_done_neither(self):
        self.deploy()
        self.psql(KILL_ONCE + 'CREATE TRIGGER kill_once BEFORE UPDATE ON everfold.outbox_mark '
                              'FOR EACH ROW EXECUTE FUNCTION kill_once()')
        self.append(20)
        self.ok('work', '--drain')
        self.assertNotEqual('1', self.psql('SELECT last_value FROM moves'))
        self.check_all()

    def test_a_back_end_that_ends_in_the_commit_has_done_neither(self):
        self.deploy()
        self.psql(KILL_ONCE + 'CREATE CONSTRAINT TRIGGER kill_once AFTER UPDATE ON everfold.outbox_mark '
                              'DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION kill_once()')
        self.append(20)
        self.ok('work', '--drain')
        self.assertNotEqual('1', self.psql('SELECT last_value FROM moves'))
        self.check_all()

    def drain_through(self):
        self.append(20)
        self.ok('work', '--drain', url=self.far)
        self.check_totals()

    def test_a_lost_commit_of_a_worker_is_made_up_for(self):
        self.deploy()
        self.assertGreater(self.lose_each(False, self.drain_through), 2)

    def test_a_lost_answer_to_a_commit_of_a_worker_doubles_nothing(self):
        self.deploy()
        self.assertGreater(self.lose_each(True, self.drain_through), 2)


def main():
    global BINARY, SERVER
    BINARY = os.path.abspath(sys.argv.pop(1))
    if not postgres_server.programs():
        print('there is no PostgreSQL server to start')
        return 77
    with postgres_server.Server() as SERVER:
        return not unittest.main(exit=False).result.wasSuccessful()


if __name__ == '__main__':
    sys.exit(main())
