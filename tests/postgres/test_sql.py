#!/usr/bin/env python3
"""test_sql.py EVERFOLD BANK - a PostgreSQL journal from outside: psql, an application (examples/bank_postgres.c), the
command line, roles, dumps.

A server of its own for all tests, a database for each.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'support'))
import postgres_server  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'server'))
import support  # noqa: E402

BINARY = BANK = SERVER = None
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
FOLD = '''projection counts version 1
  view stream

on placed
  n += 1
'''


class Answer:
    def __init__(self, done):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    def rows(self):
        return [line.split('|') for line in self.out.splitlines()]


def literal(text):
    return "'" + text.replace("'", "''") + "'"


def append_sql(stream, events, expected=None, tenant=''):
    if not isinstance(events, str):
        events = json.dumps(events)
    return (f'SELECT id, seq, position, duplicate FROM everfold.append({literal(tenant)}, '
            f'{literal(stream)}, {"NULL" if expected is None else expected}, {literal(events)})')


class Case(unittest.TestCase):
    maxDiff = None
    count = 0

    def setUp(self):
        Case.count += 1
        self.url = SERVER.url.rsplit('/', 1)[0] + f'/t{Case.count}'
        self.dir = tempfile.mkdtemp(prefix='everfold-sql-')
        self.addCleanup(shutil.rmtree, self.dir)
        self.ok(self.psql(f'CREATE DATABASE t{Case.count}', url=SERVER.url))
        self.ok(self.run_it('init'))

    def ok(self, answer):
        self.assertEqual((0, ''), (answer.code, answer.err))
        return answer

    def psql(self, *sql, url=None):
        words = [w for s in sql for w in ('-c', s)]
        return Answer(subprocess.run(
            [os.path.join(SERVER.binaries, 'psql'), '-X', '-q', '-A', '-t', '-v', 'ON_ERROR_STOP=1',
             '-v', 'VERBOSITY=verbose', *words, url or self.url], check=False, capture_output=True,
            text=True, timeout=60))

    def run_it(self, *words, url=None, stdin=''):
        environment = {k: v for k, v in os.environ.items() if not k.startswith(('EVERFOLD_', 'PG'))}
        environment['EVERFOLD_DATA'] = self.dir
        environment['EVERFOLD_JOURNAL'] = url or self.url
        return Answer(subprocess.run([BINARY, *words], check=False, capture_output=True, text=True,
                                     input=stdin, env=environment, timeout=120))

    def program(self):
        path = os.path.join(self.dir, 'counts.fold')
        with open(path, 'w', encoding='utf-8') as f:
            f.write(FOLD)
        return path

    def log(self):
        out = self.ok(self.run_it('event', 'log', '-o', 'ndjson')).out
        return [json.loads(line) for line in out.splitlines()]


class Append(Case):
    def test_an_event_from_sql_is_one_like_any_other(self):
        self.ok(self.run_it('event', 'append', 'order-1', '--type', 'placed', '--data', '{"n":1}'))
        rows = self.ok(self.psql(append_sql('order-1', '[{"type":"paid","data":{"n": 2.50 }}]', 1)))
        self.assertEqual(['2', '', 'f'], rows.rows()[0][1:])
        self.ok(self.run_it('event', 'append', 'order-1', '--type', 'sent', '--data', '{}',
                            '--expected-seq', '2'))
        self.assertEqual([(1, 1, 'placed'), (2, 2, 'paid'), (3, 3, 'sent')],
                         [(e['position'], e['seq'], e['type']) for e in self.log()])
        self.assertEqual('{"n": 2.50 }',
                         self.ok(self.psql('SELECT data FROM everfold.log WHERE seq = 2')).out.strip())
        self.assertEqual('3', self.ok(self.psql(
            'SELECT count(*) FROM everfold.outbox WHERE lane = 1')).out.strip())

    def test_an_application_s_rows_and_events_commit_together_or_not_at_all(self):
        self.ok(self.psql('CREATE TABLE account(id int, balance int)'))
        self.ok(self.psql('BEGIN', 'INSERT INTO account VALUES (1, 10)',
                          append_sql('a-1', {'type': 'opened'}), 'COMMIT'))
        self.ok(self.psql('BEGIN', 'INSERT INTO account VALUES (2, 10)',
                          append_sql('a-2', {'type': 'opened'}), 'ROLLBACK'))
        self.ok(self.psql('BEGIN', append_sql('a-3', {'type': 'opened'}), 'COMMIT'))
        self.assertEqual(['a-1', 'a-3'], [e['stream'] for e in self.log()])
        self.assertEqual([1, 2], [e['position'] for e in self.log()])
        self.assertEqual('1', self.ok(self.psql('SELECT count(*) FROM account')).out.strip())

    def bank(self, *words):
        """An application of its own that moves money and says so, in one transaction."""
        done = subprocess.run([BANK, self.url, *words], check=False, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout.strip()

    def balances(self):
        return self.ok(self.psql("SELECT string_agg(name || ' ' || balance, ', ' ORDER BY name) FROM account")).out.strip()

    def test_a_program_writes_its_table_and_its_event_in_one_transaction(self):
        self.ok(self.psql('CREATE TABLE account(name text PRIMARY KEY, balance int CHECK (balance >= 0))',
                          "INSERT INTO account VALUES ('ada', 10), ('bob', 0)"))
        self.assertEqual((0, '1'), self.bank('ada', 'bob', '7'))
        self.assertEqual((1, '2'), self.bank('ada', 'bob', '7'))  # appended, and refused by the table behind it
        self.assertEqual((0, '2'), self.bank('ada', 'bob', '3', 'crash'))
        self.assertEqual((1, ''), self.bank('ada', 'nobody', '1'))
        self.assertEqual((0, '2'), self.bank('ada', 'bob', '1'))
        self.assertEqual('ada 2, bob 8', self.balances())
        self.assertEqual([(1, 1, 7), (2, 2, 1)],
                         [(e['position'], e['seq'], e['data']['amount']) for e in self.log()])

    def test_an_event_from_sql_is_published_like_any_other(self):
        sink = os.path.join(self.dir, 'out.ndjson')
        for type_ in ('order.placed', 'order.paid', 'order.lost', 'other'):
            self.ok(self.run_it('type', 'set', type_, '--publish', 'yes'))
        self.assertEqual(0, self.run_it('publisher', 'add', 'out', '--to', 'file:' + sink, '--types', 'order.*').code)
        self.ok(self.psql(append_sql('o-1', [{'type': 'order.placed', 'id': 'a'}, {'type': 'other', 'id': 'b'}])))
        self.ok(self.psql('BEGIN', append_sql('o-1', {'type': 'order.lost', 'id': 'c'}), 'ROLLBACK'))
        self.ok(self.run_it('event', 'append', 'o-1', '--type', 'order.paid', '--id', 'd', '--data', '{}'))
        self.assertEqual(0, self.run_it('work', '--drain').code)
        with open(sink, encoding='utf-8') as f:
            self.assertEqual(['a', 'd'], [json.loads(line)['id'] for line in f])

    def test_expected_seq_null_is_any_and_0_is_a_new_stream(self):
        for seq in ('1', '2'):
            self.assertEqual(seq, self.ok(self.psql(append_sql('s', {'type': 'a'}, 'NULL'))).rows()[0][1])
        self.assertEqual('1', self.ok(self.psql(append_sql('new', {'type': 'a'}, 0))).rows()[0][1])
        self.refused('seq_conflict', self.psql(append_sql('new', {'type': 'a'}, 0)))
        self.assertEqual('2', self.ok(self.psql(append_sql('new', {'type': 'a'}, 1))).rows()[0][1])
        self.refused('bad_input', self.psql(append_sql('s', {'type': 'a'}, -1)))

    def test_a_transaction_that_is_left_open_delays_its_own_events_only(self):
        with subprocess.Popen([os.path.join(SERVER.binaries, 'psql'), '-X', '-q', '-A', '-t', self.url],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as open_one:
            open_one.stdin.write('BEGIN;\n' + append_sql('late', {'type': 'a'}) + ';\n')
            open_one.stdin.flush()
            self.assertIn('|1||f', open_one.stdout.readline())
            self.ok(self.psql(append_sql('early', {'type': 'a'})))
            self.ok(self.run_it('event', 'append', 'other', '--type', 'a', '--data', '{}'))
            self.assertEqual(['early', 'other'], [e['stream'] for e in self.log()])
            open_one.stdin.write('COMMIT;\n')
            open_one.stdin.close()
            self.assertEqual(0, open_one.wait(timeout=30))
        self.assertEqual([('early', 1), ('other', 2), ('late', 3)],
                         [(e['stream'], e['position']) for e in self.log()])

    def test_the_same_id_is_written_once_and_other_content_is_refused(self):
        event = {'type': 'a', 'id': 'x', 'data': {'n': 1}}
        self.ok(self.psql(append_sql('s', event)))
        self.assertEqual(['x', '1', '', 't'], self.ok(self.psql(append_sql('s', event))).rows()[0])
        self.assertEqual(1, len(self.log()))
        self.assertEqual(['x', '1', '1', 't'], self.ok(self.psql(append_sql('s', event))).rows()[0])
        again = self.run_it('event', 'append', 's', '--type', 'a', '--id', 'x', '--data', '{"n": 1}',
                            '-o', 'json')
        self.assertTrue(json.loads(self.ok(again).out)['duplicate'])
        for other in ({'type': 'b', 'id': 'x', 'data': {'n': 1}}, {'type': 'a', 'id': 'x'}):
            self.refused('id_conflict', self.psql(append_sql('s', other)))
        self.refused('id_conflict', self.psql(append_sql('another', event)))
        self.assertEqual(1, len(self.log()))

    def test_an_id_that_the_library_made_is_known_to_sql(self):
        made = json.loads(self.ok(self.run_it('event', 'append', 's', '--type', 'a', '--data', '{"n": 1}', '-o',
                                              'json')).out)['id']
        event = '{"type":"a","id":"%s","data":{"n": 1}}' % made
        self.assertEqual([made, '1', '1', 't'], self.ok(self.psql(append_sql('s', event))).rows()[0])
        self.refused('id_conflict', self.psql(append_sql('s', event.replace('"a"', '"b"'))))
        self.refused('id_conflict', self.psql(append_sql('another', event)))
        self.assertEqual(1, len(self.log()))
        self.assertEqual([made, '1', '', 'f'],
                         self.ok(self.psql(append_sql('s', event, tenant='acme'))).rows()[0])

    def refused(self, code, answer):
        self.assertNotEqual(0, answer.code)
        self.assertIn('DETAIL:  ' + code, answer.err)

    def test_sql_refuses_what_the_library_refuses_with_the_same_code(self):
        self.ok(self.psql(append_sql('s', {'type': 'a'})))
        deep = '[' * 129 + ']' * 129
        keys = '{' + ','.join(f'"{i}":1' for i in range(10001)) + '}'
        for stream, type_, data, expected in (
                ('', 'a', '1', None), ('x' * 256, 'a', '1', None), ('s', '', '1', None), ('s', 'a b', '1', None),
                ('s', 'a\u00a0b', '1', None), ('s', 't' * 256, '1', None), ('s', 'a', '{"a":1,"\\u0061":2}', None),
                ('s', 'a', '"\\u0000"', None), ('s', 'a', '"\\ud800"', None), ('s', 'a', '1e1000', None),
                ('s', 'a', '1' * 129, None), ('s', 'a', '[{"b":[1e-1000]}]', None), ('s', 'a', deep, None),
                ('s', 'a', keys, None), ('s', 'a', '"' + 'x' * 1048575 + '"', None), ('s', 'a', '1', 7), ('s', 'a', '1', 0)):
            line = (f'{{"stream":{json.dumps(stream)},"type":{json.dumps(type_)},"data":{data}'
                    + (f',"expected_seq":{expected}}}' if expected is not None else '}'))
            by_library = self.run_it('event', 'import', '-', '-o', 'json', stdin=line + '\n')
            self.assertNotEqual(0, by_library.code, line[:80])
            event = f'{{"type":{json.dumps(type_)},"data":{data}}}'
            with open(os.path.join(self.dir, 'sql'), 'w', encoding='utf-8') as f:
                f.write(append_sql(stream, event, expected) + ';\n')
            by_sql = Answer(subprocess.run(
                [os.path.join(SERVER.binaries, 'psql'), '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f',
                 os.path.join(self.dir, 'sql'), self.url], check=False, capture_output=True, text=True))
            code = [c for c in ('seq_conflict', 'bad_input', 'bad_json', 'too_large')
                    if f'DETAIL:  {c}' in by_sql.err]
            self.assertEqual(1, len(code), by_sql.err[:300])
            self.assertIn(code[0], by_library.err, line[:80])
        self.assertEqual(1, len(self.log()))


class ReadStream(Case):
    COLUMNS = 'seq, position, id, type, schema, data_text, data'

    def read(self, arguments, columns='seq, position', url=None):
        return self.ok(self.psql(f'SELECT {columns} FROM everfold.read_stream({arguments})', url=url)).rows()

    def test_an_event_is_read_before_and_after_it_has_its_position(self):
        event = {'type': 'a', 'id': 'x', 'schema': 2, 'time': '2026-11-16T09:30:00.123456Z', 'meta': {'who': 'me'}}
        text = json.dumps(event)[:-1] + ', "data": { "n" : 1.50 }}'
        self.ok(self.psql(append_sql('s', text, 0)))
        expected = ['1', '', 'x', 'a', '2', '{ "n" : 1.50 }', '{"n": 1.50}']
        self.assertEqual([expected], self.read("'', 's'", self.COLUMNS))
        self.log()  # a reader gives positions
        self.assertEqual([expected[:1] + ['1'] + expected[2:]], self.read("'', 's'", self.COLUMNS))
        for what in ("everfold.read_stream('', 's')", 'everfold.event_log'):
            self.assertEqual([['2026-11-16 09:30:00.123456', 't', '{"who": "me"}', '{"who": "me"}']], self.ok(self.psql(
                f"SELECT \"time\" AT TIME ZONE 'UTC', abs(extract(epoch FROM now() - recorded_at)) < 600, meta, meta_text "
                f'FROM {what}')).rows())
        self.assertEqual([expected[:1] + ['1'] + expected[2:]], self.ok(self.psql(
            f'SELECT {self.COLUMNS} FROM everfold.event_log')).rows())

    def test_the_own_transaction_is_read_and_a_rolled_back_one_is_not(self):
        self.ok(self.psql(append_sql('s', [{'type': 'a'}, {'type': 'b'}])))
        answer = self.ok(self.psql('BEGIN', append_sql('s', {'type': 'c'}, 2),
                                   "SELECT 'read', seq, type FROM everfold.read_stream('', 's')", 'ROLLBACK'))
        self.assertEqual([['read', '1', 'a'], ['read', '2', 'b'], ['read', '3', 'c']],
                         [row for row in answer.rows() if row[0] == 'read'])
        self.assertEqual([['1', ''], ['2', '']], self.read("'', 's'"))

    def test_from_seq_and_max_count_bound_what_is_read(self):
        self.ok(self.run_it('event', 'append', 's', '--type', 'a', '--data', '{}'))
        self.ok(self.run_it('event', 'append', 's', '--type', 'a', '--data', '{}'))
        self.ok(self.psql(append_sql('s', [{'type': 'b'}, {'type': 'b'}, {'type': 'b'}], 2)))
        self.assertEqual([['2', '2'], ['3', ''], ['4', '']], self.read("'', 's', 2, 3"))
        self.assertEqual([['5', '']], self.read("'', 's', from_seq => 5"))
        for arguments in ("'', 'none'", "'acme', 's'", "'', 's', 6", "'', 's', 1, 0"):
            self.assertEqual([], self.read(arguments))
        for arguments in ("'', ''", "'', 's', 0", "'', 's', NULL", "'', 's', 1, -1", "NULL, 's'"):
            self.assertIn('DETAIL:  bad_input', self.psql(f'SELECT everfold.read_stream({arguments})').err)

    def test_a_type_is_read_under_the_name_that_it_is_an_alias_of(self):
        self.ok(self.run_it('type', 'set', 'new', '--publish', 'no'))
        self.ok(self.run_it('type', 'set', 'old', '--alias-of', 'new'))
        self.ok(self.psql(append_sql('s', {'type': 'old'})))
        self.assertEqual([['new']], self.read("'', 's'", 'type'))
        self.log()
        self.assertEqual([['new']], self.read("'', 's'", 'type'))

    def test_a_long_queue_of_events_without_a_position_is_not_scanned(self):
        self.ok(self.psql("SELECT count(*) FROM generate_series(1, 3000) AS n, LATERAL everfold.append('', "
                          "'s' || n, 0, '[{\"type\": \"a\"}]')", 'ANALYZE everfold.event'))
        answer = self.ok(self.psql(
            "SELECT pg_stat_reset()", "SELECT count(*) FROM everfold.read_stream('', 's7')",
            "SELECT count(*) FROM everfold.read_stream('', 's8')", 'SELECT pg_stat_force_next_flush()'))
        self.assertIn('1', answer.out)
        self.assertEqual('0|2', self.ok(self.psql(
            "SELECT seq_scan, idx_scan FROM pg_stat_user_tables WHERE relid = 'everfold.event'::regclass")).out.strip())

    def test_a_position_is_filled_in_once_and_nothing_else_changes(self):
        self.ok(self.psql(append_sql('s', {'type': 'a'})))
        whole = "recorded = 1, sum = 1, hash = repeat('x', 32)::bytea"
        for change in ("data = '{}'", 'number = 1', "xid = '1'", 'seq = 2', 'position = NULL', f"position = 1, {whole}, data = '{{}}'",
                       'position = 1', 'new_type = NULL'):
            self.assertNotEqual(0, self.psql(f'UPDATE everfold.event SET {change}').code, change)
        self.assertEqual(1, len(self.log()))
        for change in ('position = 2', 'position = NULL', 'hash = hash', "data = '{}'"):
            self.assertIn('events are never changed', self.psql(f'UPDATE everfold.event SET {change}').err, change)
        self.assertIn('events are never changed', self.psql('DELETE FROM everfold.event').err)

    def test_events_that_waited_for_a_position_before_a_migration_get_one(self):
        database = f'waiting{Case.count}'
        self.ok(self.psql(f'CREATE DATABASE {database}'))
        url = self.url.rsplit('/', 1)[0] + '/' + database
        old = self.ok(self.run_it('init', '--sql')).out.split('-- journal, migration 21\n')[0] + 'COMMIT;'
        self.ok(self.psql(old, append_sql('s', [{'type': 'a', 'id': 'one'}, {'type': 'b'}]), append_sql('t', {'type': 'a'}), url=url))
        self.ok(self.run_it('init', url=url))
        self.ok(self.psql(append_sql('s', {'type': 'c'}, 2), append_sql('s', {'type': 'a', 'id': 'one'}), url=url))
        rows = self.ok(self.run_it('event', 'log', '-o', 'ndjson', url=url)).out.splitlines()
        self.assertEqual([(1, 's', 1, 'a'), (2, 's', 2, 'b'), (3, 't', 1, 'a'), (4, 's', 3, 'c')],
                         [(e['position'], e['stream'], e['seq'], e['type']) for e in map(json.loads, rows)])
        self.assertNotIn('damaged', self.run_it('doctor', '--deep', url=url).out)


class Waiting(Case):
    """What an append waits for, and what not. A session of psql does what a process does that stalls."""

    def session(self, *sql):
        session = self.enterContext(subprocess.Popen(
            [os.path.join(SERVER.binaries, 'psql'), '-X', '-q', '-A', '-t', self.url], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        self.addCleanup(session.stdout.close)
        self.addCleanup(session.wait)
        self.addCleanup(session.stdin.close)
        print(*sql, "SELECT 'ready';", file=session.stdin, flush=True)
        while session.stdout.readline() != 'ready\n':
            pass
        return session

    def test_a_holder_of_the_sequencer_lock_that_stalls_loses_it_and_changes_nothing(self):
        self.ok(self.psql(append_sql('s', {'type': 'a'})))
        stalled = self.session('BEGIN; SELECT everfold.lock_sequencer(1000);', "INSERT INTO everfold.stream(tenant, name) VALUES ('', 'x');")
        began = time.monotonic()
        self.ok(self.run_it('event', 'append', 't', '--type', 'a', '--data', '{}'))
        self.assertEqual([('s', 1), ('t', 2)], [(e['stream'], e['position']) for e in self.log()])
        self.assertLess(time.monotonic() - began, 3)  # 0.7 s, and four processes that start on a busy machine
        said, _ = stalled.communicate('COMMIT;\n', timeout=20)
        self.assertIn('terminating connection due to idle-in-transaction timeout', said)
        self.assertEqual('0', self.ok(self.psql("SELECT count(*) FROM everfold.stream WHERE name = 'x'")).out.strip())

    def test_appends_by_sql_wait_for_their_stream_only_and_notify_no_one(self):
        listener = self.session('LISTEN everfold;')
        self.session('BEGIN;', append_sql('held', {'type': 'new'}) + ';', 'SELECT everfold.lock_sequencer(1000);')
        began = time.monotonic()
        for stream in ('a', 'b'):
            self.ok(self.psql("SET statement_timeout = '300ms'", append_sql(stream, {'type': 'new'})))
        self.assertIn('57014', self.psql("SET statement_timeout = '100ms'", append_sql('held', {'type': 'new'})).err)
        said, _ = listener.communicate('SELECT 1;\n', timeout=20)
        self.assertNotIn('notification', said)
        self.assertLess(time.monotonic() - began, 20)


class Served(Case):
    """everfold serve on the journal, while somebody's transaction is open on stream "held"."""

    def setUp(self):
        super().setUp()
        support.EVERFOLD = BINARY
        self.served = support.Server('--journal', self.url)
        self.addCleanup(shutil.rmtree, self.served.dir, True)
        self.addCleanup(lambda: self.assertEqual(0, self.served.stop()))
        self.session = self.enterContext(subprocess.Popen(
            [os.path.join(SERVER.binaries, 'psql'), '-X', '-q', '-A', '-t', self.url],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        self.addCleanup(self.session.stdin.close)
        self.say('BEGIN; ' + append_sql('held', [{'type': 't'}]))

    def say(self, sql):
        self.session.stdin.write(f'{sql};\n\\echo said\n')
        self.session.stdin.flush()
        while 'said' not in self.session.stdout.readline():
            self.assertIsNone(self.session.poll())

    def post(self, stream):
        return self.served.ask('POST', f'/v1/streams/{stream}/events', {'type': 't', 'data': {}})

    def post_to_held(self):
        """In a thread, and what it was answered."""
        answers = []
        thread = threading.Thread(target=lambda: answers.append(self.post('held')))
        thread.start()
        self.addCleanup(thread.join)
        return thread, answers

    def test_an_open_transaction_delays_requests_for_its_stream_only(self):
        thread, answers = self.post_to_held()
        time.sleep(0.3)
        began = time.monotonic()
        for i in range(10):
            self.assertEqual(201, self.post(f'free-{i}').status)
        self.assertLess(time.monotonic() - began, 3)
        self.assertEqual([], answers)
        self.say('COMMIT')
        thread.join()
        self.assertEqual((201, 2), (answers[0].status, answers[0].json()['seq']))

    def test_a_request_that_is_blocked_for_long_gets_503(self):
        began = time.monotonic()
        answer = self.post('held')
        self.assertGreater(time.monotonic() - began, 3)
        self.assertEqual((503, 'busy'), (answer.status, answer.json()['code']))
        self.assertIn('"held"', answer.json()['detail'])
        self.assertTrue(answer.headers['Retry-After'])


class Tenants(Case):
    """The second wall: roles that are bound to tenants, by row-level security."""

    def setUp(self):
        super().setUp()
        self.roles = {}
        for name in ('worker', 'acme', 'pooled'):
            self.roles[name] = f'{name}{Case.count}'
            self.ok(self.psql(f'CREATE ROLE {self.roles[name]} LOGIN'))
            self.addCleanup(lambda n=self.roles[name]: self.ok(self.psql(f'DROP OWNED BY {n}', f'DROP ROLE {n}')))
        self.grant()
        for tenant in ('', 'acme', 'apex'):
            self.ok(self.run_it('event', 'append', f'of-{tenant}', '--type', 'placed', '--data', '{}', '--id', 'x',
                                '--tenant', tenant))

    def grant(self):
        app, worker = 'SELECT everfold.grant_app({})', 'SELECT everfold{}.grant_worker({})'
        self.ok(self.psql(worker.format('', literal(self.roles['worker'])),
                          worker.format('_views', literal(self.roles['worker'])),
                          *(app.format(literal(self.roles[n])) for n in ('acme', 'pooled')),
                          *(f'SELECT everfold_views.grant_reader({literal(self.roles[n])})'
                            for n in ('acme', 'pooled'))))

    def raise_wall(self):
        self.ok(self.psql(f"SELECT everfold.tenants_apart({literal(self.roles['worker'])})",
                          f"SELECT everfold.bind_tenant({literal(self.roles['acme'])}, 'acme')"))

    def url_of(self, name):
        return self.url.replace('postgres@', self.roles[name] + '@')

    def sees(self, name, *before, what='everfold.log'):
        """The tenants of what a role reads."""
        sql = f"SELECT string_agg(DISTINCT '<' || tenant || '>', '' ORDER BY '<' || tenant || '>') FROM {what}"
        return self.ok(self.psql(*before, sql, url=self.url_of(name))).out.strip()

    def forbidden(self, answer):
        self.assertIn('42501', answer.err)
        self.assertIn('DETAIL:  forbidden', answer.err)

    def fold(self):
        self.ok(self.run_it('projection', 'deploy', self.program()))
        self.assertEqual(0, self.run_it('work', '--drain').code)

    def test_without_the_wall_all_is_as_it_was(self):
        self.assertEqual('<><acme><apex>', self.sees('acme'))
        self.ok(self.psql(append_sql('s', {'type': 'a'}, tenant='apex'), url=self.url_of('acme')))

    def test_a_bound_role_reads_its_own_tenant_whatever_it_sets(self):
        self.fold()
        self.raise_wall()
        for before in ((), ("SET everfold.tenant = 'apex'",), ("SET everfold.tenant = ''",)):
            for what in ('everfold.log', 'everfold.event_log', 'everfold.stream', 'everfold_views.views', 'everfold_views.view'):
                self.assertEqual('<acme>', self.sees('acme', *before, what=what), (before, what))
        self.assertEqual('1', self.ok(self.psql('SELECT count(*) FROM everfold.event',
                                                url=self.url_of('acme'))).out.strip())
        self.assertEqual('3', self.ok(self.psql('SELECT count(*) FROM everfold.event')).out.strip())

    def test_a_bound_role_writes_for_its_own_tenant_only_and_learns_nothing_of_others(self):
        self.raise_wall()
        self.ok(self.psql(append_sql('new', {'type': 'a'}, tenant='acme'), url=self.url_of('acme')))
        for stream, event in (('new', {'type': 'a'}), ('of-apex', {'type': 'a', 'id': 'x'}),
                              ('of-apex', {'type': 'placed', 'id': 'x', 'data': {}})):
            for set_ in ('SELECT', "SET everfold.tenant = 'apex'"):
                self.forbidden(self.psql(set_, append_sql(stream, event, tenant='apex'), url=self.url_of('acme')))
        self.forbidden(self.psql(append_sql('new', {'type': 'a'}), url=self.url_of('acme')))
        count = 'SELECT count(*) FROM everfold.read_stream({}, {})'
        self.assertEqual('1', self.ok(self.psql(count.format("'acme'", "'new'"), url=self.url_of('acme'))).out.strip())
        for set_ in ('SELECT', "SET everfold.tenant = 'apex'"):
            for tenant, stream in (("'apex'", "'of-apex'"), ("''", "'of-'"), ("'apex'", "'none'")):
                self.forbidden(self.psql(set_, count.format(tenant, stream), url=self.url_of('acme')))
        self.assertEqual('4', self.ok(self.psql('SELECT count(*) FROM everfold.stream')).out.strip())

    def test_a_role_that_is_bound_to_nothing_has_the_tenant_that_it_has_set_and_only_while_it_is(self):
        self.raise_wall()
        self.assertEqual('', self.sees('pooled'))
        self.assertEqual('<apex>', self.sees('pooled', "SET everfold.tenant = 'apex'"))
        self.forbidden(self.psql(append_sql('s', {'type': 'a'}), url=self.url_of('pooled')))
        self.ok(self.psql('BEGIN', "SET LOCAL everfold.tenant = 'apex'",
                          append_sql('s', {'type': 'a'}, tenant='apex'), 'COMMIT', url=self.url_of('pooled')))
        # What was set for a transaction is "" behind it, and that is the name of a tenant too.
        self.assertEqual('', self.sees('pooled', 'BEGIN', "SET LOCAL everfold.tenant = 'apex'", 'COMMIT'))
        self.assertEqual('', self.sees('pooled', "SET everfold.tenant = ''"))
        self.ok(self.psql(f"SELECT everfold.bind_tenant({literal(self.roles['pooled'])}, '')"))
        self.assertEqual('<>', self.sees('pooled'))

    def test_members_of_a_bound_role_are_bound_and_a_role_that_is_set_counts(self):
        self.raise_wall()
        pooled, acme = self.roles['pooled'], self.roles['acme']
        self.ok(self.psql(f'GRANT {acme} TO {pooled}'))
        self.assertEqual('<acme>', self.sees('pooled', "SET everfold.tenant = 'apex'"))
        self.forbidden(self.psql("SET everfold.tenant = 'apex'", append_sql('s', {'type': 'a'}, tenant='apex'),
                                 url=self.url_of('pooled')))
        self.forbidden(self.psql(f'SET ROLE {acme}', append_sql('s', {'type': 'a'}, tenant='apex')))
        self.ok(self.psql(f'SET ROLE {acme}', append_sql('s', {'type': 'a'}, tenant='acme')))
        self.ok(self.psql(f'REVOKE {acme} FROM {pooled}',
                          f"SELECT everfold.bind_tenant('{acme}', 'apex')"))
        self.assertEqual('<acme><apex>', self.sees('acme'))
        self.ok(self.psql(f"SELECT everfold.unbind_tenant('{acme}', 'acme')"))
        self.assertEqual('<apex>', self.sees('acme'))
        self.assertIn('does not exist', self.psql("SELECT everfold.bind_tenant('nobody', 'apex')").err)

    def test_workers_and_the_owner_work_behind_the_wall_as_before_it(self):
        self.raise_wall()
        self.fold()
        worker = self.url_of('worker')
        self.ok(self.run_it('event', 'append', 'of-apex', '--type', 'placed', '--data', '{}', '--tenant', 'apex',
                            url=worker))
        self.ok(self.psql(append_sql('of-acme', {'type': 'placed'}, tenant='acme'), url=worker))
        self.ok(self.psql(append_sql('of-', {'type': 'placed'})))
        self.assertEqual(0, self.run_it('work', '--drain', url=worker).code)
        for tenant in ('', 'acme', 'apex'):
            view = self.ok(self.run_it('view', 'get', 'counts', f'of-{tenant}', '--tenant', tenant, '-o', 'json',
                                       url=worker))
            self.assertEqual({'n': 2}, json.loads(view.out)['data'])
        self.ok(self.run_it('outbox', 'report', url=worker))
        self.ok(self.run_it('projection', 'verify', 'counts', url=worker))
        plan = self.ok(self.psql('EXPLAIN SELECT * FROM everfold.log WHERE position > 7', url=worker)).out
        self.assertNotIn('InitPlan', plan)  # nothing is asked of each row
        self.assertIn('InitPlan', self.ok(self.psql('EXPLAIN SELECT * FROM everfold.log WHERE position > 7',
                                                    url=self.url_of('acme'))).out)

    def test_nothing_that_a_bound_role_may_read_has_other_tenants_rows(self):
        self.raise_wall()
        readable = self.ok(self.psql(
            "SELECT c.oid::regclass, c.relrowsecurity OR 'security_invoker=true' = ANY (c.reloptions) "
            'FROM pg_class c '
            "WHERE c.relnamespace::regnamespace::text IN ('everfold', 'everfold_views') "
            "AND c.relkind IN ('r', 'p', 'v', 'm') AND has_any_column_privilege("
            f"{literal(self.roles['acme'])}, c.oid, 'SELECT')")).rows()
        self.assertLess(5, len(readable))
        self.assertEqual({'everfold.event_type', 'everfold_views.generation'},
                         {name for name, walled in readable if walled != 't'})
        open_ = self.ok(self.psql(
            'SELECT DISTINCT c.oid::regclass FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid '
            "WHERE c.relnamespace::regnamespace::text IN ('everfold', 'everfold_views') "
            "AND c.relkind IN ('r', 'p') AND a.attname IN ('tenant', 'stream') AND NOT c.relrowsecurity")).out
        self.assertEqual('', open_)

    def test_the_wall_is_taken_away_and_what_is_made_behind_it_is_behind_it(self):
        self.ok(self.psql('SET client_min_messages = error', 'DROP SCHEMA everfold_views CASCADE',
                          "DELETE FROM everfold.migration WHERE part = 'views'"))
        self.raise_wall()
        self.ok(self.run_it('init'))
        self.grant()
        self.fold()
        self.assertEqual('<acme>', self.sees('acme', what='everfold_views.views'))
        self.ok(self.psql('SELECT everfold.tenants_together()'))
        self.assertEqual('<><acme><apex>', self.sees('acme'))
        self.assertEqual('<><acme><apex>', self.sees('acme', what='everfold_views.views'))

    def test_a_dump_takes_the_wall_along(self):
        self.raise_wall()
        dump = subprocess.run([os.path.join(SERVER.binaries, 'pg_dump'), self.url], check=True,
                              capture_output=True)
        self.ok(self.psql(f'CREATE DATABASE restored{Case.count}', url=SERVER.url))
        here = self.url
        self.addCleanup(setattr, self, 'url', here)
        self.url = here.rsplit('/', 1)[0] + f'/restored{Case.count}'
        self.addCleanup(self.psql, f'DROP DATABASE restored{Case.count}', url=SERVER.url)
        subprocess.run([os.path.join(SERVER.binaries, 'psql'), '-X', '-q', '-v', 'ON_ERROR_STOP=1', self.url],
                       input=dump.stdout, check=True, stdout=subprocess.DEVNULL)
        self.assertEqual('<acme>', self.sees('acme'))
        self.forbidden(self.psql(append_sql('s', {'type': 'a'}, tenant='apex'), url=self.url_of('acme')))


class Operations(Case):
    def test_an_application_may_append_and_read_and_nothing_else(self):
        name = f'app{Case.count}'
        self.ok(self.psql(f'CREATE ROLE {name} LOGIN', f"SELECT everfold.grant_app('{name}')"))
        url = self.url.replace('postgres@', name + '@')
        self.ok(self.psql(append_sql('s', {'type': 'a'}), url=url))
        self.assertEqual(1, len(self.log()))
        for what in ('log', 'event_log', "read_stream('', 's')"):
            self.assertEqual('1', self.ok(self.psql(f'SELECT count(*) FROM everfold.{what}', url=url)).out.strip())
        for sql in ('DELETE FROM everfold.event', 'SELECT * FROM everfold.event_id',
                    "INSERT INTO everfold.lane(name, kind, enabled, types) VALUES ('x', 1, true, '')",
                    'UPDATE everfold.state SET partitions = 1', 'SELECT * FROM everfold.outbox',
                    'SELECT creator FROM everfold.event_type',
                    "SELECT everfold.refuse('bad_input', 'x')", 'DROP SCHEMA everfold CASCADE'):
            self.assertIn('42501', self.psql(sql, url=url).err, sql)

    def test_a_migration_that_replaces_append_keeps_its_owner_and_grants(self):
        owner, app, other = (f'{role}{Case.count}' for role in ('owner', 'app', 'other'))
        database = f'before{Case.count}'
        self.ok(self.psql(*(f'CREATE ROLE {role} LOGIN' for role in (owner, app, other)),
                          f'CREATE DATABASE {database} OWNER {owner}'))
        url = self.url.rsplit('/', 1)[0] + '/' + database
        old = self.ok(self.run_it('init', '--sql')).out.split('-- journal, migration 12\n')[0] + 'COMMIT;'
        self.ok(self.psql(old, f"SELECT everfold.grant_app('{app}')", 'GRANT EXECUTE ON FUNCTION everfold.append('
                          f'text, text, bigint, json) TO {other} WITH GRANT OPTION',
                          url=url.replace('postgres@', owner + '@')))
        self.ok(self.run_it('event', 'append', 's', '--type', 'a', '--data', '{}', url=url))  # migrates, as superuser
        found = ("SELECT proowner::regrole, proacl FROM pg_proc WHERE proname IN ('append', 'append_before')")
        self.assertEqual(f'{owner}|{{{owner}=X/{owner},{app}=X/{owner},{other}=X*/{owner}}}\n',
                         self.ok(self.psql(found, url=url)).out)
        self.ok(self.psql(append_sql('s', {'type': 'a'}), 'SELECT count(*) FROM everfold.log',
                          url=url.replace('postgres@', app + '@')))
        self.assertIn('42501', self.psql('SELECT creator FROM everfold.event_type',
                                         url=url.replace('postgres@', app + '@')).err)

    def test_an_append_of_no_events_makes_no_stream(self):
        self.assertEqual('', self.ok(self.psql(append_sql('empty', []))).out)
        self.assertEqual('0', self.ok(self.psql('SELECT count(*) FROM everfold.stream')).out.strip())

    def test_a_worker_does_all_but_change_events(self):
        name = f'worker{Case.count}'
        self.ok(self.psql(f'CREATE ROLE {name} LOGIN', f"SELECT everfold.grant_worker('{name}')",
                          f"SELECT everfold_views.grant_worker('{name}')"))
        url = self.url.replace('postgres@', name + '@')
        self.ok(self.psql(append_sql('s', {'type': 'a'})))
        self.ok(self.run_it('event', 'append', 's', '--type', 'placed', '--data', '{}', url=url))
        self.ok(self.run_it('type', 'set', 'a', '--intent', 'audit_only', url=url))
        self.ok(self.run_it('projection', 'deploy', self.program(), url=url))
        self.ok(self.run_it('work', '--drain', url=url))
        self.assertEqual(0, self.run_it('projection', 'rebuild', 'counts', '--in-place', url=url).code)
        self.ok(self.run_it('work', '--drain', url=url))
        view = self.ok(self.run_it('view', 'get', 'counts', 's', '-o', 'json', url=url))
        self.assertEqual({'n': 1}, json.loads(view.out)['data'])
        self.ok(self.run_it('outbox', 'report', url=url))
        for sql in ('DELETE FROM everfold.event', 'UPDATE everfold.event SET seq = 1',
                    'DROP TABLE everfold.event', 'TRUNCATE everfold.event', 'DROP TABLE everfold_views.view',
                    "SELECT everfold.bind_tenant('postgres', 'x')", 'SELECT everfold.tenants_apart()'):
            self.assertIn('42501', self.psql(sql, url=url).err, sql)
        self.assertEqual(2, len(self.log()))

    def test_a_role_without_privileges_stops_nothing(self):
        name = f'stranger{Case.count}'
        self.ok(self.psql(f'CREATE ROLE {name} LOGIN', f"SELECT everfold.grant_app('{name}')"))
        self.ok(self.run_it('projection', 'deploy', self.program()))
        url = self.url.replace('postgres@', name + '@')
        tables = self.ok(self.psql("SELECT c.oid::regclass FROM pg_class c WHERE relname ~ 'lock' AND relkind = 'r' AND "
                                   "relnamespace::regnamespace::text ~ '^everfold'")).out.split()
        self.assertIn('everfold.sequencer_lock', tables)
        self.assertIn('everfold_views.lock_live', tables)
        for table in tables:
            for mode in ('ACCESS SHARE', 'ROW SHARE', 'EXCLUSIVE', 'ACCESS EXCLUSIVE'):
                self.assertIn('42501', self.psql(f'BEGIN; LOCK TABLE {table} IN {mode} MODE', url=url).err)
        # While it holds every advisory lock that was once ours, all goes on.
        names = ', '.join(f"hashtextextended('everfold {what}', 0)"
                          for what in ('sequencer', 'exceptions', 'skips', 'runs', 'migration'))
        with subprocess.Popen([os.path.join(SERVER.binaries, 'psql'), '-XqAt', url], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as holder:
            holder.stdin.write(f'SELECT pg_advisory_lock(k) FROM unnest(ARRAY[{names}]) AS k;\n'
                               'SELECT pg_advisory_lock(1164334711::bigint << 32 | k) FROM generate_series(0, 20) AS k;\n'
                               "SELECT 'held';\n")
            holder.stdin.flush()
            while holder.stdout.readline() != 'held\n':
                self.assertIsNone(holder.poll())
            self.ok(self.run_it('event', 'append', 's', '--type', 'placed', '--data', '{}'))
            self.ok(self.run_it('work', '--drain'))
            self.assertEqual(0, self.run_it('projection', 'rebuild', 'counts').code)
            self.ok(self.run_it('work', '--drain'))
            holder.stdin.close()

    def test_not_even_the_owner_changes_an_event(self):
        self.ok(self.run_it('event', 'append', 's', '--type', 'a', '--data', '{}'))
        for sql in ('DELETE FROM everfold.event', 'UPDATE everfold.event SET seq = 1',
                    'TRUNCATE everfold.event'):
            self.assertIn('events are never changed', self.psql(sql).err)

    def test_a_dump_goes_on_in_another_cluster(self):
        for i in range(3):
            self.ok(self.run_it('event', 'append', f's{i}', '--type', 'a', '--data', '{}', '--id', str(i)))
        self.ok(self.psql(append_sql('waiting', {'type': 'a'})))
        dump = subprocess.run([os.path.join(SERVER.binaries, 'pg_dump'), self.url], check=True,
                              capture_output=True)
        with postgres_server.Server() as other:
            subprocess.run([os.path.join(other.binaries, 'psql'), '-X', '-q', '-v', 'ON_ERROR_STOP=1',
                            other.url], input=dump.stdout, check=True, stdout=subprocess.DEVNULL)
            self.url = other.url
            self.ok(self.run_it('event', 'append', 's0', '--type', 'a', '--data', '{}'))
            again = self.run_it('event', 'append', 's1', '--type', 'a', '--data', '{}', '--id', '1',
                                '-o', 'json')
            self.assertEqual(2, json.loads(self.ok(again).out)['position'])
            self.assertEqual([('s0', 1), ('s1', 2), ('s2', 3), ('waiting', 4), ('s0', 5)],
                             [(e['stream'], e['position']) for e in self.log()])
            self.assertIn('5 events are intact', self.run_it('doctor', '--deep').out)

    def test_the_schema_may_be_made_by_hand(self):
        self.ok(self.psql('CREATE DATABASE by_hand', url=SERVER.url))
        url = SERVER.url.rsplit('/', 1)[0] + '/by_hand'
        sql = self.ok(self.run_it('init', '--sql')).out
        subprocess.run([os.path.join(SERVER.binaries, 'psql'), '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-1',
                        url], input=sql, text=True, check=True, stdout=subprocess.DEVNULL)
        self.ok(self.run_it('event', 'append', 's', '--type', 'a', '--data', '{}', url=url))

    def test_the_outbox_may_be_partitioned(self):
        self.ok(self.psql(
            'ALTER TABLE everfold.outbox RENAME TO outbox_old',
            'CREATE TABLE everfold.outbox(lane integer NOT NULL, position bigint NOT NULL, '
            'partition integer NOT NULL, PRIMARY KEY (lane, position)) PARTITION BY RANGE (position)',
            'CREATE TABLE everfold.outbox_1 PARTITION OF everfold.outbox FOR VALUES FROM (0) TO (3)',
            'CREATE TABLE everfold.outbox_2 PARTITION OF everfold.outbox DEFAULT',
            'DROP TABLE everfold.outbox_old'))
        for i in range(5):
            self.ok(self.run_it('event', 'append', f's{i}', '--type', 'a', '--data', '{}'))
        self.assertEqual(0, self.run_it('work', '--drain').code)
        self.assertEqual('0', self.ok(self.psql('SELECT count(*) FROM everfold.outbox')).out.strip())

    def test_doctor_says_when_a_power_cut_would_take_answers(self):
        self.assertIn('fsync OFF, full_page_writes OFF, synchronous_commit on', self.run_it('doctor').out)
        self.assertEqual(6, self.run_it('doctor').code)
        for fsync, pages, code in (('off', 'on', 6), ('on', 'off', 6), ('on', 'on', 0)):
            with postgres_server.Server(fsync=fsync, full_page_writes=pages, synchronous_commit='off') as other:
                self.ok(self.run_it('init', url=other.url))
                answer = self.run_it('doctor', url=other.url)
                self.assertEqual(code, answer.code, answer.out)
                said = {'on': 'on', 'off': 'OFF'}
                self.assertIn(f'fsync {said[fsync]}, full_page_writes {said[pages]}, synchronous_commit off',
                              answer.out)

    def test_what_is_answered_is_on_the_disk_also_where_synchronous_commit_is_off(self):
        self.ok(self.psql(
            f'ALTER DATABASE t{Case.count} SET synchronous_commit = off', 'CREATE TABLE how(setting text)',
            'CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN '
            "INSERT INTO public.how VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$",
            'CREATE TRIGGER note AFTER INSERT ON everfold.event FOR EACH ROW EXECUTE FUNCTION note()'))
        self.ok(self.run_it('event', 'append', 's', '--type', 'a', '--data', '{}'))
        self.assertEqual('on', self.ok(self.psql('SELECT DISTINCT setting FROM how')).out.strip())
        self.assertEqual('off', self.ok(self.psql("SELECT current_setting('synchronous_commit')")).out.strip())

    def test_an_older_schema_is_migrated_with_what_is_in_it(self):
        self.ok(self.psql('CREATE DATABASE older', url=SERVER.url))
        self.url = self.url.rsplit('/', 1)[0] + '/older'

        def text_of(*path):
            with open(os.path.join(ROOT, 'src', *path), encoding='utf-8') as f:
                return f.read()

        # As the first Everfold made it, and as it was before there were publishers.
        note = "INSERT INTO everfold.migration(part, number) VALUES ('{}', {})"
        self.ok(self.psql(text_of('postgres', 'ground.sql'),
                          text_of('journal', 'postgres', 'migrations', '0001_journal.sql'), note.format('journal', 1),
                          text_of('journal', 'postgres', 'migrations', '0002_append.sql'), note.format('journal', 2),
                          text_of('views', 'postgres', 'migrations', '0001_views.sql'), note.format('views', 1)))
        for i in range(3):
            self.ok(self.psql(append_sql(f's{i % 2}', {'type': 'placed', 'id': f'id-{i}'}, 0)))
        self.assertIn('everfold init', self.run_it('event', 'log').err)
        self.ok(self.run_it('init'))
        self.assertEqual([('s0', 1), ('s1', 1), ('s0', 2)], [(e['stream'], e['seq']) for e in self.log()])
        self.ok(self.run_it('projection', 'deploy', self.program()))
        again = self.ok(self.psql(append_sql('s1', {'type': 'placed', 'id': 'id-1'})))
        self.assertEqual(['id-1', '1', '2', 't'], again.rows()[0])
        self.assertEqual(0, self.run_it('work', '--drain').code)
        self.assertIn('3 events are intact', self.run_it('doctor', '--deep').out)

    def test_rows_grants_and_policies_of_renamed_tables_survive_the_migration(self):
        worker, clerk = f'worker{Case.count}', f'clerk{Case.count}'
        database = f'names{Case.count}'
        self.ok(self.psql(f'CREATE ROLE {worker} LOGIN', f'CREATE ROLE {clerk} LOGIN', f'CREATE DATABASE {database}'))
        url = self.url.rsplit('/', 1)[0] + '/' + database
        files = sorted(os.listdir(os.path.join(ROOT, 'src', 'journal', 'postgres', 'migrations')))
        number = 1 + next(i for i, name in enumerate(files) if name.endswith('_names.sql'))
        old = self.ok(self.run_it('init', '--sql')).out.split(f'-- journal, migration {number}\n')[0] + 'COMMIT;'
        self.ok(self.psql(
            old, f"SELECT everfold.grant_worker('{worker}')",
            f'GRANT USAGE ON SCHEMA everfold TO {clerk}', f'GRANT SELECT ON everfold.outbox_act TO {clerk}',
            f"SELECT everfold.tenants_apart('{worker}')", f"SELECT everfold.bind_tenant('{clerk}', 'acme')",
            "INSERT INTO everfold.outbox_act(at, act, who, reason, lane, tenant, stream, seq, rows) VALUES "
            "(1, 'requeue', 'ana', 'fixed', 'counts', 'acme', 's', 1, 1), (2, 'skip', 'bob', '', 'counts', 'apex', 's', 2, 1)",
            'INSERT INTO everfold.outbox_mark VALUES (1, 3, 7, 9, 5, 4, 2)',
            "INSERT INTO everfold.outbox_exception VALUES (1, 7, 3, 1, 1, 3, false, true, 8, 0, 'x', 1, 0, false)", url=url))
        self.ok(self.run_it('init', url=url))
        self.assertEqual('requeue|ana\n', self.ok(self.psql(
            'SELECT action, actor FROM everfold.audit', url=url.replace('postgres@', clerk + '@'))).out)
        self.assertEqual('9|5\nx\n', self.ok(self.psql(
            'SELECT in_flight, in_flight_token FROM everfold.lane_offset', 'SELECT error FROM everfold.retry_row',
            url=url.replace('postgres@', worker + '@'))).out)
        self.ok(self.psql('DELETE FROM everfold.retry_row', f"SELECT everfold_views.grant_worker('{worker}')", url=url))
        url = url.replace('postgres@', worker + '@')
        self.ok(self.run_it('event', 'append', 's', '--type', 'placed', '--data', '{}', url=url))
        self.ok(self.run_it('projection', 'deploy', self.program(), url=url))
        self.ok(self.run_it('work', '--drain', url=url))
        self.ok(self.run_it('outbox', 'report', url=url))
        self.ok(self.run_it('partition', 'ls', url=url))
        named = self.ok(self.psql("SELECT relname FROM pg_class WHERE relnamespace = 'everfold'::regnamespace AND relname ~ "
                                  "'exception|outbox_(act|mark)'", url=url)).out
        self.assertEqual('', named)

    def test_the_script_starts_a_server_to_try_it_on(self):
        script = os.path.join(ROOT, 'script', 'postgres')
        environment = {**os.environ, 'EF_POSTGRES_DIR': os.path.join(self.dir, 'server'),
                       'EF_POSTGRES_PORT': str(postgres_server.free_port())}
        os.chmod(self.dir, 0o755)

        def run(*words):
            # The server that stays must not keep our pipe open.
            with open(os.path.join(self.dir, 'said'), 'w+', encoding='utf-8') as said:
                done = subprocess.run([script, *words], check=False, env=environment, stdout=said, stderr=said,
                                      stdin=subprocess.DEVNULL, timeout=120)
                said.seek(0)
                return done.returncode, said.read().strip()

        self.assertEqual(0, run('start')[0])
        self.addCleanup(run, 'stop')
        url = run('url')[1]
        self.ok(self.run_it('init', url=url))
        self.ok(self.run_it('event', 'append', 's', '--type', 'a', '--data', '{}', url=url))
        self.assertIn('(1 row)', run('sql', 'SELECT seq FROM everfold.log')[1])
        self.assertEqual(0, self.run_it('doctor', url=url).code)
        self.assertEqual(0, run('stop')[0])
        self.assertNotEqual(0, run('status')[0])

    def test_no_answer_shows_a_password(self):
        for url in (self.url.replace('postgres@', 'postgres:s3cret@'), self.url + '?password=s3cret'):
            for words in (('init',), ('doctor',), ('status',), ('config', 'show'), ('init', '-o', 'json'),
                          ('status', '-o', 'json'), ('config', 'show', '-o', 'json')):
                answer = self.run_it(*words, url=url)
                self.assertNotIn('s3cret', answer.out + answer.err, words)
            answer = self.run_it('event', 'log', '--journal', url.replace('/t', '/no_such_'))
            self.assertEqual(3, answer.code)
            self.assertNotIn('s3cret', answer.out + answer.err)

    def test_a_database_without_a_journal_says_what_to_run(self):
        answer = self.run_it('event', 'log', url=SERVER.url)
        self.assertEqual(3, answer.code)
        self.assertIn('everfold init', answer.err)


if __name__ == '__main__':
    BINARY, BANK = sys.argv.pop(1), sys.argv.pop(1)
    if not postgres_server.programs():
        print('there is no PostgreSQL server to start')
        sys.exit(77)
    with postgres_server.Server() as SERVER:
        result = unittest.main(exit=False).result
    sys.exit(not result.wasSuccessful())
