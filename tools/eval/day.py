#!/usr/bin/env python3
"""Plays a made day, keeps it in a library, and asks about it: accuracy, bytes and times.

    tools/eval/day.py --program build/release/apps/ocellus --output day.json [--seeds 1,2] [--questions 120]

Each seed is a day of `ocellus watch synthetic --scene day`. Its events make the questions: when something came or went,
how many times it came in some hours, whether and when it was there, what changed between two times, and what was to be
seen at one. An answer is right if it names exactly the frames that a perfect memory would name: the first ones that show
each event. Beside: the captions without a question to the model, and the newest N frames alone.
"""
import argparse
import bisect
import itertools
import json
import random
import re
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

FRAME_MS = 10_000
HOUR_MS = 3_600_000


def run(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


class Day:
    """The truth: boards by time, as sets of parts."""

    def __init__(self, path):
        lines = [json.loads(line) for line in Path(path).read_text().splitlines()]
        self.date, self.midnight = lines[0]["day"], lines[0]["midnight_ms"]
        self.events = lines[1:]
        self.times = [self.midnight] + [event["at_ms"] for event in self.events]
        self.captions = [lines[0]["caption"]] + [event["caption"] for event in self.events]

    def caption_at(self, at_ms):
        return self.captions[bisect.bisect_right(self.times, at_ms) - 1]

    def turns(self, thing, begin, end, comes=True):
        """The times in [begin, end) at which a thing comes or goes."""
        found = []
        was = shows(self.caption_at(begin), thing)
        for at, caption in zip(self.times, self.captions):
            first_frame = self.midnight - (self.midnight - at) // FRAME_MS * FRAME_MS
            if begin < at and first_frame < end:
                there = shows(caption, thing)
                if there != was and there == comes:
                    found.append(at)
                was = there
        return found

    def things(self):
        return sorted({event["thing"] for event in self.events if event["thing"]})


def parts(caption):
    text = caption.lower().strip(" .")
    return [part.strip() for part in re.split(r", | and ", text) if part.strip()]


def shows(caption, thing):
    return any(f" {thing} " in f" {part} " for part in parts(caption))


def changed(before, after):
    """The parts that are new, and those that are not there any more."""
    new, dropped = parts(after), []
    for part in parts(before):
        new.remove(part) if part in new else dropped.append(part)
    return new, dropped


def clock(day, at_ms):
    seconds = (at_ms - day.midnight) // 1000
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}"


def article(thing):
    return ("an " if thing[0] in "aeiou" else "a ") + thing


def make_questions(day, count, seed):
    """Questions with (kind, text, wanted, begin, end); wanted: times, a number or two lists of parts."""
    dice = random.Random(seed)
    questions = []
    everything = (day.midnight, day.midnight + 24 * HOUR_MS - FRAME_MS)
    things = day.things()

    def hours():
        first = dice.randrange(6, 20)
        last = first + dice.randrange(1, 5)
        return day.midnight + first * HOUR_MS, day.midnight + last * HOUR_MS, f"between {first}:00 and {last}:00"

    for i in range(count):
        thing = dice.choice(things)
        begin, end, words = hours()
        kind = ("appear", "disappear", "count", "presence", "change", "which")[i % 6]
        if kind in ("appear", "disappear"):
            verb = "appear" if kind == "appear" else "disappear"
            span = everything if dice.random() < 0.5 else (begin, end)
            text = f"When did the {thing} {verb}{'' if span == everything else ' ' + words}?"
            questions.append((kind, text, day.turns(thing, *span, comes=kind == "appear"), *span))
        elif kind == "count":
            span = everything if dice.random() < 0.5 else (begin, end)
            text = f"How many times did {article(thing)} appear{' today' if span == everything else ' ' + words}?"
            questions.append((kind, text, len(day.turns(thing, *span)), *span))
        elif kind in ("presence", "which"):
            text = (f"Was there {article(thing)} {words}?" if kind == "presence" else f"Show me the {thing} {words}.")
            there = [begin] if shows(day.caption_at(begin), thing) else []
            questions.append((kind, text, there + day.turns(thing, begin, end), begin, end))
        else:
            last = end - FRAME_MS  # the last frame before the end
            wanted = [sorted(some) for some in changed(day.caption_at(begin), day.caption_at(last))]
            questions.append((kind, f"What changed {words}?", wanted, begin, end))
    return questions


def is_right(question, answer):
    kind, _, wanted, begin, _ = question
    if kind == "count":
        return answer.get("count") == wanted
    if kind == "change":
        text = answer.get("answer", "")
        new = re.search(r"New: ([^.]*)\.", text)
        gone = re.search(r"Disappeared: ([^.]*)\.", text)
        said = [sorted(parts(found.group(1))) if found else [] for found in (new, gone)]
        return said == wanted
    times = answer.get("moments_ms", [])
    return len(times) == len(wanted) and all(
        want <= time < want + 2 * FRAME_MS or (want == begin and time <= begin) for want, time in zip(wanted, times))


def ask_captions(frames, question):
    """The same answer from captions alone; `frames` by time, each with its time and caption first."""
    kind, text, _, begin, end = question
    before = [frame for frame in frames if frame[0] <= begin][-1:]
    seen = before + [frame for frame in frames if begin < frame[0] < end]
    if not seen:
        return {}
    if kind == "change":
        new, dropped = changed(seen[0][1], seen[-1][1])
        said = (f"New: {', '.join(new)}. " if new else "") + (f"Disappeared: {', '.join(dropped)}." if dropped else "")
        return {"answer": said}
    thing = re.search(r"(?:the|an?) (.+?)(?: appear| disappear| between|\.|\?|$)", text).group(1)
    there = [shows(caption, thing) for _, caption, _ in seen]
    comes = kind != "disappear"
    moments = [seen[i][0] for i in range(1, len(seen)) if there[i] == comes and there[i - 1] != comes]
    if kind in ("presence", "which") and there[0]:
        moments.insert(0, seen[0][0])
    return {"count": len(moments), "moments_ms": moments}


def play(program, folder, truth, seed, bits, extra):
    begun = time.monotonic()
    code, out, err = run(program, "watch", "synthetic", "--scene", "day", "--speed", 0, "--seed", seed, "--truth", truth,
                         "--memory", "library", "--library", folder, "--kv-bits", bits, "--json", *extra)
    if code != 0:
        raise SystemExit(f"watch ended with {code}: {err}")
    lines = [json.loads(line) for line in out.splitlines()]
    captions = [line for line in lines if line["kind"] == "caption"]
    state = [line for line in lines if line["kind"] == "end"][0]
    return captions, state, time.monotonic() - begun


def listed(program, folder):
    _, out, _ = run(program, "library", "list", folder, "--owner", "camera", "--json")
    frames = []
    for line in out.splitlines():
        item = json.loads(line)
        frames += [(int(tag[3:]), item["caption"], item["key"]) for tag in item["tags"] if tag.startswith("at-")]
    return sorted(frames)


def ask_program(program, day, folder, text, *flags):
    code, out, err = run(program, "ask", "--library", folder, "--since", day.date, "--until", f"{day.date} 23:59",
                         "--prompt", text, "--json", *flags)
    return json.loads(out) if code == 0 else {"answer": err}


def share(right):
    return round(sum(right) / len(right), 4) if right else None


def measure(program, day, folder, questions, newest):
    frames = listed(program, folder)
    right, by_caption, by_newest, times, checks = {}, {}, {}, [], []
    for question in questions:
        answer = ask_program(program, day, folder, question[1])
        right.setdefault(question[0], []).append(is_right(question, answer))
        by_caption.setdefault(question[0], []).append(is_right(question, ask_captions(frames, question)))
        by_newest.setdefault(question[0], []).append(is_right(question, ask_captions(frames[-newest:], question)))
        if "total_ms" in answer:
            times.append(answer["total_ms"])
            checks.append(answer["checks"])
    exact = {kind: share(found) for kind, found in right.items()}
    return {"frames": len(frames), "exact": exact, "exact_by_captions": {k: share(v) for k, v in by_caption.items()},
            f"exact_newest_{newest}": {k: share(v) for k, v in by_newest.items()},
            "answer_ms_median": round(statistics.median(times), 1), "answer_ms_most": round(max(times), 1),
            "checks_mean": round(statistics.mean(checks), 1)}


def about_one_moment(ask, day, dice, count):
    """Answers about the frame of a moment, which is linked alone: its caption, and the color of one of its things."""
    described, colored = [], []
    while len(colored) < count:
        at = day.midnight + dice.randrange(24 * 60) * 60_000
        caption = day.caption_at(at)
        described.append(ask(f"What was there at {clock(day, at)}?").get("answer") == caption)
        things = [part.split()[2:4] for part in parts(caption) if len(part.split()) > 4]
        color, shape = dice.choice(things)
        if [other for _, other in things].count(shape) == 1:
            answer = ask(f"What color was the {shape} at {clock(day, at)}?").get("answer", "")
            colored.append(answer.lower().strip(".") == color)
    return {"moment": share(described), "color": share(colored)}


def about_several(ask, dice, count):
    """Descriptions of one of several linked frames, against its caption, and the time to the first token."""
    cells = {}
    for frames in (2, 4, 8):
        right, first = [], []
        for _ in range(count):
            number, hour = dice.randrange(frames), dice.randrange(7, 20)
            answer = ask(f"Describe image {number + 1} between {hour}:00 and {hour + 3}:00.", "--images", frames)
            if number < len(answer.get("frames", [])):  # else a full library has dropped those of these hours
                right.append(answer["answer"].split(" (image")[0] == answer["frames"][number]["caption"])
                first.append(answer["ttft_ms"])
        cells[str(frames)] = {"exact": share(right), "ttft_ms": round(statistics.median(first or [0]), 1)}
    return {"several": cells}


def about_all_at_once(program, folder, frames, dice, count, together=8):
    """Consecutive frames as pictures in one prompt, unpacked: which of them show a thing."""
    right = []
    for _ in range(count):
        first, shape = dice.randrange(len(frames) - together), dice.choice(["ring", "circle", "star", "cross", "heart"])
        some = frames[first:first + together]
        code, out, _ = run(program, "ask", "--json", "--prompt", f"Which images show a {shape}?",
                           *(f"{folder}/previews/{key}.jpg" for _, _, key in some))
        named = {int(number) for number in re.findall(r"\d+", json.loads(out)["answer"])} if code == 0 else None
        right.append(named == {i + 1 for i, (_, caption, _) in enumerate(some) if shows(caption, shape)})
    return {"which_of_8_in_a_prompt": share(right)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default="build/release/apps/ocellus")
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--questions", type=int, default=120)
    parser.add_argument("--bits", default="2")
    parser.add_argument("--sizes", default="256M", help="values of --library-size")
    parser.add_argument("--drops", default="redundant")
    parser.add_argument("--reuse", default="spread:40")
    parser.add_argument("--newest", type=int, default=8)
    parser.add_argument("--output")
    options = parser.parse_args()
    cells = []
    for seed in map(int, options.seeds.split(",")):
        for bits in map(int, options.bits.split(",")):
            for size, drops, reuse in itertools.product(*(text.split(",") for text in (options.sizes, options.drops,
                                                                                       options.reuse))):
                with tempfile.TemporaryDirectory() as folder:
                    truth = Path(folder) / "truth.jsonl"
                    library = Path(folder) / "library"
                    extra = ["--library-size", size, "--library-drops", drops, "--reuse", reuse]
                    captions, state, seconds = play(options.program, library, truth, seed, bits, extra)
                    day = Day(truth)
                    questions = make_questions(day, options.questions, seed)
                    cell = {"seed": seed, "bits": bits, "library_size": size, "drops": drops, "reuse": reuse,
                            "events": len(day.events), "captions": len(captions),
                            "caption_exact": share([line["text"] == day.caption_at(line["at_ms"]) for line in captions]),
                            "library_bytes": state["day"]["bytes"], "play_s": round(seconds, 1)}
                    cell.update(measure(options.program, day, library, questions, options.newest))
                    ask = lambda text, *flags: ask_program(options.program, day, library, text, *flags)
                    cell.update(about_one_moment(ask, day, random.Random(seed), options.questions // 4))
                    cell.update(about_all_at_once(options.program, library, listed(options.program, library),
                                                  random.Random(seed), options.questions // 4))
                    cell.update(about_several(ask, random.Random(seed), options.questions // 4))
                    print(json.dumps(cell), flush=True)
                    cells.append(cell)
    if options.output:
        rows = ",\n  ".join(json.dumps(cell) for cell in cells)
        Path(options.output).write_text(f'{{"cells": [\n  {rows}\n]}}\n')


if __name__ == "__main__":
    main()
