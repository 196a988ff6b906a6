-- Every change of an offset adds one to `change`, which is part of the key: the last version of a row is found
-- without the versions before it, which a held snapshot keeps (lane_offset_get). There is one row per lane and
-- partition: a row is inserted and changed under the lock of the lease of its partition.
ALTER TABLE everfold.lane_offset ADD COLUMN change bigint NOT NULL DEFAULT 0;
ALTER TABLE everfold.lane_offset ALTER COLUMN change DROP DEFAULT;
ALTER TABLE everfold.lane_offset DROP CONSTRAINT lane_offset_pkey;
ALTER TABLE everfold.lane_offset ADD CONSTRAINT lane_offset_pkey PRIMARY KEY (lane, partition, change);
