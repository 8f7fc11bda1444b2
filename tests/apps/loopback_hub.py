"""A small model hub on this machine: the requests that pulling a model makes, and whatever may go wrong with them."""

import gzip
import hashlib
import http.server
import json
import re
import ssl
import threading
import time
import urllib.parse

COMMIT = "c0ffee" + "0" * 34


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def git_hash(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, client_address):
        """A client that goes away is no news."""


class Hub:
    """Serves `files` of the repository owner/name at one port, their bytes at another, as large hubs do. `faults` are
    functions of a handler and a file's name, called in turn for requests of bytes; one that returns true has answered.
    `refusals`: (status, headers) for the next requests of the hub. With a `certificate`, a file that has its key as well,
    the hub speaks TLS, the other port does not."""

    def __init__(self, files, repository="owner/Tiny-GGUF", commit=COMMIT, certificate=None):
        self.files, self.repository, self.commit = dict(files), repository, commit
        self.faults, self.refusals, self.requests = [], [], []
        self.listed = {}  # what the list says otherwise of a file
        self.served = {}  # bytes that are sent instead of the listed ones
        self.plain = set()  # small files, which the hub sends itself and knows by Git's hash
        self.token = None
        self.lock = threading.Lock()
        self._servers = [self._start(self._answer_hub), self._start(self._answer_store)]
        scheme = "http"
        if certificate is not None:
            scheme = "https"
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._servers[0].socket = context.wrap_socket(self._servers[0].socket, server_side=True)
        ports = [server.server_address[1] for server in self._servers]
        self.url, self.store = f"{scheme}://127.0.0.1:{ports[0]}", f"http://127.0.0.1:{ports[1]}"

    def _start(self, answer):
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                path = urllib.parse.urlsplit(self.path)
                with hub.lock:
                    hub.requests.append((self.command, path.path, dict(self.headers)))
                answer(self, urllib.parse.unquote(path.path))

            do_HEAD = do_GET

            def log_message(self, *_):
                pass

            def send(self, status, body=b"", **headers):
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), str(value))
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

        server = _Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return server

    def stop(self):
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def asked(self, part):
        """The headers of all requests whose path has this part."""
        return [headers for _, path, headers in self.requests if part in path]

    def fetched(self, name):
        return self.asked("/store/" + sha256(self.files[name]))

    def listing(self):
        files = []
        for name, content in self.files.items():
            entry = {"rfilename": name, "size": len(content), "blobId": git_hash(content)}
            if name not in self.plain:
                entry["lfs"] = {"sha256": sha256(content), "size": len(content), "pointerSize": 130}
            entry.update(self.listed.get(name, {}))
            files.append(entry)
        return {"id": self.repository, "sha": self.commit, "siblings": files}

    def _answer_hub(self, handler, path):
        if self.refusals:
            status, headers = self.refusals.pop(0)
            return handler.send(status, b"{}", **headers)
        if self.token is not None and handler.headers.get("Authorization") != f"Bearer {self.token}":
            return handler.send(401, X_Error_Code="RepoNotFound", X_Error_Message="Repository not found")
        if path.startswith("/store/"):  # as a proxy
            return self._answer_store(handler, path)
        if path.startswith(f"/api/models/{self.repository}"):
            return handler.send(200, json.dumps(self.listing()).encode(), Content_Type="application/json")
        named = re.fullmatch(rf"/{re.escape(self.repository)}/resolve/(main|{self.commit})/(.*)", path)
        if not named or named[2] not in self.files:
            return handler.send(404, X_Error_Code="EntryNotFound" if named else "RepoNotFound")
        name, content = named[2], self.files[named[2]]
        if name in self.plain:
            return self._send_bytes(handler, name, {"X_Repo_Commit": self.commit, "ETag": f'"{git_hash(content)}"'})
        return handler.send(302, X_Repo_Commit=self.commit, X_Linked_Etag=f'"{sha256(content)}"',
                            X_Linked_Size=len(content), Location=f"{self.store}/store/{sha256(content)}")

    def _answer_store(self, handler, path):
        for name, content in self.files.items():
            if path == "/store/" + sha256(content):
                return self._send_bytes(handler, name, {})
        return handler.send(404)

    def _send_bytes(self, handler, name, headers):
        with self.lock:
            fault = self.faults.pop(0) if self.faults and handler.command == "GET" else None
        if fault is not None and fault(handler, name):
            return None
        return self.send_range(handler, name, headers=headers)

    def content(self, name):
        return self.served.get(name, self.files[name])

    def send_range(self, handler, name, most=None, pause_s=0.0, headers=None):
        """The bytes that were asked for; with `most` only so many of them, and then the connection ends."""
        content = self.content(name)
        asked = re.fullmatch(r"bytes=(\d+)-", handler.headers.get("Range", ""))
        begin = int(asked[1]) if asked else 0
        if asked and begin >= len(content):
            return handler.send(416, Content_Range=f"bytes */{len(content)}")
        handler.send_response(206 if asked else 200)
        for key, value in (headers or {}).items():
            handler.send_header(key.replace("_", "-"), value)
        if asked:
            handler.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        handler.send_header("Content-Length", str(len(content) - begin))
        handler.end_headers()
        if handler.command == "HEAD":
            return None
        body = content[begin:] if most is None else content[begin:begin + most]
        for at in range(0, len(body), 1 << 16):
            handler.wfile.write(body[at:at + (1 << 16)])
            if pause_s:
                handler.wfile.flush()
                time.sleep(pause_s)
        if most is not None:
            handler.close_connection = True
        return None

    # ---- faults

    def cut(self, most):
        """Sends so many bytes and ends the connection."""
        return lambda handler, name: self.send_range(handler, name, most) is None

    def slow(self, pause_s):
        """Waits after each 64 KiB."""
        return lambda handler, name: self.send_range(handler, name, pause_s=pause_s) is None

    def refuse(self, status, **headers):
        return lambda handler, name: handler.send(status, **headers) is None

    def whole(self, handler, name):
        """Ignores the range."""
        return handler.send(200, self.content(name)) is None

    def compressed(self, handler, name):
        """Compresses though nobody asked for it."""
        return handler.send(200, gzip.compress(self.content(name)), Content_Encoding="gzip") is None

    def unsized(self, content):
        """Sends other bytes without their number, and ends the connection."""
        def answer(handler, _):
            handler.send_response(200)
            handler.send_header("Connection", "close")
            handler.end_headers()
            handler.wfile.write(content)
            handler.close_connection = True
            return True
        return answer

    def silent(self, most, silence_s):
        """Sends so many bytes, and then nothing for so long."""
        def answer(handler, name):
            content = self.content(name)
            handler.send_response(200)
            handler.send_header("Content-Length", str(len(content)))
            handler.end_headers()
            handler.wfile.write(content[:most])
            handler.wfile.flush()
            time.sleep(silence_s)
            handler.close_connection = True
            return True
        return answer
