-- A tenant that could not keep up with the cursor of a projection in the order of the log goes by one
-- of its own until it has come up with it again.
CREATE TABLE tenant_cursor(
    generation INTEGER NOT NULL,
    tenant     TEXT NOT NULL,
    position   INTEGER NOT NULL, -- all events of the tenant up to here have been read
    waiting    INTEGER NOT NULL, -- its events from there to the generation's cursor
    attempts   INTEGER NOT NULL, -- failures in a row at the next one
    due        INTEGER NOT NULL, -- not tried before
    updated    INTEGER NOT NULL,
    PRIMARY KEY(generation, tenant)
) WITHOUT ROWID;

CREATE INDEX tenant_cursor_due ON tenant_cursor(generation, due);
