"""What must be true of a journal that somebody was killed at, found without any code of ours.

The database is copied and the copy is read by Python's own sqlite3, so that looking changes nothing
and recovery is done twice by two readers. Encoding and hash are written down here a second time
(after src/journal/event.c), on purpose.
"""
import bisect
import collections
import hashlib
import itertools
import os
import shutil
import sqlite3
import struct
import tempfile
import zlib

HEAD_MAGIC = b"EFHEAD01"
FAILED, DEAD, PENDING = 2, 3, 0
ROW_STATUS = {"failed": FAILED, "dead": DEAD, "pending": PENDING}


class Violation(Exception):
    """A promise is broken; the text says which, and where."""


def need(condition, text, *values):
    if not condition:
        raise Violation(text % values)


class Workload:
    """`total` events of a seed, spread over `streams`, each a pure function of seed and number."""

    def __init__(self, total, streams, batch, seed, pad=200):
        self.total, self.streams, self.batch, self.seed, self.pad = total, streams, batch, seed, pad

    def args(self):
        return [str(n) for n in (self.total, self.streams, self.batch, self.seed, self.pad)]

    def event(self, i):
        """tenant, stream, type, data, meta of event i: see make_event in worker.c."""
        pad = "x" * ((i * 37 + self.seed) % (self.pad + 1))
        return ("t2" if i % 5 == 0 else "", "s-%d" % ((i * 7 + self.seed) % self.streams),
                "type-%d" % (i % 3), '{"seed":%d,"i":%d,"pad":"%s"}' % (self.seed, i, pad),
                '{"trace":"%d"}' % i if i % 4 == 0 else "{}")


class Ledger:
    """What the library has answered, from the files that worker.c writes."""

    def __init__(self, *paths):
        self.places, self.first, self.errors = {}, {}, []
        self.taken, self.marks, self.exceptions, self.requeued = {}, {}, {}, set()
        for path in paths:
            if os.path.exists(path):
                with open(path, encoding="ascii") as lines:
                    for line in lines:
                        self.add(line)

    def add(self, line):
        if not line.endswith("\n"):
            return  # the worker died within it
        kind, *rest = line.split()
        if kind == "a":
            self.add_place(*(int(word) for word in rest))
        elif kind == "e":
            self.errors.append(rest[0])
        elif kind == "t":
            self.taken[int(rest[0])] = int(rest[1])
        elif kind == "m":
            self.marks[int(rest[0])] = max(self.marks.get(int(rest[0]), 0), int(rest[1]))
        elif kind == "x":
            self.exceptions[int(rest[0])] = ROW_STATUS[rest[1]]
        elif kind == "q":
            need(int(rest[0]) not in self.requeued, "position %s was put back twice", rest[0])
            self.requeued.add(int(rest[0]))

    def add_place(self, seed, i, seq, position, duplicate):
        before = self.places.setdefault((seed, i), (seq, position))
        need(before == (seq, position), "event %d of seed %d was acknowledged at %r and at %r", i,
             seed, before, (seq, position))
        if not duplicate:
            need((seed, i) not in self.first, "event %d of seed %d was written twice", i, seed)
            self.first[(seed, i)] = True

    def last(self):
        return max((position for _, position in self.places.values()), default=0)


# A row of the event table. Whole tables are compared as plain tuples, which is fast.
Event = collections.namedtuple("Event", "position stream seq prev jump type schema time recorded "
                               "id data meta sum hash")


def encode(row, tenant, stream, kind):
    """The bytes that are hashed."""
    texts = (tenant, stream, row.id, kind, row.data, row.meta)
    out = struct.pack("<BqqIqq", 1, row.seq, row.position, row.schema & 0xFFFFFFFF, row.time,
                      row.recorded)
    return out + b"".join(struct.pack("<I", len(t.encode())) + t.encode() for t in texts)


def partition_of(tenant, stream, count):
    """After src/core/placement.c, a second time."""
    crc = zlib.crc32(stream.encode())
    if tenant:
        crc = zlib.crc32(tenant.encode(), zlib.crc32(struct.pack("<Q", len(tenant.encode())), crc))
    return crc % count


class Copy:
    """The database as another process would find it now."""

    def __init__(self, database):
        self.directory = tempfile.mkdtemp(prefix="oracle-", dir=os.path.dirname(database))
        path = os.path.join(self.directory, "copy.db")
        for suffix in ("", "-wal"):
            if os.path.exists(database + suffix):
                shutil.copyfile(database + suffix, path + suffix)
        self.db = sqlite3.connect(path)
        self.db.row_factory = sqlite3.Row

    def __enter__(self):
        return self.db

    def __exit__(self, *_):
        self.db.close()
        shutil.rmtree(self.directory)


class Oracle:
    """Knows the workloads of a journal, and what it has proved already in an earlier look."""

    def __init__(self, workloads, takes=False):
        self.workloads = {w.seed: w for w in workloads}
        self.takes = takes        # rows are taken from it, by worker.c's rule
        self.partition = {}       # of each stream's id; a row that says otherwise is wrong
        self.proved = []          # rows whose bytes and hash were checked before
        self.ids = set()          # theirs, with the tenant
        self.places = {}          # their positions by stream and seq, whose links were checked before
        self.count = 0

    def copy(self):
        other = Oracle(self.workloads.values(), self.takes)
        other.partition, other.proved = dict(self.partition), list(self.proved)
        other.ids = set(self.ids)
        other.places = self.places  # replaced by a check, and never changed
        return other

    def check(self, database, ledger, alone=True):
        """`alone`: only one process wrote, so that the head file may not trail what it was told."""
        with Copy(database) as db:
            has_schema = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
            if not has_schema:
                need(not ledger.places, "the schema is gone, though events were acknowledged")
                return
            need(db.execute("PRAGMA integrity_check").fetchone()[0] == "ok", "integrity_check")
            self.look(db, database, ledger, alone)

    def look(self, db, database, ledger, alone):
        streams = {r["id"]: (r["tenant"], r["name"]) for r in db.execute("SELECT * FROM stream")}
        types = {r["id"]: r["name"] for r in db.execute("SELECT id, name FROM event_type")}
        plain = db.cursor()
        plain.row_factory = None
        rows = plain.execute("SELECT %s FROM event ORDER BY position" %
                             ", ".join(Event._fields)).fetchall()
        self.count = len(rows)
        known = len(self.proved)
        self.check_events(rows, streams, types)
        by_stream = self.check_streams(rows, known, streams)
        self.check_acknowledged(rows, ledger)
        self.check_heads(db, by_stream)
        self.check_ids(db, len(rows))
        count = db.execute("SELECT partitions FROM state").fetchone()[0]
        for stream, names in streams.items():
            self.partition.setdefault(stream, partition_of(*names, count))
        marks = self.check_outbox(db, rows, by_stream, ledger)
        if self.takes:
            self.check_exceptions(db, rows, marks, ledger)
        self.check_head_file(database, rows, ledger, alone)

    def check_events(self, rows, streams, types):
        """Positions dense, bytes as sent, ids once, hashes a chain; what was proved unchanged."""
        known = len(self.proved)
        need(len(rows) >= known, "positions %d to %d are gone", len(rows) + 1, known)
        if rows[:known] != self.proved:
            changed = next(i for i in range(known) if rows[i] != self.proved[i])
            raise Violation("position %d has changed" % (changed + 1))
        before = rows[known - 1][-1] if known else bytes(32)
        for place, row in enumerate(map(Event._make, rows[known:]), known + 1):
            need(row.position == place, "position %d is where %d should be", row.position, place)
            tenant, stream = streams.get(row.stream, (None, None))
            need(tenant is not None, "position %d has no stream", place)
            need((tenant, row.id) not in self.ids, "id %s is there twice", row.id)
            kind = types.get(row.type)
            self.check_sent(row, tenant, stream, kind)
            before = hashlib.sha256(before + encode(row, tenant, stream, kind)).digest()
            need(before == row.hash, "the hash of position %d does not follow", place)
            self.ids.add((tenant, row.id))
            self.proved.append(rows[place - 1])

    def check_sent(self, row, tenant, stream, kind):
        _, seed, i = row.id.split("-")
        workload = self.workloads.get(int(seed))
        need(workload and int(i) < workload.total, "nobody sent id %s", row.id)
        need((tenant, stream, kind, row.data, row.meta) == workload.event(int(i)),
             "the event at position %d is not as it was sent", row.position)

    def check_streams(self, rows, known, streams):
        """Seqs dense, links right, of rows behind the `known` that have not changed since they were checked. Gives each
        stream's positions, by seq."""
        by_stream = {stream: list(places) for stream, places in self.places.items()}
        for position, stream, seq, prev, jump, *_ in rows[known:]:
            places = by_stream.setdefault(stream, [0])
            need(seq == len(places), "position %d has seq %d, not %d", position, seq, len(places))
            lower = seq & (seq - 1)
            need(prev == places[seq - 1], "prev of position %d is wrong", position)
            need(jump == (0 if lower == seq - 1 else places[lower]),
                 "jump of position %d is wrong", position)
            places.append(position)
        need(set(by_stream) == set(streams), "streams without an event: %r",
             set(streams) - set(by_stream))
        self.places = by_stream
        return by_stream

    def check_acknowledged(self, rows, ledger):
        for (seed, i), (seq, position) in ledger.places.items():
            need(position <= len(rows), "event %d of seed %d, acknowledged at %d, is lost", i, seed,
                 position)
            row = Event._make(rows[position - 1])
            need((row.id, row.seq) == ("e-%d-%d" % (seed, i), seq),
                 "position %d is not the event that was acknowledged there", position)

    @staticmethod
    def check_heads(db, by_stream):
        """Each head is an event of its stream, its ladder is right, and none is too old."""
        state = db.execute("SELECT * FROM state").fetchone()
        heads = {r["stream"]: r for r in db.execute("SELECT * FROM stream_head")}
        for stream, head in heads.items():
            places, seq, rungs = by_stream.get(stream, [0]), head["seq"], []
            need(0 < seq < len(places), "the head of stream %d has no event", stream)
            while seq:
                rungs.insert(0, places[seq])
                seq &= seq - 1
            need(head["position"] == rungs[-1], "the head of stream %d is elsewhere", stream)
            need(head["ladder"] == struct.pack("<%dq" % len(rungs), *rungs),
                 "the ladder of stream %d is wrong", stream)
        for stream, places in by_stream.items():
            upto = state["target"] if stream <= state["heads_after"] else state["settled"]
            seq = bisect.bisect_right(places, upto) - 1
            need(seq == 0 or (stream in heads and heads[stream]["seq"] >= seq),
                 "the head of stream %d is older than its seq %d", stream, seq)

    @staticmethod
    def check_ids(db, last):
        """The runs that count name each settled position once; one that is being made names the
        next. The output of a merge does not count yet, and has a copy of what its inputs have up to
        its last hash; a run that was merged counts no more."""
        state = db.execute("SELECT * FROM state").fetchone()
        runs = {r["run"]: r for r in db.execute("SELECT * FROM id_run")}
        outputs = {r["merging_into"] for r in runs.values()} - {0}
        need(len(outputs) <= 1 and outputs <= set(runs), "more than one merge, or none to merge into")
        found, making, before, copied, inputs = [], [], {}, [], []
        need(state["settled"] <= last and state["target"] <= last, "settled past the last event")
        chunks = db.execute("SELECT run, lo, entries FROM id_chunk ORDER BY run, lo")
        for run, lo, entries in chunks:
            pairs = list(struct.iter_unpack("<qq", entries))
            need(pairs and pairs[0][0] == lo, "a chunk of run %d begins elsewhere", run)
            need(pairs == sorted(pairs) and before.get(run, pairs[0]) <= pairs[0],
                 "run %d is not in order", run)
            before[run] = pairs[-1]
            need(run in runs or (state["target"] and run == state["next_run"]),
                 "chunks of run %d, which there is not", run)
            if run in outputs:
                copied.extend(pairs)
            elif run not in runs:
                making.extend(position for _, position in pairs)
            elif runs[run]["level"] >= 0:
                found.extend(position for _, position in pairs)
                inputs.extend(pairs if runs[run]["merging_into"] else [])
        need(not copied or copied == sorted(p for p in inputs if p[0] <= copied[-1][0]),
             "the output of a merge is no copy of its inputs")
        need(sorted(found) == list(range(1, state["settled"] + 1)),
             "the id runs do not cover positions 1 to %d once each", state["settled"])
        need(len(making) == state["ids_after"] and len(set(making)) == len(making) and
             all(state["settled"] < p <= state["target"] for p in making),
             "the run that is being made does not fit the state row")

    def check_outbox(self, db, rows, by_stream, ledger):
        """A row for every event above its partition's mark, and none below."""
        marks = {r["partition"]: r["position"] for r in
                 db.execute("SELECT partition, position FROM lane_offset WHERE lane = 1")}
        plain = db.cursor()
        plain.row_factory = None
        queued = dict(plain.execute("SELECT id & (1 << 48) - 1, partition FROM outbox_queue WHERE id >> 48 = 1"))
        need(not queued or max(queued) <= len(rows), "an outbox row without its event")
        for position, partition in itertools.chain(queued.items(), ledger.taken.items()):
            if self.partition.setdefault(rows[position - 1][1], partition) != partition:  # need() would cost more
                raise Violation("position %d is in another partition" % position)
        wanted = set()
        for stream, places in by_stream.items():
            partition = self.partition[stream]
            wanted.update(places[max(1, bisect.bisect_right(places, marks.get(partition, 0))):])
        need(wanted == set(queued), "outbox rows and marks disagree, at positions %r",
             sorted(wanted ^ set(queued))[:5])
        for partition, upto in ledger.marks.items():
            need(marks.get(partition, 0) >= upto, "the mark of partition %d went back", partition)
        return marks

    def check_exceptions(self, db, rows, marks, ledger):
        """worker.c: positions that end in 3 fail and in 7 die, in one commit with the mark."""
        found = {r["position"]: r for r in db.execute(
            "SELECT x.* FROM retry_row x JOIN lane l ON l.id = x.lane"
            " WHERE l.name = 'proj'")}
        for position, stream, *_ in rows:
            passed = position <= marks.get(self.partition[stream], 0)
            need((position in found) == (passed and position % 10 in (3, 7)),
                 "position %d: its exception and its mark disagree", position)
        firsts = {}
        for row in found.values():
            firsts[row["stream"]] = min(firsts.get(row["stream"], row["seq"]), row["seq"])
        need(all(bool(r["first"]) == (r["seq"] == firsts[r["stream"]]) for r in found.values()),
             "another exception than the first of its stream is marked so")
        back = {p for p, r in found.items() if r["status"] == PENDING}
        need(all(p % 10 == 7 for p in back), "an exception that was not dead was put back")
        need(all(found[p]["status"] == (FAILED if p % 10 == 3 else DEAD)
                 for p in found if p not in back), "an exception has a wrong status")
        # One audit entry counts the rows of a whole requeue, in one commit with them.
        counts = [r["rows"] for r in
                  db.execute("SELECT rows FROM audit WHERE action = 'requeue'")]
        need(all(count > 0 for count in counts), "an audit entry is about no row")
        need(sum(counts) == len(back), "%d rows were put back, the audit entries count %d",
             len(back), sum(counts))
        need(set(ledger.exceptions) <= set(found), "an acknowledged exception is lost")
        need(ledger.requeued <= back, "an acknowledged requeue is lost")

    @staticmethod
    def check_head_file(database, rows, ledger, alone):
        path, best = database + "-head", (0, None)
        if os.path.exists(path):
            with open(path, "rb") as file:
                content = file.read()
            for at in (0, 512):
                record = content[at:at + 64]
                if record[:8] == HEAD_MAGIC and len(record) == 64:
                    position, _, digest = struct.unpack("<qq32s", record[8:56])
                    best = max(best, (position, digest), key=lambda b: b[0])
        need(best[0] <= len(rows), "the head file is ahead: %d of %d", best[0], len(rows))
        need(not best[0] or rows[best[0] - 1][-1] == best[1], "the head file's hash is another")
        need(not alone or best[0] >= ledger.last(), "the head file says %d, %d was acknowledged",
             best[0], ledger.last())
