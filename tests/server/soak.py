#!/usr/bin/env python3
"""Mixed load on a server that is killed again and again, and exact totals afterwards.

usage: soak.py EVERFOLD [--minutes N] [--seed N]

Writers append events with ids of their own, and send one again until it is answered. Readers read what they
have written. Followers go on with Last-Event-ID. The server is killed (SIGKILL) every few seconds and started
again on the same directory. At the end each event is there once, the views have each once, and each follower
has seen every view as it is.
"""
import argparse
import http.client
import json
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

PROGRAM = """projection totals version 1
  view data.customer

on order.placed
  orders += 1
  total  += data.amount
"""
WRITERS, READERS, FOLLOWERS, CUSTOMERS = 6, 2, 3, 40
KILL_SECS = (2, 6)


class World:
    def __init__(self, program, seed):
        self.program, self.dice = program, random.Random(seed)
        self.dir = Path(tempfile.mkdtemp(prefix="everfold-soak-"))
        with socket.create_server(("127.0.0.1", 0)) as s:
            self.port = s.getsockname()[1]
        self.over = threading.Event()
        self.log = open(self.dir / "log", "wb")
        self.process, self.kills, self.troubles = None, 0, []

    def start(self):
        self.process = subprocess.Popen(
            [self.program, "serve", "--data", str(self.dir / "data"), "--listen", f"127.0.0.1:{self.port}"],
            stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)

    def kill(self, sig=signal.SIGKILL):
        self.process.send_signal(sig)
        return self.process.wait(60)

    def ask(self, method, path, body=None, headers=None, timeout=20):
        """(status, answer); OSError or HTTPException when there is no server."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            c.request(method, path, body=body, headers=headers or {})
            response = c.getresponse()
            return response.status, response.read()
        finally:
            c.close()

    def insist(self, method, path, body=None, until=(200, 201, 202)):
        """Ask until it is answered: whatever dies meanwhile."""
        while True:
            try:
                status, answer = self.ask(method, path, body)
                if status in until:
                    return json.loads(answer)
                if status != 503 and status != 504:
                    raise SystemExit(f"soak: {method} {path}: {status} {answer[:300]!r}")
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.05)


def write(world, number, sent):
    dice, n = random.Random(number), 0
    while not world.over.is_set():
        count = dice.choice((1, 1, 1, 10))
        events = [{"stream": f"s-{dice.randrange(200)}", "type": "order.placed", "id": f"w{number}-{n + i}",
                   "data": {"customer": f"c-{dice.randrange(CUSTOMERS)}", "amount": dice.randrange(1, 100)}}
                  for i in range(count)]
        n += count
        world.insist("POST", "/v1/events", json.dumps(events))
        sent += events


def read(world, number):
    dice = random.Random(1000 + number)
    while not world.over.is_set():
        try:
            world.ask("GET", f"/v1/views/totals/c-{dice.randrange(CUSTOMERS)}?current=true&wait=2s")
            world.ask("GET", "/v1/views/totals?sort=-total&limit=5")
            world.ask("GET", "/metrics")
        except (OSError, http.client.HTTPException):
            time.sleep(0.1)


def follow(world, seen, done):
    """`seen` is each view as it was last reported, or read after a reset."""
    last = None
    while not done.is_set():
        try:
            c = http.client.HTTPConnection("127.0.0.1", world.port, timeout=5)
            c.request("GET", "/v1/subscribe/views/totals", headers={"Last-Event-ID": last} if last else {})
            frame = {}
            for line in c.getresponse():
                key, _, value = line.decode().rstrip("\n").partition(": ")
                if key:
                    frame[key] = value
                elif "data" in frame:
                    view = json.loads(frame["data"])
                    if frame["event"] == "reset":
                        for n in range(CUSTOMERS):
                            status, answer = world.ask("GET", f"/v1/views/totals/c-{n}")
                            if status == 200:
                                seen[f"c-{n}"] = json.loads(answer)["data"]
                            elif status != 404:
                                raise OSError(f"a read was answered {status}")
                    else:
                        seen[view["view_id"]] = view["data"]
                    last, frame = frame["id"], {}
                if done.is_set():
                    break
        except (OSError, http.client.HTTPException, ValueError):
            time.sleep(0.1)


def check(world, sent, followers):
    wanted = {}
    for event in sent:
        view = wanted.setdefault(event["data"]["customer"], {"orders": 0, "total": 0})
        view["orders"] += 1
        view["total"] += event["data"]["amount"]
    head = world.insist("GET", "/v1/status")["head"]["position"]
    if head != len(sent):
        return f"{len(sent)} events were answered, the journal has {head}"
    page = world.insist("GET", "/v1/views/totals?limit=1000&current=true&wait=30s")
    found = {v["view_id"]: v["data"] for v in page["items"]}
    if found != wanted:
        return f"views differ: {[k for k in wanted if wanted[k] != found.get(k)][:5]}"
    until = time.monotonic() + 30
    while time.monotonic() < until and any(f != wanted for f in followers):
        time.sleep(0.1)
    for i, seen in enumerate(followers):
        if seen != wanted:
            return f"follower {i} missed {[k for k in wanted if wanted[k] != seen.get(k)][:5]}"
    unaccounted = [p["unaccounted"] for p in world.insist("GET", "/v1/projections")]
    return f"unaccounted {unaccounted}" if any(unaccounted) else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("everfold")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    world, sent, seen = World(options.everfold, options.seed), [], [{} for _ in range(FOLLOWERS)]
    done = threading.Event()
    print(f"# seed {options.seed}, {world.dir}", flush=True)
    world.start()
    world.insist("PUT", "/v1/projections/totals", PROGRAM)
    parts = [[] for _ in range(WRITERS)]
    writers = [threading.Thread(target=write, args=(world, i, parts[i])) for i in range(WRITERS)]
    others = [threading.Thread(target=read, args=(world, i)) for i in range(READERS)]
    tails = [threading.Thread(target=follow, args=(world, s, done), daemon=True) for s in seen]
    for thread in writers + others + tails:
        thread.start()
    until = time.monotonic() + 60 * options.minutes
    while time.monotonic() < until:
        time.sleep(min(world.dice.uniform(*KILL_SECS), max(0.1, until - time.monotonic())))
        world.kill()
        world.kills += 1
        world.start()
    world.over.set()
    for thread in writers + others:
        thread.join()
    sent = [event for part in parts for event in part]
    wrong = check(world, sent, seen)
    done.set()
    code = world.kill(signal.SIGTERM)
    if wrong or code != 0:
        print(f"not ok: {wrong or f'the server ended with {code}'}; seed {options.seed}, see {world.dir}")
        return 1
    shutil.rmtree(world.dir, ignore_errors=True)
    print(f"ok: {len(sent)} events, {world.kills} kills, every total exact")
    return 0


if __name__ == "__main__":
    sys.exit(main())
