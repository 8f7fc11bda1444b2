"""Starts `ocellus serve` on a free port of this machine, and talks to it."""

import base64
import contextlib
import http.client
import json
import pathlib
import re
import signal
import subprocess
import threading

from program import PROGRAM, ProgramTest, board, needs_http

# Answers that go on and on: tokens chosen almost at random.
ENDLESS = ["--temp", 8, "-n", 7000, "--text-tokens", 7500, "--threads", 1]  # with ignore_eos: ten seconds or so


class Server:
    def __init__(self, *flags, address="127.0.0.1:0", quiet=True):
        quietly = ["--quiet"] if quiet else []
        self.process = subprocess.Popen([PROGRAM, "serve", "--http", address, *quietly, *map(str, flags)],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True)
        watchdog = threading.Timer(120, self.process.kill)
        watchdog.start()
        line = self.process.stderr.readline()
        while not quiet and line and not line.startswith("ocellus: http"):  # the plan
            line = self.process.stderr.readline()
        watchdog.cancel()
        found = re.fullmatch(r"ocellus: (http://127\.0\.0\.1:(\d+))\n", line)
        if not found:
            self.process.kill()
            raise RuntimeError(line + self.process.communicate()[1])
        self.url, self.port = found[1], int(found[2])

    def stop(self, how=signal.SIGTERM):
        """The exit code, and what was still printed."""
        self.process.send_signal(how)
        out, errors = self.process.communicate(timeout=30)
        return self.process.returncode, out, errors

    def request(self, method, path, body=None, headers=None, timeout_s=60):
        """Status, headers and body of one request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, response.headers, response.read()

    def post(self, body, headers=None):
        """Status and JSON of a chat request; `body` may be bytes."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        status, _, answer = self.request("POST", "/v1/chat/completions", data, headers)
        return status, json.loads(answer)

    def ask(self, messages, **fields):
        """The text of an answer."""
        status, answer = self.post({"messages": messages, **fields})
        if status != 200:
            raise AssertionError(f"{status}: {answer}")
        return answer["choices"][0]["message"]["content"]

    def events(self, messages, **fields):
        """The data of a chat answer's events."""
        return self.stream("/v1/chat/completions", {"messages": messages, **fields})

    def stream(self, path, body):
        """The data of a stream's events."""
        status, headers, answer = self.request("POST", path, json.dumps({**body, "stream": True}).encode())
        assert status == 200 and headers["Content-Type"] == "text/event-stream", (status, answer)
        events = answer.decode().split("\n\n")
        assert events.pop() == "" and all(event.startswith("data: ") for event in events)
        return [event[len("data: "):] for event in events]

    def open_stream(self, messages, **fields):
        """A connection whose answer has begun."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("POST", "/v1/chat/completions",
                           json.dumps({"messages": messages, "stream": True, "ignore_eos": True, **fields}).encode())
        response = connection.getresponse()
        assert response.status == 200 and response.readline().startswith(b"data: ")
        return connection, response

    def metric(self, name):
        """The value of a metric; 0 if it has none yet."""
        _, _, text = self.request("GET", "/metrics")
        found = re.search(rf"^{re.escape(name)} (\S+)$", text.decode(), re.MULTILINE)
        return float(found[1]) if found else 0.0


@needs_http
class ServerTest(ProgramTest):
    """Tests of one server with the flags of their class."""
    flags = []

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.flags)

    @classmethod
    def tearDownClass(cls):
        if cls.server.process.poll() is None:
            cls.server.stop()


def picture_url(data, kind="png"):
    return f"data:image/{kind};base64," + base64.b64encode(data).decode()


def image_part(path):
    path = pathlib.Path(path)
    kind = "jpeg" if path.suffix == ".jpg" else "png"
    return {"type": "image_url", "image_url": {"url": picture_url(path.read_bytes(), kind)}}


def text_part(text):
    return {"type": "text", "text": text}


def user(*parts):
    return {"role": "user", "content": [text_part(part) if isinstance(part, str) else part for part in parts]}


def caption_of(name):
    return [user("Caption this image.", image_part(board(name)))]
