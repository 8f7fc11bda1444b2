"""Stands in for `ocellus watch --http` where the page's tests need what a camera does rarely: scripted events, faults,
hostile words. It serves the page from its files."""

import copy
import http.server
import json
import math
import queue
import socket
import threading
import time
import urllib.parse

from pictures import make_png
from program import SOURCE

PAGE = {"/": ("index.html", "text/html"), "/watch.css": ("watch.css", "text/css"),
        "/page.css": ("page.css", "text/css"), "/page.js": ("page.js", "text/javascript"),
        "/watch.js": ("watch.js", "text/javascript"), "/camera.js": ("camera.js", "text/javascript"),
        "/icon.svg": ("icon.svg", "image/svg+xml")}
CSP = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
       "base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
MIB = 1048576
STATE = {
    "version": "0.1.0", "uptime_s": 754.2, "started_ms": 1763800000000,
    "model": {"name": "shapeboard-34m", "format": "Q8_0", "device": "CPU, 2 threads"},
    "source": {"name": "synthetic", "state": "running", "posted": False, "format": "640 x 480 NV12", "trouble": "",
               "width": 640, "height": 480, "fps": 29.9},
    "frames": {"captured": 22626, "dropped": 1204, "skipped": 0, "unchanged": 7020, "broken": 0, "answered": 14402,
               "failed": 0, "deadline_missed": 0, "stalls": 0, "losses": 0, "size_changes": 0},
    "latency_ms": {"last": 41.2, "mean": 43.0, "p95": 55.1, "p99": 60.0, "age_last": 48.0},
    "settings": {"prompt": "Describe this image.", "every_s": 0.0, "change": 0.05, "frames": 8, "keep": 1.0,
                 "kv_bits": 2, "paused": False, "deadline_ms": 0},
    "limits": {"frames_most": 16, "kv_bits": [16, 8, 4, 2, 1], "prompt_bytes": 2000},
    "memory": {"budget_bytes": 128 * MIB, "total_bytes": 74363392, "weights_bytes": 37239808, "session_bytes": 10869248,
               "scratch_bytes": 26254336, "staging_bytes": 921600, "session_used_bytes": 5234688, "images_held": 6,
               "images_most": 8, "kv_bytes": 700416, "kv_bytes_full": 4030464, "kv_bits": 2.3, "rss_bytes": 91226112},
    "settings_pending": False,
}
COLOURS = [(34, 60, 92), (92, 40, 44), (40, 78, 56), (70, 70, 74), (88, 74, 30)]


def draw_picture(number, width=640, height=480, ground=None):
    """A PNG of discs that move with the number."""
    ground = ground or COLOURS[number // 40 % len(COLOURS)]
    discs = [(0.3 + 0.2 * math.sin(number / 9), 0.4, 0.2, (214, 64, 52)),
             (0.72, 0.35 + 0.2 * math.cos(number / 7), 0.14, (238, 196, 66)),
             (0.55 + 0.3 * math.cos(number / 13), 0.75, 0.11, (76, 176, 214))]
    rows = []
    for y in range(height):
        row = bytearray(bytes(ground) * width)
        for cx, cy, radius, colour in discs:
            half = (radius * height) ** 2 - (y - cy * height) ** 2
            if half > 0:
                left, right = (max(0, min(width, round(cx * width + sign * math.sqrt(half)))) for sign in (-1, 1))
                row[3 * left:3 * right] = bytes(colour) * (right - left)
        rows.append(bytes(row))
    return make_png(width, height, rows)


class FakeWatch:
    def __init__(self):
        self.state = copy.deepcopy(STATE)
        self.records, self.answers, self.posts, self.seen = [], [], [], []
        self.day = []  # frames of a library, once keep() has been called
        self.failing = {}  # path without its query: (status, sentence), for every request of it
        self.picture, self.clients, self.lock = None, [], threading.Lock()
        self.delay_s = {}  # of responses, by path
        self.most_at_once, self.at_once = 0, 0  # requests for the live picture
        self.server, self.port = None, 0
        self.start()

    # Life
    def start(self):
        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

            def process_request(self, request, client_address):
                self.open_sockets.add(request)
                super().process_request(request, client_address)

            def shutdown_request(self, request):
                self.open_sockets.discard(request)
                super().shutdown_request(request)

        self.server = Server(("127.0.0.1", self.port), type("Bound", (Handler,), {"watch": self}))
        self.server.open_sockets = set()
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        with self.lock:
            for client in self.clients:
                client.put(None)
            self.clients = []
        for request in list(self.server.open_sockets):  # connections that are kept alive, too
            try:
                request.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    # What it says
    def emit(self, name, data):
        with self.lock:
            for client in self.clients:
                client.put((name, json.dumps(data)))

    def set(self, **parts):
        """Changes the state, part by part (`source={"state": "lost"}`), and says so."""
        for name, value in parts.items():
            if isinstance(value, dict):
                self.state[name].update(value)
            else:
                self.state[name] = value
        self.emit("state", self.state)

    def show(self, sequence, picture=None):
        self.picture = picture or draw_picture(sequence)
        self.emit("frame", {"sequence": sequence, "width": 640, "height": 480, "at_ms": now_ms()})

    def make_record(self, number, text, **changes):
        total = changes.get("total_ms", 41.2)
        record = {"id": number, "sequence": 3 * number, "at_ms": now_ms(), "prompt": self.state["settings"]["prompt"],
                  "text": text, "stop": "end", "error": "", "age_ms": total + 6.8, "total_ms": total,
                  "preprocess_ms": total * .04, "encode_ms": total * .45, "prefill_ms": total * .2,
                  "encoded_views": 2, "known_views": 11, "ttft_ms": total * .7, "decode_ms": total * .29, "tokens": len(text.split()), "dropped": 1,
                  "deadline_missed": False,
                  "kv_bytes": 700416, "changed": 0.4, "thumbnail": f"/history/{number}.jpg", **changes}
        self.records.append(record)
        return record

    def caption(self, number, text, pause_s=0.0, **changes):
        """One whole caption, word by word."""
        self.begin_caption(number)
        for place, word in enumerate(text.split()):
            self.emit("caption_text", {"id": number, "text": (" " if place else "") + word})
            time.sleep(pause_s)
        record = self.make_record(number, text, **changes)
        self.emit("caption_end", record)
        return record

    def keep(self, caption, at_ms=None):
        """A frame of the library."""
        at_ms = at_ms or now_ms() + len(self.day)
        frame = {"at_ms": at_ms, "key": f"{at_ms:x}", "caption": caption, "thumbnail": f"/day/{at_ms:x}.jpg"}
        self.day.append(frame)
        self.state["day"] = {"frames": len(self.day), "bytes": len(self.day) * MIB // 9, "quota_bytes": 64 * MIB,
                             "oldest_ms": self.day[0]["at_ms"], "newest_ms": at_ms}
        self.emit("state", self.state)
        self.emit("day_frame", frame)

    def begin_caption(self, number):
        self.emit("caption_begin", {"id": number, "sequence": 3 * number, "at_ms": now_ms(),
                                    "prompt": self.state["settings"]["prompt"]})

    def answer(self, number, question, text, named=(), pause_s=0.0, error="", seconds=()):
        self.emit("question_begin", {"id": number, "question": question})
        for place, word in enumerate(text.split()):
            self.emit("question_text", {"id": number, "text": (" " if place else "") + word})
            time.sleep(pause_s)
        shown = self.day[:3] + self.day[-3:] or self.records[-6:]
        frames = [{"id": record.get("id", 0), "at_ms": record["at_ms"], "thumbnail": record["thumbnail"],
                   "label": 0 if self.day else label, "named": label in named} for label, record in enumerate(shown, 1)]
        for frame, second in zip(frames, seconds):
            frame["seconds"] = second
        answer = {"id": number, "question": question, "text": text, "error": error, "frames": frames, "total_ms": 120.4,
                  "ttft_ms": 80.2, "tokens": 4, "at_ms": now_ms()}
        self.answers.append(answer)
        self.emit("question_end", answer)

    def note(self, text, level="warning"):
        self.emit("note", {"level": level, "text": text, "at_ms": now_ms()})


def now_ms():
    return int(time.time() * 1000)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    watch = None

    def log_message(self, *_):
        pass

    def respond(self, status, body, kind="application/json", **headers):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status, sentence):
        self.respond(status, {"error": {"message": sentence, "type": "fake", "param": None, "code": None}})

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def prepare(self):
        """The path; None if the answer has been given."""
        path = self.path.split("?")[0]
        self.watch.seen.append(self.path)
        time.sleep(self.watch.delay_s.get(path, 0))
        if path in self.watch.failing:
            status, sentence = self.watch.failing[path]
            self.refuse(status, sentence) if sentence else self.respond(status, b"<h1>broken</h1>", "text/html")
            return None
        return path

    def do_GET(self):
        watch, path = self.watch, self.path.split("?")[0]
        if path == "/frame.jpg":
            watch.at_once += 1
            watch.most_at_once = max(watch.most_at_once, watch.at_once)
        try:
            if self.prepare():
                self.get(path)
        finally:
            if path == "/frame.jpg":
                watch.at_once -= 1

    def get(self, path):
        watch = self.watch
        if path in PAGE:
            name, kind = PAGE[path]
            self.respond(200, (SOURCE / "apps" / "page" / name).read_bytes(), f"{kind}; charset=utf-8",
                         Content_Security_Policy=CSP)
        elif path == "/frame.jpg" and watch.picture:
            self.respond(200, watch.picture, "image/png", Cache_Control="no-store")
        elif path.startswith("/history/"):
            self.respond(200, draw_picture(int(path[9:-4]), 160, 120), "image/png")
        elif path.startswith("/day/"):
            self.respond(200, draw_picture(int(path[5:-4], 16) // 9973 % 200, 160, 120), "image/png")
        elif path == "/api/day":
            query = dict(urllib.parse.parse_qsl(self.path.partition("?")[2], keep_blank_values=True))
            found = [one for one in reversed(watch.day) if one["at_ms"] < (int(query["before"]) or 1 << 60) and
                     all(word in one["caption"].lower() for word in query["words"].split())]
            self.respond(200, {"frames": found[:int(query["count"])]})
        elif path == "/api/state":
            self.respond(200, watch.state)
        elif path == "/api/history":
            query = dict(part.split("=") for part in self.path.partition("?")[2].split("&") if part)
            before = int(query.get("before", 1 << 60))
            records = [record for record in reversed(watch.records) if record["id"] < before]
            self.respond(200, {"records": records[:int(query.get("count", 50))]})
        elif path == "/api/answers":
            self.respond(200, {"answers": watch.answers[::-1]})
        elif path == "/api/events":
            self.stream()
        else:
            self.refuse(404, f"There is no {path}.")

    def stream(self):
        client = queue.Queue()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        with self.watch.lock:
            client.put(("state", json.dumps(self.watch.state)))
            self.watch.clients.append(client)
        try:
            self.wfile.write(b"retry: 1000\n\n")
            while True:
                try:
                    said = client.get(timeout=1)
                    if said is None:
                        break
                except queue.Empty:
                    said = ("state", json.dumps(self.watch.state))
                self.wfile.write(f"event: {said[0]}\ndata: {said[1]}\n\n".encode())
        finally:
            with self.watch.lock:
                self.watch.clients = [one for one in self.watch.clients if one is not client]
        self.close_connection = True

    def do_POST(self):
        watch, path = self.watch, self.path.split("?")[0]
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers["Content-Type"] == "application/json":
            body = json.loads(body)
        watch.posts.append((path, body, self.headers["Content-Type"]))
        if not self.prepare():
            return
        if path == "/api/question":
            number = len([one for one in watch.posts if one[0] == path])
            self.respond(202, {"id": number})
        elif path == "/api/settings":
            watch.state["settings"].update(body)
            self.respond(200, watch.state)
            watch.emit("state", watch.state)
        elif path == "/api/forget":
            self.respond(200, {"forgotten": 1})
        elif path == "/api/frame":
            self.send_response(204)
            self.end_headers()
        else:
            self.refuse(404, f"There is no {path}.")
