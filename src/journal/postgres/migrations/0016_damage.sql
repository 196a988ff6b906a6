-- Damage that a process has found: from then on nothing is appended, by the library or by SQL. And the number of event
-- types that the appends of one tenant may create, for appends by SQL: a process that
-- opens the journal with a limit of its own (types.max) writes it here.
ALTER TABLE everfold.state
    ADD COLUMN damage text NOT NULL DEFAULT '',           -- what was found
    ADD COLUMN damaged bigint NOT NULL DEFAULT 0,         -- when, in microseconds since 1970; 0: none was
    ADD COLUMN types_max bigint NOT NULL DEFAULT 10000;

-- What everfold.append may not write. A type that waits in `arrival` counts as created: it is made when its event gets a
-- position, which cannot be refused any more. Transactions that are open at the same time do not see each other's types,
-- and nothing is locked until they end, so together they may create a few more.
CREATE FUNCTION everfold.check_arrival() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    state record;
    owner text;
    created bigint;
BEGIN
    SELECT s.damage, s.damaged, s.types_max INTO state FROM everfold.state s;
    IF state.damaged <> 0 THEN
        PERFORM everfold.refuse('damaged', format('the journal is damaged, and nothing is appended to it: %s (found at '
            || '%s); restore a backup, or repair the journal, verify it and accept it', state.damage,
            to_char(everfold.time_of(state.damaged) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')));
    ELSIF EXISTS (SELECT FROM everfold.event_type t WHERE t.name = NEW.type) THEN
        RETURN NEW;
    END IF;
    SELECT s.tenant INTO owner FROM everfold.stream s WHERE s.id = NEW.stream;
    IF EXISTS (SELECT FROM everfold.arrival a JOIN everfold.stream s ON s.id = a.stream
                WHERE a.type = NEW.type AND s.tenant = owner) THEN
        RETURN NEW;
    END IF;
    SELECT (SELECT count(*) FROM everfold.event_type t WHERE t.creator = owner)
         + (SELECT count(DISTINCT a.type) FROM everfold.arrival a JOIN everfold.stream s ON s.id = a.stream
             WHERE s.tenant = owner AND NOT EXISTS (SELECT FROM everfold.event_type t WHERE t.name = a.type))
      INTO created;
    IF created >= state.types_max THEN
        PERFORM everfold.refuse('unknown_type', format('event type "%s" is not registered, and appends of tenant "%s" '
            || 'have created %s types, which is the limit (types.max): register the type, or raise the limit',
            NEW.type, owner, created));
    END IF;
    RETURN NEW;
END $$;
REVOKE ALL ON FUNCTION everfold.check_arrival() FROM PUBLIC;
CREATE TRIGGER arrival_is_allowed BEFORE INSERT ON everfold.arrival
    FOR EACH ROW EXECUTE FUNCTION everfold.check_arrival();
