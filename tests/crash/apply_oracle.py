"""What must be true of views that somebody was killed at, found without any code of ours.

The programs of worker_engine.c are folded here a second time, in Python, over the events that the
watermarks say were applied. What comes out has to be what is stored, byte for byte; what was not
applied has to be waiting somewhere.
"""
import collections
import json
import os
import struct

from oracle import DEAD, Copy, need

CATCHING_UP, LIVE, PAUSED, FAILED, RETIRED = range(5)
SEED = 3  # mode of a run
U64 = 1 << 64


class Fails(Exception):
    """The program cannot digest the event."""


def fold_totals(event, views):
    if event.type == "type-2":
        return None
    view = views.setdefault((event.tenant, "c%d" % (event.data["i"] % 7)), {"n": 0, "sum": 0})
    view["n"] += 1
    view["sum"] += event.data["i"]
    return event.tenant, "c%d" % (event.data["i"] % 7)


def push(view, value, keep):
    view["recent"] = (view.get("recent", []) + [value])[-keep:]


def fold_trail(event, views):
    key = event.tenant, event.stream
    if event.data["i"] % 10 == 9:
        views.pop(key, None)
        return key
    view = views.setdefault(key, {"n": 0})
    view["n"] += 1
    view["last"] = event.data["i"]
    push(view, event.data["i"], 3)
    return key


def fold_strict(event, views):
    if event.data["i"] % 25 == 13:
        raise Fails
    view = views.setdefault((event.tenant, event.stream), {"n": 0})
    view["n"] += 1
    view["last"] = event.data["i"]
    return event.tenant, event.stream


def fold_strict_2(event, views):
    view = views.setdefault((event.tenant, event.stream), {"n": 0})
    view["n"] += 2
    view["last"] = event.data["i"]
    return event.tenant, event.stream


def fold_logged(event, views):
    view = views.setdefault((event.tenant, event.type), {"n": 0})
    view["n"] += 1
    view["last"] = event.position
    push(view, event.data["i"], 4)
    return event.tenant, event.type


PROGRAMS = {("totals", 1): fold_totals, ("trail", 1): fold_trail, ("strict", 1): fold_strict,
            ("strict", 2): fold_strict_2, ("logged", 1): fold_logged, ("trail", 2): fold_trail}
NAMES = {name for name, _ in PROGRAMS}

def shown(name, view, schema):
    """The view as that schema of it has it."""
    if name == "trail" and schema == 2:
        return {"count" if key == "n" else key: value for key, value in view.items()}
    return view


# Views of these are fed by several streams. A row that was in flight when its worker was killed is
# applied after rows of other streams, so the last event of such a view is not always the same.
SHARED = {"totals"}

Event = collections.namedtuple("Event", "position tenant stream seq type data hash")


def views_of(database):
    return os.path.join(os.path.dirname(database), "views.db")


class Journal:
    """The events, and what the outbox says of them."""

    def __init__(self, database):
        with Copy(database) as db:
            self.events = [Event(*row[:5], json.loads(row[5]), row[6]) for row in db.execute(
                "SELECT e.position, s.tenant, s.name, e.seq, t.name, e.data, e.hash FROM event e"
                " JOIN stream s ON s.id = e.stream JOIN event_type t ON t.id = e.type"
                " ORDER BY e.position")]
            self.queued = {row[0] for row in db.execute(
                "SELECT id & ((1 << 48) - 1) FROM outbox_queue WHERE id >> 48 = 1")}
            self.exceptions = {(row[0], row[1]): tuple(row)[2:] for row in db.execute(
                "SELECT l.name, x.position, x.status, x.skip"
                " FROM retry_row x JOIN lane l ON l.id = x.lane")}
            self.skipped = {tuple(row) for row in db.execute(
                "SELECT lane, tenant, stream, seq FROM audit WHERE action = 'skip'")}
            self.marks = sorted(tuple(row) for row in db.execute(
                "SELECT lane, partition, position FROM lane_offset"))
            self.runs = [tuple(row) for row in db.execute(
                "SELECT mode, projection, state, detail FROM run")]
            self.seeded = {(name, json.loads(detail).get("built")) for mode, name, _, detail in
                           self.runs if mode == SEED}
        self.streams = collections.defaultdict(list)
        for event in self.events:
            self.streams[event.tenant, event.stream].append(event)

    def exact(self):
        """What a run that was killed has to end in as well. Attempts and error of a row are not in
        it, for those in which the process ended count; nor whether one that waits behind a dead row
        was in hand then."""
        rows = [(key, row[0] == DEAD, row[1]) for key, row in sorted(self.exceptions.items())]
        return self.marks, rows, sorted(self.queued)


class Generation:
    """One generation, as it is stored."""

    def __init__(self, db, row):
        self.row, of = row, (row["id"],)
        self.name, self.by_log = row["name"], bool(row["by_log"])
        self.key = self.name, row["number"]
        self.program = PROGRAMS[self.name, row["version"]]
        self.state, self.live = row["state"], row["state"] == LIVE
        self.views = {(r["tenant"], r["id"]): r for r in
                      db.execute("SELECT * FROM view WHERE generation = ?", of)}
        self.watermarks = {(r["tenant"], r["stream"]): r for r in
                           db.execute("SELECT * FROM watermark WHERE generation = ?", of)}
        self.index = sorted(tuple(r) for r in db.execute(
            "SELECT tenant, idx, key, id FROM view_index WHERE generation = ?", of))
        self.failures = sorted(tuple(r) for r in db.execute(
            "SELECT tenant, stream, seq, position, event_id, code, message, open FROM failure"
            " WHERE generation = ?", of))

    def exact(self):
        """All but times, and how often something was tried."""
        row = tuple(self.row[k] for k in ("name", "version", "number", "by_log", "state", "routed",
                                          "position", "seam", "views", "applied", "ignored",
                                          "skipped", "digest_a", "digest_b"))
        views = [tuple(r[k] for k in r.keys() if k != "generation" and
                       (self.name not in SHARED or not k.startswith("last_")))
                 for r in self.views.values()]
        return (row, sorted(views),
                sorted(tuple(r)[1:] for r in self.watermarks.values()), self.index, self.failures)

    def check(self, journal, waiting, superseded):
        """One that is being seeded, or on its way out, is nobody's: its sums must be right. A
        superseded one keeps its watermarks only: no row waits for it."""
        need(self.state != FAILED, "%s has failed", self.name)
        need(self.state in (CATCHING_UP, LIVE) or not self.row["routed"],
             "queries for %s go to one in state %d", self.name, self.state)
        if self.state == RETIRED:  # it goes in pieces
            return
        if self.state == PAUSED:
            self.check_sums()
            self.check_index()
            return
        consumed = self.check_watermarks(journal)
        self.check_views(self.check_counters(journal, consumed), self.key in journal.seeded)
        self.check_sums()
        self.check_index()
        self.check_failures(journal, consumed)
        if waiting and self.live and not self.by_log and not superseded:
            for event in journal.events:
                need(event.position in consumed or event.position in journal.queued or
                     (self.name, event.position) in journal.exceptions,
                     "position %d is neither in %s nor waiting", event.position, self.name)

    def check_watermarks(self, journal):
        """Gives the positions that were applied, ignored or let pass."""
        consumed = set()
        for key, mark in self.watermarks.items():
            events, seq = journal.streams.get(key, []), mark["applied_seq"]
            need(1 <= seq <= len(events), "%s is at seq %d of %r, which has %d events", self.name,
                 seq, key, len(events))
            need(mark["expected_next_seq"] == seq + 1, "%s expects another seq of %r", self.name,
                 key)
            need(mark["hash"] == events[seq - 1].hash, "%s has another hash of %r", self.name, key)
            consumed.update(event.position for event in events[:seq])
        if self.by_log or not self.live:
            poison = {key for key in self.blocked_streams(journal, consumed)}
            for event in journal.events:
                need((event.position <= self.row["position"]) == (event.position in consumed)
                     or (event.tenant, event.stream) in poison,
                     "%s has read up to %d, and its watermark disagrees at %d", self.name,
                     self.row["position"], event.position)
        return consumed

    def blocked_streams(self, journal, consumed):
        """Streams whose next event the program fails on."""
        for key, events in journal.streams.items():
            rest = [event for event in events if event.position not in consumed]
            try:
                if rest:
                    self.program(rest[0], {})
            except Fails:
                yield key

    def fold(self, journal, consumed):
        """The views, each with position and seq of the events that may have been its last; how many
        were applied."""
        views, last, counts = {}, collections.defaultdict(list), collections.Counter()
        for event in journal.events:
            if event.position not in consumed:
                continue
            if (self.name, event.tenant, event.stream, event.seq) in journal.skipped:
                counts["skipped"] += 1
                continue
            try:
                key = self.program(event, views)
            except Fails:
                need(False, "%s went past position %d, which it fails on", self.name,
                     event.position)
            counts["applied" if key else "ignored"] += 1
            last[key].append((event.position, event.seq))
        return {key: (view, last[key] if self.name in SHARED else last[key][-1:])
                for key, view in views.items()}, counts

    def check_counters(self, journal, consumed):
        views, counts = self.fold(journal, consumed)
        for what in ("applied", "ignored", "skipped"):
            need(self.row[what] == counts[what], "%s counts %d %s, %d were", self.name,
                 self.row[what], what, counts[what])
        return views

    def check_views(self, expected, seeded):
        need(set(self.views) == set(expected), "%s has other views: %r", self.name,
             sorted(set(self.views) ^ set(expected))[:5])
        for key, (view, last) in expected.items():
            row = self.views[key]
            need(row["schema"] == self.row["schema"] or not self.live,
                 "view %r of %s has schema %d", key, self.name, row["schema"])
            text = json.dumps(shown(self.name, view, row["schema"]), sort_keys=True,
                              separators=(",", ":"))
            need(row["data"] == text, "view %r of %s is %r, not %r", key, self.name, row["data"],
                 text)
            need((row["last_position"], row["last_seq"]) in last or
                 (seeded and row["last_position"] in {position for position, _ in last}),
                 "view %r of %s was changed last by position %d, not %r", key, self.name,
                 row["last_position"], last)

    def check_sums(self):
        need(self.row["views"] == len(self.views), "%s counts %d views", self.name,
             self.row["views"])
        for sum_ in ("digest_a", "digest_b"):
            total = sum(row[sum_] for row in self.views.values())
            need((total - self.row[sum_]) % U64 == 0, "the digest of %s is wrong", self.name)

    def check_index(self):
        """The entries are those that the views say they have, one for each index."""
        wanted = []
        count = len([path for path in self.row["index_paths"].split(",") if path])
        for (tenant, name), row in self.views.items():
            rest, found = row["keys"], 0
            while rest:
                index, length = struct.unpack(">BI", rest[:5])
                wanted.append((tenant, index, rest[5:5 + length], name))
                rest, found = rest[5 + length:], found + 1
            need(found == count, "view %r of %s has %d keys", name, self.name, found)
        need(sorted(wanted) == self.index, "the index of %s has other entries", self.name)

    def check_failures(self, journal, consumed):
        for tenant, stream, seq, position, _, _, _, is_open in self.failures:
            event = journal.streams[tenant, stream][seq - 1]
            need(event.position == position, "a failure of %s is of another event", self.name)
            need(bool(is_open) == (position not in consumed), "the failure of %s at %d is %s",
                 self.name, position, "open" if is_open else "resolved")


def is_superseded(generation, generations):
    """Do queries go to a newer one of its name?"""
    return any(other.name == generation.name and other.row["routed"] and
               other.row["number"] > generation.row["number"] for other in generations)


def look(database, waiting=True):
    """Check everything; gives (journal, generations by name and number). `waiting`: what was not
    applied is queued, or an exception; views that a power cut has set back need a tick before that."""
    journal = Journal(database)
    if not os.path.exists(views_of(database)):
        return journal, {}
    with Copy(views_of(database)) as db:
        if not db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            return journal, {}
        need(db.execute("PRAGMA integrity_check").fetchone()[0] == "ok", "integrity of the views")
        generations = [Generation(db, row) for row in
                       db.execute("SELECT * FROM generation ORDER BY id")]
    for generation in generations:
        generation.check(journal, waiting, is_superseded(generation, generations))
    return journal, {generation.key: generation for generation in generations}


def exact(database):
    """The end state: everything that does not depend on when and how often."""
    journal, generations = look(database)
    return journal.exact(), {key: g.exact() for key, g in generations.items()}


def check_done(database, names=None):
    """Nothing is left to do: every generation is live and every event is in it, dead, or behind a
    dead one (a superseded one has no rows: it fails on what it lacks, or that is behind such an
    event); queries go to one of each name; no run is open."""
    journal, generations = look(database)
    routed = sorted(g.name for g in generations.values() if g.row["routed"])
    need(routed == sorted(names or NAMES), "queries go to %r", routed)
    for name, generation in generations.items():
        need(generation.live, "%r is not live", name)
        consumed = generation.check_watermarks(journal)
        if is_superseded(generation, generations.values()):
            blocked = set(generation.blocked_streams(journal, consumed))
            waiting = sum(1 for event in journal.events if event.position not in consumed and
                          (event.tenant, event.stream) in blocked)
        else:
            waiting = sum(1 for lane, position in journal.exceptions
                          if lane == generation.name and position not in consumed)
        total = sum(generation.row[k] for k in ("applied", "ignored", "skipped"))
        need(total + waiting == len(journal.events), "%r has %d events and %d waiting, of %d", name,
             total, waiting, len(journal.events))
    need(not journal.queued, "there are queued rows")
    need(all(state > 1 for _, _, state, _ in journal.runs), "a run is open")
    return journal, generations
