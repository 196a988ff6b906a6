#!/usr/bin/env python3
"""Three tenants on one stream: events in NATS JetStream, views in LMDB, queries over HTTP.

usage: three_tenants.py EVERFOLD

Starts its own nats-server and Everfold in a temporary directory, publishes orders of three shops, and queries
the customers of each shop. An invalid message stops one shop only.
"""
import json
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

PROGRAM = """projection customers version 1
  view data.customer
  index spent

on order.placed
  orders += 1
  spent += data.amount
"""

# Shop, order number, customer and amount.
ORDERS = [("acme", 1, "ada", 120), ("acme", 2, "bob", 35), ("globex", 1, "ada", 7),
          ("acme", 3, "ada", 80), ("initech", 1, "eve", 12.50), ("globex", 2, "carl", 99)]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Publisher:
    """All that it takes to publish to NATS."""

    def __init__(self, port):
        end = time.monotonic() + 20
        while True:
            try:
                self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
                break
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
        self.lines = self.socket.makefile("rwb")
        self.lines.readline()
        self.lines.write(b'CONNECT {"verbose":false}\r\nSUB acks 1\r\n')

    def publish(self, subject, body):
        """Returns the sequence, which is the event's position."""
        self.lines.write(f"PUB {subject} acks {len(body)}\r\n".encode() + body + b"\r\n")
        self.lines.flush()
        while (words := self.lines.readline().split())[0] != b"MSG":
            pass
        answer = json.loads(self.lines.read(int(words[-1])))
        self.lines.readline()
        return answer["seq"]


def ask(port, path, shop):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}",
                                     headers={"X-Tenant-Id": shop})
    return json.load(urllib.request.urlopen(request, timeout=20))


def wait_until(what):
    end = time.monotonic() + 30
    while not what():
        if time.monotonic() > end:
            sys.exit("that did not happen in time")
        time.sleep(0.05)


def is_up(port):
    try:
        return urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=5).status == 200
    except OSError:
        return False


def show(port, wanted):
    """The customers of each shop, once all orders are in."""
    def of(shop):
        answer = ask(port, "/v1/views/customers?sort=-spent", shop)
        return [(v["view_id"], v["data"]["orders"], v["data"]["spent"]) for v in answer["items"]]
    wait_until(lambda: sum(orders for shop in wanted for _, orders, _ in of(shop)) ==
               sum(wanted.values()))
    for shop in wanted:
        print(f"{shop}: " + ", ".join(f"{who} {n} for {spent}" for who, n, spent in of(shop)))


def run(everfold, folder, nats, http):
    (folder / "projections").mkdir()
    (folder / "projections" / "customers.fold").write_text(PROGRAM)
    stores = ["--data", folder / "data", "--journal", f"nats://127.0.0.1:{nats}/EVENTS", "--views",
              f"lmdb:{folder}/views"]
    publisher = Publisher(nats)
    subprocess.run([everfold, "init", "--quiet", *stores], check=True, stdout=subprocess.DEVNULL)
    server = subprocess.Popen([everfold, "serve", "--quiet", "--log-level", "error", "--listen",
                               f"127.0.0.1:{http}", "--projections", folder / "projections",
                               *stores])
    try:
        wait_until(lambda: is_up(http))
        for shop, order, who, amount in ORDERS:
            publisher.publish(f"tenant.{shop}.aggregate.order.{order}",
                              json.dumps({"type": "order.placed",
                                          "data": {"customer": who, "amount": amount}}).encode())
        show(http, {"acme": 3, "globex": 2, "initech": 1})
        at = publisher.publish("tenant.globex.aggregate.order.3", b"what is this?")
        publisher.publish("tenant.acme.aggregate.order.4",
                          b'{"type":"order.placed","data":{"customer":"bob","amount":5}}')
        publisher.publish("tenant.globex.aggregate.order.4",
                          b'{"type":"order.placed","data":{"customer":"ada","amount":1}}')
        print(f"position {at} is no event:")
        show(http, {"acme": 4, "globex": 2, "initech": 1})
    finally:
        server.terminate()
        server.wait()


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="everfold-jetstream-"))
    nats, http = free_port(), free_port()
    broker = subprocess.Popen(["nats-server", "-a", "127.0.0.1", "-p", str(nats), "-js", "-sd",
                               folder / "broker"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    try:
        run(pathlib.Path(sys.argv[1]).resolve(), folder, nats, http)
    finally:
        broker.terminate()
        broker.wait()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
