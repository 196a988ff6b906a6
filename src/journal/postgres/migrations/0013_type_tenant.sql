-- The tenant whose append created a type, so that one tenant cannot use up the types of all. NULL: the type was
-- registered by an operator, or is older than this column; such types count for no tenant.
ALTER TABLE everfold.event_type ADD COLUMN tenant text COLLATE "C";
CREATE INDEX event_type_of_tenant ON everfold.event_type(tenant) WHERE tenant IS NOT NULL;
-- What apply has to know of every batch.
CREATE INDEX event_type_not_folded ON everfold.event_type(name) WHERE intent <> 0;
