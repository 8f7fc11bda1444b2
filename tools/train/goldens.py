"""Reference numbers for parity tests: prompt ids, first logits, image rows and greedy answers, float32 on the CPU,
stored as halves. Copies the boards that the questions are about, too."""
import argparse
import json
import os
import random
import shutil

import torch

import make_eval
import reference

# Numbers of the goldens, by which tests find them: the first questions with so many images.
QUESTIONS = {1: range(8), 4: (12, 13), 16: (21,)}
# Further ones with so many images, asked anew about the boards of those, so that there are fewer boards.
FURTHER = {4: (15, 16, 17), 8: (18,)}
FURTHER_SEED = 5
# It lends its board to further questions, but is none.
LENDER = 7
# Boards that no question is about, and those of others in their place.
INSTEAD = {"032": "036", "033": "063", "051": "115", "059": "024", "062": "132", "073": "098", "080": "113",
           "091": "119", "135": "147", "139": "098", "155": "047"}
IMAGE_ROWS_COUNT = 1


def save_halves(tensor, path):
    tensor.numpy().astype("<f2").tofile(path)


def greedy_prefix(got, want):
    """What greedy decoding gives, known up to and including its first difference from `want`."""
    for i, (x, y) in enumerate(zip(got, want)):
        if x != y:
            return got[:i + 1]
    return got


def golden(ref, evaluation, out, question, index):
    """Runs one question, saves its arrays and returns its record."""
    rows = torch.cat([ref.image_rows(f"{evaluation}/{image}") for image in question["images"]])
    ids = ref.prompt_ids(question["prompt"])
    want = ref.tokens.encode(" " + question["answer"]) + [ref.end_id]
    logits = ref.logits(ids + want, rows)[len(ids) - 1:-1]
    generated = greedy_prefix(logits.argmax(-1).tolist(), want)
    save_halves(logits[0], f"{out}/first_logits_{index:02d}.f16")
    if index < IMAGE_ROWS_COUNT:
        save_halves(rows, f"{out}/image_rows_{index:02d}.f16")
    return {
        "id": index,
        "n": question["n"],
        "images": question["images"],
        "prompt": question["prompt"],
        "prompt_ids": ids,
        "generated_ids": generated,
        "text": ref.tokens.decode(generated).strip(),
        "expected": question["answer"],
        "first_logits": f"first_logits_{index:02d}.f16",
    }


def pick_questions(evaluation):
    """{number: question}"""
    with open(f"{evaluation}/questions.jsonl") as file:
        questions = [json.loads(line) for line in file]
    picked = {}
    for image_count, numbers in QUESTIONS.items():
        picked |= zip(numbers, (question for question in questions if question["n"] == image_count))
    with open(f"{evaluation}/scenes.jsonl") as file:
        scenes = {scene["image"]: scene for scene in map(json.loads, file)}
    boards = sorted({image for question in picked.values() for image in question["images"]})
    rng = random.Random(FURTHER_SEED)
    for image_count, numbers in FURTHER.items():
        for number in numbers:
            question = make_eval.question_record([scenes[board] for board in boards], rng, image_count, 1)
            picked[number] = question | {"images": [boards[int(name[7:10])] for name in question["images"]]}
    del picked[LENDER]
    for number, question in picked.items():
        images = [image[7:10] for image in question["images"]]
        picked[number] = question | {"images": [f"images/{INSTEAD.get(name, name)}.png" for name in images]}
    return dict(sorted(picked.items()))


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
        for image in question["images"]:
            shutil.copy(f"{args.evaluation}/{image}", f"{args.out}/{image}")
        print(record["id"], record["n"], len(record["prompt_ids"]), repr(record["text"]), flush=True)
    with open(f"{args.out}/goldens.json", "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(record, separators=(",", ":")) for record in records) + "\n]\n")
    print("exact", sum(r["text"] == r["expected"] for r in records), "of", len(records))


if __name__ == "__main__":
    main()
