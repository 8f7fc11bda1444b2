#!/usr/bin/env python3
"""Attacks `ocellus serve` and `ocellus watch synthetic --http` on this machine for a while, beside honest clients with
deadlines, and tells whether those were served rightly and in time, and whether the memory grew.

usage: http_attack.py PROGRAM RESULT.json --commit HASH [--seconds 3600] [--targets serve,watch] [--beside TEXT]
       [--device NAME] [--seed 1]
Exits 0 if every honest answer was right and none later than its deadline and a tenth, no attack was accepted, and the
memory of the last half was that of the first (after a tenth for warming up) within 5 %. It ends by itself.
"""

import argparse
import base64
import datetime
import http.client
import json
import os
import pathlib
import re
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BOARD = ROOT / "apps" / "samples" / "board_02.png"
# Answers to these are attacks that came through. Slow readers and closed halves ask for what they may have.
REFUSED = ["smuggling", "deep JSON", "huge bodies", "foreign origins", "garbage"]
COMMANDS = {"serve": ["serve", "--deadline", "30", "--threads", "1", "--quiet"],
            "watch": ["watch", "synthetic", "--fps", "10", "--every", "0.5", "--change", "0", "--json", "--threads", "1",
                      "-n", "64"]}
USERS = ["one", "two", "stream"]
GROWTH = 1.05
LATE = 1.1


def processor():
    name = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if "model name" in line), "?")
    return f"{name}, {os.cpu_count()} cores"


class Wrong(Exception):
    """An answer that is not what it should be."""


class Refused(Exception):
    """The server has too much to do, and said so, or had no place: to be tried again."""


class Target:
    def __init__(self, name, options):
        self.name, self.options = name, options
        self.arguments = [options.program, *COMMANDS[name], "--http", "127.0.0.1:0"]
        self.keys = {}
        if name == "serve":  # each honest client has one, the attackers two
            self.keys = {user: secrets.token_hex(16) for user in [*USERS, "metrics", "attacker", "crowd"]}
            self.key_file = tempfile.NamedTemporaryFile("w", suffix=".keys")  # for its owner only
            self.key_file.write("".join(f"{key} {user}\n" for user, key in self.keys.items()))
            self.key_file.flush()
            self.arguments += ["--api-keys", self.key_file.name]
        self.lock = threading.Lock()
        self.honest, self.samples, self.complaints, self.attacks = {}, [], [], {}
        self.exit_code = None

    # ---- honest clients
    def fetch(self, method, path, body=None, timeout_s=60, user=None):
        user = user or ("metrics" if path == "/metrics" else USERS[0])
        headers = {"Authorization": "Bearer " + self.keys[user]} if self.keys else {}
        if body:
            headers["Content-Type"] = "application/json"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        try:
            connection.request(method, path, body and json.dumps(body), headers)
            response = connection.getresponse()
            data = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise Refused(f"{type(error).__name__}: {error}") from error
        finally:
            connection.close()
        if response.status in (429, 503):
            raise Refused(str(response.status))
        if response.status not in (200, 202):
            raise Wrong(f"{method} {path}: {response.status} {data[:200]!r}")
        return data

    def ask(self, kind, deadline_s, once):
        """Tries until it is answered; what is refused may come a second later, but counts from the first try."""
        begin, refused = time.monotonic(), []
        problem = None
        while True:
            try:
                once(max(1.0, LATE * deadline_s - (time.monotonic() - begin)))
                break
            except Refused as error:
                refused.append(str(error))
                if time.monotonic() - begin > LATE * deadline_s or not self.is_alive():
                    problem = f"never answered: {error}"
                    break
                time.sleep(0.2)
            except (Wrong, ValueError, KeyError) as error:
                problem = str(error)
                break
        took = time.monotonic() - begin
        with self.lock:
            counts = self.honest.setdefault(kind, {"deadline_s": deadline_s, "answers": 0, "wrong": 0, "late": 0,
                                                   "tries_refused": 0, "took_s": []})
            counts["answers"] += 1
            counts["wrong"] += problem is not None
            counts["late"] += problem is None and took > LATE * deadline_s
            counts["tries_refused"] += len(refused)
            counts["took_s"].append(took)
            if (problem or took > LATE * deadline_s) and len(self.complaints) < 20:
                at = round(time.monotonic() - self.start, 1)
                self.complaints.append(f"{at} s: {kind}: {problem or 'late'} after {took:.2f} s; refused: {refused[-3:]}")

    def honest_clients(self):
        return self.serve_clients() if self.name == "serve" else self.watch_clients()

    def serve_clients(self):
        picture = "data:image/png;base64," + base64.b64encode(BOARD.read_bytes()).decode()
        caption = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": picture}},
                                                {"type": "text", "text": "Caption this image."}]}]

        def describe(user):
            def once(timeout_s):
                body = {"messages": caption, "temperature": 0}
                answer = json.loads(self.fetch("POST", "/v1/chat/completions", body, timeout_s, user))
                if answer["choices"][0]["message"]["content"] != self.caption:
                    raise Wrong(f"caption: {answer}")
            return once

        def stream(timeout_s):
            body = {"messages": caption, "temperature": 0, "stream": True}
            data = self.fetch("POST", "/v1/chat/completions", body, timeout_s, "stream").decode()
            events = [line[6:] for line in data.split("\n\n") if line.startswith("data: ")]
            if events[-1] != "[DONE]":
                raise Wrong(f"stream: {data[-300:]}")
            text = "".join(json.loads(one)["choices"][0]["delta"].get("content", "") for one in events[:-1])
            if text != self.caption:
                raise Wrong(f"stream: {text}")

        def models(timeout_s):
            if not json.loads(self.fetch("GET", "/v1/models", None, timeout_s))["data"]:
                raise Wrong("no model")
        return [("caption", 30, 1.0, describe("one")), ("another caption", 30, 1.5, describe("two")),
                ("stream", 30, 2.0, stream), ("models", 2, 0.5, models), ("metrics", 2, 2.0, self.check_metrics)]

    def watch_clients(self):
        seen = {"answered": 0}

        def state(timeout_s):
            one = json.loads(self.fetch("GET", "/api/state", None, timeout_s))
            if one["source"]["state"] != "running" or one["frames"]["failed"] or one["frames"]["answered"] < seen["answered"]:
                raise Wrong(f"state: {one['source']} {one['frames']}")
            seen["answered"] = one["frames"]["answered"]

        def picture(timeout_s):
            data = self.fetch("GET", "/frame.jpg", None, timeout_s)
            if data[:2] != b"\xff\xd8" or data[-2:] != b"\xff\xd9":
                raise Wrong(f"picture: {data[:20]!r}")

        def question(timeout_s):
            begin = time.monotonic()
            number = json.loads(self.fetch("POST", "/api/question", {"text": "What is on the left?"}, timeout_s))["id"]
            while time.monotonic() - begin < timeout_s:
                try:
                    answers = json.loads(self.fetch("GET", "/api/answers", None, timeout_s))["answers"]
                except Refused:
                    answers = []
                found = [one for one in answers if one["id"] == number]
                if found and (found[0]["error"] or not found[0]["text"]):
                    raise Wrong(f"answer: {found[0]}")
                if found:
                    return
                time.sleep(0.2)
            raise Refused("the question was not answered")

        def settings(timeout_s):
            every = 0.5 + (int(time.monotonic()) % 3) / 10
            got = json.loads(self.fetch("POST", "/api/settings", {"every_s": every}, timeout_s))
            if "settings" not in got:
                raise Wrong(f"settings: {got}")
        return [("state", 2, 0.5, state), ("picture", 2, 0.5, picture), ("question", 30, 5, question),
                ("settings", 2, 3, settings), ("metrics", 2, 2.0, self.check_metrics)]

    def check_metrics(self, timeout_s):
        if b"process_resident_memory_bytes" not in self.fetch("GET", "/metrics", None, timeout_s):
            raise Wrong("metrics")

    def run_client(self, kind, deadline_s, pause_s, once):
        while time.monotonic() < self.end and self.is_alive():
            self.ask(kind, deadline_s, once)
            time.sleep(pause_s)

    # ---- the program
    def is_alive(self):
        return self.process.poll() is None

    def start_program(self):
        out = subprocess.DEVNULL
        self.process = subprocess.Popen(self.arguments, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
            if found:
                self.port = int(found[1])
                break
        else:
            raise SystemExit(f"{self.name} did not start: exit code {self.process.wait()}")
        threading.Thread(target=self.process.stderr.read, daemon=True).start()  # a full pipe would stop it
        if self.name == "serve":
            done = subprocess.run([self.options.program, "caption", "--quiet", "--threads", "1", BOARD], capture_output=True,
                                  text=True, check=True)
            self.caption = done.stdout.strip()
        else:
            self.wait_for_picture()

    def wait_for_picture(self):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                return self.fetch("GET", "/frame.jpg")
            except (Wrong, Refused):
                time.sleep(0.1)
        raise SystemExit("watch shows no picture")

    def sample(self):
        try:
            status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
            descriptors = len(os.listdir(f"/proc/{self.process.pid}/fd"))
        except OSError:
            return
        fields = dict(line.split(":", 1) for line in status.splitlines())
        if "VmRSS" in fields:
            self.samples.append((time.monotonic() - self.start, int(fields["VmRSS"].split()[0]) * 1024, descriptors))
            self.peak = int(fields["VmHWM"].split()[0]) * 1024

    def run(self):
        self.start_program()
        self.start = time.monotonic()
        self.end = self.start + self.options.seconds
        attackers = subprocess.Popen(
            [sys.executable, "-B", pathlib.Path(__file__).with_name("http_attackers.py"), str(self.port), self.name,
             str(self.options.seconds), str(self.options.seed), *[self.keys[user] for user in ("attacker", "crowd") if self.keys]],
            stdout=subprocess.PIPE, text=True)
        try:
            clients = [threading.Thread(target=self.run_client, args=one, daemon=True) for one in self.honest_clients()]
            for client in clients:
                client.start()
            while time.monotonic() < self.end and self.is_alive():
                self.sample()
                time.sleep(1)
            for client in clients:
                client.join(60)
            self.attacks = json.loads(attackers.communicate(timeout=90)[0] or "{}")
        finally:
            for process, how in ((attackers, signal.SIGKILL), (self.process, signal.SIGTERM)):
                if process.poll() is None:
                    process.send_signal(how)
            try:
                self.exit_code = self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()

    # ---- the result
    def memory(self):
        warm = [one for one in self.samples if one[0] > self.options.seconds / 10]
        if len(warm) < 4:
            return {}
        first, last = warm[:len(warm) // 2], warm[len(warm) // 2:]
        parts = [warm[len(warm) * i // 12:len(warm) * (i + 1) // 12] for i in range(12)]
        first_mean, last_mean = (statistics.mean(one[1] for one in half) for half in (first, last))
        return {"at_start_bytes": self.samples[0][1], "peak_bytes": self.peak, "first_half_mean_bytes": round(first_mean),
                "last_half_mean_bytes": round(last_mean),
                "first_half_median_bytes": statistics.median_low(one[1] for one in first),
                "last_half_median_bytes": statistics.median_low(one[1] for one in last),
                "last_over_first": round(last_mean / first_mean, 4),
                "least_bytes_by_twelfth": [min(one[1] for one in part) for part in parts if part],
                "mean_bytes_by_twelfth": [round(statistics.mean(one[1] for one in part)) for part in parts if part],
                "most_descriptors": max(one[2] for one in warm), "last_descriptors": self.samples[-1][2]}

    def result(self):
        honest = {}
        for kind, counts in sorted(self.honest.items()):
            took = sorted(counts["took_s"])
            honest[kind] = {**{name: value for name, value in counts.items() if name != "took_s"},
                            "median_s": round(statistics.median(took), 3), "p99_s": round(took[int(0.99 * (len(took) - 1))], 3),
                            "most_s": round(took[-1], 3)}
        accepted = sum(count for kind in REFUSED for what, count in self.attacks.get(kind, {}).items() if what.startswith("2"))
        memory = self.memory()
        total = {name: sum(one[name] for one in honest.values()) for name in ("answers", "wrong", "late")}
        is_good = (self.exit_code == 0 and total["answers"] > 0 and not total["wrong"] and not total["late"] and not accepted and
                   bool(self.attacks) and memory.get("last_over_first", 9) <= GROWTH)
        command = " ".join(["ocellus", *("KEYS" if self.keys and one == self.key_file.name else one for one in self.arguments[1:])])
        return {"command": command, "passed": is_good, "exit_code": self.exit_code,
                "honest": total, "attacks_accepted": accepted, "memory": memory, "honest_by_kind": honest,
                "attacks": self.attacks, "complaints": self.complaints}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("program")
    parser.add_argument("result")
    parser.add_argument("--commit", required=True)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--targets", default="serve,watch")
    parser.add_argument("--beside", help="what else the machine did")
    parser.add_argument("--device")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    targets = [Target(name, options) for name in options.targets.split(",")]
    threads = [threading.Thread(target=target.run, daemon=True) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(options.seconds + 300)
    result = {"what": "serve and watch under attack, beside honest clients with deadlines",
              "device": options.device or processor(), "date": datetime.date.today().isoformat(), "commit": options.commit,
              **({"beside": options.beside} if options.beside else {}), "seconds": options.seconds,
              "script": "tools/bench/http_attack.py", **{target.name: target.result() for target in targets}}
    pathlib.Path(options.result).write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))
    return 0 if all(result[target.name]["passed"] for target in targets) else 1


if __name__ == "__main__":
    sys.exit(main())
