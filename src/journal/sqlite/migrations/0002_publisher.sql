-- Publishers: what a lane's owner says about it, and what was published a while ago.
ALTER TABLE lane ADD COLUMN settings TEXT NOT NULL DEFAULT '';
ALTER TABLE lane ADD COLUMN retain INTEGER NOT NULL DEFAULT 0;
ALTER TABLE lane ADD COLUMN progress TEXT NOT NULL DEFAULT '';

-- What a publisher is through with, for as long as its lane retains it. In the order of positions,
-- which is nearly that of time: so it needs no index to be purged.
CREATE TABLE outbox_published(
    id INTEGER PRIMARY KEY, -- lane << 48 | position
    published INTEGER NOT NULL
);
