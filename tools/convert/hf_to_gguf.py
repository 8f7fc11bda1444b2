"""Converts a Hugging Face folder of a vision-language model into a GGUF pair: text model and mmproj.

Families: SmolVLM, SmolVLM2 and Idefics3; LLaVA-1.5 and 1.6; InternVL 2.5, 3 and 3.5; Qwen2-VL, Qwen2.5-VL and
Qwen3-VL; Cosmos3-Edge; Gemma 3; Gemma 4 E2B and E4B; Ministral 3, Mistral Small 3.1 and 3.2, Pixtral 12B; LFM2-VL and
LFM2.5-VL; LightOnOCR; PaddleOCR-VL. Text: llama, mistral, ministral3, qwen2, qwen3, internlm2, qwen2vl, qwen3vl,
cosmos3-edge, gemma3, gemma4, lfm2, paddleocr.
Writes OUT/NAME-TYPE.gguf and, unless the model is Gemma or LFM2 without a vision part, OUT/mmproj-NAME-TYPE.gguf. Norms, biases
and position embeddings stay F32; with q8_0, tensors whose rows are no multiple of 32 become F16. Files of these names are
replaced once all new ones are whole. What cannot be converted is told in one sentence, with exit code 4; 1 if the files cannot be written.
"""
import argparse
import signal
import sys
from pathlib import Path

from source_json import last_place

FAILED, BAD_INPUT = 1, 4
TYPES = ("f32", "f16", "bf16", "q8_0")
MOST_SENTENCE = 1000


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="Hugging Face folder with config.json, tokenizer and safetensors")
    parser.add_argument("out", help="folder to write")
    parser.add_argument("--name", help="stem of the file names (default: the folder's name)")
    parser.add_argument("--title", help="general.name in the files (default: the stem)")
    parser.add_argument("--outtype", choices=TYPES, default="f16",
                        help="type of the weights (default: f16); what f16 cannot hold is stored as bf16 or f32, and told")
    parser.add_argument("--pre-tokenizer", choices=["gpt-2", "smollm", "qwen2", "llama-bpe", "lfm2", "tekken"],
                        help="how text is cut before merging (default: found out from tokenizer.json)")
    parser.add_argument("--preproc-image-size", type=int,
                        help="SmolVLM: longest side before tiling, 0: no tiling (default: from the processor config)")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    return parser.parse_args()


def fail(code, sentence):
    line = " ".join(sentence.split())
    print(line if len(line) <= MOST_SENTENCE else f"{line[:MOST_SENTENCE]}...", file=sys.stderr)
    sys.exit(code)


def load_conversion():
    """The function that converts; --help does without its packages."""
    try:
        from conversion import convert
    except ModuleNotFoundError as error:
        needed = Path(__file__).parent / "requirements.txt"
        fail(FAILED, f"the Python package {error.name} is not installed: python3 -m pip install -r {needed}")
    return convert


def main():
    args = parse_arguments()
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):  # unfinished files go, too
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        load_conversion()(args)
    except SystemExit as error:  # a sentence about the folder, or a signal's code
        fail(BAD_INPUT, error.code) if isinstance(error.code, str) else sys.exit(error.code)
    except OSError as error:
        is_input = str(error.filename or args.out).startswith(str(args.model))
        fail(BAD_INPUT if is_input else FAILED, f"{error.filename or args.out}: {error.strerror}")
    except Exception:  # what no check above looks for: facts of other types, tensors of other shapes
        fail(BAD_INPUT, f"{args.model} is not laid out as its config.json says: {last_place()} cannot be used")


if __name__ == "__main__":
    main()
