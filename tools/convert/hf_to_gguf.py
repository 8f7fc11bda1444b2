"""Converts a Hugging Face folder of a vision-language model into a GGUF pair: text model and mmproj.

Families: SmolVLM, SmolVLM2 and Idefics3; LLaVA-1.5 and 1.6; InternVL 2.5, 3 and 3.5; Qwen2-VL, Qwen2.5-VL and
Qwen3-VL; Gemma 3; Gemma 4 E2B and E4B. Text: llama, mistral, qwen2, qwen3, internlm2, qwen2vl, qwen3vl, gemma3, gemma4.
Writes OUT/NAME-TYPE.gguf and, unless the model is Gemma without a vision part, OUT/mmproj-NAME-TYPE.gguf. Norms, biases
and position embeddings stay F32; with q8_0, tensors whose rows are no multiple of 32 become F16. Files of these names are replaced once all new
ones are whole. What cannot be converted is told in one sentence, with exit code 4; 1 if the files cannot be written.
"""
import argparse
import os
import signal
import sys
from pathlib import Path

from families import FAMILIES
from gguf_file import WEIGHT_TYPES, close_writer, open_writer
from source import Source
from source_json import read_json, shown
from tensor_shapes import vision_shapes
from text_model import write_text_model

FAILED, BAD_INPUT = 1, 4
MOST_SENTENCE = 1000


def open_source(folder):
    """(the folder, its family)."""
    path = Path(folder) / "config.json"
    if not path.is_file():
        raise SystemExit(f"{path} does not exist: name the folder of a Hugging Face model")
    config = read_json(path)
    kind = config["model_type"]
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise SystemExit(f"{path} says model_type {shown(kind)}: expected one of {', '.join(FAMILIES)}")
    family = FAMILIES[kind]
    arrange = getattr(family, "arrange", lambda config: config)
    has_vision = kind not in getattr(family, "TEXT_ONLY", ())
    return Source(folder, arrange(config), family.PREFIXES, family.VISION_DEFAULTS if has_vision else None), family


def write_vision_model(source, family, path, title, args):
    writer = open_writer(path, "clip", title, args.outtype, vision_shapes(source))
    family.add_vision(writer, source, args)
    close_writer(writer)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="Hugging Face folder with config.json, tokenizer and safetensors")
    parser.add_argument("out", help="folder to write")
    parser.add_argument("--name", help="stem of the file names (default: the folder's name)")
    parser.add_argument("--title", help="general.name in the files (default: the stem)")
    parser.add_argument("--outtype", choices=list(WEIGHT_TYPES), default="f16")
    parser.add_argument("--pre-tokenizer", choices=["gpt-2", "smollm", "qwen2", "llama-bpe"],
                        help="how text is cut before merging (default: found out from tokenizer.json)")
    parser.add_argument("--preproc-image-size", type=int,
                        help="SmolVLM: longest side before tiling, 0: no tiling (default: from the processor config)")
    return parser.parse_args()


def convert(args):
    """Writes the files under other names and renames them at the end: a failure replaces nothing."""
    source, family = open_source(args.model)
    name = args.name or source.folder.resolve().name
    title = args.title or name
    out = Path(args.out)
    kinds = ("", "mmproj-") if source.vision else ("",)
    paths = [out / f"{kind}{name}-{args.outtype}.gguf" for kind in kinds]
    out.mkdir(parents=True, exist_ok=True)
    for path in paths:
        if path.is_dir():
            raise OSError(None, "is a folder: choose another one to write to, or another --name", path)
    unfinished = [path.with_name(f"{path.name}.{os.getpid()}") for path in paths]
    try:
        write_text_model(source, unfinished[0], title, args)
        if source.vision:
            write_vision_model(source, family, unfinished[1], title, args)
        source.check_all_used()
        for written, path in zip(unfinished, paths):
            written.replace(path)
    finally:
        for path in unfinished:
            path.unlink(missing_ok=True)


def fail(code, sentence):
    line = " ".join(sentence.split())
    print(line if len(line) <= MOST_SENTENCE else f"{line[:MOST_SENTENCE]}...", file=sys.stderr)
    sys.exit(code)


def main():
    args = parse_arguments()
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):  # unfinished files go, too
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        convert(args)
    except SystemExit as error:  # a sentence about the folder, or a signal's code
        fail(BAD_INPUT, error.code) if isinstance(error.code, str) else sys.exit(error.code)
    except OSError as error:
        is_input = str(error.filename or args.out).startswith(str(args.model))
        fail(BAD_INPUT if is_input else FAILED, f"{error.filename or args.out}: {error.strerror}")
    except Exception as error:  # what no check above looks for: tensors of other shapes, facts of other types
        fail(BAD_INPUT, f"{args.model} is not laid out as its config.json says: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
