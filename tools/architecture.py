#!/usr/bin/env python3
"""Draws tools/architecture.svg: the way from a picture to text, and the arena that all of it lies in.

usage: architecture.py            writes the drawing
       architecture.py --check    fails if it is another one
"""
import sys
from pathlib import Path

PATH = Path(__file__).resolve().parent / "architecture.svg"
WIDTH, HEIGHT = 960, 330
BOX_WIDTH, BOX_HEIGHT, GAP, LEFT = 133, 62, 26, 16
# (what it does, folder)
PICTURE = [("decode, resize", "mm/pictures"), ("cut into views", "mm/views"), ("vision tower", "mm/tower"),
           ("choose rows", "runtime/branches"), ("read the prompt", "runtime/forward"), ("decode steps", "runtime/forward")]
ARENA = [("weights", 0.30, "#cfe3f5"), ("caches of sessions: 16 to 1 bits", 0.32, "#d8efd3"), ("scratch by phase", 0.24, "#f7e3c3"),
         ("staging", 0.14, "#eadcf4")]


def text(x, y, words, size=14, anchor="middle", weight="normal", colour="#222"):
    return (f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" font-weight="{weight}" '
            f'fill="{colour}">{words}</text>')


def box(x, y, width, height, words, folder, fill="#f4f6f8"):
    return [f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" fill="{fill}" stroke="#5a6b7b"/>',
            text(x + width / 2, y + height / 2 - 3, words), text(x + width / 2, y + height / 2 + 17, folder, 12, colour="#5a6b7b")]


def arrow(x1, y1, x2, y2, both=False):
    start = ' marker-start="url(#head)"' if both else ""
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="#5a6b7b" stroke-width="1.6" marker-end="url(#head)"{start}/>'


def left_of(index):
    return LEFT + index * (BOX_WIDTH + GAP)


def draw():
    top = 46
    parts = [text(LEFT, 26, "a picture", anchor="start", weight="bold"), text(WIDTH - LEFT, 26, "text", anchor="end", weight="bold")]
    for i, (words, folder) in enumerate(PICTURE):
        parts += box(left_of(i), top, BOX_WIDTH, BOX_HEIGHT, words, folder)
        if i > 0:
            parts.append(arrow(left_of(i) - GAP + 2, top + BOX_HEIGHT / 2, left_of(i) - 3, top + BOX_HEIGHT / 2))
    below = top + BOX_HEIGHT + 40
    wide = 2 * BOX_WIDTH + GAP
    parts += box(left_of(4), below, wide, BOX_HEIGHT, "keys and values, packed or evicted", "runtime/cache, runtime/policy", "#d8efd3")
    parts += box(left_of(2), below, BOX_WIDTH + 20, BOX_HEIGHT, "known images", "branches/library", "#d8efd3")
    for i in (4, 5):
        parts.append(arrow(left_of(i) + BOX_WIDTH / 2, top + BOX_HEIGHT + 3, left_of(i) + BOX_WIDTH / 2, below - 3, both=True))
    parts.append(arrow(left_of(2) + BOX_WIDTH + 23, below + BOX_HEIGHT / 2, left_of(4) - 3, below + BOX_HEIGHT / 2, both=True))
    parts.append(text((left_of(2) + BOX_WIDTH + 20 + left_of(4)) / 2, below + BOX_HEIGHT / 2 - 8, "link, keep", 12, colour="#5a6b7b"))
    parts += box(left_of(0), below, wide, BOX_HEIGHT, "question, form of the answer", "vocabulary, branches/constrain")
    parts.append(f'<polyline points="{left_of(1):g},{below - 3} {left_of(1):g},{below - 20} {left_of(4) + 26:g},{below - 20} '
                 f'{left_of(4) + 26:g},{top + BOX_HEIGHT + 3}" fill="none" stroke="#5a6b7b" stroke-width="1.6" marker-end="url(#head)"/>')
    arena, x = below + BOX_HEIGHT + 46, LEFT
    parts.append(text(LEFT, arena - 10, "one arena, planned before the run: ocellus plan prints every buffer", anchor="start", weight="bold"))
    for words, share, fill in ARENA:
        width = share * (WIDTH - 2 * LEFT)
        parts += [f'<rect x="{x:g}" y="{arena}" width="{width:g}" height="34" fill="{fill}" stroke="#5a6b7b"/>',
                  text(x + width / 2, arena + 22, words, 13)]
        x += width
    parts.append(text(LEFT, arena + 58, "kernels (CPU, CUDA) · quant (GGUF, weight formats) · platform (arena, devices, files, threads)",
                      13, anchor="start", colour="#5a6b7b"))
    head = ('<defs><marker id="head" markerWidth="7" markerHeight="7" refX="6" refY="3.5" orient="auto-start-reverse">'
            '<path d="M0 0 L7 3.5 L0 7 z" fill="#5a6b7b"/></marker></defs>')
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">', head,
                      f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>', *parts, "</svg>"]) + "\n"


def main():
    if sys.argv[1:] == ["--check"]:
        if PATH.read_text(encoding="utf-8") != draw():
            sys.exit("tools/architecture.svg is not what tools/architecture.py draws: run it.")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        PATH.write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
