#!/usr/bin/env python3
"""test_twins.py EVERFOLD SOURCE - a role that may create objects in schemas on the default search path plants functions and
operators beside those of pg_catalog, with other argument types. PostgreSQL calls one of them wherever it is the better match
and its schema is searched. None may be called, whatever Everfold does: with the rights of the owner it would be the owner.

The twins are made from the source: for every word in the SQL that is the name of a function in pg_catalog, and for every
operator. Each counts its call in a sequence, which no rollback undoes, and raises an error that names it.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'support'))
import postgres_server  # noqa: E402

BINARY = SOURCE = SERVER = None
FOLD = 'projection counts version {}\n  view stream\n  index n\n\non placed\n  n += {}\n'

# Types that arguments of our statements have, or literals may become. A twin differs from a function of pg_catalog in one
# argument, or in all that are of the same type.
TYPES = ('integer', 'bigint', 'smallint', 'text', 'name', 'varchar', 'boolean', 'numeric', 'float8', 'oid', 'regclass', 'json',
         'jsonb', 'bytea', 'interval', 'timestamptz', 'bigint[]', 'text[]', 'integer[]', 'bytea[]', 'name[]')
OPERATORS = ('+', '-', '*', '/', '%', '||', '=', '<>', '<', '>', '<=', '>=', '~', '!~', '->', '->>')
OPERANDS = ('integer', 'bigint', 'smallint', 'text', 'name', 'varchar', 'boolean', 'numeric', 'float8', 'oid', 'json', 'bytea',
            'interval', 'timestamptz', '"char"')

PLANT = r"""
SET search_path = pg_catalog, pg_temp;
CREATE FUNCTION {schema}.plant(what text) RETURNS boolean LANGUAGE plpgsql AS $plant$
BEGIN
    EXECUTE what;
    RETURN true;
EXCEPTION WHEN OTHERS THEN
    RETURN false; -- it is no signature, or one that exists already
END $plant$;

CREATE TEMP TABLE candidate AS
    SELECT DISTINCT p.proname, a.types
      FROM pg_catalog.pg_proc p,
           unnest(ARRAY[{types}]) AS other(type),
           generate_series(1, 4) AS place,
           LATERAL (SELECT array_agg(CASE WHEN u.place = candidate_place.n OR (candidate_place.n = 4 AND u.type = first.type)
                                          THEN other.type ELSE format_type(u.type, NULL) END ORDER BY u.place) AS types
                      FROM unnest(p.proargtypes::oid[]) WITH ORDINALITY AS u(type, place),
                           (SELECT place AS n) AS candidate_place,
                           (SELECT p.proargtypes[0] AS type) AS first) a
     WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proname = ANY (ARRAY[{names}])
       AND p.pronargs BETWEEN 1 AND 4 AND p.provariadic = 0;
-- Functions with a variable number of arguments.
INSERT INTO candidate
    SELECT 'format', ARRAY['text'] || array_fill(t.type, ARRAY[n])
      FROM unnest(ARRAY['text', 'name', 'bigint', 'integer', 'regclass', 'regrole']) AS t(type), generate_series(1, 3) AS n;
INSERT INTO candidate VALUES ('format', ARRAY['text', 'name', 'regclass']), ('format', ARRAY['text', 'regclass', 'text']),
    ('format', ARRAY['text', 'regclass', 'name']), ('format', ARRAY['text', 'text', 'integer', 'integer']);

SELECT count(*) FILTER (WHERE {schema}.plant(format(
           'CREATE FUNCTION {schema}.%I(%s) RETURNS %s LANGUAGE plpgsql AS '
           '$twin$BEGIN PERFORM pg_catalog.nextval(''public.calls''); RAISE EXCEPTION ''TWIN %s''; END$twin$',
           c.proname, array_to_string(c.types, ', '), r.result, c.proname || '(' || array_to_string(c.types, ', ') || ')')))
  FROM candidate c,
       LATERAL (SELECT coalesce(min(format_type(p.prorettype, NULL))
                           FILTER (WHERE p.prorettype NOT IN ('anyelement'::regtype, 'anyarray'::regtype,
                                                              'internal'::regtype, 'anycompatible'::regtype)),
                                'bigint') AS result
                  FROM pg_catalog.pg_proc p
                 WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proname = c.proname) r;
SELECT count(*) FILTER (WHERE {schema}.plant(format(
           'CREATE FUNCTION {schema}.operate(%1$s, %2$s) RETURNS boolean LANGUAGE plpgsql AS '
           '$twin$BEGIN PERFORM pg_catalog.nextval(''public.calls''); RAISE EXCEPTION ''TWIN operator (%1$s, %2$s)''; '
           'END$twin$', l, r)))
  FROM unnest(ARRAY[{operands}]) AS a(l), unnest(ARRAY[{operands}]) AS b(r);
SELECT count(*) FILTER (WHERE {schema}.plant(format(
           'CREATE OPERATOR {schema}.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = {schema}.operate)', o, l, r)))
  FROM unnest(ARRAY[{operators}]) AS c(o), unnest(ARRAY[{operands}]) AS a(l), unnest(ARRAY[{operands}]) AS b(r);
DROP FUNCTION {schema}.plant(text);
"""


def words_of_source():
    """Every word that stands before a parenthesis in our SQL: the functions of pg_catalog are among them."""
    words = {'hashtextextended'}  # what locks were named by, and what the first twin was of
    for folder in ('src/postgres', 'src/journal/postgres', 'src/views/postgres'):
        for path, _, files in os.walk(os.path.join(SOURCE, folder)):
            for name in files:
                if name.endswith(('.sql', '.c')):
                    with open(os.path.join(path, name), encoding='utf-8') as f:
                        words.update(re.findall(r'\b([a-z_][a-z0-9_]*)\(', f.read()))
    return words


def quoted(texts):
    return ', '.join("'%s'" % t for t in sorted(texts))


def run_psql(url, sql, check=True):
    done = subprocess.run([os.path.join(SERVER.binaries, 'psql'), '-XqAt', '-v', 'ON_ERROR_STOP=1', url, '-f', '-'],
                          input=sql, text=True, capture_output=True, check=False, timeout=120)
    if check and done.returncode:
        raise AssertionError(done.stderr[-2000:])
    return done


class Twins(unittest.TestCase):
    """In a database whose default search path begins with two schemas that the attacker writes to."""
    count = 0

    @classmethod
    def setUpClass(cls):
        """The database as PostgreSQL 14 and older make it; and the attacker has the schema that "$user" is for the owner."""
        server = SERVER.url.rsplit('/', 1)[0]
        run_psql(SERVER.url, """CREATE ROLE attacker LOGIN; CREATE ROLE owner LOGIN CREATEROLE;
                                CREATE DATABASE twins OWNER owner;""")
        run_psql(f'{server}/twins', """GRANT CREATE ON SCHEMA public TO PUBLIC;
            CREATE SEQUENCE public.calls; GRANT ALL ON public.calls TO PUBLIC;
            CREATE SCHEMA owner AUTHORIZATION attacker; GRANT USAGE ON SCHEMA owner TO PUBLIC;""")
        for schema in ('public', 'owner'):
            run_psql(f'{server}/twins'.replace('postgres@', 'attacker@'), PLANT.format(
                schema=schema, types=quoted(TYPES), names=quoted(words_of_source()), operators=quoted(OPERATORS),
                operands=quoted(OPERANDS)))

    def setUp(self):
        Twins.count += 1
        self.dir = tempfile.mkdtemp(prefix='everfold-twins-')
        self.addCleanup(shutil.rmtree, self.dir)
        run_psql(SERVER.url, f'CREATE DATABASE twins{Twins.count} TEMPLATE twins OWNER owner')
        self.url = f"{SERVER.url.rsplit('/', 1)[0]}/twins{Twins.count}".replace('postgres@', 'owner@')

    def psql(self, sql, url=None, code=0):
        done = run_psql(url or self.url, sql, check=False)
        self.assertEqual(code, done.returncode and 1, done.stderr[-2000:])
        return done.stdout if code == 0 else done.stderr

    def ef(self, *words, url=None, stdin='', codes=(0,)):
        environment = {k: v for k, v in os.environ.items() if not k.startswith(('EVERFOLD_', 'PG'))}
        environment.update(EVERFOLD_DATA=self.dir, EVERFOLD_JOURNAL=url or self.url, EVERFOLD_VIEWS=url or self.url)
        done = subprocess.run([BINARY, *words], capture_output=True, text=True, input=stdin, env=environment,
                              timeout=120, check=False)
        self.assertIn(done.returncode, codes, f'{words}\n{done.stdout}\n{done.stderr}')
        return done.stdout

    def check_none_called(self):
        self.assertEqual('f', self.psql('SELECT is_called FROM public.calls').strip(), 'a twin was called')

    def use_everything(self, url=None):
        for version in (1, 2):
            with open(os.path.join(self.dir, 'counts.fold'), 'w', encoding='utf-8') as f:
                f.write(FOLD.format(version, version))
            self.ef('event', 'append', 's', '--type', 'placed', '--data', '{"n": 1}', url=url)
            self.ef('event', 'import', '-', url=url, stdin=''.join(
                '{"stream":"s%d","type":"%s","data":{"n":%d},"id":"i%d-%d"}\n' % (n % 7, t, n, n, version)
                for n, t in enumerate(['placed', 'other'] * 20)))
            self.ef('projection', 'deploy', os.path.join(self.dir, 'counts.fold'), url=url)
            self.ef('work', '--drain', url=url)
        self.ef('type', 'set', 'other', '--intent', 'audit_only', url=url)
        self.ef('publisher', 'add', 'file', '--to', f'file:{self.dir}/out.ndjson', '--types', 'placed', url=url)
        self.ef('work', '--drain', url=url)
        self.ef('projection', 'rebuild', 'counts', url=url)
        self.ef('work', '--drain', url=url)
        for words in ('view query counts --where n>0 --sort n', 'view get counts s --current', 'event log', 'event ls s',
                      'status', 'doctor', 'outbox report', 'projection ls', 'projection verify counts', 'lease ls',
                      'worker ls', 'partition ls', 'run ls', 'audit ls', 'gaps detect', 'partition sync --count 8',
                      'view explain counts s'):
            self.ef(*words.split(), url=url, codes=(0, 6))  # 6: doctor finds a server without fsync

    def test_the_twins_are_called_where_nothing_guards(self):
        self.assertIn('TWIN', self.psql("SELECT hashtextextended('x', 0)", code=1))
        self.assertIn('TWIN', self.psql("SELECT 1::bigint * interval '1 second'", code=1))
        self.assertIn('TWIN', self.psql("SELECT 1::bigint % 1", code=1))
        self.assertEqual('t', self.psql('SELECT is_called FROM public.calls').strip())

    def test_no_command_of_the_owner_calls_a_twin(self):
        self.ef('init')
        self.use_everything()
        self.check_none_called()

    def test_no_command_without_a_session_of_its_own_calls_a_twin(self):
        self.ef('init', url=self.url + '?ef_prepare=off')
        self.use_everything(self.url + '?ef_prepare=off')
        self.check_none_called()

    def test_no_migration_by_hand_and_no_later_one_calls_a_twin(self):
        text = self.ef('init', '--sql')
        first = text.split('-- journal, migration 2\n')[0]
        self.assertIn('search_path', first)
        self.psql(first + 'COMMIT;')
        self.ef('init')
        self.check_none_called()

    def test_sql_functions_of_the_owner_call_no_twin(self):
        self.psql(self.ef('init', '--sql'))
        app = f'app{Twins.count}'
        self.psql(f"""
            CREATE ROLE {app} LOGIN; CREATE ROLE {app}_worker LOGIN;
            SELECT everfold.grant_app('{app}'); SELECT everfold.grant_worker('{app}_worker');
            SELECT everfold_views.grant_worker('{app}_worker'); SELECT everfold_views.grant_reader('{app}');
            SELECT everfold.bind_tenant('{app}', 'acme'); SELECT everfold.tenants_apart('{app}_worker');
            SELECT everfold.tenants_together(); SELECT everfold.tenants_apart();""")
        self.ef('event', 'append', 's', '--type', 'a', '--data', '{}', '--tenant', 'acme')
        # As the application, with the default search path.
        got = self.psql("""
            SELECT seq FROM everfold.append('acme', 's', 1, '[{"type": "a", "data": {"n": 1.5}, "time": "2026-01-01T00:00:00Z"}]');
            SELECT seq, time FROM everfold.read_stream('acme', 's');
            SELECT position, recorded_at FROM everfold.event_log;
            SELECT position FROM everfold.log;""", url=self.url.replace('owner@', app + '@'))
        self.assertIn('2026-01-01', got)
        self.psql(f"SELECT everfold.unbind_tenant('{app}', 'acme'); SELECT everfold.tenants_still_apart();")
        self.check_none_called()


def main():
    global BINARY, SOURCE, SERVER
    BINARY, SOURCE = os.path.abspath(sys.argv.pop(1)), sys.argv.pop(1)
    if not postgres_server.programs():
        print('there is no PostgreSQL server to start')
        return 77
    with postgres_server.Server() as SERVER:
        return not unittest.main(exit=False).result.wasSuccessful()


if __name__ == '__main__':
    sys.exit(main())
