-- The tenant whose append created a type, so that one tenant cannot use up the types of all. NULL: the type was
-- registered by an operator, or is older than this column; such types count for no tenant.
ALTER TABLE event_type ADD COLUMN tenant TEXT;
