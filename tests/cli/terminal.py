"""A terminal for tests: a pseudo-terminal with a screen that holds what was drawn on it.

It knows the few sequences that the panel uses and refuses all others, and a character that would not
fit its line. So what a test reads is what a person would see.
"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import unicodedata

import support

SEQUENCE = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])")
WAIT_S = 60


class Screen:
    def __init__(self, width, height):
        self.other = False  # the alternate screen is on
        self.cursor = True
        self.wraps = True
        self.frames = 0
        self.normal = ""  # what was written while it was off
        self.resize(width, height)

    def resize(self, width, height):
        self.width, self.height = width, height
        self.rows = [""] * height
        self.x = self.y = 0

    def text(self):
        return "\n".join(self.rows)

    def put(self, c):
        wide = 2 if unicodedata.east_asian_width(c) in "WF" else 0 if unicodedata.combining(c) else 1
        if self.x + wide > self.width:
            raise AssertionError(f"line {self.y} is wider than {self.width}: {self.rows[self.y]}{c}")
        row = self.rows[self.y].ljust(self.x)
        self.rows[self.y] = row[:self.x] + c + row[self.x + 1:]
        self.x += wide

    def wipe(self):
        """From the cursor on, which stands on the last column when that is filled and nothing wraps."""
        self.rows[self.y] = self.rows[self.y][:min(self.x, self.width - 1)]

    def new_line(self):
        if self.y + 1 >= self.height:
            raise AssertionError(f"more than {self.height} lines: it scrolls")
        self.y += 1

    def mode(self, number, on):
        if number == "1049":
            self.other = on
            self.resize(self.width, self.height)
        elif number == "25":
            self.cursor = on
        elif number == "7":
            self.wraps = on
        else:
            raise AssertionError(f"unknown mode {number}")

    def obey(self, private, number, verb):
        if private:
            self.mode(number, verb == "h")
        elif verb == "H" and not number:
            self.x = self.y = 0
            self.frames += 1
        elif verb == "K" and not number:
            self.wipe()
        elif verb == "J" and number in ("", "2"):
            first = 0 if number else self.y + 1
            self.rows[first:] = [""] * (self.height - first)
            self.wipe()
        elif verb != "m":
            raise AssertionError(f"unknown sequence {private}{number}{verb}")

    def feed(self, text):
        """Take it; what is left is the beginning of a sequence."""
        while text:
            if text[0] == "\x1b":
                found = SEQUENCE.match(text)
                if not found:
                    if len(text) < 12:
                        return text
                    raise AssertionError(f"unknown sequence {text[:12]!r}")
                if found.group(3) == "m" or found.group(1) or self.other:
                    self.obey(*found.groups())
                text = text[found.end():]
                continue
            c, text = text[0], text[1:]
            if not self.other:
                self.normal += c
            elif c == "\r":
                self.x = 0
            elif c == "\n":
                self.new_line()
            elif c < " ":
                raise AssertionError(f"a control character: {c!r}")
            else:
                self.put(c)
        return ""


class Terminal:
    """A command on a pseudo-terminal of its own."""

    def __init__(self, case, words, width, height, env=None):
        self.case, self.screen, self.rest, self.bytes = case, Screen(width, height), "", b""
        self.master, self.slave = pty.openpty()
        self.size(width, height)
        self.modes = termios.tcgetattr(self.slave)
        self.process = subprocess.Popen(
            [support.BINARY, *map(str, words)], stdin=self.slave, stdout=self.slave,
            stderr=self.slave, cwd=case.dir, start_new_session=True, preexec_fn=self.take_terminal,
            env=case.environment(**{"TERM": "xterm", **(env or {})}))
        case.addCleanup(self.release)

    def take_terminal(self):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the program that runs the tests may ignore it

    def size(self, width, height):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def resize(self, width, height):
        """The old picture goes with the old size: what is drawn from here on has to fit."""
        self.read(0.6)
        self.process.send_signal(signal.SIGSTOP)
        self.read(0.2)
        self.size(width, height)
        self.screen.resize(width, height)
        self.process.send_signal(signal.SIGCONT)

    def release(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)

    def read(self, seconds):
        """What it writes in so long; False when it wrote nothing."""
        ready, _, _ = select.select([self.master], [], [], seconds)
        if not ready:
            return False
        self.bytes += os.read(self.master, 65536)
        text = self.bytes.decode("utf-8", "ignore")
        self.bytes = self.bytes[len(text.encode("utf-8")):]
        self.case.assertNotIn("Sanitizer", text)
        self.rest = self.screen.feed(self.rest + text)
        return True

    def until(self, condition, what="it"):
        end = time.monotonic() + WAIT_S
        while not condition():
            if time.monotonic() > end:
                self.case.fail(f"{what} did not come:\n{self.screen.text()}\n{self.screen.normal}")
            self.read(0.1)

    def shows(self, *words):
        for word in words:
            self.until(lambda: re.search(word, self.screen.text()), word)

    def press(self, key):
        os.write(self.master, key.encode())

    def end(self):
        """Wait for its end; everything that it wrote has been looked at."""
        self.until(lambda: self.process.poll() is not None, "its end")
        while self.read(0.2):
            pass
        return self.process.returncode

    def is_restored(self):
        screen = self.screen
        self.case.assertEqual((False, True, True), (screen.other, screen.cursor, screen.wraps))
        self.case.assertEqual(self.modes, termios.tcgetattr(self.slave))
