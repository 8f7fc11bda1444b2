#!/usr/bin/env python3
"""Measures the Python package: import, the cost of a call, long runs, and llama-cpp-python beside it.

    python tools/bench/python_bench.py import|overhead|soak|peer [--runs N] [--model FILE] [--threads N] [--device D]

Run it by a Python that has the package and, for `import`, NumPy; for `peer`, llama-cpp-python and a text model that both
read (`ocellus make-model`). Prints one JSON object."""
from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import time

CHILD_TIMES = {  # seconds from a fresh interpreter's first line
    "ocellus": "import ocellus",
    "numpy": "import numpy",
    "nothing": "pass",
}
FIRST_TOKEN = {
    "ocellus": """
import ocellus
engine = ocellus.Engine({model!r}, text_tokens=512, device="cpu", thread_count={threads}, max_constraints=0)
loaded = time.perf_counter()
stream = engine.session().ask([], {prompt!r}, stream=True, max_tokens={tokens}, ignore_end=1)
next(stream)
first = time.perf_counter()
stats = stream.answer.stats
rate = 1000 * (stats.generated_tokens - 1) / stats.decode_ms
""",
    "llama-cpp-python": """
import llama_cpp
engine = llama_cpp.Llama({model!r}, n_ctx=1024, n_threads={threads}, n_threads_batch={threads}, verbose=False)
loaded = time.perf_counter()
times = []
for _ in engine.create_completion({prompt!r}, stream=True, max_tokens={tokens}, temperature=0,
                                  logit_bias={{engine.token_eos(): -100.0}}):
    times.append(time.perf_counter())
first = times[0]
rate = (len(times) - 1) / (times[-1] - times[0])
""",
}
PROMPT = "Tell a long story about a small house by the sea. " * 4


def child(code: str) -> float:
    """Seconds that a line takes in an interpreter of its own."""
    timed = f"import time; begin = time.perf_counter(); {code}; print(time.perf_counter() - begin)"
    return float(subprocess.run([sys.executable, "-c", timed], check=True, capture_output=True, text=True).stdout)


def measure_imports(options: argparse.Namespace) -> dict:
    times = {name: [] for name in CHILD_TIMES}
    for _ in range(options.runs):
        for name, code in CHILD_TIMES.items():
            times[name].append(child(code))
    return {f"{name}_ms": {"median": round(1000 * statistics.median(found), 1), "least": round(1000 * min(found), 1)}
            for name, found in times.items()}


def inside_ms(stream: object) -> float:
    """What the library has spent on a streamed answer so far."""
    return sum(stats.first_token_ms + stats.decode_ms for stats in stream._slices)


def measure_overhead(options: argparse.Namespace) -> dict:
    """A streamed token's whole time, and the library's own, on a model of microseconds."""
    import ocellus
    engine = ocellus.Engine(options.model, text_tokens=1024, device="cpu", thread_count=options.threads,
                            max_constraints=0)
    session = engine.session()
    tokens = 400
    costs, wholes = [], []
    for _ in range(options.runs):
        stream = session.ask([], "Tell", stream=True, max_tokens=tokens, ignore_end=1)
        next(stream)
        begin, pieces = time.perf_counter(), 1
        before = inside_ms(stream)
        for _ in stream:
            pieces += 1
        spent = 1e6 * (time.perf_counter() - begin) / (tokens - 1)
        inside = 1e3 * (inside_ms(stream) - before) / (tokens - 1)
        costs.append(spent - inside)
        whole = session.ask([], "Tell", max_tokens=tokens, ignore_end=1).stats
        wholes.append(1e3 * whole.decode_ms / (tokens - 1))
    return {"tokens": tokens, "runs": options.runs, "overhead_us_a_token": round(statistics.median(costs), 2),
            "library_us_a_token_unstreamed": round(statistics.median(wholes), 2)}


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def soak(options: argparse.Namespace) -> dict:
    """10,000 questions about a picture, then 1,000 engines."""
    import ocellus
    device = options.device
    picture = open(os.path.join(os.path.dirname(__file__), "..", "..", "apps", "samples", "board_01.png"), "rb").read()
    found: dict = {"device": device, "asks": 10 * options.runs, "engines": options.runs}
    with ocellus.Engine(device=device) as engine:
        session = engine.session()
        for i in range(10 * options.runs):
            session.ask(picture, "How many?", max_tokens=2)
            if i == options.runs:
                found["asks_rss_early"], begin = resident(), time.perf_counter()
        found["asks_rss_late"] = resident()
        found["ask_ms"] = round(1000 * (time.perf_counter() - begin) / (9 * options.runs - 1), 3)
    for i in range(options.runs):
        with ocellus.Engine(device=device) as engine:
            engine.session().ask(picture, "How many?", max_tokens=2)
        if i == options.runs // 10:
            found["engines_rss_early"], files = resident(), len(os.listdir("/proc/self/fd"))
    gc.collect()
    found["engines_rss_late"] = resident()
    found["files_opened"] = len(os.listdir("/proc/self/fd")) - files
    return found


def measure_peer(options: argparse.Namespace) -> dict:
    """Both from a fresh interpreter to the first token, in turn, and their decode."""
    found: dict = {name: {"first_token_s": [], "tokens_a_second": []} for name in FIRST_TOKEN}
    for _ in range(options.runs):
        for name, code in FIRST_TOKEN.items():
            filled = code.format(model=options.model, threads=options.threads, prompt=PROMPT, tokens=64)
            timed = f"import time; begin = time.perf_counter()\n{filled}\nprint(first - begin, rate)"
            out = subprocess.run([sys.executable, "-c", timed], check=True, capture_output=True, text=True).stdout
            seconds, rate = map(float, out.split())
            found[name]["first_token_s"].append(round(seconds, 4))
            found[name]["tokens_a_second"].append(round(rate, 2))
    for name in found:
        found[name]["first_token_s_median"] = statistics.median(found[name]["first_token_s"])
        found[name]["tokens_a_second_median"] = statistics.median(found[name]["tokens_a_second"])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["import", "overhead", "soak", "peer"])
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--model", help="a GGUF file (default: the bundled pair)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu", help="of the long runs")
    options = parser.parse_args()
    measure = {"import": measure_imports, "overhead": measure_overhead, "soak": soak, "peer": measure_peer}
    print(json.dumps(measure[options.what](options)))


if __name__ == "__main__":
    main()
