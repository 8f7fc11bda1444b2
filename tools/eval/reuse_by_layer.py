#!/usr/bin/env python3
"""Linked pictures with fewer rows in place in deeper layers, and with a low-rank repair, on the bundled model.

    reuse_by_layer.py HF EVAL OUT.json [--questions N] [--pictures N] [--behind]

HF is the folder that tools/train/export.py writes, EVAL the one of tools/train/make_eval.py. --behind measures only pictures
that are read as the second of two that are both the picture, instead of alone (stored: behind itself).

The float32 reference model (PyTorch) links pictures that were read alone. accuracy: questions whose answer's tokens
are all the likeliest. loss: nats a token of the answer, over the questions that are right with all rows in place.
rows: those of a picture's 64 in place, by equal parts of the layers (cacheblend: of all pictures together, chosen
anew where they differ); a row whose recomputation ends keeps its stored keys and values above, with what carry adds.
cost: their mean over layers. patch: truncated singular value decomposition, by layer, of what a context adds to a
picture's keys (before rotation) and values side by side, added to the stored ones; same: the prompt itself; rotated:
its pictures, each three places later; reference: once a picture, as the fifth of others. bytes: what an entry holds
beyond keys and values, in f16: embeddings of rows in place, and the patch.
"""
import json
import random

import numpy as np
import torch

import figures
from model import rotate

ROTATED_BY = 3
REFERENCE_PLACE = 4
PLAIN = [("all", [64])] + [("carry", rows) for rows in (
    [16], [8], [4], [2], [24, 8], [12, 4], [6, 2], [16, 8], [16, 4], [16, 4, 4, 4], [16, 16, 16, 4])] + [
    (rule, rows) for rule, both in (
        ("spread", ([16], [24, 8])), ("mpic", ([32], [48, 16])), ("cacheblend", ([10], [16, 4]))) for rows in both] + [
    ("mpic", [0])]
PATCHED = [(context, rank, "mpic", 0) for context, ranks in (
    ("same", (1, 2)), ("rotated", (1, 64)), ("reference", (1, 64))) for rank in ranks] + [
    ("rotated", 4, "carry", 4)] + [("reference", 4, "carry", rows) for rows in (2, 4, 8)]
BEHIND = [(context, rule, [rows]) for rule, rows in (
    ("carry", 2), ("carry", 4), ("carry", 8), ("spread", 16), ("mpic", 16)) for context in (None, "itself")]


def spread(rows):
    """Order of rows: the farthest from their mean, then always the one farthest from all before it."""
    least = (rows - rows.mean(0)).pow(2).sum(1)
    order = [int(least.argmax())]
    least = (rows - rows[order[0]]).pow(2).sum(1)
    while len(order) < len(rows):
        order.append(int(least.argmax()))
        least = torch.minimum(least, (rows - rows[order[-1]]).pow(2).sum(1))
    return torch.tensor(order)


class Linker:
    """Reads prompts with linked pictures."""

    def __init__(self, prompts):
        self.net, self.folder = prompts.net, prompts.folder
        self.config, self.lm = self.net.config, self.net.net.lm
        self.each = self.config.image_tokens
        self.ahead = self.net.tokens.encode("<|im_start|>" + figures.scenes.IMAGE_OPEN)
        self.known = {}

    def picture(self, path):
        """(embeddings, spread order, keys and values by layer when read alone)."""
        if path not in self.known:
            rows = self.net.image_rows(self.folder / path)
            ids = torch.tensor(self.ahead + [self.net.image_id] * self.each)
            x = self.lm.emb(ids)
            x[len(self.ahead):] = rows
            self.known[path] = rows, spread(rows), [(k[:, -self.each:], v[:, -self.each:]) for k, v in self.read(x)[1]]
        return self.known[path]

    def project(self, block, x):
        c, y = self.config, block.n1(x)
        return [w(y).view(len(x), -1, c.head_dim).transpose(0, 1) for w in (block.q, block.k, block.v)]

    def layer(self, block, x, rows, query, keys, values):
        """The layer's output for x, the prompt's `rows`; keys (not rotated) and values [heads, tokens, E] of all."""
        group = self.config.heads // self.config.kv_heads
        k = rotate(keys, self.net.cos[:keys.shape[1]], self.net.sin[:keys.shape[1]]).repeat_interleave(group, 0)
        q = rotate(query, self.net.cos[rows], self.net.sin[rows])
        seen = torch.arange(keys.shape[1])[None] <= rows[:, None]
        v = values.repeat_interleave(group, 0)
        mixed = torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=seen)[0]
        x = x + block.o(mixed.transpose(0, 1).reshape(len(x), -1))
        y = block.n2(x)
        return x + block.down(torch.nn.functional.silu(block.gate(y)) * block.up(y))

    def read(self, x):
        """All rows computed: (hidden, [(keys before rotation, values)] by layer)."""
        rows, kept = torch.arange(len(x)), []
        for block in self.lm.blocks:
            q, k, v = self.project(block, x)
            kept.append((k, v))
            x = self.layer(block, x, rows, q, k, v)
        return x, kept

    def inputs(self, ids, paths):
        """(embeddings of all tokens, where pictures begin)."""
        x = self.lm.emb(torch.tensor(ids))
        visual = np.flatnonzero(np.array(ids) == self.net.image_id)
        x[visual] = torch.cat([self.picture(path)[0] for path in paths])
        return x, visual[::self.each]

    def stored(self, layer, tokens, starts, paths, patch=()):
        """Keys and values [heads, tokens, E] of linked pictures in a layer, zeros for text."""
        full = []
        for which in range(2):
            images = [self.picture(path)[2][layer][which] for path in paths]
            whole = images[0].new_zeros(images[0].shape[0], tokens, images[0].shape[2])
            for j, (start, image) in enumerate(zip(starts, images)):
                whole[:, start:start + self.each] = image + patch[j][layer][which] if patch else image
            full.append(whole)
        return full

    def by_change(self, layer, values, rows, starts, paths, rank):
        """`rank` anew: linked rows, of all pictures together, by the change of their values, as CacheBlend does."""
        before = self.stored(layer, len(rank), starts, paths)[1][:, rows]
        change = (values - before).pow(2).sum((0, 2))[rank[rows] >= 0]
        linked = rows[rank[rows] >= 0]
        rank = rank.clone()
        rank[linked[change.argsort(descending=True)]] = torch.arange(len(linked)) // len(paths)
        return rank

    def link(self, x, starts, paths, rank, counts, rule, patch, kept):
        """rank [tokens]: a row's place in its picture's order, -1: text; counts by layer; patch by picture and layer;
        kept: what read() returns.
        """
        if rule == "cacheblend":
            rank = self.by_change(1, kept[1][1], torch.arange(len(x)), starts, paths, rank)
        rows = (rank < counts[0]).nonzero()[:, 0]
        h = x[rows]
        for l, block in enumerate(self.lm.blocks):
            if counts[l] < counts[max(l - 1, 0)]:
                if rule == "cacheblend":
                    rank = self.by_change(l, self.project(block, h)[2], rows, starts, paths, rank)
                stay = rank[rows] < counts[l]
                h, rows = h[stay], rows[stay]
            q, *new = self.project(block, h)
            full = self.stored(l, len(x), starts, paths, patch)
            for computed, whole in zip(new, full):
                change = torch.zeros_like(whole)
                change[:, rows] = computed - whole[:, rows]
                for start in starts if rule == "carry" and counts[l] > 0 else ():
                    image = slice(start, start + self.each)
                    whole[:, image] += change[:, image].sum(1, keepdim=True) / counts[l]
                whole[:, rows] = computed
            h = self.layer(block, h, rows, q, *full)
        return h

    def differences(self, kept, starts, paths, places):
        """[(keys, values) by layer] that a prompt, of which read() kept these, adds to its pictures at `places`."""
        out = []
        for j in places:
            image = slice(starts[j], starts[j] + self.each)
            alone = self.picture(paths[j])[2]
            out.append([(k[:, image] - a, v[:, image] - b) for (k, v), (a, b) in zip(kept, alone)])
        return out


def factors(differences):
    """[(U S, V')] by layer of keys and values side by side."""
    out = []
    for dk, dv in differences:
        g, n, e = dk.shape
        u, s, v = torch.linalg.svd(torch.cat([dk, dv]).transpose(0, 1).reshape(n, -1), full_matrices=False)
        out.append((u * s, v, g, e))
    return out


def truncated(factors, rank):
    out = []
    for us, v, g, e in factors:
        both = (us[:, :rank] @ v[:rank]).view(len(us), 2 * g, e).transpose(0, 1)
        out.append((both[:g], both[g:]))
    return out


def numbered(pictures):
    return "\n".join(f"Image {i + 1}:<image>" for i in range(pictures))


def by_layer(counts, layers):
    return [counts[l * len(counts) // layers] for l in range(layers)]


class Patches:
    """What contexts add to pictures, decomposed."""

    def __init__(self, linker, pool):
        self.linker, self.pool, self.known = linker, pool, {}

    def __call__(self, context, line, question):
        paths, all_places = line["images"], range(len(line["images"]))
        if context == "reference":
            return [self.reference(path) for path in paths]
        if context == "same":
            found = self.linker.differences(question.kept, question.starts, paths, all_places)
            return [factors(each) for each in found]
        turned = paths[-ROTATED_BY:] + paths[:-ROTATED_BY]
        found = self.read(line["prompt"], turned, all_places)
        return found[ROTATED_BY:] + found[:ROTATED_BY]

    def read(self, prompt, paths, places):
        x, starts = self.linker.inputs(self.linker.net.prompt_ids(prompt), paths)
        return [factors(each) for each in self.linker.differences(self.linker.read(x)[1], starts, paths, places)]

    def reference(self, path):
        if path not in self.known:
            others = random.Random(path).sample([other for other in self.pool if other != path], REFERENCE_PLACE)
            self.known[path] = self.read(numbered(REFERENCE_PLACE + 1), others + [path], [REFERENCE_PLACE])[0]
        return self.known[path]

    def itself(self, path):
        """All of the difference that being the second of two makes."""
        if path not in self.known:
            x, starts = self.linker.inputs(self.linker.net.prompt_ids(numbered(2)), [path, path])
            self.known[path] = self.linker.differences(self.linker.read(x)[1], starts, [path, path], [1])[0]
        return self.known[path]


class Question:
    """One question: its rows, and what the model makes of its answer."""

    def __init__(self, linker, line):
        net = linker.net
        self.linker, self.paths = linker, line["images"]
        self.answer = torch.tensor(net.tokens.encode(" " + line["answer"]) + [net.end_id])
        self.x, self.starts = linker.inputs(net.prompt_ids(line["prompt"]) + self.answer[:-1].tolist(), self.paths)
        self.hidden, self.kept = linker.read(self.x)

    def score(self, hidden):
        """(whether it is right, nats a token)."""
        lm = self.linker.lm
        likely = torch.log_softmax(lm.norm(hidden[-len(self.answer):]) @ lm.emb.weight.t(), -1)
        nats = -likely.gather(1, self.answer[:, None]).mean()
        return bool((likely.argmax(-1) == self.answer).all()), float(nats)

    def run(self, rule, rows, patch):
        if rule == "all":
            return self.score(self.hidden)
        each = self.linker.each
        rank = torch.full((len(self.x),), -1)
        for start, path in zip(self.starts, self.paths):
            order = self.linker.picture(path)[1] if rule in ("carry", "spread") else torch.arange(each)
            rank[start + order] = torch.arange(each)
        counts = by_layer(rows, self.linker.config.layers)
        return self.score(self.linker.link(self.x, self.starts, self.paths, rank, counts, rule, patch, self.kept))


def cell(linker, rule, rows, context, rank, scores, right):
    """One line of the result."""
    c = linker.config
    kept = {"all": 0, "cacheblend": linker.each}.get(rule, max(rows))
    patch = rank * (linker.each + 2 * c.kv_heads * c.head_dim) * 2 * c.layers
    result = {"reuse": rule, "rows": rows, "cost": sum(by_layer(rows, c.layers)) / c.layers}
    if context == "itself":
        result["stored"] = "behind itself"
    elif context is not None:
        result.update({"patch": context, "rank": rank})
    return {**result, "bytes": kept * c.dim * 2 + patch, "accuracy": round(float(scores[:, 0].mean()), 3),
            "loss": round(float(scores[right, 1].mean()), 4)}


def measure(prompts, linker, patches):
    """(settings, [questions, settings, (right, loss)]) of PLAIN and PATCHED."""
    settings = [(rule, rows, None, 0) for rule, rows in PLAIN] + [
        (rule, [rows], context, rank) for context, rank, rule, rows in PATCHED]
    scores = []
    for line in prompts.chosen:
        question = Question(linker, line)
        added = {context: patches(context, line, question) for context in ("same", "rotated", "reference")}
        scores.append([question.run(rule, rows, [truncated(each, rank) for each in added.get(context, [])])
                       for rule, rows, context, rank in settings])
    return settings, scores


def measure_behind(prompts, linker, patches):
    """The same of BEHIND."""
    scores = []
    for line in prompts.chosen:
        question = Question(linker, line)
        added = {None: [], "itself": [patches.itself(path) for path in line["images"]]}
        scores.append([question.run("all", [], [])] + [question.run(rule, rows, added[context])
                                                       for context, rule, rows in BEHIND])
    return [("all", [linker.each], None, 0)] + [(rule, rows, context, 0) for context, rule, rows in BEHIND], scores


def main():
    options = figures.parse_arguments(__doc__, "--behind")
    torch.set_grad_enabled(False)
    prompts = figures.Prompts(options)
    linker = Linker(prompts)
    patches = Patches(linker, sorted({path for line in prompts.chosen for path in line["images"]}))
    settings, scores = (measure_behind if options.behind else measure)(prompts, linker, patches)
    scores = np.array(scores)
    right = scores[:, 0, 0] > 0
    figures.write(options, prompts, __doc__, {
        "questions": len(scores), "right_with_all_rows_in_place": int(right.sum()),
        "cells": [cell(linker, *setting, scores[:, i], right) for i, setting in enumerate(settings)]}, "cells")


if __name__ == "__main__":
    main()
