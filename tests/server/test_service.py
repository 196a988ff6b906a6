"""Under a service manager: what it is told, what it hands over, and the unit file."""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
import urllib.request
from pathlib import Path

import support
from support import wait_until

UNIT = Path(__file__).parents[2] / "packaging" / "everfold.service"
EXPOSURE_MAX = 2.0  # of 10; what systemd calls OK begins at 3 and below


class Manager(unittest.TestCase):
    """What systemd does, as far as we need it: a socket to be told on, and one that listens."""

    def setUp(self):
        self.room = tempfile.TemporaryDirectory(prefix="everfold-service-")
        self.addCleanup(self.room.cleanup)
        self.at = Path(self.room.name)
        self.told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.told.close)
        self.told.bind(str(self.at / "notify"))
        self.told.settimeout(0.05)
        self.words = []

    def start(self, *arguments, **env):
        log = open(self.at / "log", "wb")
        self.addCleanup(log.close)
        self.process = subprocess.Popen(arguments, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                        close_fds=False,
                                        env={**os.environ, "NOTIFY_SOCKET": str(self.at / "notify"), **env})
        self.addCleanup(self.process.wait, 60)
        self.addCleanup(self.process.kill)

    def serve(self):
        return (support.EVERFOLD, "serve", "--data", str(self.at / "data"), "--listen", "127.0.0.1:0")

    def hears(self, word):
        try:
            while True:
                self.words += self.told.recv(4096).decode().splitlines()
        except socket.timeout:
            return [w for w in self.words if w.startswith(word)]

    def test_systemd_is_notified_of_ready_reload_stop_and_watchdog(self):
        self.start(*self.serve(), WATCHDOG_USEC="5000000")
        wait_until(lambda: self.hears("READY=1"))
        self.assertTrue(wait_until(lambda: self.hears("STATUS=serves at http://127.0.0.1:")))
        wait_until(lambda: len(self.hears("WATCHDOG=1")) > 1)
        self.process.send_signal(signal.SIGHUP)
        wait_until(lambda: self.hears("RELOADING=1") and self.hears("MONOTONIC_USEC="))
        wait_until(lambda: len(self.hears("READY=1")) == 2)
        self.process.send_signal(signal.SIGTERM)
        wait_until(lambda: self.hears("STOPPING=1"))
        self.assertEqual(0, self.process.wait(60))

    def test_settings_that_can_change_under_way_are_read_again(self):
        self.start(*self.serve())
        wait_until(lambda: self.hears("READY=1"))
        url = self.hears("STATUS=serves at ")[0].split()[-1]

        def log():
            return (self.at / "log").read_text()

        def reload(text, saying):
            (self.at / "data" / "everfold.conf").write_text(text)
            self.process.send_signal(signal.SIGHUP)
            wait_until(lambda: saying in log())
        reload("server.access_log = true\nlog.level = loud\n", "reload failed, nothing was changed: ")
        urllib.request.urlopen(url + "/livez?first", timeout=20).close()
        reload("server.access_log = true\nlog.level = info\nserver.body = 1m\n",
               "server.body has changed; restart to apply it")
        urllib.request.urlopen(url + "/livez", timeout=20).close()
        wait_until(lambda: "operation=livez" in log())
        self.assertEqual(1, log().count("operation=livez"))
        forwarded = urllib.request.Request(url + "/version", headers={"X-Forwarded-For": "10.1.2.3, 10.0.0.1"})
        urllib.request.urlopen(forwarded, timeout=20).close()
        wait_until(lambda: "operation=version" in log())
        line, = [text for text in log().splitlines() if "operation=version" in text]
        self.assertIn(" client=127.0.0.1 ", line)
        self.assertIn(' forwarded_for="10.1.2.3, 10.0.0.1" ', line)

    def test_a_watchdog_of_another_process_is_not_fed(self):
        self.start(*self.serve(), WATCHDOG_USEC="400000", WATCHDOG_PID="1")
        wait_until(lambda: self.hears("READY=1"))
        with self.assertRaises(AssertionError):
            wait_until(lambda: self.hears("WATCHDOG=1"), 1)

    def test_it_takes_a_socket_that_is_handed_over(self):
        listening = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listening.close)
        port = listening.getsockname()[1]
        hand_over = ("import os, sys; os.dup2(int(sys.argv[1]), 3, inheritable=True);"
                     "os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid()));"
                     "os.execv(sys.argv[2], sys.argv[2:])")
        os.set_inheritable(listening.fileno(), True)
        self.start(sys.executable, "-c", hand_over, str(listening.fileno()), *self.serve())
        wait_until(lambda: self.hears("READY=1"))
        self.assertTrue(self.hears(f"STATUS=serves at http://127.0.0.1:{port}"))
        with socket.create_connection(("127.0.0.1", port), timeout=10) as s:
            s.sendall(f"GET /livez HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
            self.assertTrue(s.recv(4096).startswith(b"HTTP/1.1 200"))

    def test_a_socket_that_does_not_listen_is_refused(self):
        hand_over = ("import os, sys; os.dup2(os.open('/dev/null', 0), 3, inheritable=True);"
                     "os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid()));"
                     "os.execv(sys.argv[1], sys.argv[1:])")
        self.start(sys.executable, "-c", hand_over, *self.serve())
        self.assertNotEqual(0, self.process.wait(60))
        self.assertIn("not a listening socket", (self.at / "log").read_text())


class Unit(unittest.TestCase):
    def test_the_unit_names_options_that_there_are(self):
        start = re.search(r"^ExecStart=\S+ (.*)$", UNIT.read_text(), re.M)[1].split()
        done = subprocess.run([support.EVERFOLD, start[0], "--help"], capture_output=True, text=True,
                              timeout=60)
        for option in (w.split("=")[0] for w in start if w.startswith("--")):
            self.assertIn(option, done.stdout + "--data")

    @unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze rates the unit")
    def test_its_exposure_stays_low(self):
        done = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", str(UNIT)],
                              capture_output=True, text=True, timeout=120)
        score = re.search(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)
        self.assertTrue(score, done.stdout + done.stderr)
        self.assertLessEqual(float(score[1]), EXPOSURE_MAX, done.stdout)
