"""Reference numbers for parity tests: prompt ids, first logits, image rows and greedy answers, float32 on the CPU,
stored as halves."""
import argparse
import json
import os

import torch

import reference

QUESTIONS = ((1, 12), (4, 6), (8, 3), (16, 1))  # (images per question, how many questions)
IMAGE_ROWS_COUNT = 3


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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="Hugging Face folder written by export.py")
    parser.add_argument("evaluation", help="folder written by make_eval.py")
    parser.add_argument("out", help="folder to write")
    args = parser.parse_args()

    os.makedirs(args.out, exist_ok=True)
    ref = reference.Reference(args.model)
    with open(f"{args.evaluation}/questions.jsonl") as file:
        questions = [json.loads(line) for line in file]
    records = []
    for image_count, take in QUESTIONS:
        for question in [q for q in questions if q["n"] == image_count][:take]:
            record = golden(ref, args.evaluation, args.out, question, len(records))
            records.append(record)
            print(record["id"], record["n"], len(record["prompt_ids"]), repr(record["text"]), flush=True)
    with open(f"{args.out}/goldens.json", "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(record, separators=(",", ":")) for record in records) + "\n]\n")
    print("exact", sum(r["text"] == r["expected"] for r in records), "of", len(records))


if __name__ == "__main__":
    main()
