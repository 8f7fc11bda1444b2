"""The result as pictures: value against bytes, a panel for every number of bits; accuracy by kind of question."""
import math

from methods import CAPTIONS, F16, METHODS, QUESTIONS, TEXT, bits_name, count_pictures
from tables import best_within, percent, unique

MARKERS = "sD^vPX<>ph*"  # one more than colours, so that they do not go round together
PANEL_WIDTH, PANEL_HEIGHT, PANELS_PER_ROW = 4.0, 3.3, 3  # inches
DOTS_PER_INCH = 130
TICKS = [2.0 ** -power for power in range(8)]


def load_matplotlib():
    """pyplot, or None."""
    try:
        import matplotlib
    except ImportError:
        return None
    matplotlib.use("Agg")
    import matplotlib.pyplot as pyplot
    pyplot.rcParams.update({"font.size": 10, "axes.grid": True, "grid.linewidth": 0.4, "grid.color": "#cccccc",
                            "axes.axisbelow": True, "axes.spines.top": False, "axes.spines.right": False})
    return pyplot


def styles(pyplot, cells):
    """How the line of every method looks, the same in every figure; the full cache, which others are compared with, is
    a black ring that hides nothing."""
    others = [name for name in METHODS if name != "full"]
    others += [name for name in unique(cell["method"] for cell in cells) if name not in METHODS]
    colors = pyplot.get_cmap("tab10")
    look = {name: {"color": colors(index % colors.N), "marker": MARKERS[index % len(MARKERS)], "markersize": 6,
                   "linestyle": ["-", "--", ":"][index // colors.N % 3], "markeredgecolor": "white",
                   "markeredgewidth": 0.6} for index, name in enumerate(others)}
    return {**look, "full": {"color": "black", "marker": "o", "fillstyle": "none", "markersize": 9, "linestyle": "none",
                             "zorder": 4}}


def frontier(cells, key):
    """What is better than everything smaller, from small to large."""
    chosen = []
    for cell in sorted(cells, key=lambda cell: (cell["share"], -cell[key])):
        if not chosen or cell[key] > chosen[-1][key]:
            chosen.append(cell)
    return chosen


def line_of(cells, method, bits):
    """The method's cells in the panel of those bits, from small to large; a method that drops slots meets the full
    cache where it keeps all."""
    line = [cell for cell in cells if (cell["method"], cell["bits"]) == (method, bits)]
    if line and all(cell["keep"] < 1 for cell in line):
        line += [cell for cell in cells if (cell["method"], cell["bits"]) == ("full", bits)]
    return sorted(line, key=lambda cell: cell["share"])


def panels_of(cells, key, with_best):
    """(title, {method: cells of its line}): one panel for every number of bits, and before them, if wanted, what each
    method reaches with the bits that suit it best."""
    methods = unique(cell["method"] for cell in cells)
    all_bits = sorted({cell["bits"] for cell in cells}, reverse=True)
    best = {method: frontier([cell for cell in cells if cell["method"] == method], key) for method in methods}
    panels = [("best of all bits", best)] if with_best and len(all_bits) > 1 else []
    return panels + [(bits_name(bits), {method: line_of(cells, method, bits) for method in methods})
                     for bits in all_bits]


def draw_panel(axes, lines, key, style):
    for method, line in lines.items():
        axes.plot([cell["share"] for cell in line], [cell[key] for cell in line], label=method,
                  **{"linewidth": 1.4, "zorder": 3, **style[method]})


def draw_against_bytes(pyplot, cells, key, label, path, title, top=None, with_best=True):
    """`top`: the highest value there can be, if not the highest there is."""
    top = top or max(cell[key] for cell in cells) or 1
    panels = panels_of(cells, key, with_best)
    columns = 2 if len(panels) == 4 else min(PANELS_PER_ROW, len(panels))
    rows = -(-len(panels) // columns)
    figure = pyplot.figure(layout="constrained", figsize=(PANEL_WIDTH * columns + 1.5, PANEL_HEIGHT * rows + 0.4))
    low, high = min(cell["share"] for cell in cells) / 1.25, max(cell["share"] for cell in cells) * 1.25
    ticks = [tick for tick in TICKS if low <= tick <= high]
    style = styles(pyplot, cells)
    for index, (name, lines) in enumerate(panels):
        axes = figure.add_subplot(rows, columns, index + 1, title=name, xscale="log", xlim=(low, high),
                                  ylim=(-0.03 * top, 1.05 * top))
        draw_panel(axes, lines, key, style)
        axes.minorticks_off()
        axes.set_xticks(ticks, [percent(tick) for tick in ticks])
        axes.set_xlabel("share of the bytes of all as f16" if index >= len(panels) - columns else "")
        axes.set_ylabel(label if index % columns == 0 else "")
    figure.suptitle(title)
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside right upper", frameon=False)
    figure.savefig(path, dpi=DOTS_PER_INCH)
    pyplot.close(figure)


def draw_overview(pyplot, cells, path, title):
    """One panel with what every method reaches with the bits that suit it best: published ones thin, ours thick, and
    what is best of either kind at their ends. False if there is only one kind."""
    by_method = panels_of(cells, "accuracy", with_best=True)[0][1]
    own = {method for method in by_method if method in METHODS and METHODS[method].own}
    if not own or own == set(by_method):
        return False
    figure, axes = pyplot.subplots(layout="constrained", figsize=(8.2, 4.6))
    style = styles(pyplot, cells)
    for method, line in sorted(by_method.items(), key=lambda item: item[0] not in own):
        look = {**style[method], "linestyle": "-"} if method != "full" else {**style[method], "linestyle": ":"}
        axes.plot([cell["share"] for cell in line], [cell["accuracy"] for cell in line], label=method,
                  **{**look, "linewidth": 2.6 if method in own else 0.8, "markersize": 7 if method in own else 4,
                     "alpha": 1 if method in own or method == "full" else 0.75})
    ticks = [tick for tick in TICKS if tick >= min(cell["share"] for cell in cells) / 1.25]
    axes.set_xscale("log")
    axes.minorticks_off()
    axes.set_xticks(ticks, [percent(tick) for tick in ticks])
    axes.set(xlabel="share of the bytes of all as f16, everything counted", ylabel="exact answers", ylim=(-0.03, 1.05),
             title=title)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper", frameon=False, fontsize=8)
    figure.savefig(path, dpi=DOTS_PER_INCH)
    pyplot.close(figure)
    return True


def draw_kinds(pyplot, cells, budget, path):
    """A heat map: the full cache, and of every method the best setting within the budget, by kind of question. False if
    there is nothing to show."""
    full = [cell for cell in cells if cell["method"] == "full" and cell["bits"] == F16]
    best = [best_within([cell for cell in cells if cell["method"] == method], budget)
            for method in unique(cell["method"] for cell in cells)]
    shown = full + [cell for cell in best if cell and cell not in full]
    if not shown:
        return False
    kinds = sorted({kind for cell in shown for kind in cell["by_kind"]})
    scores = [[cell["accuracy"]] + [exact / count if count else math.nan for exact, count in
                                    (cell["by_kind"].get(kind, [0, 0]) for kind in kinds)] for cell in shown]
    counts = [f"all ({shown[0]['questions']})"] + [
        f"{kind or 'no kind'} ({max(cell['by_kind'].get(kind, [0, 0])[1] for cell in shown)})" for kind in kinds]
    figure, axes = pyplot.subplots(layout="constrained",
                                   figsize=(max(6.5, 3.4 + 0.62 * len(counts)), 2.1 + 0.4 * len(shown)))
    image = axes.imshow(scores, vmin=0, vmax=1, cmap="viridis", aspect="auto")
    for row, line in enumerate(scores):
        for column, value in enumerate(line):
            if not math.isnan(value):
                axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=9,
                          color="white" if value < 0.6 else "black")
    axes.set_xticks(range(len(counts)), counts, rotation=40, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(shown)), [f"{cell['setting']} ({percent(cell['share'])})" for cell in shown])
    axes.tick_params(length=0)
    axes.grid(False)
    axes.spines[:].set_visible(False)
    axes.axvline(0.5, color="white", linewidth=4)
    figure.suptitle(f"Exact answers by kind of question, {count_pictures(shown[0]['pictures'])}:\n"
                    f"the best setting of each method within {percent(budget)} of the bytes")
    figure.colorbar(image, ax=axes, pad=0.02)
    figure.savefig(path, dpi=DOTS_PER_INCH)
    pyplot.close(figure)
    return True


def draw_all(pyplot, results, folder, kind_budget):
    """The names of the files that were drawn."""
    names = []

    def draw(name, cells, key, label, *title, **options):
        draw_against_bytes(pyplot, cells, key, label, folder / name, *title, **options)
        names.append(name)

    for pictures in sorted({cell["pictures"] for cell in results.of_task(QUESTIONS)}):
        cells = results.of_task(QUESTIONS, pictures)
        what = f"{cells[0]['questions']} questions over {count_pictures(pictures)}"
        draw(f"accuracy_{pictures}.png", cells, "accuracy", "exact answers", what, top=1)
        overview = f"overview_{pictures}.png"
        names += [overview] if draw_overview(pyplot, cells, folder / overview, what) else []
        kinds = f"kinds_{pictures}.png"
        names += [kinds] if draw_kinds(pyplot, cells, kind_budget, folder / kinds) else []
        draw(f"speed_{pictures}.png", cells, "decode_tok_s", "decode, tokens/s", what, with_best=False)
        if all("perplexity" in cell for cell in cells):
            draw(f"perplexity_{pictures}.png", cells, "perplexity", "perplexity of answers", what, with_best=False)
    captions = results.of_task(CAPTIONS)
    if captions:
        draw("captions.png", captions, "cider", "CIDEr", f"{captions[0]['captions']} captions")
    text = results.of_task(TEXT)
    if text:
        lowest = min(cell["perplexity"] for cell in text)
        draw("text.png", text, "perplexity", "perplexity", f"{text[0]['forced_tokens']} tokens of text",
             top=min(4 * lowest, max(cell["perplexity"] for cell in text)))
    return names
