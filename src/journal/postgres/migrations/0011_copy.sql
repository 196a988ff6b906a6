-- A journal whose database was copied to another server, or under another name, knows it: its publishers
-- wait until it is adopted. No server but the one that `database` names has leases and workers in it.
ALTER TABLE everfold.state
    ADD COLUMN database text NOT NULL DEFAULT '', -- where it is, as far as that is known
    ADD COLUMN copied bigint NOT NULL DEFAULT 0;  -- 0, or when it became a copy
