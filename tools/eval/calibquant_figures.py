#!/usr/bin/env python3
"""CalibQuant's figures 1 and 2 for the bundled model, and how wide the channels of its visual keys and values are.

    calibquant_figures.py HF EVAL OUT.json [--questions N] [--pictures N]

HF is the folder that tools/train/export.py writes, EVAL the one of tools/train/make_eval.py.

The float32 reference model (PyTorch) reads each prompt; the query is that of the last prompt token. Visual keys are rounded
to 1 bit with a range per channel of all pictures ("prompt", the paper) or of each picture ("image", ours), and their scores
are calibrated by tau 0 and 2. Figure 1: histograms of q.k / sqrt(E) of visual keys, in shares of the exact scores' range by
layer and head, 0 to 1 in ten bins, with one more at either end for what lies outside. Figure 2: mean squared error of the
softmax over all keys by layer. Channels: width of a channel's range over all pictures, and that of one picture over it, by
layer.
"""
import numpy as np

import figures
from figures import softmax

TAUS = (0.0, 2.0)
BINS = 10
RANGES = ("prompt", "image")


def one_bit(keys, groups):
    """Keys [heads, rows, channels] after rounding to 1 bit, with a range per channel for each slice of rows."""
    rounded = np.empty_like(keys)
    for rows in groups:
        part = keys[:, rows]
        least, greatest = part.min(1, keepdims=True), part.max(1, keepdims=True)
        step = np.maximum(greatest - least, 1e-6)
        rounded[:, rows] = least + step * np.clip(np.rint((part - least) / step), 0, 1)
    return rounded


def calibrated(scores):
    """Scores [heads, rows] as kernels/base/kv_run.h calibrates them."""
    low, high = scores.min(1, keepdims=True), scores.max(1, keepdims=True)
    slope = np.maximum(0, (high - low + TAUS[0] - TAUS[1]) / (high - low + 1e-8))
    return low - TAUS[0] + slope * (scores - low)


def histogram(scores, exact):
    """Counts of scores, by the share of the exact scores' range in their head, [BINS + 2]."""
    low, high = exact.min(1, keepdims=True), exact.max(1, keepdims=True)
    bins = np.floor((scores - low) / (high - low + 1e-12) * BINS + 1e-9)
    return np.bincount(np.clip(bins + 1, 0, BINS + 1).astype(int).ravel(), minlength=BINS + 2)


def measure(layer, visual, images, sums):
    """Adds one layer of one prompt. `visual`: rows of pictures; `images`: slices of these, one a picture."""
    query, keys, values = layer
    root = np.sqrt(keys.shape[-1])
    exact = np.einsum("he,hne->hn", query, keys) / root
    seen = exact[:, visual]
    settings = {"exact": seen}
    for name, groups in zip(RANGES, ([slice(None)], images)):
        rounded = np.einsum("he,hne->hn", query, one_bit(keys[:, visual], groups)) / root
        settings[f"{name}, 1 bit"] = rounded
        settings[f"{name}, 1 bit, calibrated"] = calibrated(rounded)
    for name, scores in settings.items():
        changed = exact.copy()
        changed[:, visual] = scores
        sums["histograms"].setdefault(name, np.zeros(BINS + 2))
        sums["histograms"][name] += histogram(scores, seen)
        sums["errors"].setdefault(name, []).append(np.mean((softmax(changed) - softmax(exact)) ** 2))
    for name, rows in (("keys", keys[:, visual]), ("values", values[:, visual])):
        width = np.ptp(rows, axis=1)
        shares = [np.ptp(rows[:, image], axis=1) / np.maximum(width, 1e-6) for image in images]
        sums["channels"].setdefault(name, []).append((width, np.mean(shares, 0)))


def summary(sums):
    """One layer's means over all prompts and heads."""
    channels = {}
    for name, entries in sums["channels"].items():
        widths = np.concatenate([width.ravel() for width, _ in entries])
        shares = np.concatenate([share.ravel() for _, share in entries])
        channels[name] = {"width_quantiles_10_50_90": [round(float(x), 3) for x in np.quantile(widths, [0.1, 0.5, 0.9])],
                          "share_of_one_picture": round(float(shares.mean()), 3)}
    return {"scores": {name: [round(float(x), 4) for x in counts / counts.sum()]
                       for name, counts in sums["histograms"].items()},
            "softmax_squared_error": {name: float(f"{np.mean(errors):.3g}") for name, errors in sums["errors"].items()
                                      if name != "exact"},
            "channels": channels}


def main():
    options = figures.parse_arguments(__doc__)
    prompts = figures.Prompts(options)
    layers = [{"histograms": {}, "errors": {}, "channels": {}} for _ in range(prompts.net.config.layers)]
    for prompt in prompts:
        for layer, sums in zip(prompts.read(prompt.ids, prompt.rows), layers):
            measure(layer, prompt.visual, prompt.images, sums)
    figures.write(options, prompts, __doc__, {"taus": TAUS, "layers": [summary(sums) for sums in layers]})


if __name__ == "__main__":
    main()
