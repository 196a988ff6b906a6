-- Which views a commit changed, recorded while a tenant of a generation is followed.
CREATE TABLE follow(
    generation INTEGER NOT NULL,
    tenant     TEXT NOT NULL,
    until      INTEGER NOT NULL, -- the row may be removed afterwards, with its records
    low        INTEGER NOT NULL, -- records above this number are kept
    last       INTEGER NOT NULL, -- the highest number that was given
    kept       INTEGER NOT NULL, -- records
    PRIMARY KEY(generation, tenant)
) WITHOUT ROWID;

CREATE INDEX follow_until ON follow(generation, until);

-- The highest number of rows of `follow` that were removed: numbers never come again.
CREATE TABLE follow_floor(
    generation INTEGER PRIMARY KEY,
    number     INTEGER NOT NULL
);

CREATE TABLE view_change(
    generation INTEGER NOT NULL,
    tenant     TEXT NOT NULL,
    number     INTEGER NOT NULL,
    id         TEXT NOT NULL,    -- of the view
    position   INTEGER NOT NULL, -- of the event that changed it
    kind       INTEGER NOT NULL, -- 1 created, 2 updated, 3 deleted
    PRIMARY KEY(generation, tenant, number)
) WITHOUT ROWID;
