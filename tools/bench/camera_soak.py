#!/usr/bin/env python3
"""Runs `ocellus watch synthetic` for a long time with faults, a page that is looked at, questions and changed settings, and
tells whether anything grew or became slower.

usage: camera_soak.py PROGRAM RESULT.json --commit HASH [--minutes 60] [--window 10] [--fps 30] [--beside TEXT]
       [--device NAME] [-- FURTHER WATCH ARGUMENTS]
PROGRAM: tests/ocellus_counted of a build of that commit, which counts what the library allocates. TEXT: what else the
machine did.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time
import urllib.request

FAULTS = ("stall@300:3s,broken@500:3,truncated@600,damaged@700,resize@900:320x240,unplug@1200:3s,errors@1500:4,"
          "skip@1700:7,resize@1900:640x480,loop@2400")


def processor():
    name = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if "model name" in line), "?")
    return f"{name}, {os.cpu_count()} cores"


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


class Soak:
    def __init__(self, options):
        self.options = options
        self.captions, self.notes, self.answers, self.samples = [], [], [], []
        self.end = None
        self.events = {}
        self.pictures = 0
        self.counted, self.damaged = None, 0
        self.date = datetime.date.today().isoformat()
        self.arguments = [options.program, "watch", "synthetic", "--json", "--http", "127.0.0.1:0", "--format", "mjpeg",
                          "--fps", str(options.fps), "--faults", FAULTS, "--seed", "11", *options.further]

    def read_lines(self, process):
        for line in process.stdout:
            one = json.loads(line)
            if one["kind"] == "caption":  # what is needed of an hour's captions, not all of each
                self.captions.append((time.monotonic() - self.start, one["total_ms"], one["age_ms"], bool(one["error"]),
                                      one["ttft_ms"]))
                self.damaged += "damaged" in one["error"]
            elif one["kind"] == "note":
                self.notes.append(one["text"])
            elif one["kind"] == "answer":
                self.answers.append(bool(one["text"]) and not one["error"])
            else:
                self.end = one

    def read_errors(self, process):
        for line in process.stderr:
            found = re.search(r"http://\S+", line)
            if found and not self.url:
                self.url = found.group(0)
            if line.startswith('{"library_calls"'):
                self.counted = json.loads(line)

    def look(self, process):
        """A page that is open: events are read, pictures fetched."""
        while process.poll() is None:
            try:
                with urllib.request.urlopen(self.url + "/api/events", timeout=30) as events:
                    for line in events:
                        if not line.startswith(b"event: "):
                            continue
                        name = line[7:].strip().decode()
                        self.events[name] = self.events.get(name, 0) + 1
                        if name == "frame" and self.events[name] % 5 == 0:
                            with urllib.request.urlopen(self.url + "/frame.jpg", timeout=30) as picture:
                                self.pictures += picture.read(2) == b"\xff\xd8"
            except OSError:
                time.sleep(0.2)

    def post(self, path, data):
        request = urllib.request.Request(self.url + path, json.dumps(data).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)

    def sample(self):
        with urllib.request.urlopen(self.url + "/metrics", timeout=30) as response:
            metrics = dict(line.rsplit(" ", 1) for line in response.read().decode().splitlines() if line[0] != "#")
        with urllib.request.urlopen(self.url + "/api/state", timeout=30) as response:
            memory = json.load(response)["memory"]
        self.samples.append({"at_s": round(time.monotonic() - self.start, 1),
                             "rss_bytes": int(float(metrics["process_resident_memory_bytes"])),
                             "open_files": int(float(metrics["process_open_fds"])),
                             "arena_bytes": memory["total_bytes"], "session_used_bytes": memory["session_used_bytes"],
                             "frame_bytes": memory["frame_bytes"]})

    def run(self):
        self.start, self.url = time.monotonic(), ""
        process = subprocess.Popen(self.arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        readers = [threading.Thread(target=read, args=(process,)) for read in (self.read_lines, self.read_errors)]
        for reader in readers:
            reader.start()
        while not self.url and process.poll() is None:
            time.sleep(0.05)
        threading.Thread(target=self.look, args=(process,), daemon=True).start()
        questions = ["What changed?", "Which images show a red circle?", "When did the blue square appear?"]
        seconds, step = 60 * self.options.minutes, 0
        while time.monotonic() - self.start < seconds and process.poll() is None:
            time.sleep(10)
            self.sample()
            step += 1
            if step % 3 == 0:
                self.post("/api/question", {"text": questions[step // 3 % len(questions)]})
        process.terminate()
        self.code = process.wait(60)
        for reader in readers:
            reader.join()

    def window(self, first_s, last_s):
        chosen = [one for one in self.captions if first_s <= one[0] < last_s and not one[3]]
        return {"captions": len(chosen),
                **{f"{name}_{quantile}_ms": round(percentile([one[place] for one in chosen], share), 2)
                   for place, name in ((1, "work"), (2, "age"))
                   for quantile, share in (("p50", .5), ("p99", .99))}} if chosen else {"captions": 0}

    def result(self):
        last = self.captions[-1][0] if self.captions else 0
        window_s = 60 * self.options.window
        # After the first minute what the process needs is there: pools of threads, buffers, the longest line.
        settled = [one for one in self.samples if one["at_s"] > min(120, 0.2 * last)]
        spread = {name: {"first": settled[0][name], "least": min(one[name] for one in settled),
                         "most": max(one[name] for one in settled), "last": settled[-1][name]}
                  for name in ("rss_bytes", "open_files", "arena_bytes", "session_used_bytes", "frame_bytes")}
        frames = self.end["frames"] if self.end else {}
        kinds = {name: sum(part in note for note in self.notes) for name, part in (
            ("stalls", "No frame has come"), ("came_again", "arrive again"), ("broken", "broken"),
            ("truncated", "truncated"), ("size_changes", "size has changed"), ("unplugged", "unplugged"),
            ("driver_errors", "input/output error"), ("back", "is back"))}
        kinds["damaged"] = self.damaged  # of those that no newer frame replaced
        first, final = self.window(0, window_s), self.window(last - window_s, last + 1)
        return {"what": "the camera app on the made-up camera with faults, a page that is looked at and questions",
                "device": self.options.device or processor(), "date": self.date, "commit": self.options.commit,
                **({"beside": self.options.beside} if self.options.beside else {}),
                "command": " ".join(["ocellus_counted", *self.arguments[1:]]), "minutes": round(last / 60, 2),
                "exit_code": self.code, "frames": frames, "faults_told": kinds, "captions": len(self.captions),
                "captions_failed": sum(one[3] for one in self.captions), "questions": len(self.answers),
                "questions_answered": sum(self.answers), "events": self.events, "pictures_fetched": self.pictures,
                "library": self.counted, "memory": spread, "first_window": first, "last_window": final,
                "p99_last_over_first": round(final["work_p99_ms"] / first["work_p99_ms"], 3) if first["captions"] else None}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("program")
    parser.add_argument("result")
    parser.add_argument("--commit", required=True)
    parser.add_argument("--beside")
    parser.add_argument("--device")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--window", type=float, default=10, help="minutes at both ends that are compared")
    parser.add_argument("--fps", type=float, default=30)
    arguments = sys.argv[1:]
    further = arguments[arguments.index("--") + 1:] if "--" in arguments else []
    options = parser.parse_args(arguments[:arguments.index("--")] if "--" in arguments else arguments)
    options.further = further
    soak = Soak(options)
    soak.run()
    result = soak.result()
    pathlib.Path(options.result).write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))
    return 0 if soak.code == 0 and result["library"]["library_allocations"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
