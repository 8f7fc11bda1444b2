#!/usr/bin/env python3
"""Measures both arithmetics of --cpu-math on this machine, in turns, and writes one result file.

usage: cpu_math.py BUILD OUT.json [--threads 2,16] [--rounds 2] [--commit HASH]

BUILD is a build folder with the program, test_runtime and matmul_bench. Rows: the distance of first logits from those of
transformers, by family; products alone; prompts, decoding and pictures of the bundled pair and of public shapes in F16.
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import statistics
import subprocess

MATHS = ("f16", "bf16")
F16_SHAPE = ["--shape", "SmolVLM-256M", "--format", "F16"]
MODELS = {"bundled, Q8_0": ["-p", "512", "-n", "32", "--images", "0"],
          "SmolVLM-256M, F16": [*F16_SHAPE, "-p", "512", "-n", "16", "--images", "0"]}
PICTURES = {"SmolVLM-256M, F16, one picture": [*F16_SHAPE, "-p", "0", "-n", "0"]}  # on all cores only
TESTS = {"f16": "every family reads prompts, pictures and turns as transformers does",
         "bf16": "every family reads them so with products of bf16, less closely"}
DISTANCE = re.compile(r"MESSAGE: ([\w.\-]+): first logits within ([\d.e\-+]+)")
PRODUCT = re.compile(r"^(.{18}) (\S+)\s+T\s+(\d+)\s+K\s+(\d+)\s+N\s+(\d+)\s+([\d.]+) us\s+([\d.]+) GFLOP/s")


def run(command):
    return subprocess.run([str(part) for part in command], check=False, capture_output=True, text=True)


def cpu_name():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))


def cpu_features():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    flags = next(line.split(":", 1)[1].split() for line in lines if line.startswith("flags"))
    return [flag for flag in flags if flag.startswith("amx") or flag in ("avx2", "avx512_vnni", "avx512_bf16")]


def distances(build):
    by_math = {}
    for math, name in TESTS.items():
        result = run([build / "tests/test_runtime", f"--test-case={name.replace(',', '?')}", "--no-colors"])
        by_math[math] = {"passed": result.returncode == 0,
                         "first_logits": {family: float(value) for family, value in DISTANCE.findall(result.stdout)}}
    return by_math


def products(build, threads):
    rows = {}
    for math in MATHS:
        output = run([build / "bench/matmul_bench", threads, "0.02", math]).stdout
        for match in map(PRODUCT.match, output.splitlines()):
            if match:
                key = (match[1].strip(), match[2], int(match[3]), int(match[4]), int(match[5]))
                rows.setdefault(key, {})[math] = float(match[7])
    return [[*key, *(by_math.get(math) for math in MATHS)] for key, by_math in rows.items()]


def bench(build, threads, rounds, models):
    rows = []
    for model, options in models.items():
        samples = {math: {} for math in MATHS}
        for i in range(rounds):
            for math in MATHS if i % 2 == 0 else reversed(MATHS):
                result = run([build / "apps/ocellus", "bench", *options, "--threads", threads, "--device", "cpu", "-r",
                              "1", "--cpu-math", math, "--output", "json", "--quiet"])
                if result.returncode != 0:
                    raise SystemExit(f"bench of {model} failed: {result.stderr}")
                for row in json.loads(result.stdout)["rows"]:
                    if re.match(r"pp\d+$|tg\d+$|image encode$|TTFT 1 image", row["test"]):
                        samples[math].setdefault((row["test"], row["unit"]), []).append(row["mean"])
        for key in samples["f16"]:
            rows.append([model, *key, *(round(statistics.median(samples[math][key]), 2) for math in MATHS)])
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--threads", default="2," + str(len(os.sched_getaffinity(0))))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--commit", default="unknown")
    options = parser.parse_args()
    result = {"what": "both arithmetics of --cpu-math, in turns: distance of first logits from transformers', products "
                      "and whole runs",
              "device": cpu_name(), "features": cpu_features(),
              "date": datetime.date.today().isoformat(), "commit": options.commit,
              "command": "tools/bench/cpu_math.py BUILD OUT.json", "families": distances(options.build)}
    cores = str(len(os.sched_getaffinity(0)))
    for threads in dict.fromkeys(options.threads.split(",")):
        models = {**MODELS, **PICTURES} if threads == cores else MODELS
        result[f"matmul, {threads} threads"] = {
            "columns": ["name", "format", "T", "K", "N", "f16_gflop_s", "bf16_gflop_s"],
            "rows": products(options.build, threads)}
        result[f"bench, {threads} threads"] = {"columns": ["model", "test", "unit", *MATHS],
                                               "rows": bench(options.build, threads, options.rounds, models)}
    text = json.dumps(result, separators=(",", ":"))
    options.out.write_text(re.sub(r'(\[\["|,\["|,"\w[^"]*threads")', lambda m: "\n" + m[0], text) + "\n")
    print(options.out.read_text())


if __name__ == "__main__":
    main()
