"""Many or large events are appended by SQL while no worker runs. The next process gives all of them positions, in bounded
memory, and no append of another tenant fails."""
import collections
import concurrent.futures
import json
import resource
import subprocess

import kit
from kit import Journey, on_stores

LARGE_BYTES = 1_000_000
MEMORY_LIMIT_KB = 250_000  # of any command; 17 MB of events at a time, a few copies of them, and the program itself
SMALL = 60_000

APPEND_LARGE = """
SELECT count(*) FROM everfold.append('acme', 'large-{stream}', NULL, (
    SELECT json_agg(json_build_object('type', 'large', 'data', json_build_object('text', repeat('x', {size}))))
      FROM generate_series(1, {events})));
"""
APPEND_SMALL = """
SELECT count(*) FROM generate_series(1, {calls}) AS n, LATERAL everfold.append('acme', 'small-' || n, NULL, (
    SELECT json_agg(json_build_object('type', 'small', 'data', json_build_object('n', m)))
      FROM generate_series(1, {events}) AS m));
"""


@on_stores("postgres")
class Arrivals(Journey):
    def setUp(self):
        super().setUp()
        self.ef("init")
        self.url = self.stores["EVERFOLD_JOURNAL"]

    def ef_within_memory(self, *words):
        """Runs a command whose address space is bounded, so that it fails where it would need more."""
        limit = MEMORY_LIMIT_KB * 1024
        done = subprocess.run([kit.EVERFOLD, *words], capture_output=True, cwd=self.dir, env=self.environment(),
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)),
                              timeout=kit.TIME_LIMIT_S)
        self.assertEqual(0, done.returncode, f"{words}: {done.stderr.decode()}")
        return done.stdout.decode()

    def check_log(self, expected):
        """The log has `expected` events per stream, with dense positions and seqs."""
        rows = kit.sql(self.url, "SELECT json_build_array(position, tenant, stream, seq) FROM everfold.log "
                                 "ORDER BY position;")
        seqs = collections.Counter()
        for number, line in enumerate(rows.splitlines(), start=1):
            position, tenant, stream, seq = json.loads(line)
            seqs[tenant, stream] += 1
            self.assertEqual((number, seqs[tenant, stream]), (position, seq))
        self.assertEqual(expected, seqs)

    def test_300_events_of_one_megabyte_by_sql_stop_no_append(self):
        with concurrent.futures.ThreadPoolExecutor() as sessions:
            list(sessions.map(lambda stream: kit.sql(self.url, APPEND_LARGE.format(
                stream=stream, size=LARGE_BYTES, events=60)), range(5)))
        self.ef_within_memory("event", "append", "x", "--tenant", "beta", "--type", "a", "--data", "{}")
        self.check_log({**{("acme", f"large-{n}"): 60 for n in range(5)}, ("beta", "x"): 1})

    def test_one_large_event_beside_many_small_ones(self):
        kit.sql(self.url, APPEND_SMALL.format(calls=SMALL // 200, events=100)
                + APPEND_LARGE.format(stream=0, size=LARGE_BYTES, events=1)
                + APPEND_SMALL.format(calls=SMALL // 200, events=100))
        head = json.loads(self.ef_within_memory("status", "-o", "json"))["journal"]["position"]
        self.assertEqual(SMALL + 1, head)
        self.ef_within_memory("event", "append", "x", "--tenant", "beta", "--type", "a", "--data", "{}")
        self.check_log({**{("acme", f"small-{n}"): 200 for n in range(1, SMALL // 200 + 1)}, ("acme", "large-0"): 1,
                        ("beta", "x"): 1})
