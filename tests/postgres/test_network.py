#!/usr/bin/env python3
"""test_network.py EVERFOLD - a PostgreSQL journal and views behind a network that fails, behind a pooler,
and on a server whose place another one takes.

A server of its own for all tests, a database for each. What was appended has to be in the views once,
whatever was lost when: a fault is put at the first commit, then at the second, until a run ends without
meeting it.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
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
QUICK = {'EVERFOLD_WORKER_LEASE_TTL': '2s', 'EVERFOLD_STORE_BUSY': '3s'}
# Ends the back end that moves an offset, the first time that one is moved. Numbers of a sequence are not
# given back when a transaction is rolled back.
KILL_ONCE = '''
CREATE SEQUENCE public.moves;
CREATE FUNCTION kill_once() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.position <> OLD.position AND nextval('public.moves') = 1 THEN
        PERFORM pg_terminate_backend(pg_backend_pid());
    END IF;
    RETURN NEW;
END $$;
'''
# Ends a transaction for a deadlock, the first that writes to a table.
DEADLOCK_ONCE = '''
CREATE SEQUENCE {0}_writes;
CREATE FUNCTION {0}_deadlock() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF nextval('public.{0}_writes') = 1 THEN
        RAISE EXCEPTION USING ERRCODE = '40P01', MESSAGE = 'deadlock detected';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER deadlock BEFORE INSERT OR UPDATE ON {1}.{0} FOR EACH ROW EXECUTE FUNCTION {0}_deadlock();
'''
# Records with each offset that is moved how many watermarks its own transaction has written.
WATCH = '''
CREATE TABLE moved(watermarks bigint);
CREATE FUNCTION watch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.position <> OLD.position THEN
        INSERT INTO public.moved SELECT count(*) FROM everfold_views.watermark
         WHERE xmin = pg_current_xact_id()::xid;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER watch BEFORE UPDATE ON everfold.lane_offset FOR EACH ROW EXECUTE FUNCTION watch();
'''


def text_of(path):
    with open(path, encoding='utf-8') as f:
        return f.read()


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
        self.views = None  # where they are, if not with the journal
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
        views = self.views or url
        kept = {k: v for k, v in os.environ.items() if not k.startswith(('EVERFOLD_', 'PG'))}
        return {**kept, 'EVERFOLD_DATA': self.dir, 'EVERFOLD_JOURNAL': url, 'EVERFOLD_VIEWS': views}

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

    def start_worker(self, url, name):
        """A worker that goes on; what it says is in a file. It is ended with the test."""
        said = os.path.join(self.dir, name)
        with open(said, 'w', encoding='utf-8') as out:
            worker = subprocess.Popen([BINARY, 'work', '--silent', '--interval-ms', '200'], stdout=out,
                                      stderr=out, env={**self.environment(url), **QUICK})
        self.addCleanup(worker.wait)
        self.addCleanup(worker.kill)
        return worker, said

    def end_worker(self, worker, said):
        worker.send_signal(signal.SIGTERM)
        self.assertEqual(0, worker.wait(TIME_LIMIT_S), text_of(said))
        self.assertNotIn('Sanitizer', text_of(said))

    def wait_for(self, what, is_so):
        until = time.monotonic() + TIME_LIMIT_S
        while not is_so():
            self.assertLess(time.monotonic(), until, what)
            time.sleep(0.1)

    def wait_for_views(self, **more):
        self.wait_for('the views', lambda: str(self.bought) == self.psql(
            "SELECT coalesce(sum((doc ->> 'n')::int), 0) FROM everfold_views.views", **more))

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

    def test_a_role_of_the_views_own_makes_two_commits_of_it(self):
        self.psql('CREATE ROLE other SUPERUSER LOGIN')
        self.views = self.url.replace('postgres@', 'other@')
        self.deploy()
        self.psql(WATCH)
        self.append(20)
        self.ok('work', '--drain')
        self.check_all()
        self.assertEqual('t', self.psql('SELECT count(*) > 0 AND max(watermarks) = 0 FROM moved'))

    def test_a_back_end_that_ends_between_apply_and_mark_has_done_neither(self):
        self.deploy()
        self.psql(KILL_ONCE + 'CREATE TRIGGER kill_once BEFORE UPDATE ON everfold.lane_offset '
                              'FOR EACH ROW EXECUTE FUNCTION kill_once()')
        self.append(20)
        self.ok('work', '--drain')
        self.assertNotEqual('1', self.psql('SELECT last_value FROM moves'))
        self.check_all()

    def test_a_back_end_that_ends_in_the_commit_has_done_neither(self):
        self.deploy()
        self.psql(KILL_ONCE + 'CREATE CONSTRAINT TRIGGER kill_once AFTER UPDATE ON everfold.lane_offset '
                              'DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION kill_once()')
        self.append(20)
        self.ok('work', '--drain')
        self.assertNotEqual('1', self.psql('SELECT last_value FROM moves'))
        self.check_all()

    def test_a_deadlock_of_a_worker_is_tried_again(self):
        self.deploy()
        tables = {'watermark': 'everfold_views', 'view': 'everfold_views', 'lane_offset': 'everfold'}
        for table, schema in tables.items():
            self.psql(DEADLOCK_ONCE.format(table, schema))
        self.append(20)
        said = self.ok('work', '--drain')
        for table in tables:
            self.assertGreater(int(self.psql(f'SELECT last_value FROM {table}_writes')), 1, table)
        self.assertNotIn('deadlock', said)
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


class Network(Case):
    def append_through(self):
        self.append(3, url=self.far)
        self.assertEqual(str(self.bought), self.psql('SELECT count(*) FROM everfold.event'))

    def test_a_commit_whose_end_is_not_known_is_looked_up_by_the_ids(self):
        self.ok('init')
        for answer in (False, True):
            self.proxy.lose(1, answer)
            nth = 1
            self.append_through()
            while self.proxy.met:
                nth += 1
                self.proxy.lose(nth, answer)
                self.append_through()
            self.assertGreater(nth, 1)
        self.ok('work', '--drain')

    def test_a_worker_that_is_cut_off_is_replaced_and_does_no_harm_when_it_is_back(self):
        self.deploy()
        first, first_said = self.start_worker(self.far, 'first')
        self.append(10)
        self.wait_for_views()
        self.proxy.hold()
        self.append(10)
        second, second_said = self.start_worker(self.url, 'second')
        self.wait_for_views()
        self.proxy.release()
        self.append(10)
        self.wait_for_views()
        self.end_worker(second, second_said)
        self.append(10)
        self.wait_for_views()
        self.end_worker(first, first_said)
        self.check_all()

    def listeners(self):
        return self.psql("SELECT a.pid FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid AND l.locktype = 'advisory' "
                         "WHERE a.datname = current_database()")

    def test_who_listens_listens_again_and_misses_nothing_meanwhile(self):
        self.deploy()
        worker, said = self.start_worker(self.url, 'worker')
        for _ in range(3):
            self.wait_for('a listener', self.listeners)
            before = self.listeners()
            self.psql(f'SELECT pg_terminate_backend({before})')
            self.append(5)  # possibly no server is listening
            self.wait_for_views()
            self.wait_for('another listener', lambda b=before: self.listeners() not in ('', b))
        self.end_worker(worker, said)
        self.check_all()

    def test_a_worker_whose_connections_are_cut_over_and_over_loses_nothing(self):
        self.deploy()
        worker, said = self.start_worker(self.far, 'worker')
        for _ in range(5):
            self.append(10)
            self.proxy.cut()
        self.wait_for_views()
        self.end_worker(worker, said)
        self.check_all()


@unittest.skipUnless(shutil.which('openssl'), 'openssl makes the certificates')
class Tls(Case):
    """A server with a certificate. LOCALHOST is not what we call local, and leads here all the same."""

    def setUp(self):
        super().setUp()
        where = {name: os.path.join(self.dir, name) for name in ('right', 'wrong')}
        for name, host in (('right', 'localhost'), ('wrong', 'db.example')):
            subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes',
                            '-days', '2', '-subj', f'/CN={host}', '-addext', f'subjectAltName=DNS:{host}', '-keyout',
                            where[name] + '.key', '-out', where[name] + '.crt'], check=True, capture_output=True)
            os.chmod(where[name] + '.key', 0o600)
            postgres_server.give_away(where[name] + '.key')
        os.chmod(self.dir, 0o755)
        self.where = where

    def server(self, name):
        server = self.enterContext(postgres_server.Server(
            ssl='on', ssl_cert_file=self.where[name] + '.crt', ssl_key_file=self.where[name] + '.key'))
        return f'postgres://postgres@LOCALHOST:{server.port}/postgres?sslrootcert={{}}.crt{{}}'

    def test_a_server_that_is_not_local_is_believed_by_its_certificate_only(self):
        right, wrong = self.server('right'), self.server('wrong')
        own = self.where['right'], self.where['wrong']
        self.ok('init', url=right.format(own[0], ''))
        self.ok('event', 'append', 's', '--type', 'bought', '--data', '{}', url=right.format(own[0], ''))
        for url in (right.format(own[1], ''),  # signed by an unknown authority
                    wrong.format(own[1], '')):  # the certificate is of another server
            done = self.run_it('init', url=url)
            self.assertNotEqual(0, done.returncode)
            self.assertIn('certificate', done.stderr)
        refused = self.run_it('init', url=right.format(own[0], '&sslmode=require'))
        self.assertEqual(2, refused.returncode)
        self.assertIn('verify-full', refused.stderr)
        self.ok('init', url=wrong.format(own[1], '&sslmode=require&ef_insecure=1'))


POOLER = '''[databases]
* = host=127.0.0.1 port={server} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
ignore_startup_parameters = extra_float_digits,options
'''


@unittest.skipUnless(shutil.which('pgbouncer', path='/usr/sbin:/usr/bin'), 'there is no pgbouncer')
class Pooler(Case):
    """Sessions change with every transaction: no LISTEN, nothing prepared, no lock of a session."""

    def setUp(self):
        super().setUp()
        port = postgres_server.free_port()
        path = os.path.join(self.dir, 'pgbouncer.ini')
        os.chmod(self.dir, 0o755)
        with open(path, 'w', encoding='utf-8') as f:
            f.write(POOLER.format(server=SERVER.port, port=port))
        pooler = subprocess.Popen([shutil.which('pgbouncer', path='/usr/sbin:/usr/bin'), '-q', path],
                                  stderr=subprocess.DEVNULL, preexec_fn=postgres_server.end_with_parent,
                                  **postgres_server.other_user())
        self.addCleanup(pooler.wait)
        self.addCleanup(pooler.kill)
        self.pooled = f'postgres://postgres@127.0.0.1:{port}/{self.name}?ef_prepare=off'

    def test_workers_behind_a_transaction_pooler_fold_everything_once(self):
        self.deploy()
        workers = [self.start_worker(self.pooled, f'worker{i}') for i in range(2)]
        for _ in range(5):
            self.append(10, url=self.pooled)
        self.wait_for_views()
        for worker, said in workers:
            self.end_worker(worker, said)
        self.check_all()


class Failover(Case):
    def both(self, first, second):
        return f'postgres://postgres@127.0.0.1:{first.port},127.0.0.1:{second.port}/{self.name}'

    def copy(self, standby):
        SERVER.stop()
        copied = postgres_server.Server(SERVER.data, standby)
        self.addCleanup(copied.close)
        SERVER.start()
        return copied

    def psql_at(self, server, sql):
        url = server.url.rsplit('/', 1)[0] + '/' + self.name
        return subprocess.run([os.path.join(SERVER.binaries, 'psql'), '-XqAt', '-c', sql, url],
                              capture_output=True, text=True, check=True).stdout.strip()

    def test_a_standby_is_passed_over_and_an_older_copy_that_takes_the_place_is_refused(self):
        self.deploy()
        standby = self.copy(True)
        url = self.both(standby, SERVER)
        self.append(10, url=url)
        worker, said = self.start_worker(url, 'worker')
        self.wait_for_views()
        before = self.psql_at(standby, 'SELECT count(*) FROM everfold.event')
        self.assertEqual('0', before)
        SERVER.stop(signal.SIGQUIT)
        self.psql_at(standby, 'SELECT pg_promote()')
        self.wait_for('the refusal', lambda: 'older copy' in text_of(said))
        self.assertEqual('0', self.psql_at(standby, 'SELECT count(*) FROM everfold.lane_offset'))
        SERVER.start()
        worker.kill()

    def test_work_goes_on_at_the_standby_that_takes_over(self):
        self.deploy()
        standby = postgres_server.Server(primary=SERVER)
        self.addCleanup(standby.close)
        self.addCleanup(self.start_alone)
        # What is acknowledged is on both.
        self.psql("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self.psql('SELECT pg_reload_conf()')
        url = self.both(SERVER, standby)
        worker, said = self.start_worker(url, 'worker')
        self.append(10, url=url)
        appender = subprocess.Popen([BINARY, 'event', 'import', '-'], stdin=subprocess.PIPE, text=True,
                                    stdout=subprocess.DEVNULL, env=self.environment(url))
        appender.stdin.write(self.lines(500))
        SERVER.stop(signal.SIGQUIT)  # in the middle of it
        self.psql_at(standby, 'SELECT pg_promote()')
        appender.stdin.close()
        self.assertEqual(0, appender.wait(TIME_LIMIT_S))
        self.append(10, url=url)
        self.wait_for('the views', lambda: str(self.bought) == self.psql_at(
            standby, "SELECT coalesce(sum((doc ->> 'n')::int), 0) FROM everfold_views.views"))
        self.end_worker(worker, said)
        self.assertEqual(str(self.bought), self.psql_at(standby, 'SELECT count(*) FROM everfold.event'))

    def start_alone(self):
        SERVER.stop()
        os.truncate(os.path.join(SERVER.data, 'postgresql.auto.conf'), 0)
        SERVER.start()


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
