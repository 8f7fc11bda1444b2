"""Makes tests/data/families/NAME/{model.gguf,mmproj.gguf,goldens.json}: tiny random models of every family, converted
by hf_to_gguf.py, and what transformers computes with them in float32. A family may share another's files.

usage: make_family_goldens.py OUT [NAME...]      OUT: tests/data/families; NAME: families of family_recipes.py
needs: pip install torch transformers==5.24.0 'pillow<13' gguf sentencepiece protobuf num2words
Pillow 13 resizes some tall pictures in another order than Pillow 3 to 12.

goldens.json: the paths of the two files, the text before the first turn (`system`, which a case may have of its own),
then one case a line.
  turns     lists of texts, pictures [width, height], which synthetic() paints, and clips: see family_recipes.py
  prompt    the same in one list, with the texts around turns; `ids` in it: of an answer that the model did not give
  ids       of the whole prompt; -N stands for N rows of a picture
  views     of each picture
  pixels    FNV-1a of the 8-bit RGB of each view; `pixel_values`: some normalised ones, views as planes in a row
  tower     rows of patches that the projector reads, of all views; `projector`: its rows; `logits`: after the last row.
            Of all of these every `stride`-th value, row by row
  deepstack  rows that are added to those of pictures after the first layers of the text model: one a layer, as projector
  tokens    16 greedy ones, which ignore the end of text, and the gaps between the best two logits
"""
import argparse
import filecmp
import json
import shutil
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import numpy as np
import PIL
import torch
import transformers
from PIL import Image

from family_recipes import RECIPES

SAMPLES = 32
TOKENS = 16
MOST_BYTES = 240_000  # of a family, as every checkout has them
ROWS = ("cls_token", "class_embedding", "position_embedding", "pos_embed", "embed_tokens")
GAINS = {"patch": 2, "q_proj": 1.5, "o_proj": 3, "down_proj": 3, "lm_head": 3}


def synthetic(width, height, shift=0):
    """The picture that tests/support/pictures.h paints, from a column on."""
    x, y = np.meshgrid(np.arange(shift, shift + width), np.arange(height))
    planes = [(x * 7 + y * 13 + c * 50 + ((x * x * 31 + y * y * 17 + x * y * 3 + c * 97) >> 3)) & 255 for c in range(3)]
    return Image.fromarray(np.stack(planes, -1).astype(np.uint8))


def paint(part):
    """A picture, or a tuple of the frames of a pair."""
    return tuple(synthetic(*frame) for frame in part) if isinstance(part[0], list) else synthetic(*part)


def fnv(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def sample(rows, count=SAMPLES, digits=5):
    """Some `count` values of a matrix, spread over its rows and columns."""
    rows = rows.reshape(-1, rows.shape[-1])
    flat = rows.reshape(-1).numpy()
    stride = max(1, len(flat) // count) | 1  # odd, so that columns change
    values = [float(f"{value:.{digits}g}") for value in flat[::stride]]
    return {"shape": list(rows.shape), "stride": stride, "values": values}


def randomise(model, recipe):
    """Every parameter drawn, so that none can be left out unnoticed, and representable in half precision. By names, so
    that the same tower has the same weights before whichever text model; the recipe's seed is that of the text model."""
    for name, parameter in model.named_parameters():
        is_text = "language_model" in name or "text_model" in name or "lm_head" in name
        generator = torch.Generator().manual_seed(zlib.crc32(name.encode()) + (recipe.seed if is_text else 0))
        noise = torch.randn(parameter.shape, generator=generator)
        if "norm" in name or "layrnorm" in name or "ln_q" in name or "lambda" in name:
            value = 0.2 * noise + (0 if name.endswith("bias") else recipe.norm_mean(name))
        elif name.endswith("bias"):
            value = 0.2 * noise
        elif parameter.ndim < 2 or any(part in name for part in ROWS):
            value = 0.5 * noise
        else:  # how much larger outputs are than inputs: attention is neither flat nor a single row
            gain = next((gain for part, gain in GAINS.items() if part in name), 1)
            value = gain / parameter[0].numel() ** 0.5 * noise
        parameter.data = value.half().float()


def seen_bytes(planes, processor):
    """The 8-bit RGB pixels [height, width, 3] of a view's normalised planes."""
    mean = np.array(processor.image_mean)[:, None, None]
    std = np.array(processor.image_std)[:, None, None]
    exact = (planes.astype(np.float64) * std + mean) * 255
    rounded = np.rint(exact)
    assert np.abs(exact - rounded).max() < 1e-3
    return rounded.astype(np.uint8).transpose(1, 2, 0)


def collapse(ids, row_tokens):
    """Runs of these tokens as negative counts."""
    out = []
    for token in ids:
        if token not in row_tokens:
            out.append(token)
        elif out and out[-1] < 0:
            out[-1] -= 1
        else:
            out.append(-1)
    return out


def greedy(model, inputs):
    """(ids, gaps between the best two logits): the model never stops by itself."""
    ids, gaps = [], []
    out = model(**inputs, use_cache=True)
    for _ in range(TOKENS):
        best = out.logits[0, -1].topk(2)
        ids.append(int(best.indices[0]))
        gaps.append(float(f"{best.values[0] - best.values[1]:.4g}"))
        out = model(input_ids=torch.tensor([ids[-1:]]), past_key_values=out.past_key_values, use_cache=True)
    return ids, gaps


def run_case(recipe, model, name, turns, told=None):
    """`told`: what the case says before its turns, if not what all cases do."""
    told = told or {}
    prompt = recipe.prompt(turns, **told)
    pictures = [paint(part) for part in prompt if isinstance(part, list)]
    ids, images = recipe.inputs(prompt, pictures)
    case = {"name": name, **told, "turns": turns, "prompt": prompt, "ids": collapse(ids, recipe.row_tokens)}
    inputs = {"input_ids": torch.tensor([ids])}
    if pictures:
        tower, projected = recipe.rows(model, images)
        views = [seen_bytes(planes, recipe.normaliser()) for planes in images.pixel_values]
        flat = np.concatenate([planes.reshape(-1) for planes in images.pixel_values])
        case |= {"views": images.view_counts, "pixels": [fnv(view.tobytes()) for view in views],
                 "pixel_values": sample(torch.from_numpy(flat)[None], 12, digits=6),
                 "tower": sample(tower), "projector": sample(projected)}
        deepstack = [sample(rows) for rows in recipe.deepstack_rows(model, images)]
        case |= {"deepstack": deepstack} if deepstack else {}
        inputs |= images.model_inputs
    if hasattr(model.model, "rope_deltas"):
        model.model.rope_deltas = None  # those of another prompt
    logits = model(**inputs).logits[0, -1]
    tokens, gaps = greedy(model, inputs)
    assert not recipe.row_tokens & set(tokens), f"{name}: the answer says a row of a picture; choose another seed"
    return case | {"logits": sample(logits[None]), "tokens": tokens, "gaps": gaps}


def convert(folder, out, title):
    script = Path(__file__).with_name("hf_to_gguf.py")
    names = ["--name", "model", "--title", title]
    subprocess.run([sys.executable, str(script), str(folder), str(out), *names], check=True)
    shutil.move(out / "model-f16.gguf", out / "model.gguf")
    shutil.move(out / "mmproj-model-f16.gguf", out / "mmproj.gguf")


def share(out, file, other):
    """The path to a file of another family, made from other tensors or another layout, and yet the same."""
    if other is None:
        return file
    assert filecmp.cmp(out / file, out.parent / other / file, shallow=False), f"{out / file} is not that of {other}"
    (out / file).unlink()
    return f"../{other}/{file}"


def make(name, out):
    out.mkdir(parents=True, exist_ok=True)
    recipe = RECIPES[name]()
    model = recipe.model()
    randomise(model, recipe)
    recipe.finish(model)
    model.eval()
    with tempfile.TemporaryDirectory() as folder:
        recipe.save(model, Path(folder))
        convert(Path(folder), out, f"tiny {recipe.title or recipe.mmproj_of or recipe.model_of or name}")
    facts = {"family": name, "model": share(out, "model.gguf", recipe.model_of),
             "mmproj": share(out, "mmproj.gguf", recipe.mmproj_of), "system": recipe.system, **recipe.facts(),
             "made_with": {library.__name__: library.__version__ for library in (transformers, torch, PIL)}}
    with torch.no_grad():
        cases = [run_case(recipe, model, *case) for case in recipe.cases()]
    body = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    head = json.dumps(facts, separators=(",", ":"))[:-1]
    (out / "goldens.json").write_text(head + ',"cases":[\n' + body + "\n]}\n", encoding="utf-8")
    size = sum(path.stat().st_size for path in out.iterdir())
    print(name, size, "bytes,", len(cases), "cases, smallest gap", min(min(case["gaps"]) for case in cases))
    assert size <= MOST_BYTES, f"{name} takes more than {MOST_BYTES} bytes: give its recipe shorter rows, or fewer layers"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="*", default=[])
    args = parser.parse_args()
    assert int(PIL.__version__.split(".")[0]) < 13, "Pillow 13 resizes some tall pictures in another order"
    torch.set_num_threads(1)
    for name in args.names or RECIPES:
        make(name, args.out / name)


if __name__ == "__main__":
    main()
