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
