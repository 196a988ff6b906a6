#!/usr/bin/env python3
"""plans.py SOURCE - how the PostgreSQL journal's statements are carried out.

As connections are set up (src/postgres/pool.c), every statement goes by an index, on empty tables and on
full ones; those that may look at a whole table are named below, each with its reason. What a worker or an
appender does over and over also takes no more than a slice of the outbox, however long it is.
"""
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, '..', 'views'), os.path.join(HERE, '..', 'support')]
import postgres_server  # noqa: E402
import postgres_sql  # noqa: E402

ONE, FEW = 'one row', 'there is a handful of rows'
COUNTS = 'counts for people, of all there is'
# Once, when a journal is opened in a database for the first time: a copy gives up all leases and batches.
ADOPTED = {'state_moved', 'copy_drop_leases', 'copy_release_batches'}
TABLES = {  # by table: statements that may go through it
    'state': ({'*'}, ONE), 'lane': ({'*'}, FEW), 'event_type': ({'*'}, FEW), 'worker': ({'*'}, FEW),
    'lease': ({'lease_all', 'lease_beyond', 'lease_prune', 'partition_all', 'row_count', 'row_after'} | ADOPTED, FEW),
    'lane_offset': ({'partition_all', 'row_count', 'row_after'} | ADOPTED, FEW),
    'throughput': ({'throughput_add'}, 'a row for each minute of a day; a late row of an earlier minute may be the highest'),
    'outbox': ({'partition_all', 'partition_waiting', 'row_count', 'verify_rest'}, COUNTS),
    'retry_row': ({'partition_all', 'partition_waiting', 'row_count', 'verify_rest'}, COUNTS),
    'event_id': ({'verify_rest'}, COUNTS), 'event_number': ({'*'}, 'a sequence'),
}
FILL = '''
INSERT INTO everfold.event_type(name) SELECT 't' || n FROM generate_series(1, 5) n;
INSERT INTO everfold.stream(tenant, name)
SELECT 't' || n % 3, 's' || n FROM generate_series(1, 1000) n;
INSERT INTO everfold.event SELECT n, 1 + n % 1000, 1 + n / 1000, 1 + n % 5, 1, n, n, 'id' || n, '{}', '{}', n,
    decode(md5(n::text) || md5(n::text), 'hex') FROM generate_series(1, 40000) n;
-- Events without a position.
INSERT INTO everfold.event(stream, seq, type, schema, time, id, data, meta, number, xid, queued)
SELECT 1 + n % 1000, 1000 + n / 1000, 1, 1, n, 'u' || n, '{}', '{}', n, pg_current_xact_id(), true
  FROM generate_series(1, 20000) n;
INSERT INTO everfold.event_id SELECT 't', id, stream, seq FROM everfold.event;
INSERT INTO everfold.outbox SELECT 1, n, n % 16 FROM generate_series(1, 40000) n;
INSERT INTO everfold.lane_offset SELECT 1, n, 0, 0, 0, 0, 0, 0 FROM generate_series(0, 15) n;
INSERT INTO everfold.retry_row SELECT 2, n, n % 16, 1 + n % 1000, 1 + n / 1000, n % 4, false,
    n <= 1000, 1, n, '', 0, 0 FROM generate_series(1, 20000) n WHERE n % 4 <> 1;
INSERT INTO everfold.lane(name, kind, enabled, types) VALUES ('failing', 1, true, ''), ('calm', 1, true, ''),
    ('mail', 2, true, ''), ('post', 2, true, '');
INSERT INTO everfold.outbox_published SELECT l.id, n, n FROM everfold.lane l, generate_series(1, 40000) n WHERE l.kind = 2;
INSERT INTO everfold.lease SELECT 0, '', n, 'w', 1, 1, 1 FROM generate_series(0, 1023) n;
ANALYZE;
'''
# A slice of 100 of 40,000 rows: nothing is read that is not asked for.
TAKE = "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) EXECUTE {}({})"
PARTITIONS = "'{0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15}'"
SLICED = {'outbox_claim': f'1, {PARTITIONS}, 100, 1000000, 0',
          'outbox_claim_bounded': f'1, {PARTITIONS}, 100, 1000000, 0',
          'outbox_delete_acked': "1, '{100,100,100,100,100,100,100,100,100,100,100,100,100,100,100,100}', 0, 100",
          'published_before': "'', 0, 30000, 4, 100",
          'event_after': "39000, 100, true, '', '', 1000000",
          'event_of_stream': "'t1', 's1', 1, 100, 1000000",
          'unplaced_find': "'1:1:', 0, 100, 1000000", 'unplaced_any': "'1:1:', 0",
          'event_places': "'{1,2,3,4,5}', '{1,1,1,1,1}'",
          'row_count': "'calm', true, '', 1"}  # a lane that has nothing, beside long ones
# All rows of a lane but the last were dropped: the rows before its offsets are not scanned. The server may be
# too fast to measure, so the number of buffers is checked.
DROPPED = '''
BEGIN;
UPDATE everfold.lane_offset SET position = 39990 WHERE lane = 1;
DELETE FROM everfold.outbox WHERE lane = 1 AND position <= 39990;
'''
WALK = 'EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) EXECUTE {}({})'
BUFFERS_MAX = 100  # the index alone has more
LOOKS = {'row_after': "'*', true, '', -1, 0, 0, 0, 0, 1, 1", 'row_count': "'*', true, '', 1"}
TEXTS = {'tenant', 'name', 'id', 'owner', 'error', 'data', 'meta'}
PARAMETERS = {  # where they cannot be seen from the statement
    'event_insert': {2: 'bigint[]', 3: 'text[]', 4: 'bigint', 8: 'bytea', 9: 'boolean', 10: 'boolean'},
    'event_place': {1: 'bigint', 2: 'bigint[]', 4: 'bigint', 5: 'bytea'}, 'event_places': {1: 'bigint[]', 2: 'bigint[]'},
    'unplaced_any': {1: 'text', 2: 'bigint'}, 'unplaced_find': {1: 'text', 2: 'bigint', 3: 'bigint', 4: 'bigint'},
    'sequencer_try': {1: 'text[]'}, 'stream_lock_known': {1: 'bigint[]'}, 'id_insert': {3: 'bigint[]'},
    'outbox_insert': {2: 'bigint[]', 3: 'text[]', 4: 'boolean'},
    'retry_row_revise': {1: 'text[]', 2: 'bigint[]', 3: 'bigint', 4: 'bigint'},
    'retry_row_from_queue': {1: 'text[]', 3: 'bigint'},
    'skip_insert_of_rows': {1: 'text[]', 4: 'text', 5: 'text', 6: 'bigint'},
    'outbox_claim': {2: 'bigint[]'}, 'outbox_claim_bounded': {2: 'bigint[]'},
    'retry_row_lock_partitions': {1: 'bigint'}, 'outbox_delete_acked': {2: 'bigint[]'}, 'published_acked': {2: 'bigint[]'}, 'retry_row_due': {1: 'bigint'}, 'retry_row_next_due': {1: 'bigint'},
}


def settings(source):
    """What a connection is told, as the source has it."""
    text = open(os.path.join(source, 'src/postgres/pool.c'), encoding='utf-8').read()
    found = re.search(r'PLANS\[\] =(.*?);\n', text, re.S).group(1)
    found = found.replace('EF__PG_SEARCH_PATH', '"pg_catalog, pg_temp"')
    return ''.join(re.findall(r'"([^"]*)"', found)) + ';'


def declared(name, sql):
    """Types of the parameters: arrays by the names of the columns they are taken apart into."""
    count = max((int(n) for n in re.findall(r'\$(\d+)', sql)), default=0)
    types = {n: 'unknown' for n in range(1, count + 1)}
    for arrays, columns in re.findall(r'unnest\(([^()]*)\)(?: WITH ORDINALITY)?\s+AS \w+\(([^()]*)\)', sql):
        for array, column in zip(re.findall(r'\$(\d+)', arrays), re.split(r',\s*', columns)):
            types[int(array)] = 'text[]' if column in TEXTS else 'bigint[]'
    types.update(PARAMETERS.get(name, {}))
    return f'({", ".join(types.values())})' if types else ''


def explain(server, name, sql, told):
    count = max((int(n) for n in re.findall(r'\$(\d+)', sql)), default=0)
    values = '(%s)' % ', '.join(['NULL'] * count) if count else ''
    return postgres_sql.psql(server, f'{told}\nPREPARE {name}{declared(name, sql)} AS {sql};\n'
                                     f'EXPLAIN EXECUTE {name}{values};')


def check_plans(server, named, told):
    wrong = []
    for name, sql in sorted(named.items()):
        if sql.startswith('LOCK'):
            continue
        try:
            plan = explain(server, name, sql, told)
        except RuntimeError as failure:
            wrong.append(f'{name}: {failure}')
            continue
        for table in sorted(set(re.findall(r'Seq Scan on (\w+)', plan))):
            allowed = TABLES.get(table, (set(), ''))[0]
            if '*' not in allowed and name not in allowed:
                wrong.append(f'{name} goes through all of {table}')
    return wrong


def check_slices(server, named, told):
    """The most rows that any step of a plan has seen; the events of the stream are 40."""
    wrong = []
    for name, values in SLICED.items():
        plan = postgres_sql.psql(server, f'{told}\nBEGIN;\nPREPARE {name}{declared(name, named[name])} AS {named[name]};\n'
                                         f'{TAKE.format(name, values)};\nROLLBACK;')
        seen = [int(rows) * int(loops) for rows, loops in re.findall(r'rows=(\d+) loops=(\d+)', plan)]
        gone = [int(n) for n in re.findall(r'Rows Removed by \w+(?: \w+)?: (\d+)', plan)]
        if max(seen + gone) > 500:
            wrong.append(f'{name} has looked at {max(seen + gone)} rows')
    return wrong


def check_dropped(server, named, told):
    wrong = []
    for name, values in LOOKS.items():
        plan = postgres_sql.psql(server, f'{told}\nPREPARE {name}{declared(name, named[name])} AS {named[name]};\n'
                                         f'{DROPPED}{WALK.format(name, values)};\nROLLBACK;')
        hits = [int(n) for n in re.findall(r'Buffers: shared (?:hit|read)=(\d+)', plan.split('Planning')[0])]
        if not hits or max(hits) > BUFFERS_MAX:
            wrong.append(f'{name} has looked at {max(hits, default=0)} pages')
    return wrong


def main():
    source = sys.argv[1]
    folder = os.path.join(source, 'src/journal/postgres')
    if not postgres_server.programs():
        print('1..0 # SKIP there is no PostgreSQL server to start')
        return 77
    told = settings(source)
    with postgres_server.Server() as server:
        postgres_sql.migrate(server, folder)
        named = postgres_sql.statements(folder)
        bad = {'bad': 'SELECT 1 FROM everfold.event WHERE data = $1'}
        blind = [] if check_plans(server, bad, told) else ['the check finds nothing']
        empty = check_plans(server, named, told)
        postgres_sql.psql(server, FILL)
        full = check_plans(server, named, told)
        slices = check_slices(server, named, told)
        dropped = check_dropped(server, named, told)
    return postgres_sql.tap([('a statement without an index is found', blind),
                             ('statements go by indexes on empty tables', empty),
                             ('statements go by indexes on full tables', full),
                             ('a batch costs the same however long the outbox is', slices),
                             ('who looks at a lane does not walk over what it has dropped', dropped)])


if __name__ == '__main__':
    sys.exit(main())
