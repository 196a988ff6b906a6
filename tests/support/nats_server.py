#!/usr/bin/env python3
"""Run a program with a nats-server of its own: nats_server.py PROGRAM ARGUMENT…

EVERFOLD_TEST_NATS is the server's address. It has JetStream in a folder that is removed at the end.
"""
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time


def wait_for(port):
    end = time.monotonic() + 20
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if time.monotonic() > end:
                sys.exit("nats-server does not start")
            time.sleep(0.05)


def main():
    folder = tempfile.mkdtemp(prefix="everfold-nats-")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(["nats-server", "-a", "127.0.0.1", "-p", str(port), "-js", "-sd",
                               folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(port)
        address = f"nats://127.0.0.1:{port}"
        return subprocess.run(sys.argv[1:], env={**os.environ, "EVERFOLD_TEST_NATS": address},
                              check=False).returncode
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
