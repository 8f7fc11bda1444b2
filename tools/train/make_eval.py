"""Writes a pool of PNG boards and questions with exact answers over 1, 4, 8 and 16 of them.

The published set is `make_eval.py OUT --seed 20261121 --pool 160 --per-set 300`.
"""
import argparse
import json
import os
import random

import numpy as np
import torch
from PIL import Image

import drawing
import scenes


def write_images(out, pool, rng):
    """images/NNN.png, drawn eight at a time (the noise depends on the batch)."""
    atlas = torch.from_numpy(drawing.glyph_atlas())
    params = torch.tensor(np.stack([drawing.scene_params(scene, rng) for scene in pool]))
    os.makedirs(f"{out}/images", exist_ok=True)
    for first in range(0, len(pool), 8):
        batch = (drawing.render(params[first:first + 8], atlas) * 255).round().byte().permute(0, 2, 3, 1).numpy()
        for i, pixels in enumerate(batch):
            Image.fromarray(pixels).save(f"{out}/images/{first + i:03d}.png", optimize=True)


def question_record(pool, rng, image_count, turns):
    """One line of questions.jsonl: the first turn of a conversation over `image_count` boards of the pool."""
    ids = rng.sample(range(len(pool)), image_count)
    pieces = scenes.conversation([pool[i] for i in ids], rng, turns)
    (prompt, _, kind), (answer, _, _) = pieces[0], pieces[1]
    prompt = prompt.removeprefix("<|im_start|>User: ").removesuffix("<end_of_utterance>\nAssistant:")
    return {
        "n": image_count,
        "kind": kind,
        "images": [f"images/{i:03d}.png" for i in ids],
        "prompt": prompt.replace(scenes.IMAGE_MARK, "<image>"),
        "answer": answer.removesuffix("<end_of_utterance>").strip(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", help="folder to write")
    parser.add_argument("--seed", type=int, default=20261121)
    parser.add_argument("--pool", type=int, default=160, help="boards")
    parser.add_argument("--per-set", type=int, default=300, help="questions for each number of images")
    args = parser.parse_args()

    rng = random.Random(args.seed)
    torch.manual_seed(args.seed)
    pool = [scenes.sample_scene(rng) for _ in range(args.pool)]
    write_images(args.out, pool, rng)
    with open(f"{args.out}/scenes.jsonl", "w") as file:
        for i, scene in enumerate(pool):
            record = {"image": f"images/{i:03d}.png", "caption": scenes.caption(scene), **scene}
            file.write(json.dumps(record) + "\n")
    with open(f"{args.out}/questions.jsonl", "w") as file:
        for image_count, turns in ((1, 2), (4, 1), (8, 1), (16, 1)):
            for _ in range(args.per_set):
                file.write(json.dumps(question_record(pool, rng, image_count, turns)) + "\n")


if __name__ == "__main__":
    main()
