"""Runs ocellus for one cell and reads what it says."""
import json
import shlex
import subprocess
import threading
import time
from pathlib import Path

import captions
from budget_demo import Refused
from methods import CAPTIONS, KEY, TEXT

INTERRUPTED = 130
COPIED = ["questions", "exact", "accuracy", "kv_bytes", "kv_scale_bytes", "kv_waste_bytes", "kv_bytes_full",
          "decode_tok_s", "ttft_ms", "arena_bytes", "policy"]
COPIED_IF_THERE = ["kv_visual_bits", "perplexity", "forced_tokens"]


class Failed(Exception):
    """The program's exit code and sentence."""

    def __init__(self, exit_code, sentence):
        super().__init__(sentence)
        self.exit_code = exit_code


class Program:
    """Cells may be run by several threads; stop() ends them all."""

    def __init__(self, path, arguments, question_counts, references, scorers):
        self.path = path
        self.arguments = arguments
        self.question_counts = question_counts
        self.references = references
        self.scorers = scorers
        self.lock = threading.Lock()
        self.running = set()
        self.stopped = False

    def ask(self, *words):
        try:
            return subprocess.run([self.path, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  check=False)
        except OSError as error:
            raise Refused(f"{self.path} cannot be run: {error.strerror}.") from error

    def version(self):
        """'ocellus 0.1.0'"""
        done = self.ask("--version")
        if done.returncode != 0 or not done.stdout.startswith("ocellus"):
            raise Refused(f"{self.path} is not the ocellus program.")
        return done.stdout.splitlines()[0]

    def devices(self):
        done = self.ask("devices", "--json")
        return json.loads(done.stdout)["devices"] if done.returncode == 0 else []

    def run(self, cell, on_share):
        """The cell's result; throws Failed. `on_share` hears how much of it is done."""
        command = {CAPTIONS: self.caption_command, TEXT: self.text_command}.get(cell.task, self.question_command)(cell)
        count = {CAPTIONS: len(self.references), TEXT: 8}.get(cell.task) or self.question_counts[cell.pictures]
        begin = time.monotonic()
        objects = self.objects(command, lambda answers: on_share(min(answers / count, 0.99)))
        result = {CAPTIONS: self.caption_result, TEXT: text_result}.get(cell.task, question_result)(objects)
        return {**dict(zip(KEY, cell.key())), "setting": cell.name(), "flags": cell.flags(self.arguments.calib),
                "command": shlex.join([Path(command[0]).name, *command[1:]]), **result,
                "seconds": round(time.monotonic() - begin, 2)}

    def check_common_options(self):
        """Throws Refused if the program does not understand what all cells share."""
        pictures = min(self.question_counts, default=None)
        if pictures is None:
            return
        try:
            self.objects(self.question_base(pictures, 1) + self.arguments.extra, lambda answers: None)
        except Failed as failure:
            if failure.exit_code == 2:
                raise Refused(str(failure)) from failure

    def question_base(self, pictures, limit):
        return [self.path, "eval", str(self.arguments.questions), "--json", "--quiet", "--per-question", str(pictures),
                *(["--limit", str(limit)] if limit else []), *self.device_flags(),
                *(["--perplexity"] if self.arguments.perplexity else [])]

    def question_command(self, cell):
        return self.question_base(cell.pictures, self.arguments.limit) + cell.flags(self.arguments.calib) + \
            self.arguments.extra

    def caption_command(self, cell):
        flags = cell.flags(self.arguments.calib) + self.arguments.extra
        flags += ["--compress-at", "before-suffix"] if "--compress-at" not in flags else []  # as eval does by itself
        return [self.path, "caption", *(image for image, _ in self.references), "--json", "--quiet",
                *self.device_flags(), *flags]

    def text_command(self, cell):
        """Of a model of its own, if there is one, whose flags are not the other cells'."""
        model = self.arguments.text_model
        return [self.path, "perplexity", str(self.arguments.text), "--json", "--quiet", *self.device_flags(),
                *cell.flags(self.arguments.calib), *(["-m", str(model)] if model else self.arguments.extra)]

    def device_flags(self):
        return ["--device", self.arguments.device] if self.arguments.device else []

    def objects(self, command, on_answer):
        """The JSON objects that the command prints."""
        with self.lock:
            if self.stopped:
                raise Failed(INTERRUPTED, "interrupted")
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True, errors="replace")
            self.running.add(process)
        objects = []
        try:
            with process:
                for line in process.stdout:
                    objects.append(json.loads(line))
                    on_answer(len(objects))
                sentence = " ".join(process.stderr.read().split()).removeprefix("ocellus: ")
        except ValueError:
            raise Failed(1, "the program printed what is not JSON.") from None
        finally:
            with self.lock:
                self.running.discard(process)
        if self.stopped:
            raise Failed(INTERRUPTED, "interrupted")
        if process.returncode != 0:
            code = process.returncode if process.returncode > 0 else 1
            raise Failed(code, sentence or f"the program was ended by signal {-process.returncode}.")
        if not objects:
            raise Failed(1, "the program printed nothing.")
        return objects

    def stop(self):
        with self.lock:
            self.stopped = True
            for process in self.running:
                process.terminate()

    def caption_result(self, objects):
        answers = [before_answer(answer) for answer in objects]
        scores = captions.score(self.scorers, self.references, [answer["answer"] for answer in answers])
        means = {key: sum(answer[key] for answer in answers) // len(answers)
                 for key in ["kv_bytes", "kv_scale_bytes", "kv_waste_bytes", "kv_bytes_full"]}
        decode_ms = sum(answer["decode_ms"] for answer in answers)
        tokens = sum(max(0, answer["generated_tokens"] - 1) for answer in answers)
        return with_shares({"captions": len(answers), **scores, **means,
                            "decode_tok_s": 1000 * tokens / decode_ms if decode_ms else 0,
                            "ttft_ms": sum(answer["ttft_ms"] for answer in answers) / len(answers),
                            "arena_bytes": answers[-1]["arena_bytes"], "policy": answers[-1]["policy"]})


def slots_of_own_token(policy):
    """By how many slots a token of the answer makes the cache larger, on average."""
    if policy["evict"] in ("h2o", "streaming-llm", "sink-recent"):
        return 0
    return policy["keep"] if policy["evict"] in ("elastic", "elastic-repo") else 1


def before_answer(answer):
    """With the bytes of the cache that the answer is read from: long answers, whose own tokens stay whole, would count
    as large caches. The last token is in the cache only if it ended the answer."""
    own_tokens = answer["generated_tokens"] - (answer["stop"] != "end")
    own_bytes = answer["kv_bytes_full"] // (answer["prompt_tokens"] + own_tokens) * own_tokens
    kept_bytes = int(own_bytes * slots_of_own_token(answer["policy"]))
    return {**answer, "kv_bytes": answer["kv_bytes"] - kept_bytes, "kv_bytes_full": answer["kv_bytes_full"] - own_bytes}


def question_result(objects):
    summary = objects[-1]
    missing = [key for key in COPIED + ["by_kind"] if key not in summary]
    if missing:
        raise Failed(1, f"the program's summary has no {missing[0]}.")
    result = {key: summary[key] for key in COPIED + COPIED_IF_THERE if key in summary}
    result["by_kind"] = {kind: [score["exact"], score["questions"]] for kind, score in summary["by_kind"].items()}
    return with_shares(result)


def text_result(objects):
    summary = objects[-1]
    keys = ["perplexity", "forced_tokens", "prompt_tokens", "windows", "window", "context", "kv_bytes", "kv_bytes_full",
            "decode_tok_s", "arena_bytes", "policy"]
    return with_shares({**{key: summary[key] for key in keys}, "kv_scale_bytes": 0})


def with_shares(result):
    """What the cell adds to the program's own figures."""
    full = result["kv_bytes_full"]
    return {**result, "kv_payload_bytes": result["kv_bytes"] - result["kv_scale_bytes"],
            "share": round(result["kv_bytes"] / full, 5) if full else 1.0}
