"""What boards.yaml calls: a question as messages, with each picture at its place in the text, and the score of an answer."""
from pathlib import Path

HERE = Path(__file__).resolve().parent
MARK = "<image>"
NO_ANSWER = "[LMMS_EVAL_"  # begins what lmms-eval takes for an answer where it got none


def messages_of(doc, lmms_eval_specific_kwargs):
    """One user's message, of which the model reads what it reads of `ocellus eval`. Throws ValueError."""
    folder = HERE / lmms_eval_specific_kwargs["folder"]
    images = doc["images"] or []
    marked = doc["prompt"] if MARK in doc["prompt"] or len(images) != 1 else MARK + doc["prompt"]
    texts = marked.split(MARK)
    if len(texts) != len(images) + 1:
        raise ValueError(f"the prompt has {len(texts) - 1} marks {MARK}, the question {len(images)} pictures: {marked!r}")
    content = []
    for text, image in zip(texts, [*images, None]):
        content += [{"type": "text", "text": text}] if text else []
        content += [{"type": "image", "url": str(folder / image)}] if image else []
    return [{"role": "user", "content": content}]


def text_of(doc, lmms_eval_specific_kwargs):
    return doc["prompt"]


def results_of(doc, results):
    """`exact` is 1 if the answer, trimmed, is the expected one, as `ocellus eval` counts; `failed` if there is no answer.
    An exception would be tried again five times, and would then cost all other answers."""
    (answer,) = results
    return {"exact": float(answer.strip() == doc["answer"].strip()), "failed": float(answer.startswith(NO_ANSWER))}
