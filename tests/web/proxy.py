"""A small reverse proxy: what it is asked for under a prefix it asks a server for."""
import http.client
import http.server
import threading
import urllib.parse


class Proxy:
    """`strips`: the prefix is taken off, as by `proxy_pass http://server/` of nginx; otherwise it is passed on. `Host` is
    passed on, as by `proxy_set_header Host $http_host`."""

    def __init__(self, server_url, prefix, strips):
        target = urllib.parse.urlsplit(server_url)
        self.others = []  # paths outside the prefix that were asked for
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def forward(self):
                if self.path != prefix and not self.path.startswith(prefix + "/"):
                    proxy.others.append(self.path)
                    self.send_error(404)
                    return
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {k: v for k, v in self.headers.items() if k.lower() != "connection"}
                path = (self.path[len(prefix):] or "/") if strips else self.path
                upstream = http.client.HTTPConnection(target.hostname, target.port, timeout=30)
                try:
                    upstream.request(self.command, path, body or None, headers)
                    answer = upstream.getresponse()
                    data = answer.read()
                finally:
                    upstream.close()
                self.send_response(answer.status)
                for key, value in answer.getheaders():
                    if key.lower() not in ("transfer-encoding", "connection", "content-length"):
                        self.send_header(key, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PUT = do_DELETE = forward

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}{prefix}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
