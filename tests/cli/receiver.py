"""A receiver of webhooks for the tests, that answers well, or badly, or not at all."""
import http.server
import json
import sys
import threading


class Receiver(http.server.ThreadingHTTPServer):
    """Keeps what it is sent; `rule(event, headers)` says what it answers with: a status, or "hang" (nothing),
    "redirect", "endless" (200 and more than anybody reads), "drip" (200 and a byte now and then, for ever)."""
    daemon_threads = True

    def __init__(self, rule=lambda event, headers: 204):
        super().__init__(("127.0.0.1", 0), Handler)
        self.rule, self.got, self.tried, self.lock = rule, [], [], threading.Lock()
        self.ended = threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/hook"

    def events(self):
        with self.lock:
            return [event for event, _, _ in self.got]

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], OSError): # who hangs up is no news
            super().handle_error(request, client_address)

    def end(self):
        self.ended.set()
        self.shutdown()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def do_POST(self):
        server, body = self.server, self.rfile.read(int(self.headers["Content-Length"]))
        event = json.loads(body)
        with server.lock:
            server.tried.append((event["subject"], event["streamsequence"]))
        answer = server.rule(event, self.headers)
        if answer == "hang":
            server.ended.wait(60)
            return
        if answer == "redirect":
            self.send_response(307)
            self.send_header("Location", server.url)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if answer in ("endless", "drip") or 200 <= answer < 300:
            with server.lock:
                server.got.append((event, body, self.headers))
        if answer in ("endless", "drip"):
            self.send_response(200)
            self.end_headers()
            self.write_on(answer == "drip")
            return
        self.send_response(answer)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def write_on(self, slowly):
        """Until the other side has had enough of it."""
        try:
            for _ in range(600 if slowly else 10000):
                self.wfile.write(b"x" if slowly else b"x" * 4096)
                if slowly and self.server.ended.wait(0.1):
                    break
        except OSError:
            pass
        self.close_connection = True
