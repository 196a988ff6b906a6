-- What all workers did in each minute of the last day.
CREATE TABLE everfold.throughput(
    minute bigint PRIMARY KEY, -- when it began, in microseconds
    position bigint NOT NULL,  -- of the head when the row was last written
    appended bigint NOT NULL,
    applied bigint NOT NULL,
    published bigint NOT NULL,
    failed bigint NOT NULL,
    dead bigint NOT NULL
);
