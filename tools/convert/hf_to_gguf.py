"""Converts a Hugging Face folder of a vision-language model into a GGUF pair: text model and mmproj.

Families: SmolVLM, SmolVLM2 and Idefics3; LLaVA-1.5 and 1.6; InternVL 2.5, 3 and 3.5. Text: llama, mistral, qwen2,
qwen3, internlm2. Writes OUT/NAME-TYPE.gguf and OUT/mmproj-NAME-TYPE.gguf. Norms, biases and position embeddings stay
F32; with q8_0, tensors whose rows are no multiple of 32 become F16.
"""
import argparse
from pathlib import Path

from families import FAMILIES
from gguf_file import WEIGHT_TYPES, close_writer, open_writer
from source import Source, read_json
from text_model import write_text_model


def open_source(folder):
    """(the folder, its family)."""
    config = read_json(Path(folder) / "config.json")
    kind = config.get("model_type")
    if kind not in FAMILIES:
        raise SystemExit(f"{folder}/config.json says model_type {kind}: expected one of {', '.join(FAMILIES)}")
    family = FAMILIES[kind]
    return Source(folder, config, family.PREFIXES, family.VISION_DEFAULTS), family


def write_vision_model(source, family, path, title, args):
    writer = open_writer(path, "clip", title, args.outtype)
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


def main():
    args = parse_arguments()
    source, family = open_source(args.model)
    name = args.name or source.folder.resolve().name
    title = args.title or name
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    write_text_model(source, out / f"{name}-{args.outtype}.gguf", title, args)
    write_vision_model(source, family, out / f"mmproj-{name}-{args.outtype}.gguf", title, args)
    source.check_all_used()


if __name__ == "__main__":
    main()
