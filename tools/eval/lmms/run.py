#!/usr/bin/env python3
"""Asks `ocellus serve` the questions of a file through lmms-eval, and shows the score beside that of `ocellus eval`.

usage: run.py [--questions FILE] [--limit K] [--out DIR] [--program FILE] [-- FLAG...]

It starts the server and ends it, and needs no network. FLAG... are flags of `ocellus eval` and of `ocellus serve` alike,
as -m MODEL.gguf --mmproj MMPROJ.gguf --kv-bits 4; pictures are compressed before the question in both. Python must have
lmms-eval: pip install -r requirements.txt. What lmms-eval writes stays in DIR; score.py reads it again.
"""
import argparse
import contextlib
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import boards
import score
from score import BAD_INPUT, FAILED, Parser, Refused

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "apps"))

from budget_demo import find_program  # noqa: E402
from budget_demo import Refused as ProgramRefused  # noqa: E402

SAMPLES = HERE.parents[2] / "apps" / "samples" / "questions.jsonl"
AT_ONCE = 4  # requests; serve has as many sessions


def parse_arguments():
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", metavar="FILE", type=Path, default=SAMPLES,
                        help="as for ocellus eval (default: the 24 about the sample boards)")
    parser.add_argument("--out", metavar="DIR", type=Path, default=Path("lmms-out"))
    parser.add_argument("--limit", metavar="K", type=int, help="only the first K questions")
    parser.add_argument("--program", metavar="FILE", help="the ocellus program (default: this tree's, or the one in PATH)")
    parser.add_argument("flags", nargs="*", metavar="-- FLAG", help="flags of ocellus eval and ocellus serve after --")
    given = parser.parse_args()
    if given.limit is not None and given.limit < 1:
        parser.error(f"--limit {given.limit} is below 1")
    return given


def read_questions(path, limit):
    """The rows, each checked as a message; pictures beside the file."""
    rows = []
    try:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if not line.strip():
                continue
            row = json.loads(line)
            question = {"images": row.get("images", []), "prompt": row["prompt"], "answer": row["answer"]}
            boards.messages_of(question, {"folder": str(path.resolve().parent)})
            rows.append({**question, "kind": row.get("kind", "")})
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{path} cannot be read: {error}.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refused(f"{path}, line {number}: this is no question: {error}.") from error
    if not rows:
        raise Refused(f"{path}: there is no question.")
    return rows[:limit]


def write_task(rows, folder, images):
    """A task like boards.yaml, about these rows."""
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "questions.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = {"include": str(HERE / "boards.yaml"), "task": "ocellus_questions",
            "dataset_kwargs": {"data_files": {"test": str(data)}},
            "lmms_eval_specific_kwargs": {"default": {"folder": str(images)}}}
    (folder / "questions.yaml").write_text(json.dumps(task) + "\n")  # JSON is YAML


@contextlib.contextmanager
def serving(program, images, flags):
    """The address of a server on this machine, for requests that wait as long as they must."""
    command = [program, "serve", "--http", "127.0.0.1:0", "--quiet", "--images", str(images), "--sessions", str(AT_ONCE),
               "--deadline", "3600", *flags]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as server:
        try:
            line = server.stderr.readline().strip()
            found = re.fullmatch(r"ocellus: (http://\S+)", line)
            if not found:
                raise Refused(f"the server has not started: {line or 'it said nothing'}", FAILED)
            yield found[1] + "/v1"
        finally:
            server.terminate()


def run_lmms_eval(url, task, out):
    """The file with the samples. lmms-eval exits with 0 after errors, too, so the file tells."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(out / "cache"),
                   "OPENAI_API_KEY": "any"}
    log = out / "lmms-eval.log"
    model = f"model=ocellus,base_url={url},num_concurrent={AT_ONCE},max_retries=1"
    command = [sys.executable, "-m", "lmms_eval", "--model", "openai", "--model_args", model, "--include_path", str(task),
               "--tasks", "ocellus_questions", "--log_samples", "--output_path", str(out / "results")]
    before = set((out / "results").rglob("*_samples_*.jsonl"))
    with log.open("w") as stream:
        done = subprocess.run(command, env=environment, cwd=out, stdin=subprocess.DEVNULL, stdout=stream,
                              stderr=subprocess.STDOUT, check=False)
    new = sorted(set((out / "results").rglob("*_samples_*.jsonl")) - before)
    if done.returncode != 0 or not new:
        said = re.search(r"Error during evaluation: (.*?)(?: Please set |\n|$)", log.read_text())
        raise Refused(f"lmms-eval has no answers (exit code {done.returncode}): {said[1] if said else 'it does not say why.'} "
                      f"See {log}.", FAILED)
    return new[-1]


def ask_eval(program, questions, limit, flags):
    """Each question's object, as `ocellus eval` prints it."""
    command = [program, "eval", str(questions), "--json", "--quiet", *(["--limit", str(limit)] if limit else []), *flags]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sentence = done.stderr.strip().removeprefix("ocellus: ") or f"ocellus eval ended with {done.returncode}."
        raise Refused(sentence, done.returncode if done.returncode > 0 else FAILED)
    return [json.loads(line) for line in done.stdout.splitlines()][:-1]


def compare(samples, answers):
    """Sentences about how `ocellus eval` answers: its score, answers that differ, prompts of another length."""
    lines, other_prompts = [], 0
    for sample, answer in zip(samples, answers):
        said = sample["filtered_resps"].strip()
        other_prompts += sample["token_counts"][0]["input_tokens"] != answer["prompt_tokens"]
        if said != answer["answer"]:
            lines.append(f"  line {answer['line']}: {said!r} over serve, {answer['answer']!r} of eval, "
                         f"expected {answer['expected']!r}")
    exact = sum(answer["exact"] for answer in answers)
    count = len(answers)
    return [f"ocellus eval\n  exact {100 * exact / count:.1f} % of {count} questions; the same answers: {count - len(lines)}, "
            f"prompts of the same length: {count - other_prompts}", *lines]


def main():
    try:
        given = parse_arguments()
        if not importlib.util.find_spec("lmms_eval"):
            raise Refused(f"lmms-eval is not installed: pip install -r {os.path.relpath(HERE / 'requirements.txt')}.", FAILED)
        program = find_program(given.program)
        rows = read_questions(given.questions, given.limit)
        out = given.out.resolve()
        write_task(rows, out / "task", given.questions.resolve().parent)
        flags = given.flags + ([] if "--compress-at" in given.flags else ["--compress-at", "before-suffix"])
        answers = ask_eval(program, given.questions, given.limit, flags)
        with serving(program, max(len(row["images"]) for row in rows), flags) as url:
            path = run_lmms_eval(url, out / "task", out)
        text, is_scored = score.report([path])
        print("\n".join([text, *(compare(score.read_samples(path), answers) if is_scored else [])]))
    except (Refused, ProgramRefused) as refused:
        print(f"run: {refused}", file=sys.stderr)
        return refused.exit_code
    except OSError as error:
        print(f"run: {error}.", file=sys.stderr)
        return BAD_INPUT
    return 0 if is_scored else FAILED


if __name__ == "__main__":
    sys.exit(main())
