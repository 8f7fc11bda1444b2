#!/usr/bin/env python3
"""Puts `ocellus serve` under the load of many users, and writes what they saw and what the server took.

Requests arrive at random (Poisson) at a rate, whether or not earlier ones are answered. Each is of a random user, has 1
to 16 of that user's pictures, the popular ones more often (Zipf), and asks for a short or a long answer. A share leaves
before the end, another is bad: no JSON, a file of no one or of another user, a broken picture, a schema that cannot be
held, a wrong key; a third one demands a form: a schema, a call of a tool, an expression with log-probabilities, or a
vector. Every answer must be the one that is due: anything else is an error, and counted by kind. At the end no file may
be lost, nothing may still run, and the memory of the last half must be that of the half before within 5 % (after a tenth for warming up).

usage: serve_load.py PROGRAM RESULT.json --commit HASH [--rate 2] [--seconds 180] [--users 4] [--pictures 32]
       [--zipf 1.0] [--most-pictures 8] [--by library|data|both] [--long .2] [--cancels .05] [--bad .05] [--forms 0]
       [--seed 1]
       [--device NAME] [-- flags of `ocellus serve`]
Exits 0 if nothing was lost and the memory was flat. Uses Python's standard library only.
"""

import argparse
import asyncio
import base64
import collections
import datetime
import json
import os
import pathlib
import random
import re
import signal
import statistics
import struct
import sys
import tempfile
import time
import zlib

GROWTH = 1.05
PATIENCE_S = 120  # the server's own deadline is shorter
QUESTIONS = ["Caption this image.", "What is on the left?", "How many images show a ring?", "Which images show a star?"]
COLORS = [(200, 30, 30), (30, 160, 60), (40, 80, 200), (230, 200, 40), (150, 50, 170), (240, 240, 240)]


def make_picture(number, width=256, height=256):
    """A PNG of three squares that no other number has in these places."""
    chance = random.Random(number)
    squares = [(chance.randrange(width - 64), chance.randrange(height - 64), chance.choice(COLORS)) for _ in range(3)]
    rows = []
    for y in range(height):
        row = bytearray(bytes((20, 20, 60)) * width)
        for left, top, color in squares:
            if top <= y < top + 64:
                row[3 * left:3 * (left + 64)] = bytes(color) * 64
        rows.append(b"\0" + bytes(row))
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(b"".join(rows))) + chunk(b"IEND", b""))


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


def summary_ms(seconds):
    shown = {"median": quantile(seconds, 0.5), "p95": quantile(seconds, 0.95), "p99": quantile(seconds, 0.99)}
    return {name: value and round(1000 * value, 1) for name, value in shown.items()}


class Unfinished(Exception):
    """A connection that ended, or took too long, before the answer did."""


class Response:
    """One request on a connection of its own."""

    def __init__(self, port):
        self.port = port

    async def __aenter__(self):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 20)
        return self

    async def __aexit__(self, *_):
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except OSError:
            pass  # the server has closed it, too

    async def send(self, method, path, key, body=b"", kind="application/json"):
        head = (f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nAuthorization: Bearer {key}\r\n"
                f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n")
        self.writer.write(head.encode() + body)
        await self.writer.drain()
        line = await self.reader.readline()
        if not line.startswith(b"HTTP/1.1 "):
            raise Unfinished("no answer")
        self.headers = {}
        while (field := await self.reader.readline()) not in (b"\r\n", b""):
            name, value = field.decode().split(":", 1)
            self.headers[name.lower()] = value.strip()
        return int(line.split()[1])

    async def pieces(self):
        if self.headers.get("transfer-encoding") != "chunked":
            yield await self.reader.readexactly(int(self.headers.get("content-length", "0")))
            return
        while size := int((await self.reader.readline()).strip() or b"-1", 16):
            if size < 0:
                raise Unfinished("a stream broke off")
            yield await self.reader.readexactly(size)
            await self.reader.readline()

    async def body(self):
        return b"".join([piece async for piece in self.pieces()])


class Load:
    def __init__(self, options, port, process):
        self.options, self.port, self.process = options, port, process
        self.chance = random.Random(options.seed)
        self.users = [f"user-{i}" for i in range(options.users)]
        self.pictures = [make_picture(i) for i in range(options.pictures)]
        self.files = {user: {} for user in self.users}  # picture: id
        weights = [1 / (rank + 1) ** options.zipf for rank in range(options.pictures)]
        self.order = {user: self.chance.sample(range(options.pictures), options.pictures) for user in self.users}
        self.weights = weights
        self.outcomes, self.problems = collections.Counter(), []
        self.first_s, self.whole_s, self.first_by_count, self.tokens = [], [], collections.defaultdict(list), 0
        self.memory = []  # (second, KiB)

    # ---- requests
    def choose_pictures(self, user):
        count = self.chance.randint(1, min(self.options.most_pictures, len(self.pictures)))
        chosen = []
        while len(chosen) < count:
            one = self.order[user][self.chance.choices(range(len(self.pictures)), self.weights)[0]]
            if one not in chosen:
                chosen.append(one)
        return chosen

    def chat_body(self, user, pictures):
        by_library = {"library": True, "data": False, "both": self.chance.random() < 0.5}[self.options.by]
        urls = ["library:" + self.files[user][one] if by_library else
                "data:image/png;base64," + base64.b64encode(self.pictures[one]).decode() for one in pictures]
        is_long = self.chance.random() < self.options.long
        content = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
        content.append({"type": "text", "text": self.chance.choice(QUESTIONS)})
        return {"messages": [{"role": "user", "content": content}], "stream": True, "ignore_eos": is_long,
                "max_tokens": 200 if is_long else 16, "stream_options": {"include_usage": True}}

    def bad_request(self, user):
        """Body, key and the status that is due."""
        def ask(url):
            return json.dumps({"messages": [{"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "?"}]}]}).encode()
        others = [one for name in self.users if name != user for one in self.files[name].values()]
        return self.chance.choice([
            (b'{"messages": [', user, 400), (ask("library:" + "0" * 32), user, 404),
            (ask("library:" + self.chance.choice(others or ["0" * 32])), user, 404),
            (ask("data:image/png;base64,AAAA"), user, 400),
            (json.dumps({"messages": [], "structured_outputs": {"regex": "("}}).encode(), user, 400), (ask("library:" + "0" * 32), "no-user", 401)])

    async def ask(self, user):
        pictures = self.choose_pictures(user)
        body = self.chat_body(user, pictures)
        leaves_after = self.chance.expovariate(4) if self.chance.random() < self.options.cancels else None
        begin, first, last, tokens = time.monotonic(), None, b"", 0
        async with Response(self.port) as response:
            async def read():
                nonlocal first, last, tokens
                status = await response.send("POST", "/v1/chat/completions", "key-of-" + user, json.dumps(body).encode())
                if status != 200:
                    return status, json.loads(await response.body())["error"]["code"]
                async for piece in response.pieces():
                    if first is None and b'"content":"' in piece.replace(b'"content":""', b""):
                        first = time.monotonic() - begin
                    last = (last + piece)[-2000:]
                return 200, None
            try:
                status, code = await asyncio.wait_for(read(), leaves_after or PATIENCE_S)
            except asyncio.TimeoutError as error:
                if leaves_after is None:
                    raise Unfinished("no end in two minutes") from error
                return "left"
        if status == 429:
            return "refused: full"
        if status != 200:
            raise Unfinished(f"{status} {code}")
        if not last.endswith(b"data: [DONE]\n\n") or b'"error"' in last:
            raise Unfinished("a stream without its end")
        self.tokens += int(re.search(rb'"completion_tokens":(\d+)', last)[1])
        if first is not None:
            self.first_s.append(first)
            self.first_by_count[len(pictures)].append(first)
        self.whole_s.append(time.monotonic() - begin)
        return "answered"

    async def ask_badly(self, user):
        body, who, due = self.bad_request(user)
        async with Response(self.port) as response:
            status = await response.send("POST", "/v1/chat/completions", "key-of-" + who, body)
            error = json.loads(await response.body())["error"]
        if status == 429 and due != 401:
            return "refused: full"
        if status != due or not error["message"]:
            raise Unfinished(f"a bad request got {status}, not {due}")
        return "bad, refused rightly"

    def formed_request(self):
        """Path, body and whether an answer is due."""
        number = self.chance.randrange(12)
        schema = {"type": "object", "properties": {"count": {"const": number}}, "required": ["count"]}
        look = {"type": "function", "function": {"name": "look", "parameters": schema}}
        said = {"messages": [{"role": "user", "content": "How many?"}], "temperature": 1.5}
        form = {"type": "json_schema", "json_schema": {"name": "count", "schema": schema}}

        def is_call(answer):
            called = answer["choices"][0]["message"]["tool_calls"][0]["function"]
            return (called["name"], json.loads(called["arguments"])["count"]) == ("look", number)
        return self.chance.choice([
            ("chat/completions", {**said, "response_format": form},
             lambda answer: json.loads(answer["choices"][0]["message"]["content"])["count"] == number),
            ("chat/completions", {**said, "tools": [look], "tool_choice": "required"}, is_call),
            ("completions", {"prompt": "Say", "logprobs": 3, "structured_outputs": {"regex": "[ab]{%d}" % (number + 1)}},
             lambda answer: len("".join(answer["choices"][0]["logprobs"]["tokens"])) == number + 1),
            ("embeddings", {"input": f"{number} stars"}, lambda answer: len(answer["data"][0]["embedding"]) > 1)])

    async def ask_for_form(self, user):
        path, body, is_due = self.formed_request()
        async with Response(self.port) as response:
            status = await response.send("POST", "/v1/" + path, "key-of-" + user, json.dumps(body).encode())
            answer = json.loads(await response.body())
        if status == 429:
            return "refused: full"
        if status != 200 or not is_due(answer):
            raise Unfinished(f"{status}: {answer}")
        return "answered in its form"

    async def one(self):
        user = self.chance.choice(self.users)
        kind = self.chance.random()
        try:
            if kind < self.options.bad:
                outcome = await self.ask_badly(user)
            elif kind < self.options.bad + self.options.forms:
                outcome = await self.ask_for_form(user)
            else:
                outcome = await self.ask(user)
        except (Unfinished, OSError, ValueError, KeyError, asyncio.IncompleteReadError) as error:
            outcome = "lost"
            self.problems.append(f"{type(error).__name__}: {error}"[:200])
        self.outcomes[outcome] += 1

    # ---- the whole
    async def upload_all(self):
        for user in self.users:
            for number, picture in enumerate(self.pictures):
                body = b"".join(
                    b'--limit\r\nContent-Disposition: form-data; name="' + name + b'"\r\n\r\n' + value + b"\r\n"
                    for name, value in [(b"purpose", b"vision"), (b'file"; filename="%d.png' % number, picture)])
                async with Response(self.port) as response:
                    status = await response.send("POST", "/v1/files", "key-of-" + user, body + b"--limit--\r\n",
                                                 "multipart/form-data; boundary=limit")
                    answer = json.loads(await response.body())
                if status != 200:
                    raise SystemExit(f"serve_load.py: an upload was refused: {answer}")
                self.files[user][number] = answer["id"]

    async def fetch(self, path, user):
        async with Response(self.port) as response:
            await response.send("GET", path, "key-of-" + user)
            return (await response.body()).decode()

    async def watch_memory(self):
        begin = time.monotonic()
        while True:
            status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
            self.memory.append((time.monotonic() - begin, int(re.search(r"VmRSS:\s+(\d+)", status)[1])))
            await asyncio.sleep(1)

    async def run(self):
        begin = time.monotonic()
        await self.upload_all()
        self.upload_s = time.monotonic() - begin
        watch = asyncio.create_task(self.watch_memory())
        begin, tasks, next_s = time.monotonic(), set(), 0.0
        while (next_s := next_s + self.chance.expovariate(self.options.rate)) < self.options.seconds:
            await asyncio.sleep(max(0.0, begin + next_s - time.monotonic()))
            task = asyncio.create_task(self.one())
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)
        self.took_s = time.monotonic() - begin
        watch.cancel()
        await asyncio.sleep(1)  # the server notices within half a second that clients have left
        for user in self.users:
            listed = {file["id"] for file in json.loads(await self.fetch("/v1/files", user))["data"]}
            if listed != set(self.files[user].values()):
                self.problems.append(f"{user} has {len(listed)} files, not {len(self.files[user])}")
        metrics = await self.fetch("/metrics", "metrics")
        for name in ["ocellus_num_requests_running", "ocellus_num_requests_waiting", "ocellus_http_body_bytes"]:
            if float(re.search(rf"^{name} (\S+)$", metrics, re.MULTILINE)[1]) != 0:
                self.problems.append(f"{name} is not 0 at the end")

    def memory_growth(self):
        """The last half's median over that of the half before."""
        values = [kb for _, kb in self.memory[len(self.memory) // 10:]]
        half = len(values) // 2
        return statistics.median(values[half:]) / statistics.median(values[:half]) if half > 0 else 1.0

    def result(self):
        step = max(1, len(self.memory) // 20)
        return {"requests": sum(self.outcomes.values()), "outcomes": dict(self.outcomes), "problems": self.problems[:20],
                "seconds": round(self.took_s, 1), "uploads_per_s": round(len(self.users) * len(self.pictures) / self.upload_s, 2),
                "answers_per_s": round(self.outcomes["answered"] / self.took_s, 2),
                "tokens_per_s": round(self.tokens / self.took_s, 1), "ttft_ms": summary_ms(self.first_s),
                "ttft_ms_by_pictures": {count: summary_ms(self.first_by_count[count]) for count in sorted(self.first_by_count)},
                "request_ms": summary_ms(self.whole_s), "rss_mib": [[round(at), round(kb / 1024, 1)] for at, kb in self.memory[::step]],
                "rss_growth": round(self.memory_growth(), 4)}


def processor():
    name = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if "model name" in line), "?")
    return f"{name}, {os.cpu_count()} cores"


def write_lines(result):
    """JSON with a line for each field."""
    return "{\n" + ",\n".join(f" {json.dumps(name)}: {json.dumps(value)}" for name, value in result.items()) + "\n}\n"


async def serve(options, folder):
    keys = folder / "keys"
    keys.write_text("".join(f"key-of-{user} {user}\n" for user in
                            [*(f"user-{i}" for i in range(options.users)), "metrics"]))
    keys.chmod(0o600)
    process = await asyncio.create_subprocess_exec(
        options.program, "serve", "--http", "127.0.0.1:0", "--quiet", "--library", str(folder / "shelf"), "--api-keys",
        str(keys), "--images", str(options.most_pictures), *options.serve, stderr=asyncio.subprocess.PIPE)
    line = (await process.stderr.readline()).decode()
    found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
    if not found:
        raise SystemExit(f"serve_load.py: {line}{(await process.stderr.read()).decode()}")
    return process, int(found[1])


async def measure(options):
    with tempfile.TemporaryDirectory() as folder:
        process, port = await serve(options, pathlib.Path(folder))
        load = Load(options, port, process)
        try:
            await load.run()
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
            code = await process.wait()
        if code != 0:
            load.problems.append(f"the server ended with {code}")
        return load.result()


def make_parser(description):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--device", default=processor())
    return parser


def parse_arguments(parser):
    """The options; those after -- are the server's: options.serve."""
    arguments = sys.argv[1:]
    split = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_args(arguments[:split])
    options.serve = arguments[split + 1:]
    return options


def parse():
    parser = make_parser(__doc__)
    for name, default in [("rate", 2.0), ("seconds", 180.0), ("zipf", 1.0), ("long", 0.2), ("cancels", 0.05), ("bad", 0.05),
                          ("forms", 0.0)]:
        parser.add_argument(f"--{name}", type=float, default=default)
    for name, default in [("users", 4), ("pictures", 32), ("most-pictures", 8), ("seed", 1)]:
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--by", choices=["library", "data", "both"], default="library")
    options = parse_arguments(parser)
    if options.rate <= 0 or options.users < 1 or options.pictures < 1 or not 1 <= options.most_pictures <= 16:
        parser.error("--rate must be above 0, --users and --pictures 1 or more, --most-pictures 1 to 16")
    return options


def main():
    options = parse()
    measured = asyncio.run(measure(options))
    said = {name: value for name, value in vars(options).items() if name not in ("program", "out", "commit", "device")}
    words = " ".join(["--" + name.replace("_", "-") + f" {value}" for name, value in said.items() if name != "serve"])
    result = {"device": options.device, "date": datetime.date.today().isoformat(), "commit": options.commit,
              "command": f"tools/bench/serve_load.py build/release/apps/ocellus {options.out.name} {words}"
                         + "".join([" --"] * bool(options.serve) + [" " + one for one in options.serve]),
              **measured}
    options.out.write_text(write_lines(result))
    print(write_lines(measured), end="")
    lost = measured["problems"] or measured["outcomes"].get("lost", 0)
    sys.exit(1 if lost or measured["rss_growth"] > GROWTH else 0)


if __name__ == "__main__":
    main()
