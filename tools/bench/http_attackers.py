"""Clients that mean no good, for http_attack.py: slow, silent, many, malformed, too large, from pages of others. Each is
polite to the machine, not to the server: it sleeps between its tries, so that what is measured is the server.

Run as a program by http_attack.py: http_attackers.py PORT TARGET SECONDS SEED [KEY KEY].
Prints what was answered as JSON. With keys they are two users of the server, who may ask as others do; the second asks for
long answers only, with more requests than the queue has places."""

import collections
import json
import os
import random
import socket
import struct
import sys
import threading
import time

FOREIGN = ["Origin: https://example.com\r\n", "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n", "Origin: null\r\n",
           "Sec-Fetch-Site: same-site\r\n"]


class Attack:
    def __init__(self, port, target, seconds, seed, key=None, crowd_key=None):
        self.host = "Host: localhost\r\n" + (f"Authorization: Bearer {key}\r\n" if key else "")
        self.crowd_host = f"Host: localhost\r\nAuthorization: Bearer {crowd_key}\r\n"
        self.has_key = key is not None
        self.port, self.target, self.random = port, target, random.Random(seed)
        self.end = time.monotonic() + seconds
        self.lock = threading.Lock()
        self.counts = collections.defaultdict(collections.Counter)
        self.path = "/v1/chat/completions" if target == "serve" else "/api/settings"
        self.reports = ["/v1/models", "/metrics"] if target == "serve" else [
            "/api/events", "/frame.jpg", "/api/state", "/metrics", "/api/history", "/"]

    def goes_on(self):
        return time.monotonic() < self.end

    def count(self, kind, what):
        with self.lock:
            self.counts[kind][what] += 1

    def connect(self, timeout_s=10):
        client = socket.socket()
        client.settimeout(timeout_s)
        client.connect(("127.0.0.1", self.port))
        return client

    def send(self, kind, request, timeout_s=10, wait_s=0):
        """What the request was answered with: a status, "closed" or "silent"."""
        try:
            with self.connect(timeout_s) as client:
                try:
                    client.sendall(request)
                except OSError:
                    pass  # it refused in the middle; its answer may be there
                time.sleep(wait_s)
                head = client.recv(64)
                what = head[9:12].decode("ascii", "replace") if head.startswith(b"HTTP/1.") else "closed"
        except TimeoutError:
            what = "silent"
        except OSError:
            what = "closed"
        self.count(kind, what)

    # ---- too many, too slow
    def hold_connections(self):
        """More than there are places, silent, until the server closes them."""
        held = []
        while self.goes_on():
            try:
                held.append(self.connect())
                self.count("silent connections", "opened")
            except OSError:
                self.count("silent connections", "refused")
            if len(held) > 300:
                held.pop(0).close()
            time.sleep(0.02)
        for client in held:
            client.close()

    def churn(self):
        while self.goes_on():
            for _ in range(20):
                try:
                    with self.connect() as client:
                        client.send(self.random.choice([b"", b"GET /", b"GET / HTTP/1.1\r\n", b"\r\n"]))
                        if self.random.random() < 0.5:  # a reset instead of an end
                            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.count("opened and dropped", "dropped")
                except OSError:
                    self.count("opened and dropped", "refused")
            time.sleep(0.25)

    def write_slowly(self):
        heads = [f"GET /{'a' * 2000}", f"POST {self.path} HTTP/1.1\r\n{self.host}Content-Type: application/json\r\n"
                 f"Content-Length: 60000\r\n\r\n" + "[" * 2000]
        while self.goes_on():
            text = self.random.choice(heads).encode()
            begin = 0 if text.startswith(b"GET") else text.index(b"\r\n\r\n")
            try:
                with self.connect() as client:
                    client.sendall(text[:begin])
                    for byte in text[begin:]:
                        client.send(bytes([byte]))
                        time.sleep(0.1)
                        if not self.goes_on():
                            return
            except OSError:
                self.count("slow writers", "closed")

    def read_slowly(self):
        body = json.dumps({"messages": [{"role": "user", "content": "Tell me a story."}], "stream": True, "user": "slow",
                           "ignore_eos": True, "temperature": 2, "max_tokens": 600}).encode()
        while self.goes_on():
            try:
                with self.connect() as client:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
                    if self.target == "serve":
                        head = f"POST {self.path} HTTP/1.1\r\n{self.host}Content-Length: {len(body)}\r\n\r\n"
                        client.sendall(head.encode() + body)
                    else:
                        for _ in range(20):
                            path = self.random.choice(self.reports)
                            client.sendall(f"GET {path} HTTP/1.1\r\n{self.host}\r\n".encode())
                    for _ in range(self.random.randrange(20, 100)):
                        if not client.recv(16) or not self.goes_on():
                            break
                        time.sleep(0.2)
                self.count("slow readers", "left")
            except OSError:
                self.count("slow readers", "closed")

    def close_one_half(self):
        while self.goes_on():
            path = self.random.choice(self.reports)
            try:
                with self.connect() as client:
                    client.sendall(f"GET {path} HTTP/1.1\r\n{self.host}\r\n".encode())
                    client.shutdown(socket.SHUT_WR)
                    time.sleep(self.random.uniform(0, 3))
                self.count("half-closed", "left")
            except OSError:
                self.count("half-closed", "closed")
            time.sleep(0.1)

    # ---- malformed, too large, foreign: none of these may be accepted
    def smuggle(self):
        host = self.host
        get, post = f"GET {self.reports[0]} HTTP/1.1\r\n", f"POST {self.path} HTTP/1.1\r\n"
        shapes = [post + host + "Content-Length: 5\r\nContent-Length: 0\r\n\r\nabcde",
                  post + host + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                  post + host + "Transfer-Encoding: gzip\r\n\r\n", post + host + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
                  post + host + "Transfer-Encoding: chun\r\n ked\r\n\r\n0\r\n\r\n", get + host + host + "\r\n", get + "\r\n",
                  get + host + "X: a\rContent-Length: 5\r\n\r\n", get + host + "X: a\n\r\n", get + host + "X: a\r\n b\r\n\r\n",
                  get + host + "X: a\0b\r\n\r\n", get + "Host: localhost, example.com\r\n\r\n", get + host + "Content-Type: a\r\nContent-Type: b\r\n\r\n",
                  get + host + "Authorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n"]
        if not self.has_key:
            shapes.append(get + "Host: example.com\r\n\r\n")
        while self.goes_on():
            self.send("smuggling", (self.random.choice(shapes) + get + host + "\r\n").encode("latin-1"))
            time.sleep(0.1)

    def nest_deeply(self):
        bodies = [b"[" * 900_000, b'{"a":' * 180_000, b'{"messages":[' + b"[]," * 300_000 + b"0]}", b'{"a":[' + b"1," * 450_000,
                  b'{"a":{}' + b',"a":{}' * 120_000 + b"}", b'{"messages":"' + b"\\u0041" * 140_000 + b'"}', b'"' * 900_001,
                  b"[" * 60_000, b'{"every_s":' * 5_000, b'{"a":[' + b"[]," * 20_000 + b"0]}", b'{"a":0' + b',"a":0' * 9_000 + b"}"]
        while self.goes_on():
            body = self.random.choice(bodies)
            head = f"POST {self.path} HTTP/1.1\r\n{self.host}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            self.send("deep JSON", head.encode() + body)
            time.sleep(0.5)

    # ---- a user of the server who asks for much, or for what cannot be
    def post(self, kind, path, body, timeout_s=10, wait_s=0, host=None):
        data = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\n{host or self.host}Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        self.send(kind, head.encode() + data, timeout_s, wait_s)

    def nest_in_texts(self):
        """JSON in the texts of JSON, as deep as a request is long."""
        hello = {"role": "user", "content": "Hello."}
        while self.goes_on():
            count = self.random.choice([200, 20_000, 300_000])  # 100 levels of an unknown keyword are a valid schema
            text = self.random.choice(['{"a":' * count + "1" + "}" * count, "[" * count, "[" * count + "]" * count])
            call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": text}}
            result = {"role": "tool", "tool_call_id": "1", "content": text}
            self.post("deep JSON", self.path, self.random.choice([
                {"messages": [hello, {"role": "assistant", "tool_calls": [call]}, result], "max_tokens": 1},
                {"messages": [hello], "structured_outputs": {"json": text}, "max_tokens": 1}]))
            time.sleep(0.5)

    def ask_for_hard_forms(self):
        """Forms that take long to compile, or whose masks do."""
        counts = [1, 20, 1000, 30_000]
        while self.goes_on():
            text, depth = self.random.choice([".", "[^x]", "(?:a|ab|abc)", "\\w"]), self.random.randint(2, 9)
            for _ in range(depth):
                text = f"(?:{text}){{0,{self.random.choice(counts)}}}"
            rules = self.random.choice([2, 20, 200])
            grammar = "root ::= " + " | ".join(f"a{i}" for i in range(rules)) + "\n" + "".join(
                f"a{i} ::= ( b{i} | c{i} ){{0,{1000 + i}}}\nb{i} ::= .{{0,{500 + i}}}\nc{i} ::= [^x]{{0,{600 + i}}}\n" for i in range(rules))
            schema = {"anyOf": [{"type": "array", "items": {"type": "string", "pattern": text}, "maxItems": i} for i in range(1, rules)]}
            form = self.random.choice([{"regex": text}, {"grammar": grammar}, {"json": schema}])
            self.post("hard forms", self.path, {"messages": [{"role": "user", "content": "Go."}], "structured_outputs": form,
                                                "temperature": 2, "max_tokens": 12}, timeout_s=30, wait_s=self.random.choice([0, 5]))
            time.sleep(1)

    def fill_queue(self):
        """More at once than the queue has places."""
        long = {"messages": [{"role": "user", "content": "Tell me a story."}], "ignore_eos": True, "temperature": 2, "max_tokens": 300}
        while self.goes_on():
            self.post("long answers", self.path, long, timeout_s=60, host=self.crowd_host)
            time.sleep(0.1)

    def ask_for_much(self):
        """Answers that are many times as long as the request, not read, or read later."""
        text = {"content": "a b " * 400_000, "with_pieces": True}
        many = {"input": ["a"] * 400}
        likely = {"messages": [{"role": "user", "content": "Hello."}], "ignore_eos": True, "max_tokens": 300, "n": 8, "logprobs": True,
                  "top_logprobs": 20}
        while self.goes_on():
            path, body = self.random.choice([("/tokenize", text), ("/v1/embeddings", many), (self.path, likely)])
            self.post("long lists", path, body, timeout_s=60, wait_s=self.random.choice([0, 2]))
            time.sleep(1)

    def send_much(self):
        picture = b'{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,'
        while self.goes_on():
            size = self.random.choice([1 << 20, 8 << 20, 31 << 20])
            kind = self.random.randrange(4)
            head = f"POST {self.path} HTTP/1.1\r\n{self.host}Content-Type: application/json\r\n".encode()
            if kind == 0:
                request = head + b"Content-Length: 1000000000000\r\n\r\n" + b"x" * (1 << 20)
            elif kind == 1:
                request = head + b"Transfer-Encoding: chunked\r\n\r\n" + (b"10000\r\n" + b"x" * 65536 + b"\r\n") * (size >> 16)
                request += b"0\r\n\r\n"
            else:
                body = picture + (b"QUJD" if kind == 2 else b"****") * (size // 4) + b'"}}]}]}'
                request = head + f"Content-Length: {len(body)}\r\n\r\n".encode() + body
            self.send("huge bodies", request)
            time.sleep(1)

    def come_from_elsewhere(self):
        while self.goes_on():
            line = self.random.choice(FOREIGN)
            if self.random.random() < 0.3:
                body = b'{"messages":[{"role":"user","content":"x"}],"prompt":"x"}'
                head = f"POST {self.path} HTTP/1.1\r\n{self.host}{line}Content-Type: application/json\r\n"
                self.send("foreign origins", f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            else:
                path = self.random.choice(self.reports)
                self.send("foreign origins", f"GET {path} HTTP/1.1\r\n{self.host}{line}\r\n".encode())
            time.sleep(0.1)

    def send_garbage(self):
        while self.goes_on():
            begin = self.random.choice([b"", b"GET ", b"POST /", b"\x16\x03\x01", b"PRI * HTTP/2.0\r\n\r\n", b"\r\n" * 50])
            self.send("garbage", begin + self.random.randbytes(self.random.choice([10, 1000, 50_000])) + b"\r\n\r\n")
            time.sleep(0.2)

    def run(self):
        writers = [self.write_slowly] * 8
        readers = [self.read_slowly] * (2 if self.target == "serve" else 6)
        attacks = [self.hold_connections, self.churn, *writers, *readers, self.close_one_half, self.smuggle, self.nest_deeply,
                   self.send_much, self.come_from_elsewhere, self.send_garbage]
        if self.target == "serve":
            attacks.append(self.nest_in_texts)
        if self.has_key:
            attacks += [self.fill_queue] * 24 + [self.ask_for_much] * 3 + [self.ask_for_hard_forms] * 2
        threads = [threading.Thread(target=attack, daemon=True) for attack in attacks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, self.end - time.monotonic()) + 15)
        with self.lock:
            return {kind: dict(sorted(counts.items())) for kind, counts in sorted(self.counts.items())}


if __name__ == "__main__":
    os.nice(5)  # what is measured are the others
    print(json.dumps(Attack(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:7]).run()))
    sys.stdout.flush()
    os._exit(0)  # threads that still wait for an answer are not waited for
