#!/usr/bin/env python3
"""Rotation by a Hadamard matrix before packing, as llama.cpp has it, beside packing alone, on the bundled model.

    hadamard.py HF EVAL OUT.json [--questions N] [--pictures N]

HF is the folder that tools/train/export.py writes, EVAL the one of tools/train/make_eval.py.

The float32 reference model (PyTorch) reads the prompt to its last picture exactly. Visual keys (as attention reads them)
and values are then rounded to so many bits, and the rest of the prompt and the answer read them. range: what has a least
and a greatest value of its own: a channel of a picture (ours), or 32 channels of a token (llama.cpp's blocks, but with two
bounds instead of one scale). rotated: each head's channels are multiplied by the normalised Hadamard matrix before
rounding, and back after it. bits_stored: with both bounds in f16. accuracy: questions whose answer's tokens are all the
likeliest. loss: nats a token of the answer, over the questions that are right with nothing rounded.
"""
import numpy as np
import torch

import figures
from model import rotate
from reuse_by_layer import Linker, Question

BLOCK = 32
SETTINGS = [(bits, of, rotated) for bits in (4, 2, 1) for of in ("picture's channel", "token's block")
            for rotated in ("", "keys", "keys and values")]


def hadamard(size):
    """[size, size], orthogonal and symmetric; size is a power of two."""
    matrix = torch.ones(1, 1)
    while len(matrix) < size:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    return matrix / size ** 0.5


def rounded(rows, bits, dim):
    """`rows` with 2^bits levels between the bounds along `dim`."""
    least, greatest = rows.amin(dim, keepdim=True), rows.amax(dim, keepdim=True)
    step = ((greatest - least) / (2 ** bits - 1)).clamp_min(1e-6)
    return least + step * ((rows - least) / step).round()


def packed(image, bits, of, turn):
    """Keys or values [heads, rows, E] of a picture; turn: None, or the matrix."""
    turned = image if turn is None else image @ turn
    if of == "picture's channel":
        turned = rounded(turned, bits, 1)
    else:
        turned = rounded(turned.unflatten(2, (-1, BLOCK)), bits, 3).flatten(2)
    return turned if turn is None else turned @ turn


class PackedQuestion(Question):
    """One question over packed pictures."""

    def run_packed(self, bits, of, rotated):
        linker, net = self.linker, self.linker.net
        matrix = hadamard(linker.config.head_dim)
        turns = [matrix if "keys" in rotated else None, matrix if "values" in rotated else None]
        group = linker.config.heads // linker.config.kv_heads
        end = self.starts[-1] + linker.each
        rows = torch.arange(end, len(self.x))
        seen = torch.arange(len(self.x))[None] <= rows[:, None]
        x = self.x[end:]
        for block, (keys, values) in zip(linker.lm.blocks, self.kept):
            q, *new = linker.project(block, x)
            cache = [rotate(keys, net.cos[:len(self.x)], net.sin[:len(self.x)]), values.clone()]
            for whole, turn in zip(cache, turns):
                for start in self.starts:
                    image = slice(start, start + linker.each)
                    whole[:, image] = packed(whole[:, image], bits, of, turn)
            cache[0][:, end:] = rotate(new[0], net.cos[rows], net.sin[rows])
            cache[1][:, end:] = new[1]
            k, v = [whole.repeat_interleave(group, 0)[None] for whole in cache]
            q = rotate(q, net.cos[rows], net.sin[rows])[None]
            mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)[0]
            x = x + block.o(mixed.transpose(0, 1).reshape(len(x), -1))
            y = block.n2(x)
            x = x + block.down(torch.nn.functional.silu(block.gate(y)) * block.up(y))
        return self.score(x)


def main():
    options = figures.parse_arguments(__doc__)
    torch.set_grad_enabled(False)
    prompts = figures.Prompts(options)
    linker = Linker(prompts)
    scores = []
    for line in prompts.chosen:
        question = PackedQuestion(linker, line)
        scores.append([question.score(question.hidden)] + [question.run_packed(*setting) for setting in SETTINGS])
    scores = np.array(scores)
    right = scores[:, 0, 0] > 0
    cells = [{"bits": 32, "accuracy": round(float(right.mean()), 3), "loss": round(float(scores[right, 0, 1].mean()), 4)}]
    for i, (bits, of, rotated) in enumerate(SETTINGS, 1):
        stored = bits + 32 / (linker.each if of == "picture's channel" else BLOCK)
        cells.append({"bits": bits, "range": of, "rotated": rotated or "nothing", "bits_stored": stored,
                      "accuracy": round(float(scores[:, i, 0].mean()), 3), "loss": round(float(scores[right, i, 1].mean()), 4)})
    figures.write(options, prompts, __doc__, {"questions": len(scores), "cells": cells}, "cells")


if __name__ == "__main__":
    main()
