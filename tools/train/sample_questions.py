"""Writes apps/samples/questions_8.jsonl: questions with exact answers over eight of the sample boards each.

The boards are known from their true captions alone, which say everything about a board.
"""
import json
import random
import re
from pathlib import Path

import scenes

SAMPLES = Path(__file__).resolve().parents[2] / "apps" / "samples"
QUESTIONS = 24
BOARDS_EACH = 8
SEED = 8


def scene_of(caption):
    """The inverse of scenes.caption."""
    body, background = re.fullmatch(r"(.*), on a (\w+) background\.", caption).groups()
    scene = {"objs": [], "sign": None, "bg": scenes.BACKGROUND_NAMES.index(background)}
    places = "|".join(sorted(scenes.PLACES, key=len, reverse=True))
    for phrase, place in re.findall(rf"(an? .*?) ({places})(?:, | and |$)", body[0].lower() + body[1:]):
        cell = scenes.PLACES.index(place)
        if phrase.startswith("a sign reading "):
            scene["sign"] = {"cell": cell, "text": phrase.removeprefix("a sign reading ").upper()}
            continue
        _, size, color, shape = phrase.split()
        scene["objs"].append({"cell": cell, "shape": scenes.SHAPES.index(shape),
                              "color": scenes.COLOR_NAMES.index(color), "size": scenes.SIZES.index(size)})
    assert scenes.caption(scene) == caption, (scene, caption)
    return scene


def question(names, boards, rng):
    chosen = rng.sample(names, BOARDS_EACH)
    kind, text, answer = scenes.ask_many([boards[name] for name in chosen], rng)
    head = "".join(f"Image {i + 1}:<image>\n" for i in range(BOARDS_EACH))
    return {"n": BOARDS_EACH, "kind": kind, "images": chosen, "prompt": head + text, "answer": answer}


def main():
    captions = json.loads((SAMPLES / "captions.json").read_text())
    boards = {name: scene_of(caption) for name, caption in captions.items() if name.endswith(".png")}
    rng = random.Random(SEED)
    lines = [json.dumps(question(sorted(boards), boards, rng)) + "\n" for _ in range(QUESTIONS)]
    (SAMPLES / "questions_8.jsonl").write_text("".join(lines))


if __name__ == "__main__":
    main()
