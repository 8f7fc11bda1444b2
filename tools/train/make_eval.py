"""Writes a pool of PNG boards and questions with exact answers over 1, 4, 8 and 16 of them.

The published set is `make_eval.py OUT --seed 20261121 --pool 160 --per-set 300`. With `--sentences N` text competes with
the pictures: N sentences that have nothing to do with them follow each one, and four times as many the last.
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


SENTENCES = (
    "The weather was fine that morning and nobody was in a hurry.",
    "We packed some bread, two apples and a bottle of water.",
    "The train was late again, so we walked along the river.",
    "A letter had come from my sister, who lives near the sea.",
    "Later we talked about books and the price of coffee.",
    "The shop on the corner is closed on Mondays.",
    "He said that he would come back before dinner.",
    "There was music in the street, and children were running.",
)


def add_sentences(prompt, count, rng):
    """The prompt with text after each picture."""
    head, *rest = prompt.split("<image>")
    for i, after in enumerate(rest):
        told = [rng.choice(SENTENCES) for _ in range(count if i + 1 < len(rest) else 4 * count)]
        head += "<image>\n" + " ".join(told) + "\n" + after.removeprefix("\n")
    return head


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
    parser.add_argument("--sentences", type=int, default=0, metavar="N", help="sentences after each picture")
    args = parser.parse_args()

    rng = random.Random(args.seed)
    sentence_rng = random.Random(args.seed)  # its own: the questions are those without sentences
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
                question = question_record(pool, rng, image_count, turns)
                if args.sentences > 0:
                    question["prompt"] = add_sentences(question["prompt"], args.sentences, sentence_rng)
                file.write(json.dumps(question) + "\n")


if __name__ == "__main__":
    main()
