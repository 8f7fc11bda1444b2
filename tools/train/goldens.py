"""Reference numbers for parity tests: prompt ids, first logits, image rows and greedy answers, float32 on the CPU,
stored as halves. Copies the boards that the questions are about, but for the samples, too."""
import argparse
import json
import os
import random
import shutil

import torch

import make_eval
import reference

# Goldens 0 to 5 are the first questions about one board.
FIRST_COUNT = 6
# The further ones, {number: (images, seed)}, are drawn from these boards, each with a seed of its own. Seeds were picked
# for what is asked: a background, counts, a caption of many parts, a sign and a place; 6, 12 and 13 share no board.
BOARDS = ("001", "003", "004", "024", "028", "036", "063", "074", "075", "095", "098", "113", "114", "115", "140", "151")
FURTHER = {6: (1, 421), 12: (4, 9802), 13: (4, 1954), 15: (4, 2311), 16: (4, 108), 17: (4, 48), 18: (8, 163),
           21: (16, 139)}
# Boards that are among apps/samples, too, where tests read them.
SAMPLES = {"001": "board_02", "003": "board_03", "074": "board_06", "075": "board_07", "114": "board_11"}
IMAGE_ROWS_COUNT = 1


def save_halves(tensor, path):
    tensor.numpy().astype("<f2").tofile(path)


def greedy_prefix(got, want):
    """What greedy decoding gives, known up to and including its first difference from `want`."""
    for i, (x, y) in enumerate(zip(got, want)):
        if x != y:
            return got[:i + 1]
    return got


def place(board):
    """Where tests find the board, relative to the goldens."""
    return f"../../../apps/samples/{SAMPLES[board]}.png" if board in SAMPLES else f"images/{board}.png"


def golden(ref, evaluation, out, question, index):
    """Runs one question, saves its arrays and returns its record."""
    rows = torch.cat([ref.image_rows(f"{evaluation}/images/{board}.png") for board in question["boards"]])
    ids = ref.prompt_ids(question["prompt"])
    want = ref.tokens.encode(" " + question["answer"]) + [ref.end_id]
    logits = ref.logits(ids + want, rows)[len(ids) - 1:-1]
    generated = greedy_prefix(logits.argmax(-1).tolist(), want)
    save_halves(logits[0], f"{out}/first_logits_{index:02d}.f16")
    if index < IMAGE_ROWS_COUNT:
        save_halves(rows[::4], f"{out}/image_rows_{index:02d}.f16")
    return {
        "id": index,
        "n": question["n"],
        "images": [place(board) for board in question["boards"]],
        "prompt": question["prompt"],
        "prompt_ids": ids,
        "generated_ids": generated,
        "text": ref.tokens.decode(generated).strip(),
        "expected": question["answer"],
        "first_logits": f"first_logits_{index:02d}.f16",
    }


def pick_questions(evaluation):
    """{number: question, with the names of its boards}"""
    with open(f"{evaluation}/scenes.jsonl") as file:
        scenes = [json.loads(line) for line in file]
    pool = [scenes[int(board)] for board in BOARDS]
    picked = {}
    with open(f"{evaluation}/questions.jsonl") as file:
        for number in range(FIRST_COUNT):
            question = json.loads(file.readline())
            picked[number] = question | {"boards": [name[7:10] for name in question["images"]]}
    for number, (image_count, seed) in FURTHER.items():
        question = make_eval.question_record(pool, random.Random(seed), image_count, 1)
        picked[number] = question | {"boards": [BOARDS[int(name[7:10])] for name in question["images"]]}
    return picked


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="Hugging Face folder written by export.py")
    parser.add_argument("evaluation", help="folder written by make_eval.py")
    parser.add_argument("out", help="folder to write")
    args = parser.parse_args()

    os.makedirs(f"{args.out}/images", exist_ok=True)
    ref = reference.Reference(args.model)
    records = []
    for number, question in pick_questions(args.evaluation).items():
        record = golden(ref, args.evaluation, args.out, question, number)
        records.append(record)
        for board in question["boards"]:
            if board not in SAMPLES:
                shutil.copy(f"{args.evaluation}/images/{board}.png", f"{args.out}/images/{board}.png")
        print(record["id"], record["n"], len(record["prompt_ids"]), repr(record["text"]), flush=True)
    with open(f"{args.out}/goldens.json", "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(record, separators=(",", ":")) for record in records) + "\n]\n")
    print("exact", sum(r["text"] == r["expected"] for r in records), "of", len(records))


if __name__ == "__main__":
    main()
