#!/usr/bin/env python3
"""MPIC's figures 4 and 8, and figure 12 of its later text (InfoBlend), for the bundled model.

    mpic_figures.py HF EVAL OUT.json [--questions N] [--pictures N]

HF is the folder that tools/train/export.py writes, EVAL the one of tools/train/make_eval.py.

The float32 reference model (PyTorch) reads each prompt; the first output token's query is that of the last prompt token, its
attention the softmax over all tokens, in each head. Figure 4a: shares of image tokens whose attention lies below 1e-6, in
half decades from there, and above 1e-1. Figure 4b: attention that the first n image tokens of all pictures hold, and that
the first n of one picture hold in shares of what the picture holds. Figure 8: L1 distance of a token's keys in the prompt
from those of its picture read alone (start token, delimiter, picture) at the same positions, in all layers but the first,
whose keys are the same; layers in which a token is among the 6 farthest of 64 (the paper: 50), mean over pictures by index
in the picture, tokens of a picture that are in more than three quarters of these layers, and by layer the shares of the
farthest by eighths of the picture. Figure 12: percentage of a prompt's tokens with less attention
than the first image token of the prompt, and than that of each picture: mean and standard deviation over prompts and heads.
"""
import numpy as np

import figures
from figures import softmax

EDGES = [10.0 ** (exponent / 2) for exponent in range(-12, -1)]
FARTHEST = 6
FIRST = (1, 2, 4, 8, 16, 32, 64)
PARTS = 8


def rank(weights, row):
    """[heads] percentage of tokens with less attention than `row`'s."""
    return 100 * np.mean(weights < weights[:, row:row + 1], axis=1)


def measure_attention(layer, prompt, sums):
    query, keys, _ = layer
    weights = softmax(np.einsum("he,hne->hn", query, keys) / np.sqrt(keys.shape[-1]))
    seen = weights[:, prompt.visual]
    sums["bins"].append(np.bincount(np.digitize(seen, EDGES).ravel(), minlength=len(EDGES) + 1) / seen.size)
    sums["above"].append(np.mean(seen > 1e-3))
    most = -np.sort(-seen, axis=1)[:, :max(1, seen.shape[1] // 20)]
    sums["most"].append(np.mean(most.sum(1) / seen.sum(1)))
    running = seen.cumsum(1).mean(0)
    sums["all"].append([running[min(n * len(prompt.images), seen.shape[1]) - 1] for n in FIRST])
    for image in prompt.images:
        running = seen[:, image].cumsum(1)
        sums["one"].append(np.mean([running[:, n - 1] / running[:, -1] for n in FIRST], axis=1))
    ranks = [rank(weights, prompt.visual[image.start]) for image in prompt.images]
    sums["first"].extend(ranks[0])
    sums["each"].extend(np.concatenate(ranks))


def farthest(alone, layers, rows):
    """[layers, image tokens] whether a token's keys are among the farthest from those of the picture read alone."""
    marks = np.zeros((len(layers), len(rows)), bool)
    for mark, (_, before, _), (_, after, _) in zip(marks, alone, layers):
        distance = np.abs(after[:, rows] - before[:, -len(rows):]).sum((0, 2))
        mark[np.argsort(-distance)[:FARTHEST]] = True
    return marks


def summary(sums, marks, differs):
    """One layer's means over prompts, pictures and heads. `marks`: [pictures, image tokens], if its keys differ."""
    def rounded(values, digits=4):
        return [round(float(x), digits) for x in values]

    eighths = {"farthest_by_eighth": rounded(marks.mean(0).reshape(PARTS, -1).sum(1) / FARTHEST, 3)} if differs else {}
    return {"attention_bins": rounded(np.mean(sums["bins"], 0)),
            "share_of_tokens_above_1e-3": round(float(np.mean(sums["above"])), 4),
            "held_by_5_percent": round(float(np.mean(sums["most"])), 3),
            "first_of_all": rounded(np.mean(sums["all"], 0)), "first_of_one": rounded(np.mean(sums["one"], 0)),
            **eighths,
            "rank_of_first": rounded([np.mean(sums["first"]), np.std(sums["first"])], 1),
            "rank_of_each_first": rounded([np.mean(sums["each"]), np.std(sums["each"])], 1)}


def main():
    options = figures.parse_arguments(__doc__)
    prompts = figures.Prompts(options)
    tokens = prompts.net.tokens
    delimiters = tokens.encode("<|im_start|>" + figures.scenes.IMAGE_OPEN)
    names = ("bins", "above", "most", "all", "one", "first", "each")
    sums = [{name: [] for name in names} for _ in range(prompts.net.config.layers)]
    marks = []
    for prompt in prompts:
        layers = prompts.read(prompt.ids, prompt.rows)
        for layer, sum_of_layer in zip(layers, sums):
            measure_attention(layer, prompt, sum_of_layer)
        for image in prompt.images:
            rows = prompt.visual[image]
            ids = delimiters + [prompts.net.image_id] * len(rows)
            alone = prompts.read(ids, prompt.rows[image], int(rows[0]) - len(delimiters))
            marks.append(farthest(alone, layers, rows))
    marks = np.array(marks)
    counts = marks[:, 1:].sum(1)
    often = (counts > 0.75 * (len(sums) - 1)).sum(1).mean()
    figures.write(options, prompts, __doc__,
                  {"attention_bin_edges": ", ".join(f"{edge:.2g}" for edge in EDGES),
                   "n_of_first_of_all": ", ".join(str(n * options.pictures) for n in FIRST),
                   "n_of_first_of_one": ", ".join(map(str, FIRST)), "pictures_read": len(marks),
                   "layers_among_farthest_by_index": " ".join(f"{count:.2f}" for count in counts.mean(0)),
                   "tokens_among_farthest_in_most_layers": round(float(often), 3),
                   "layers": [summary(one, marks[:, i], i > 0) for i, one in enumerate(sums)]})


if __name__ == "__main__":
    main()
