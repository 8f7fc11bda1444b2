#!/usr/bin/env python3
"""Measures throughput and the time to the first token of `ocellus serve` against the request rate, for several ways of
reusing pictures: figure 10 of InfoBlend.

For every shape and way a server is started, on made-up weights unless it is the bundled pair. Ways that reuse pictures at
any place get all of them as files first, which requests then name; `none` and `prefix` get them with every request, and
`prefix` keeps those of the last conversations on the device.
Requests then arrive at random (Poisson) at one rate after the other, each with some of the pictures, the popular ones more
often (Zipf), in random order after one of a few texts, and all with the same number of tokens in the answer. What is not
answered soon after the last arrival is given up. Rates beyond one that was not kept up with are left out.

usage: serve_rates.py PROGRAM RESULT.json --commit HASH --shape NAME|bundled [--shape NAME ...] [--format Q8_0]
       [--ways none,prefix,full,cacheblend:15,mpic:32,carry:32] [--rates 1,2,4,8] [--seconds 6] [--drain 3]
       [--pictures 16] [--per-request 4] [--size 512x256] [--zipf 1] [--tokens 16] [--sessions 16]
       [--library-cache 8G] [--ttft-ms 1000] [--seed 1] [--device NAME] [-- flags of `ocellus serve`]
Exits 0 if every point has answers and no request failed. Uses Python's standard library only.
"""

import asyncio
import base64
import collections
import datetime
import json
import random
import re
import signal
import sys
import tempfile
import time

import serve_load

START_S = 300  # to load weights and record graphs
IN_FLIGHT = 96  # the server takes 128 connections
KEPT_UP = 0.8  # answered share of the arrivals below which higher rates are left out
PREFIXES = ["Look at these pictures.", "You see some boards.", "Here are photos from today.", "Read what follows."]


class Server:
    def __init__(self, options, shape, way, folder):
        self.options, self.shape, self.way, self.folder = options, shape, way, folder

    def flags(self):
        o = self.options
        library = ["--library", self.folder, "--owner", "bench", "--library-cache", o.library_cache] if self.has_files() else []
        # Other ways with files share as many by themselves.
        shares = self.way == "prefix" or self.way.startswith("carry")
        shared = ["--shared-images", o.sessions * o.per_request] if shares else []
        model = [] if self.shape == "bundled" else ["--shape", self.shape, "--format", o.format]
        return ["serve", "--http", "127.0.0.1:0", "--quiet", *model, "--sessions", o.sessions, "--images", o.per_request, "--text-tokens",
                256, "--queue", 2 * IN_FLIGHT, "--reuse", self.way, *library, *shared, *o.serve]

    async def __aenter__(self):
        begin = time.monotonic()
        self.process = await asyncio.create_subprocess_exec(self.options.program, *map(str, self.flags()),
                                                            stderr=asyncio.subprocess.PIPE)
        line = await asyncio.wait_for(self.process.stderr.readline(), START_S)
        found = re.search(rb"http://127\.0\.0\.1:(\d+)", line)
        if not found:
            raise SystemExit(f"serve_rates.py: {line.decode()}{(await self.process.stderr.read()).decode()}")
        self.port, self.start_s = int(found[1]), time.monotonic() - begin
        return self

    async def __aexit__(self, *_):
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
        await self.process.wait()

    def has_files(self):
        return self.way not in ("none", "prefix")

    async def upload(self, picture, number):
        """The file's id."""
        body = b"".join(b'--limit\r\nContent-Disposition: form-data; name="' + name + b'"\r\n\r\n' + value + b"\r\n"
                        for name, value in [(b"purpose", b"vision"), (b'file"; filename="%d.png' % number, picture)])
        async with serve_load.Response(self.port) as response:
            status = await response.send("POST", "/v1/files", "", body + b"--limit--\r\n",
                                         "multipart/form-data; boundary=limit")
            body = (await response.body()).decode()
            if status != 200:
                raise SystemExit(f"serve_rates.py: an upload was refused: {body}")
            return json.loads(body)["id"]

    async def metrics(self):
        async with serve_load.Response(self.port) as response:
            await response.send("GET", "/metrics", "")
            text = (await response.body()).decode()
        names = {"first_s": "ocellus_time_to_first_token_seconds_sum", "firsts": "ocellus_time_to_first_token_seconds_count",
                 "shared_hits": "ocellus_shared_image_hits_total"}
        found = {name: re.search(rf"^{metric} (\S+)$", text, re.MULTILINE) for name, metric in names.items()}
        return {name: float(match[1]) if match else 0.0 for name, match in found.items()}


class Point:
    """The requests of one rate."""

    def __init__(self, options, server, pictures, rate):
        self.options, self.server, self.rate = options, server, rate
        self.urls = pictures
        self.chance = random.Random(f"{options.seed} {rate}")  # the same arrivals for every way
        self.outcomes, self.errors = collections.Counter(), collections.Counter()
        self.first_s, self.whole_s, self.tokens = [], [], 0

    def body(self):
        weights = [1 / (rank + 1) ** self.options.zipf for rank in range(len(self.urls))]
        chosen = []
        while len(chosen) < self.options.per_request:
            one = self.chance.choices(range(len(self.urls)), weights)[0]
            if one not in chosen:
                chosen.append(one)
        content = [{"type": "text", "text": self.chance.choice(PREFIXES)},
                   *[{"type": "image_url", "image_url": {"url": self.urls[one]}} for one in chosen],
                   {"type": "text", "text": self.chance.choice(serve_load.QUESTIONS)}]
        return json.dumps({"messages": [{"role": "user", "content": content}], "stream": True, "ignore_eos": True,
                           "max_tokens": self.options.tokens, "stream_options": {"include_usage": True}}).encode()

    async def ask(self, body):
        begin, first, last = time.monotonic(), None, b""
        try:
            async with serve_load.Response(self.server.port) as response:
                status = await response.send("POST", "/v1/chat/completions", "", body)
                if status != 200:
                    self.outcomes["refused" if status == 429 else "failed"] += 1
                    self.errors[(await response.body()).decode()[:200]] += 1
                    return
                async for piece in response.pieces():
                    if first is None and b'"content":"' in piece.replace(b'"content":""', b""):
                        first = time.monotonic() - begin
                        self.first_s.append(first)
                    last = (last + piece)[-2000:]
            self.tokens += int(re.search(rb'"completion_tokens":(\d+)', last)[1])
            self.whole_s.append(time.monotonic() - begin)
            self.outcomes["answered"] += 1
        except asyncio.CancelledError:
            self.outcomes["given up"] += 1
        except (serve_load.Unfinished, OSError, TypeError, ValueError, asyncio.IncompleteReadError) as error:
            self.outcomes["failed"] += 1
            self.errors[f"{type(error).__name__}: {error}"[:200]] += 1

    async def run(self):
        before = await self.server.metrics()
        begin, tasks, next_s = time.monotonic(), set(), 0.0
        while (next_s := next_s + self.chance.expovariate(self.rate)) < self.options.seconds:
            body = self.body()
            await asyncio.sleep(max(0.0, begin + next_s - time.monotonic()))
            if len(tasks) >= IN_FLIGHT:
                self.outcomes["not sent"] += 1
                continue
            task = asyncio.create_task(self.ask(body))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.sleep(max(0.0, begin + self.options.seconds - time.monotonic()))
        if tasks:
            await asyncio.wait(tasks, timeout=self.options.drain)
        took_s = time.monotonic() - begin
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.6)  # until the server has noticed who left
        after = await self.server.metrics()
        firsts = after["firsts"] - before["firsts"]
        requests, answered = sum(self.outcomes.values()), self.outcomes["answered"]
        mean = 1000 * (after["first_s"] - before["first_s"]) / firsts if firsts else None
        return {"rate": self.rate, "requests": requests, "outcomes": dict(self.outcomes),
                "kept_up": round(answered / requests, 3) if requests else None,
                "answers_per_s": round(answered / took_s, 2), "tokens_per_s": round(self.tokens / took_s, 1),
                "ttft_ms": {"mean": mean and round(mean, 1), **serve_load.summary_ms(self.first_s)},
                "request_ms": serve_load.summary_ms(self.whole_s),
                "shared_image_hits": int(after["shared_hits"] - before["shared_hits"]), "errors": dict(self.errors.most_common(3))}


async def measure_way(options, shape, way, pictures):
    urls = ["data:image/png;base64," + base64.b64encode(picture).decode() for picture in pictures]
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        async with Server(options, shape, way, folder) as server:
            begin = time.monotonic()
            if server.has_files():
                urls = ["library:" + await server.upload(picture, number) for number, picture in enumerate(pictures)]
            upload_s = time.monotonic() - begin
            warm = Point(options, server, urls, 1.0)
            await warm.ask(warm.body())
            points = []
            for rate in options.rates:
                points.append({"shape": shape, "way": way, **await Point(options, server, urls, rate).run()})
                print(json.dumps(points[-1]), flush=True)
                if (points[-1]["kept_up"] or 0) < KEPT_UP:
                    break
            return points, {"shape": shape, "way": way, "start_s": round(server.start_s, 1), "upload_s": round(upload_s, 1)}


def rate_at(points, ttft_ms):
    """The rate at which the mean time to the first token reaches a bound, between the rates measured."""
    before = None
    for point in points:
        if point["kept_up"] < KEPT_UP or point["ttft_ms"]["mean"] is None:
            break
        if point["ttft_ms"]["mean"] > ttft_ms:
            if before is None:
                return None
            low, high = before["ttft_ms"]["mean"], point["ttft_ms"]["mean"]
            return round(before["rate"] + (point["rate"] - before["rate"]) * (ttft_ms - low) / (high - low), 2)
        before = point
    return before and before["rate"]


def compare(options, points):
    """By shape: the rate of each way at equal time to the first token, and its time over CacheBlend's at equal rates."""
    compared = []
    for shape in options.shape:
        of = {way: [p for p in points if (p["shape"], p["way"]) == (shape, way)] for way in options.ways}
        line = {"shape": shape, f"rate at {options.ttft_ms} ms": {way: rate_at(of[way], options.ttft_ms) for way in of}}
        blend = next((way for way in of if way.startswith("cacheblend")), None)
        for base in of.get(blend, []):
            same = {way: p["ttft_ms"]["mean"] for way in of for p in of[way] if p["rate"] == base["rate"]}
            if base["ttft_ms"]["mean"]:
                line[f"TTFT over {blend}'s at {base['rate']}/s"] = {
                    way: round(ms / base["ttft_ms"]["mean"], 3) for way, ms in same.items() if ms}
        compared.append(line)
    return compared


def list_lines(items):
    return "[\n  " + ",\n  ".join(json.dumps(item) for item in items) + "\n ]"


def parse():
    parser = serve_load.make_parser(__doc__)
    parser.add_argument("--shape", action="append", required=True)
    for name, default in [("format", "Q8_0"), ("library-cache", "8G"), ("size", "512x256"),
                          ("ways", "none,prefix,full,cacheblend:15,mpic:32,carry:32"), ("rates", "1,2,4,8")]:
        parser.add_argument(f"--{name}", default=default)
    for name, default in [("seconds", 6.0), ("drain", 3.0), ("zipf", 1.0)]:
        parser.add_argument(f"--{name}", type=float, default=default)
    for name, default in [("pictures", 16), ("per-request", 4), ("tokens", 16), ("sessions", 16), ("ttft-ms", 1000), ("seed", 1)]:
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--folder", help="where libraries are kept for the time (default: the system's for such files)")
    options = serve_load.parse_arguments(parser)
    options.ways = options.ways.split(",")
    options.rates = [float(rate) for rate in options.rates.split(",")]
    if min(options.rates) <= 0 or sorted(options.rates) != options.rates or not 1 <= options.per_request <= options.pictures:
        parser.error("--rates must be above 0 and ascend, --per-request 1 to the number of pictures")
    options.width, options.height = [int(side) for side in options.size.split("x")]
    return options


def main():
    options = parse()
    pictures = [serve_load.make_picture(i, options.width, options.height) for i in range(options.pictures)]
    begin, points, servers = time.monotonic(), [], []
    for shape in options.shape:
        for way in options.ways:
            measured, server = asyncio.run(measure_way(options, shape, way, pictures))
            points += measured
            servers.append(server)
    command = "tools/bench/serve_rates.py build/release/apps/ocellus " + " ".join(sys.argv[2:])
    head = {"device": options.device, "date": datetime.date.today().isoformat(), "commit": options.commit, "command": command,
            "seconds": round(time.monotonic() - begin)}
    lines = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()]
    lines += [f' "{name}": {list_lines(items)}' for name, items in
              [("compared", compare(options, points)), ("servers", servers), ("points", points)]]
    options.out.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    failed = sum(point["outcomes"].get("failed", 0) for point in points)
    silent = [point for point in points if point["outcomes"].get("answered", 0) == 0]
    sys.exit(1 if failed or silent else 0)


if __name__ == "__main__":
    main()
