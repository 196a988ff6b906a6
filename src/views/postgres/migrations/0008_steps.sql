-- A row that is written for each batch has a version for each change that a held snapshot may still read, and a
-- search by its key visits all of them. So `step`, which is part of the key, grows every 16 changes of a row (`change`
-- counts them): a search from the end of the index visits the versions of the last step only. In between, an update
-- adds nothing to the index. A key of an index of views changes the index anyway: its step grows with each change.
ALTER TABLE everfold_views.view ADD COLUMN step bigint NOT NULL DEFAULT 0,
    ADD COLUMN change smallint NOT NULL DEFAULT 0;
ALTER TABLE everfold_views.view DROP CONSTRAINT view_pkey;
ALTER TABLE everfold_views.view ADD CONSTRAINT view_pkey PRIMARY KEY (generation, tenant, id, step);
ALTER TABLE everfold_views.watermark ADD COLUMN step bigint NOT NULL DEFAULT 0,
    ADD COLUMN change smallint NOT NULL DEFAULT 0;
ALTER TABLE everfold_views.watermark DROP CONSTRAINT watermark_pkey;
ALTER TABLE everfold_views.watermark ADD CONSTRAINT watermark_pkey PRIMARY KEY (generation, tenant, stream, step);
ALTER TABLE everfold_views.view_index ADD COLUMN step bigint NOT NULL DEFAULT 0;
ALTER TABLE everfold_views.view_index DROP CONSTRAINT view_index_pkey;
ALTER TABLE everfold_views.view_index ADD CONSTRAINT view_index_pkey PRIMARY KEY (generation, tenant, id, idx, step);
