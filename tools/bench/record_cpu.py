#!/usr/bin/env python3
"""Measures the CPU backend on this machine and writes one result file.

usage: record_cpu.py BINARY OUT.json [--eval QUESTIONS.jsonl] [--commit HASH]

Rows: the program's own `bench` (llama-bench names), a whole caption process (wall time and peak resident memory over
several runs), time and memory over 1 to 16 images in one prompt, and, if asked for, accuracy over a question file.
Every figure carries the command that made it.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import shlex
import statistics
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SAMPLES = sorted((ROOT / "apps/samples").glob("*.png"))


def run(command):
    """Output of a command, its wall seconds and its peak resident bytes."""
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - start
    if status != 0:
        raise SystemExit(f"failed ({status}): {shlex.join(command)}")
    return output.decode(), seconds, usage.ru_maxrss * 1024


def shown(command):
    """A command as a reader would type it from the top of the checkout."""
    return shlex.join(str(pathlib.Path(part).relative_to(ROOT)) if str(part).startswith(str(ROOT)) else str(part)
                      for part in ["ocellus", *command[1:]])


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def caption_process(binary, repetitions):
    """A whole process: start, open, plan, load, encode, answer, exit."""
    command = [binary, "caption", str(SAMPLES[0])]
    runs = [run(command) for _ in range(repetitions)]
    return {"command": shown(command), "repetitions": repetitions,
            "seconds_median": statistics.median(seconds for _, seconds, _ in runs),
            "seconds_max": max(seconds for _, seconds, _ in runs),
            "peak_resident_bytes": max(resident for _, _, resident in runs), "answer": runs[0][0].strip()}


def images_in_one_prompt(binary, repetitions):
    """Time to the first token, arena and resident memory over the number of images."""
    rows = []
    for count in (1, 2, 4, 8, 16):
        command = [binary, "ask", "--json", "-n", "4", "--prompt", "Describe image 1.",
                   *(str(SAMPLES[i % len(SAMPLES)]) for i in range(count))]
        runs = [run(command) for _ in range(repetitions)]
        answers = [json.loads(output.strip().splitlines()[-1]) for output, _, _ in runs]
        rows.append({"images": count, "command": shown(command),
                     "ttft_ms_median": statistics.median(answer["ttft_ms"] for answer in answers),
                     "arena_bytes": answers[0].get("arena_bytes"),
                     "peak_resident_bytes": max(resident for _, _, resident in runs)})
    return rows


def accuracy(binary, questions):
    rows = {}
    for count in (1, 4, 8, 16):
        command = [binary, "eval", questions, "--per-question", str(count), "--json", "--quiet"]
        summary = json.loads(run(command)[0].strip().splitlines()[-1])
        rows[str(count)] = {key: summary[key] for key in ("questions", "exact", "accuracy", "kv_bytes", "arena_bytes",
                                                          "ttft_ms", "decode_tok_s")}
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("out")
    parser.add_argument("--eval", dest="questions")
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--commit", help="of the binary; default: this checkout's")
    args = parser.parse_args()
    binary = str(pathlib.Path(args.binary).resolve())

    bench = [binary, "bench", "--output", "json", "-r", str(args.repetitions)]
    commit = args.commit or subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True,
                                           text=True).stdout.strip()
    result = {
        "device": f"{cpu_name()}, {len(os.sched_getaffinity(0))} cores",
        "date": datetime.date.today().isoformat(),
        "commit": commit,
        "command": f"tools/bench/{pathlib.Path(__file__).name}",
        "bench": {"command": shown(bench), "result": json.loads(run(bench)[0])},
        "caption_process": caption_process(binary, args.repetitions),
        "images_in_one_prompt": images_in_one_prompt(binary, 5),
    }
    if args.questions:
        result["accuracy"] = accuracy(binary, args.questions)
    pathlib.Path(args.out).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
