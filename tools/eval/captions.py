"""Captions against references: BLEU-4, ROUGE-L and CIDEr of pycocoevalcap.

Texts are compared in lower case and without punctuation, as the library's own tokenizer, which needs Java, would leave
them. CIDEr weighs words by how few pictures mention them: 10 for a file of perfect captions, 0 for a single picture.
"""
import json
import re

from budget_demo import Refused

WORD = re.compile(r"\w+(?:'\w+)?")


def load_scorers():
    try:
        from pycocoevalcap.bleu.bleu import Bleu
        from pycocoevalcap.cider.cider import Cider
        from pycocoevalcap.rouge.rouge import Rouge
    except ImportError as error:
        raise Refused(f"--captions needs {error.name or 'a library'}, which is missing: "
                      "pip install -r tools/eval/requirements.txt") from error
    return Bleu(4), Rouge(), Cider()


def read_references(path, limit):
    """[(picture as a path, references)], of JSON lines with "image" and "references" (or "caption"), or of one object
    from pictures to captions."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{path} cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}.", 4) \
            from error
    rows = mapping_of(text)
    if rows is None:
        rows = [parse_line(path, number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not rows:
        raise Refused(f"{path}: there is no caption.", 4)
    return [(str(path.parent / image), references) for image, references in rows[:limit]]


def mapping_of(text):
    try:
        whole = json.loads(text)
    except ValueError:
        return None
    if not isinstance(whole, dict) or "image" in whole:
        return None
    rows = [(image, as_list(references)) for image, references in whole.items()]
    return rows if all(references for _, references in rows) else None


def parse_line(path, number, line):
    try:
        row = json.loads(line)
    except ValueError:
        row = None
    references = as_list(row.get("references", row.get("caption"))) if isinstance(row, dict) else None
    if not references or not isinstance(row.get("image"), str):
        raise Refused(f'{path}, line {number}: this is not an object with "image" and "references".', 4)
    return row["image"], references


def as_list(references):
    """A list of texts, or None."""
    references = [references] if isinstance(references, str) else references
    is_texts = isinstance(references, list) and all(isinstance(text, str) for text in references)
    return references if is_texts and references else None


def words(text):
    return " ".join(WORD.findall(text.lower()))


def score(scorers, references, answers):
    """Scores of one answer per picture; a picture may appear more than once."""
    bleu, rouge, cider = scorers
    given = {index: [words(answer)] for index, answer in enumerate(answers)}
    right = {index: [words(text) for text in texts] for index, (_, texts) in enumerate(references)}
    exact = sum(answer in texts for answer, (_, texts) in zip(answers, references))
    return {"exact": exact, "accuracy": exact / len(answers),
            "bleu_4": round(float(bleu.compute_score(right, given, verbose=0)[0][3]), 4),
            "rouge_l": round(float(rouge.compute_score(right, given)[0]), 4),
            "cider": round(float(cider.compute_score(right, given)[0]), 4)}
