-- State of projections that was read from audit entries before. The journal is another file, so the engine
-- reads it from the entries: for generations whose `replaced` is -1, once.

-- 0 stop, 1 skip; the same in all generations of a projection
ALTER TABLE generation ADD COLUMN on_error INTEGER NOT NULL DEFAULT 0;
-- number of the generation that was active before; 0 none
ALTER TABLE generation ADD COLUMN replaced INTEGER NOT NULL DEFAULT -1;
-- when another one became active; 0: it is active, or never was
ALTER TABLE generation ADD COLUMN superseded INTEGER NOT NULL DEFAULT 0;

CREATE TABLE retired_version(
    name TEXT NOT NULL, -- of the projection
    version INTEGER NOT NULL,
    PRIMARY KEY (name, version)
) WITHOUT ROWID;
