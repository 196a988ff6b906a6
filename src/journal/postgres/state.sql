-- only: postgres what the journal is, without the state of background work
-- The journal as a whole.

-- name: state_get
SELECT journal_id, partitions FROM everfold.state;

-- name: state_set
-- binds: 1 partitions
UPDATE everfold.state SET partitions = $1::integer;

-- name: facts
SELECT s.journal_id, s.partitions, pg_database_size(current_database()),
       (SELECT count(*) FROM everfold.event WHERE seq = 1),
       current_setting('server_version'), current_setting('fsync') = 'on',
       current_setting('full_page_writes') = 'on', current_setting('synchronous_commit'),
       current_setting('synchronous_standby_names') <> ''
  FROM everfold.state s;

-- name: state_database
SELECT database FROM everfold.state;

-- name: state_copied
SELECT copied FROM everfold.state;

-- name: state_adopt
UPDATE everfold.state SET copied = 0;

-- name: state_moved
-- Is the journal in another database than it was in? One that did not know where it is only notes it.
-- binds: 1 database, 2 clock
WITH was AS MATERIALIZED (SELECT database FROM everfold.state FOR UPDATE)
UPDATE everfold.state s
   SET database = $1,
       copied = CASE WHEN was.database = '' THEN s.copied ELSE everfold.clock_us($2) END,
       token_floor = greatest(s.token_floor, (SELECT max(token) FROM everfold.lease))
  FROM was WHERE was.database <> $1
RETURNING was.database <> '';

-- name: copy_drop_leases
DELETE FROM everfold.lease;

-- name: copy_drop_workers
DELETE FROM everfold.worker;

-- name: copy_release_batches
UPDATE everfold.outbox_mark SET hand = 0, hand_token = 0 WHERE hand <> 0;
