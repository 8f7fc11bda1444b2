#!/usr/bin/env python3
"""Samples answers under a folder of GBNF grammars, as llama.cpp's own, and checks them by XGrammar, or by llguidance where
that cannot read a grammar.

    grammar_answers.py OCELLUS GRAMMARS [--answers N] [--tokens N] [--models NAME...]

The models of constrained_answers.py answer a question without a picture at temperature 1.5. Answers that end by themselves
are to be sentences of the grammar, and those that are cut to be beginnings of one. Prints JSON; ends with 1 if anything is
not so, or a grammar is refused. Needs requirements.txt.
"""
import argparse
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import llguidance
import xgrammar
from llguidance.gbnf_to_lark import any_to_lark

from constrained_answers import LIMIT_S, MODELS, Refused, ask_command, describe


class XGrammarReading:
    """A grammar as XGrammar reads it; a byte is a token. Throws a RuntimeError if it cannot be read."""

    END = 256

    def __init__(self, path):
        bytes_and_end = [bytes([byte]) for byte in range(self.END)] + [b"</s>"]
        compiler = xgrammar.GrammarCompiler(xgrammar.TokenizerInfo(bytes_and_end, stop_token_ids=[self.END]))
        self.grammar = compiler.compile_grammar(path.read_text(encoding="utf-8"))

    def fault_of(self, answer, is_whole):
        """What is wrong with an answer; None if the grammar has it."""
        matcher = xgrammar.GrammarMatcher(self.grammar)
        for at, byte in enumerate(answer.encode()):
            if not matcher.accept_token(byte):
                return f"byte {at} may not follow"
        return None if not is_whole or matcher.accept_token(self.END) else "something must follow"


class LlguidanceReading:
    """The same by llguidance, whose tokens of a grammar are as long as can be: it reads some more narrowly."""

    def __init__(self, path):
        self.tokenizer = llguidance.LLTokenizer("byte")
        self.grammar = llguidance.LLMatcher.grammar_from_lark(any_to_lark(path.read_text(encoding="utf-8")))

    def fault_of(self, answer, is_whole):
        matcher = llguidance.LLMatcher(self.tokenizer, self.grammar)
        said = answer.encode()
        taken = matcher.try_consume_tokens(list(said))
        if taken < len(said):
            return matcher.get_error() or f"byte {taken} may not follow"
        return None if not is_whole or matcher.is_accepting() else "something must follow"


def read_grammar(path):
    try:
        return XGrammarReading(path)
    except RuntimeError:  # it takes no rule that begins a line with "|"
        return LlguidanceReading(path)


def ask(arguments, model, grammar, seed):
    command = [*ask_command(arguments, model, "--grammar", str(grammar)), "--seed", str(seed)]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S, check=False)


def check_answer(done, reading):
    """How an answer ended, and what is wrong with it. Half a character at the end of a cut one does not count."""
    if done.returncode != 0:
        return "failed", " ".join(done.stderr.decode().split())
    said = json.loads(done.stdout)
    is_whole = said["stop"] == "end"
    answer = said["answer"] if is_whole else said["answer"].rstrip("\ufffd")
    fault = reading.fault_of(answer, is_whole)
    if fault is not None:
        return "invalid", f"{fault}: {answer!r}"
    return "whole" if is_whole else "beginning", None


def check_grammar(arguments, path):
    """Counts of how answers ended, and the first faults."""
    reading, counts, faults = read_grammar(path), Counter(), []
    for name in arguments.models:
        for seed in range(arguments.answers):
            outcome, fault = check_answer(ask(arguments, MODELS[name], path, seed), reading)
            counts[outcome] += 1
            if fault is not None:
                faults.append(f"{name}, seed {seed}: {fault}")
    kinds = ("whole", "beginning", "invalid", "failed")
    return {"read_by": type(reading).__name__.removesuffix("Reading"), **{kind: counts[kind] for kind in kinds},
            **({"faults": faults[:3]} if faults else {})}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("grammars", type=Path)
    parser.add_argument("--answers", type=int, default=25)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    arguments = parser.parse_args()
    paths = sorted(arguments.grammars.glob("*.gbnf"))
    if not paths:
        sys.exit(f"grammar_answers.py: {arguments.grammars} has no *.gbnf.")
    command = f"tools/eval/grammar_answers.py OCELLUS GRAMMARS --answers {arguments.answers} --tokens {arguments.tokens}"
    try:
        report = {"what": "answers of each model under each grammar, checked by other readers of it",
                  **describe(arguments, command), "models": arguments.models,
                  "grammars": {path.name: check_grammar(arguments, path) for path in paths}}
    except Refused as refusal:
        sys.exit(f"grammar_answers.py: {refusal}")
    print(json.dumps(report, indent=1, ensure_ascii=False))
    return any(counts["invalid"] or counts["failed"] for counts in report["grammars"].values())


if __name__ == "__main__":
    sys.exit(main())
