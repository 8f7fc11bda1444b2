#!/bin/sh
# Usage: sh findings/huggingface-hub-cache.sh   (PyPI; a minute)
. "$(dirname "$0")/steps"
say "huggingface_hub returns a file whose bytes are those of the hash that is its blob's name, and goes on where it was cut." \
  "Of what it fetches it compares the length, of what is cached nothing. Another process starts over; a killed one's part stays."
from_pypi huggingface_hub==2.4.0
cat >"$folder/run.py" <<'PYTHON'
import hashlib
import http.server
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

MIB = 1 << 20
RIGHT = bytes(range(256)) * (24 * MIB // 256)
WRONG = RIGHT[::-1]
HASH = hashlib.sha256(RIGHT).hexdigest()
FETCH = "from huggingface_hub import hf_hub_download; print(hf_hub_download('owner/tiny', 'model.bin'))"
released = threading.Event()
fault = ""     # of the next request of bytes: "cut" or "hold" after half of them
served = RIGHT
asked = []     # Range of each request of bytes

class Hub(http.server.BaseHTTPRequestHandler):
    def do_HEAD(self):
        self.send_bytes(b"")

    def do_GET(self):
        global fault
        if self.path.startswith("/api/models/owner/tiny/tree/"):
            file = {"type": "file", "path": "model.bin", "size": len(RIGHT), "oid": "0" * 40,
                    "lfs": {"oid": HASH, "size": len(RIGHT), "pointerSize": 130}}
            data = json.dumps([file]).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            return self.wfile.write(data)
        if "/resolve/" not in self.path:
            return self.send_error(404)
        asked.append(self.headers["Range"] or "all")
        now, fault = fault, ""
        self.send_bytes(served, len(RIGHT) // 2 if now else len(RIGHT))
        if now == "hold":
            released.wait(60)

    def send_bytes(self, data, end=None):
        start = int((self.headers["Range"] or "bytes=0-")[6:].split("-")[0])
        self.send_response(206 if start else 200)
        self.send_header("ETag", f'"{HASH}"')
        self.send_header("X-Repo-Commit", "c0ffee" + "0" * 34)
        self.send_header("Accept-Ranges", "bytes")
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(RIGHT) - 1}/{len(RIGHT)}")
        self.send_header("Content-Length", str(len(RIGHT) - start))
        self.end_headers()
        self.wfile.write(data[start:end])

    def log_message(self, *arguments):
        pass

def environment(name):
    return {**os.environ, "HF_HOME": f"{sys.argv[1]}/{name}", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_XET": "1",
            "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}"}

def blobs(name):
    return sorted(pathlib.Path(sys.argv[1], name, "hub/models--owner--tiny/blobs").glob("*"))

def show(what, name, *more):
    found = ("HASH" + file.name.removeprefix(HASH) if file.name == HASH else
             f"HASH.x.incomplete of {file.stat().st_size // MIB} MiB" for file in blobs(name))
    print(f"{what}: asked for {', '.join(asked) or 'nothing'}; blobs: {', '.join(found) or 'none'}", *more, sep="; ")
    asked.clear()

def fetch(what, name):
    done = subprocess.run([sys.executable, "-c", FETCH], env=environment(name), capture_output=True, text=True, timeout=120)
    data = pathlib.Path(done.stdout.strip()).read_bytes()
    show(what, name, f"exit code {done.returncode}", f"{'right' if data == RIGHT else 'wrong'} bytes")

def end(what, name, how):
    global fault
    fault = "hold"
    released.clear()
    client = subprocess.Popen([sys.executable, "-c", FETCH], env=environment(name), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    give_up = time.monotonic() + 60
    while not any(file.stat().st_size >= 10 * MIB for file in blobs(name)) and time.monotonic() < give_up:
        time.sleep(0.05)
    client.send_signal(how)
    client.wait(60)
    released.set()
    show(what, name)

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
threading.Thread(target=server.serve_forever, daemon=True).start()
fault = "cut"
fetch("connection cut", "cut")
end("interrupted", "interrupted", signal.SIGINT)
fetch("next", "interrupted")
end("killed", "killed", signal.SIGKILL)
fetch("next", "killed")
served = WRONG
fetch("another file of the same length", "wrong")
served = RIGHT
fetch("next", "wrong")
os.truncate(blobs("wrong")[0], 1000)
fetch("shortened", "wrong")
for name in ("cut", "wrong"):
    verified = subprocess.run([os.path.dirname(sys.executable) + "/hf", "cache", "verify", "owner/tiny"], env=environment(name),
                              capture_output=True, text=True, timeout=120)
    print(f"hf cache verify, {name}: exit code {verified.returncode}")
PYTHON
judge "connection cut: asked for all, bytes=10485760-; blobs: HASH; exit code 0; right bytes
interrupted: asked for all; blobs: none
next: asked for all; blobs: HASH; exit code 0; right bytes
killed: asked for all; blobs: HASH.x.incomplete of 10 MiB
next: asked for all; blobs: HASH, HASH.x.incomplete of 10 MiB; exit code 0; right bytes
another file of the same length: asked for all; blobs: HASH; exit code 0; wrong bytes
next: asked for nothing; blobs: HASH; exit code 0; wrong bytes
shortened: asked for nothing; blobs: HASH; exit code 0; wrong bytes
hf cache verify, cut: exit code 0
hf cache verify, wrong: exit code 1" "$("$python" "$folder/run.py" "$folder" 2>"$folder/errors" || tail -n 1 "$folder/errors")"
