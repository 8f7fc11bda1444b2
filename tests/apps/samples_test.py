#!/usr/bin/env python3
"""The demo must be right: every sample picture gets its true caption, every sample question its true answer.

usage: samples_test.py PROGRAM
"""
import json
import re
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
SAMPLES = SOURCE / "apps" / "samples"


def run(program, *arguments):
    """The JSON objects that the program prints, one a line."""
    done = subprocess.run([program, *arguments, "--json", "--quiet"], capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        sys.exit(f"samples_test: {' '.join(arguments)} failed with {done.returncode}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines() if line]


def wrong_about_pages(program, captions):
    """Sentences about the questions that pages quote and the model answers wrongly about the first boards."""
    boards = [f"board_0{i}.png" for i in range(1, 5)]
    text = "".join((SOURCE / page).read_text() for page in ("README.md", "apps/README.md", "apps/watch/README.md"))
    for question, sought in sorted(set(re.findall(r'"(Which images show an? ([^"]*)\?)"', text))):
        (answer,) = run(program, "ask", "--prompt", question, *(str(SAMPLES / name) for name in boards))
        right = [str(i) for i, name in enumerate(boards, 1) if sought in captions[name]]
        if not right or re.findall(r"\d", answer["answer"]) != right:
            yield f"a page: '{question}' gives '{answer['answer']}', right is {right}"


def main():
    program = sys.argv[1]
    captions = json.loads((SAMPLES / "captions.json").read_text())
    answers = run(program, "caption", *(str(SAMPLES / name) for name in captions))
    wrong = [f"{name}: '{answer['answer']}' instead of '{caption}'"
             for (name, caption), answer in zip(captions.items(), answers) if answer["answer"] != caption]
    if len(answers) != len(captions):
        wrong.append(f"{len(answers)} captions for {len(captions)} pictures")
    summary = run(program, "eval", str(SAMPLES / "questions.jsonl"))[-1]
    if summary["exact"] != summary["questions"]:
        wrong.append(f"{summary['exact']} of {summary['questions']} sample questions answered exactly")
    wrong += wrong_about_pages(program, captions)
    print("\n".join(wrong + [f"samples_test: {len(captions)} captions, {summary['questions']} questions, "
                             f"{len(wrong)} problems"]))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
