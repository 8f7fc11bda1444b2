"""The result as Markdown."""
import math

from budget_demo import format_size
from methods import CAPTIONS, QUESTIONS, TEXT, bits_name, count_pictures, place_name

SHARES = [1 / 4, 1 / 8, 1 / 10, 1 / 16, 1 / 32]  # of the bytes of all as f16
CAPTION_SCORES = [("CIDEr", "cider"), ("BLEU-4", "bleu_4"), ("ROUGE-L", "rouge_l")]


def percent(share):
    return f"{100 * share:.{2 if share < 0.05 else 3}g} %"


def score(value):
    return f"{value:.3f}"


def table(head, rows):
    """Text to the left, what stands in the further columns to the right."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def unique(values):
    return list(dict.fromkeys(values))


def methods_by_keep(cells, key="accuracy"):
    """A row for every method and bits, a column for every fraction kept; beside each value the share of the bytes."""
    keeps = sorted({cell["keep"] for cell in cells}, reverse=True)
    rows = []
    for method, bits in unique((cell["method"], cell["bits"]) for cell in cells):
        by_keep = {cell["keep"]: cell for cell in cells if (cell["method"], cell["bits"]) == (method, bits)}
        rows.append([f"{method}, {bits_name(bits)}"] + [
            f"{score(by_keep[keep][key])} ({percent(by_keep[keep]['share'])})" if key in by_keep.get(keep, {}) else ""
            for keep in keeps])
    return table(["keep"] + ["all" if keep == 1 else percent(keep) for keep in keeps], rows)


def best_within(cells, share):
    """The most accurate cell among those that fit the share, among equals the smallest."""
    fitting = [cell for cell in cells if cell["share"] <= share + 1e-9]
    return min(fitting, key=lambda cell: (-cell["accuracy"], cell["kv_bytes"]), default=None)


def best_by_share(cells):
    full = max(cell["kv_bytes_full"] for cell in cells)
    methods = unique(cell["method"] for cell in cells)
    rows = []
    for share in SHARES:
        best = best_within(cells, share)
        each = [best_within([cell for cell in cells if cell["method"] == method], share) for method in methods]
        rows.append([percent(share), format_size(share * full), best["setting"] if best else "nothing fits",
                     format_size(best["kv_bytes"]) if best else "", score(best["accuracy"]) if best else ""]
                    + [score(cell["accuracy"]) if cell else "" for cell in each])
    return table(["share", "bytes", "best setting", "takes", "accuracy", *methods], rows)


def every_cell(cells):
    head = ["setting", "accuracy", "keys and values", "scales", "empty", "share", "decode, tokens/s", "first token, ms",
            "arena"]
    has_perplexity = any("perplexity" in cell for cell in cells)
    rows = []
    for cell in cells:
        rows.append([cell["setting"], score(cell["accuracy"]), *(format_size(cell[f"kv_{part}_bytes"])
                                                                 for part in ["payload", "scale", "waste"]),
                     percent(cell["share"]), f"{cell['decode_tok_s']:.0f}", f"{cell['ttft_ms']:.1f}",
                     format_size(cell["arena_bytes"])])
        if has_perplexity:
            rows[-1].append(f"{cell['perplexity']:.4g}" if "perplexity" in cell else "")
    return table(head + (["perplexity"] if has_perplexity else []), rows)


def sampling_error(counts):
    """One sentence on how far chance moves an accuracy."""
    each = [f"{math.sqrt(0.25 / count):.3f} at 0.5 and {math.sqrt(0.09 / count):.3f} at 0.9 for {count} questions"
            for count in unique(counts)]
    return "One standard deviation of an accuracy p over N questions is sqrt(p (1 - p) / N): " + "; ".join(each) + \
        ". All settings answer the same questions, so differences between them vary less."


def picture_sections(results, names):
    parts = []
    for pictures in sorted({cell["pictures"] for cell in results.of_task(QUESTIONS)}):
        cells = results.of_task(QUESTIONS, pictures)
        full = format_size(max(cell["kv_bytes_full"] for cell in cells))
        parts += [f"## {count_pictures(pictures)}",
                  f"{cells[0]['questions']} questions; all of the cache as f16 is {full} per question.",
                  "Accuracy, and in brackets the share of those bytes:", methods_by_keep(cells),
                  "The best accuracy within a share of the bytes, and to the right what each method reaches there:",
                  best_by_share(cells)]
        if all("perplexity" in cell for cell in cells):
            parts += ["Perplexity of the forced answers:", methods_by_keep(cells, "perplexity")]
        parts += ["Every cell (means over the questions):", every_cell(cells)]
        parts += [f"![{name}]({name})" for name in names if name.endswith(f"_{pictures}.png")]
    return parts


def caption_section(cells, names):
    full = max(cells, key=lambda cell: cell["share"])
    parts = ["## Captions",
             f"{full['captions']} captions, one picture each, against their references (pycocoevalcap, lower case, no "
             "punctuation). CIDEr is 10 at most, the others 1. Shares are those of the cache that a caption is read "
             "from, without its own tokens.",
             table(["setting", "share", *(name for name, _ in CAPTION_SCORES), "exact"],
                   [[cell["setting"], percent(cell["share"]), *(score(cell[key]) for _, key in CAPTION_SCORES),
                     score(cell["accuracy"])] for cell in cells])]
    return parts + [f"![{name}]({name})" for name in names if name.startswith("captions")]


def text_section(cells, names):
    about = cells[0]
    parts = ["## Text",
             f"Perplexity of {about['forced_tokens']} tokens in {about['windows']} windows of {about['window']}, of which "
             f"{about['context']} are the prompt that is cut down, and in brackets the share of the bytes of all as f16 "
             "at a window's end:", methods_by_keep(cells, "perplexity")]
    return parts + [f"![{name}]({name})" for name in names if name.startswith("text")]


def failure_section(failures):
    """What has no result, sentence by sentence."""
    by_sentence = {}
    for failure in failures:
        by_sentence.setdefault(failure["sentence"], []).append(
            f"{failure['setting']} ({place_name(failure['task'], failure['pictures'])})")
    return ["## Not measured"] + [f"- {', '.join(settings)}: {sentence}" for sentence, settings in by_sentence.items()]


def markdown(results, names):
    about = results.about
    questions = results.of_task(QUESTIONS)
    parts = ["# Methods by budget and pictures",
             f"{about['device']}, {about['date']}, commit {about['commit']}, {about['program']}, {about['jobs']} "
             + ("cells at a time, which slow each other down." if about["jobs"] > 1 else "cell at a time."),
             f"```\n{about['command']}\n```"]
    if questions:
        parts.append(sampling_error(cell["questions"] for cell in questions))
    parts += picture_sections(results, names)
    if results.of_task(CAPTIONS):
        parts += caption_section(results.of_task(CAPTIONS), names)
    if results.of_task(TEXT):
        parts += text_section(results.of_task(TEXT), names)
    if results.failures:
        parts += failure_section(results.failures.values())
    return "\n\n".join(parts) + "\n"
