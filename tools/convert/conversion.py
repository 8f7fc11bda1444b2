"""A conversion, from the folder to the files."""
import os
from pathlib import Path

from families import FAMILIES, family_of
from gguf_file import close_writer, open_writer
from source import Source
from source_json import read_json, shown
from tensor_shapes import vision_shapes
from text_model import write_text_model


def open_source(folder):
    """(the folder, its family)."""
    path = Path(folder) / "config.json"
    if not path.is_file():
        raise SystemExit(f"{path} does not exist: name the folder of a Hugging Face model")
    config = read_json(path)
    kind = config["model_type"]
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise SystemExit(f"{path} says model_type {shown(kind)}: expected one of {', '.join(FAMILIES)}")
    family = family_of(config)
    arrange = getattr(family, "arrange", lambda config: config)
    has_vision = kind not in getattr(family, "TEXT_ONLY", ())
    defaults = family.VISION_DEFAULTS if has_vision else None
    return Source(folder, arrange(config), family.PREFIXES, defaults, getattr(family, "PARTS", {})), family


def write_vision_model(source, family, path, title, args):
    writer = open_writer(path, "clip", title, args.outtype, vision_shapes(source), source.progress)
    family.add_vision(writer, source, args)
    close_writer(writer)


def convert(args):
    """Writes the files under other names and renames them at the end: a failure replaces nothing."""
    source, family = open_source(args.model)
    source.progress.is_quiet = args.quiet
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
        source.progress.finish()
    finally:
        source.progress.stop()
        for path in unfinished:
            path.unlink(missing_ok=True)
