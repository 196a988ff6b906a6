#!/usr/bin/env python3
"""What a back end asks of PostgreSQL: its plans, and the schema that the migrations make.

usage: postgres_sql.py plans|schema|print-schema FOLDER      (src/views/postgres)

plans   every statement goes by an index, on empty tables and on full ones; those that may look at a
        whole table are named below, each with its reason
schema  the migrations, run in order, make what schema.sql says

schema.sql is what print-schema prints (pg_dump, without its settings); it is changed together with a new
migration.
"""
import glob
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'support'))
import postgres_server  # noqa: E402

FEW = 'there is a handful of rows'
ALLOWED = {  # by statement: the tables it may go through
    'generation_ls': ({'generation', 'state'}, FEW),
    'live_set_get': ({'state'}, 'one row'),
    'live_set_changed': ({'state'}, 'one row'),
}
SLICE = 'stops at its limit; as connections are set up it goes by an index'
SLICES = {name: ({table}, SLICE) for name, table in (
    ('view_cut', 'view'), ('index_cut', 'view_index'), ('watermark_cut', 'watermark'),
    ('cursor_cut', 'tenant_cursor'), ('failure_cut', 'failure'), ('follow_cut', 'follow'),
    ('change_cut', 'view_change'))}
# As src/postgres/pool.c sets a connection up.
SETTINGS = '''SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off;
SET enable_mergejoin = off; SET jit = off; SET plan_cache_mode = force_generic_plan;'''
FILL = '''
INSERT INTO everfold_views.generation(name, version, number, by_log, program, program_hash, index_paths,
    schema, state, routed, era, position, seam, created, updated)
SELECT 'p' || n, 1, 1, false, '', 0, 'a', 1, 1, false, 1, 0, 0, 0, 0 FROM generate_series(1, 20) n;
INSERT INTO everfold_views.view SELECT 1 + n % 20, 't' || n % 7, 'v' || n, '{}', 1, 1, 1,
    decode(md5(n::text), 'hex') FROM generate_series(1, 40000) n;
INSERT INTO everfold_views.view_index SELECT generation, tenant, id, 0, digest FROM everfold_views.view;
INSERT INTO everfold_views.watermark SELECT generation, tenant, id, 1, 2, digest || digest
    FROM everfold_views.view;
INSERT INTO everfold_views.failure(generation, tenant, stream, seq, position, event_id, code, message,
    attempts, open, recorded, resolved)
SELECT 1 + n % 20, '', 's' || n, n, n, '', '', '', 1, n % 2000 = 0, 0, 0 FROM generate_series(1, 20000) n;
INSERT INTO everfold_views.tenant_cursor
SELECT 1 + n % 20, 't' || n, n, 1, 1, n, 0 FROM generate_series(1, 5000) n;
INSERT INTO everfold_views.follow SELECT 1 + n % 20, 't' || n, n, 1, n, 1 FROM generate_series(1, 5000) n;
INSERT INTO everfold_views.follow_floor SELECT n, n FROM generate_series(1, 5000) n;
INSERT INTO everfold_views.view_change
SELECT 1 + n % 20, 't' || n % 7, n, 'v' || n, n, 1 FROM generate_series(1, 40000) n;
INSERT INTO everfold_views.fence SELECT 'partition/' || n, 1 FROM generate_series(1, 5000) n;
INSERT INTO everfold_views.retired_version SELECT 'p' || n, 1 FROM generate_series(1, 5000) n;
INSERT INTO everfold_views.generation_sum
SELECT 1 + n % 20, n / 20, 0, 0, 0, 0, 0, 0, 0 FROM generate_series(0, 319) n;
ANALYZE;
'''


def psql(server, sql):
    done = subprocess.run([os.path.join(server.binaries, 'psql'), '-XqAt', '-v', 'ON_ERROR_STOP=1',
                           server.url], input=sql, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def statements(folder):
    """Name and text of every statement, as sqlgen.py finds them."""
    found = {}
    for path in sorted(glob.glob(os.path.join(folder, '*.sql'))):
        if os.path.basename(path) == 'schema.sql':
            continue
        parts = re.split(r'^-- name: (\w+)\s*$', open(path, encoding='utf-8').read(), flags=re.M)
        for name, body in zip(parts[1::2], parts[2::2]):
            text = '\n'.join(l for l in body.splitlines() if not l.lstrip().startswith('--'))
            found[name] = text.strip().rstrip(';')
    return found


def migrate(server, folder):
    ground = os.path.join(folder, '..', '..', 'postgres', 'ground.sql')
    psql(server, 'BEGIN;\n' + open(ground, encoding='utf-8').read() + 'COMMIT;\n')
    for path in sorted(glob.glob(os.path.join(folder, 'migrations', '*.sql'))):
        psql(server, open(path, encoding='utf-8').read())


def explain(server, name, sql, settings):
    count = max((int(n) for n in re.findall(r'\$(\d+)', sql)), default=0)
    values = '(%s)' % ', '.join(['NULL'] * count) if count else ''
    return psql(server, f'{settings}\nPREPARE {name} AS {sql};\nEXPLAIN EXECUTE {name}{values};')


def check_plans(server, named, settings, small=frozenset(), more=None):
    """What goes through whole tables, but for small ones and what is allowed."""
    allowed = {**ALLOWED, **(more or {})}
    wrong = []
    for name, sql in sorted(named.items()):
        if sql.startswith('BEGIN'):
            continue
        whole = set(re.findall(r'Seq Scan on (\w+)', explain(server, name, sql, settings)))
        if whole - small - allowed.get(name, (set(), ''))[0]:
            wrong.append(f'{name} goes through all of {", ".join(sorted(whole))}')
    return wrong


def dumped(server):
    """pg_dump of the schema, without comments, settings and empty lines."""
    text = subprocess.run([os.path.join(server.binaries, 'pg_dump'), '-s', '-O', '-x', '-n',
                           'everfold_views', '-d', server.url], capture_output=True, text=True,
                          check=True).stdout
    lines = [l for l in text.splitlines()
             if l.strip() and not re.match(r'--|SET |SELECT pg_catalog\.set_config|\\', l)]
    return '\n'.join(lines) + '\n'


HEAD = '''\
-- The schema as the migrations make it, for reading; comments are in the migrations.
-- Made by: python3 tests/views/postgres_sql.py print-schema src/views/postgres
'''


def tap(results):
    print(f'1..{len(results)}')
    for number, (name, wrong) in enumerate(results, 1):
        for line in wrong:
            print('# ' + line)
        print(f'{"not ok" if wrong else "ok"} {number} - {name}')
    return any(wrong for _, wrong in results)


def main():
    what, folder = sys.argv[1:3]
    if not postgres_server.programs():
        print('1..0 # SKIP there is no PostgreSQL server to start')
        return 77
    with postgres_server.Server() as server:
        migrate(server, folder)
        if what == 'print-schema':
            sys.stdout.write(HEAD + dumped(server))
            return 0
        if what == 'schema' and '/15/' not in server.binaries:
            print('1..0 # SKIP schema.sql is what pg_dump 15 prints')
            return 77
        if what == 'schema':
            said = open(os.path.join(folder, 'schema.sql'), encoding='utf-8').read()
            made = HEAD + dumped(server)
            return tap([('the migrations make what schema.sql says',
                         [] if said == made else ['compare with print-schema'])])
        named = statements(folder)
        bad = {'bad': 'SELECT 1 FROM everfold_views.view WHERE data = $1'}
        blind = [] if check_plans(server, bad, SETTINGS) else ['the check finds nothing']
        empty = check_plans(server, named, SETTINGS)
        psql(server, FILL)
        full = check_plans(server, named, 'SET plan_cache_mode = force_generic_plan;',
                           {'generation', 'generation_sum'}, SLICES)
        return tap([('a statement without an index is found', blind),
                    ('statements go by indexes on empty tables, as connections are set up', empty),
                    ('statements go by indexes on full tables, whatever the settings', full)])


if __name__ == '__main__':
    sys.exit(main())
