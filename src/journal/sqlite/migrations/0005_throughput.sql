-- What all workers did in each minute of the last day.
CREATE TABLE throughput(
    minute INTEGER PRIMARY KEY, -- when it began, in microseconds
    position INTEGER NOT NULL,  -- of the head when the row was last written
    appended INTEGER NOT NULL,
    applied INTEGER NOT NULL,
    published INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    dead INTEGER NOT NULL
);
