#!/usr/bin/env python3
"""SIGKILL before every call that changes a file, while events are queued for a publisher, taken, handed to its
sink and marked; then look.

After each kill: what is marked was delivered, each stream's events came in their order and without a hole, and
each event that is published is queued, or passed by the mark and kept, or has an exception. Then the work is done
to its end: all of it is delivered, and nothing waits.
"""
import collections
import glob
import http.server
import json
import os
import sqlite3
import sys
import threading

import apply
from apply import FIRST, MORE, WORK, run_scenarios
from harness import FILES, MUTATING, Place, end_scratch, scratch, sweep_main
from oracle import Copy, Ledger, Oracle, Violation, need, partition_of

FILE_BYTES = 3000  # a dozen lines
OUT = "/out.ndjson"
OUT_FILES = tuple(OUT + suffix for suffix in ("", *(".%d" % n for n in range(1, 21))))


class Receiver(http.server.ThreadingHTTPServer):
    """Webhooks of all places at once, told apart by the path. Some events fail twice before they are taken."""
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.got, self.failed = collections.defaultdict(list), collections.Counter()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], OSError):  # a killed client closes its connection
            super().handle_error(request, client_address)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        again = event["data"]["i"] % 10 == 3 and self.server.failed[self.path, event["id"]] < 2
        if again:
            self.server.failed[self.path, event["id"]] += 1
        else:
            self.server.got[self.path].append(event)
        self.send_response(500 if again else 204)
        self.send_header("Content-Length", "0")
        self.end_headers()


RECEIVER = None


def of_files(place):
    """What is in the files, the oldest first. The last line may lack its end: it was never acknowledged."""
    names = glob.glob(place.path(OUT) + ".*")
    names.sort(key=lambda name: -int(name.rsplit(".", 1)[1]))
    text = "".join(open(name, encoding="utf-8").read() for name in [*names, place.path(OUT)]
                   if os.path.exists(name))
    return [json.loads(line) for line in text.split("\n")[:-1]]


def of_receiver(place):
    return list(RECEIVER.got[place.directory])


# --- the oracle --------------------------------------------------------------------------------


class Lane:
    """What the journal says of the publisher's lane."""

    def __init__(self, database):
        with Copy(database) as db:
            count = db.execute("SELECT partitions FROM state").fetchone()[0]
            lane = db.execute("SELECT id FROM lane WHERE name = 'mail'").fetchone()[0]
            marks = dict(tuple(row) for row in db.execute(
                "SELECT partition, position FROM lane_offset WHERE lane = ?", (lane,)))
            self.events = [tuple(row) for row in db.execute(
                "SELECT e.position, s.tenant, s.name, e.seq, e.id FROM event e"
                " JOIN stream s ON s.id = e.stream JOIN event_type t ON t.id = e.type"
                " WHERE t.publish ORDER BY e.position")]
            self.queued, self.kept = ({row[0] for row in db.execute(
                "SELECT id & ((1 << 48) - 1) FROM %s WHERE id >> 48 = ?" % table, (lane,))}
                for table in ("outbox_queue", "outbox_published"))
            self.exceptions = {row[0] for row in db.execute(
                "SELECT position FROM retry_row WHERE lane = ?", (lane,))}
        self.passed = {position for position, tenant, stream, *_ in self.events
                       if position <= marks.get(partition_of(tenant, stream, count), 0)}

    def check(self, delivered, most):
        published = {event[0] for event in self.events}
        need(self.queued == published - self.passed, "rows and marks disagree, at positions %r",
             sorted(self.queued ^ (published - self.passed))[:5])
        need(self.exceptions <= self.passed, "an exception is queued, too")
        need(self.kept == self.passed - self.exceptions, "what is kept as published is wrong, at %r",
             sorted(self.kept ^ (self.passed - self.exceptions))[:5])
        times = collections.Counter((event.get("tenant", ""), event["id"]) for event in delivered)
        for position, tenant, _, _, name in self.events:
            need(position not in self.kept or times[tenant, name],
                 "position %d is marked as published and was never delivered", position)
        need(not times or max(times.values()) <= most, "something was delivered %d times",
             max(times.values(), default=0))
        self.check_order(delivered)

    def check_order(self, delivered):
        wanted, seen = collections.defaultdict(list), collections.defaultdict(list)
        for _, tenant, stream, seq, _ in self.events:
            wanted[tenant, stream].append(seq)
        for event in delivered:
            row = seen[event.get("tenant", ""), event["subject"]]
            if event["streamsequence"] not in row:
                row.append(event["streamsequence"])
        for key, row in seen.items():
            need(row == wanted[key][:len(row)], "stream %r came as %r", key, row[:20])


class Scenario(apply.Scenario):
    calls, files = MUTATING + ("rename",), FILES + OUT_FILES
    sink, delivered = "file:", staticmethod(of_files)

    def clone(self, directory):
        """Each copy has a sink of its own."""
        place = self.prepared.clone(directory)
        path = place.path(OUT) if self.sink == "file:" else place.directory
        place.must("publisher", FILE_BYTES, env={"WORKER_SINK": self.sink + path})
        return place

    def look(self, place, most=3):
        """It was killed once or twice, so nothing was delivered more often than three times."""
        Lane(place.database).check(self.delivered(place), most)

    def finish(self, place):
        for verb in (self.victim, *self.rest):
            place.must(*verb)
        self.oracle.copy().check(place.database, Ledger(place.ledger))
        self.look(place, 3 if self.end else 1)
        lane, delivered = Lane(place.database), self.delivered(place)
        need(not lane.queued and not lane.exceptions, "something is left in the lane")
        need({event["id"] for event in delivered} == {event[4] for event in lane.events},
             "not all was delivered")
        return lane.events, lane.kept


class Hooked(Scenario):
    """The receiver refuses some messages at first: their streams wait, and the others do not."""
    files = FILES

    @property
    def sink(self):
        return "http://127.0.0.1:%d" % RECEIVER.server_address[1]

    delivered = staticmethod(of_receiver)

    def finish(self, place):
        end = super().finish(place)
        need(any(path == place.directory for path, _ in RECEIVER.failed), "nothing was refused")
        return end


# --- scenarios ---------------------------------------------------------------------------------


def queued(worker, directory):
    """Some events are in the lane."""
    place, oracle = Place(worker, directory), Oracle([FIRST, MORE])
    place.must("publisher", FILE_BYTES, env={"WORKER_SINK": "file:" + place.path(OUT)})
    place.must("append", *FIRST.args())
    oracle.check(place.database, Ledger(place.ledger))
    return place, oracle


def queuing(worker, directory):
    return Scenario(*queued(worker, directory), ("append", *MORE.args()), (WORK,))


def publishing(worker, directory):
    return Scenario(*queued(worker, directory), WORK)


def refusing(worker, directory):
    return Hooked(*queued(worker, directory), WORK)


SCENARIOS = [
    ("queuing events for a publisher survives a kill anywhere", queuing, 4),
    ("taking, writing to a file and marking survives a kill anywhere", publishing, 14),
    ("what a receiver refuses at first is delivered in order after a kill anywhere", refusing, 8),
]

# --- does it look? -----------------------------------------------------------------------------

MISCHIEF = [
    "DELETE FROM outbox_queue WHERE id >> 48 > 1 AND id = (SELECT max(id) FROM outbox_queue)",
    "UPDATE lane_offset SET position = position + 50 WHERE lane > 1 AND partition ="
    " (SELECT partition FROM outbox_queue WHERE id = (SELECT max(id) FROM outbox_queue))",
    "INSERT INTO outbox_published SELECT max(id), 1 FROM outbox_queue",
    "DELETE FROM outbox_published WHERE id = (SELECT min(id) FROM outbox_published)",
]


def change(lines, how):
    """Lines of a file: one is gone, two change places, or one comes four times."""
    return {"gone": lines[1:], "swapped": [*lines[:2], *sorted(lines[2:], reverse=True)],
            "often": lines + lines[-1:] * 3}[how]


def oracle_looks(worker, root):
    """Half is published; then rows, marks and files are made to lie."""
    place, _ = queued(worker, os.path.join(root, "good"))
    place.must(*WORK)
    place.must("append", *MORE.args())
    Lane(place.database).check(of_files(place), 3)
    done = 0
    for sql in MISCHIEF:
        bad = place.clone(os.path.join(root, "bad"))
        with sqlite3.connect(bad.database) as db:
            need(db.execute(sql).rowcount == 1, "it does nothing: %s", sql)
        db.close()
        done += is_seen(bad, of_files(bad), sql)
    events = of_files(place)
    for how in ("gone", "swapped", "often"):
        lines = change([json.dumps(event, sort_keys=True) for event in events], how)
        done += is_seen(place.clone(os.path.join(root, "bad")), [json.loads(line) for line in lines],
                        how)
    return "%d kinds of mischief" % done


def is_seen(place, delivered, what):
    try:
        Lane(place.database).check(delivered, 3)
    except Violation:
        place.remove()
        return 1
    raise AssertionError("not seen: " + what)


def run(worker, everything, keep, seed, report, only=None, until=None):
    global RECEIVER  # pylint: disable=global-statement
    root, RECEIVER = scratch(), Receiver()
    if not only:
        report.test("the oracle of publishers sees what it is there to see", oracle_looks, worker,
                    root)
    run_scenarios(SCENARIOS, worker, root, everything, seed, report, only, until)
    RECEIVER.shutdown()
    RECEIVER.server_close()
    end_scratch(root, keep, report)


if __name__ == "__main__":
    sys.exit(sweep_main(__doc__, run))
