#!/usr/bin/env python3
"""team.py EVERFOLD [URL] - three workers on one PostgreSQL journal, and one that is killed.

EVERFOLD is the command, URL an empty database (or else POSTGRES_URL is); script/postgres starts a server to
try it on.
Three processes share the 16 partitions. The second is killed (SIGKILL) while events are appended. Its
leases expire after `worker.lease_ttl`, here 2 seconds, and the other two take over its partitions, each
lease under a higher token, so that writes of the killed worker would be refused. In the end every event was
applied exactly once. Prints the number of partitions per worker before and after, and the totals of the views.
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM = """projection sales version 1
  view data.shop

on sold
  n += 1
  total += data.price
"""
WORKERS, EVENTS, WAIT_S = 3, 300, 60


class Team:
    def __init__(self, command, url, folder):
        self.command, self.folder = command, folder
        self.environment = {**os.environ, "EVERFOLD_DATA": folder, "EVERFOLD_JOURNAL": url,
                            "EVERFOLD_VIEWS": url, "EVERFOLD_WORKER_LEASE_TTL": "2s"}
        self.workers = []
        self.sold = 0

    def everfold(self, *words, lines=""):
        done = subprocess.run([self.command, *words], input=lines, capture_output=True, text=True,
                              env=self.environment, timeout=WAIT_S, check=False)
        if done.returncode:
            sys.exit(f"everfold {' '.join(words)}: {done.stderr}")
        return done.stdout

    def prepare(self):
        program = os.path.join(self.folder, "sales.fold")
        with open(program, "w", encoding="utf-8") as out:
            out.write(PROGRAM)
        self.everfold("init")
        self.everfold("projection", "deploy", program)

    def start(self):
        for _ in range(WORKERS):
            self.workers.append(subprocess.Popen([self.command, "work", "--silent"],
                                                 env=self.environment, stderr=subprocess.DEVNULL))

    def sell(self):
        """Some events, to streams in all partitions."""
        first, self.sold = self.sold, self.sold + EVENTS
        self.everfold("event", "import", "-", lines="".join(
            json.dumps({"stream": f"till-{n % 64}", "type": "sold",
                        "data": {"shop": f"shop-{n % 4}", "price": n}}) + "\n"
            for n in range(first, self.sold)))

    def shares(self):
        """Number of partitions by pid of the holder; key 0: free partitions."""
        held = {}
        for partition in json.loads(self.everfold("partition", "ls", "-o", "json")):
            holder = partition["holder"] or ""
            pid = int(holder.split("-")[-2]) if holder.count("-") >= 2 else 0
            held[pid] = held.get(pid, 0) + 1
        return held

    def wait_for(self, wanted, pids):
        """Until exactly these processes hold all partitions, in about equal shares."""
        until = time.monotonic() + WAIT_S
        while time.monotonic() < until:
            held = self.shares()
            if set(held) == set(pids) and sorted(held.values()) == wanted:
                return [held[pid] for pid in pids]
            time.sleep(0.2)
        sys.exit(f"the partitions are with {self.shares()}, and {wanted} was waited for")

    def folded(self):
        rows = self.everfold("view", "query", "sales", "-o", "ndjson").splitlines()
        views = [json.loads(row)["data"] for row in rows]
        return sum(view["n"] for view in views), sum(view["total"] for view in views)

    def stop(self):
        for worker in self.workers:
            if worker.poll() is None:
                worker.send_signal(signal.SIGTERM)
        for worker in self.workers:
            worker.wait(WAIT_S)


def main():
    with tempfile.TemporaryDirectory() as folder:
        url = sys.argv[2] if len(sys.argv) > 2 else os.environ["POSTGRES_URL"]
        team = Team(sys.argv[1], url, folder)
        team.prepare()
        team.start()
        try:
            pids = [worker.pid for worker in team.workers]
            team.sell()
            print("three workers:", *team.wait_for([5, 5, 6], pids))
            team.workers[1].kill()
            team.sell()
            print("the second was killed:", *team.wait_for([8, 8], [pids[0], pids[2]]))
            team.sell()
            team.everfold("projection", "wait", "sales")
        finally:
            team.stop()
        count, total = team.folded()
        print(f"folded: {count} of {team.sold}, total {total} of {sum(range(team.sold))}")
        return count != team.sold or total != sum(range(team.sold))


if __name__ == "__main__":
    sys.exit(main())
