"""proxy.py - what stands between a client and a PostgreSQL server, and lets things go wrong there.

It passes bytes on, until it is told to hold them (a network that is parted: nothing comes through, and
nobody is told), to cut (all connections end), or to lose the Nth COMMIT that comes along: the COMMIT
itself, so that the server rolls back, or the answer to it, so that the server has committed. Either way
the client sees a connection that ended while it waited for a commit.

It also counts round trips, over all connections: what a client sends after an answer has come begins one, and
its answer ends it. A delay of the answers makes what is sent at the same time one round trip.
"""
import contextlib
import socket
import threading
import time

COMMIT = b'COMMIT\0'


class Proxy:
    def __init__(self, port, delay_s=0):
        self.to, self.delay_s = port, delay_s
        self.trips, self.answered = 0, True
        self.open_way = threading.Event()
        self.open_way.set()
        self.lock = threading.Lock()
        self.links = set()
        self.commits = 0
        self.lost_at, self.lose_answer, self.met = 0, False, False
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def url(self, database='postgres'):
        return f'postgres://postgres@127.0.0.1:{self.port}/{database}'

    def lose(self, nth, answer):
        """Of the commits that come from now on, the Nth; met says whether it came."""
        with self.lock:
            self.commits, self.lost_at, self.lose_answer, self.met = 0, nth, answer, False

    def hold(self):
        self.open_way.clear()

    def release(self):
        self.open_way.set()

    def cut(self):
        with self.lock:
            links = list(self.links)
        for link in links:
            link.close()

    def close(self):
        self.listener.close()
        self.release()
        self.cut()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self.connect, args=(client,), daemon=True).start()

    def connect(self, client):
        self.open_way.wait()
        try:
            server = socket.create_connection(('127.0.0.1', self.to))
        except OSError:
            client.close()
            return
        link = Link(self, client, server)
        with self.lock:
            self.links.add(link)
        threading.Thread(target=link.pump, args=(server, client, link.back), daemon=True).start()
        link.pump(client, server, link.there)
        with self.lock:
            self.links.discard(link)

    def begin_trip(self):
        with self.lock:
            self.answered = False

    def end_trip(self):
        time.sleep(self.delay_s)
        with self.lock:
            self.trips += not self.answered
            self.answered = True

    def count_commit(self):
        """A commit comes along: is it the one?"""
        with self.lock:
            self.commits += 1
            if self.commits != self.lost_at:
                return False
            self.met = True
            return True


class Link:
    def __init__(self, proxy, client, server):
        self.proxy, self.client, self.server = proxy, client, server
        self.mute = False
        self.seen = b''

    def there(self, piece):
        """What of a piece goes to the server; None ends the connection."""
        self.proxy.begin_trip()
        self.seen = self.seen[1 - len(COMMIT):] + piece
        if COMMIT in self.seen:
            self.seen = b''
            if self.proxy.count_commit():
                self.mute = True
                return piece if self.proxy.lose_answer else None
        return piece

    def back(self, piece):
        self.proxy.end_trip()
        if not self.mute:
            return piece
        return None if COMMIT in piece else b''

    def pump(self, source, target, look):
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                self.proxy.open_way.wait()
                piece = look(piece)
                if piece is None:
                    break
                target.sendall(piece)
        self.close()

    def close(self):
        for end in (self.client, self.server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
