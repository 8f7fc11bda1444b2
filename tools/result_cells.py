"""The tables of measurements in the pages: where every cell comes from. `results[NAME]` is what tools/bench/results/NAME.json
holds; every function gives a table as Markdown, TABLES names them as the pages mark them."""
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "eval"))

from methods import METHODS  # noqa: E402

EIGHT_PICTURES, QUESTIONS = 8, 300
NAMES = {"david": "DAVID", "snapkv": "SnapKV", "csp": "CSP", "vl-cache": "VL-Cache", "full": "all slots", "meda": "MEDA",
         "look-m": "LOOK-M", "h2o": "H2O", "": "all slots"}


def table(head, rows, right=False):
    """Markdown; `right`: all columns but the first stand to the right."""
    lines = ["| " + " | ".join(cells) + " |" for cells in [head, *rows]]
    lines[0] = lines[0].replace("|  |", "| |")
    lines.insert(1, "|---|" + ("---:|" if right else "---|") * (len(head) - 1))
    return "\n".join(lines).replace("|  |", "| |") + "\n"


def whole(value):
    return f"{value:,.0f}"


def three_digits(value):
    return f"{float(f'{value:.3g}'):,.0f}"


def score(value):
    """.980"""
    return f"{value:.3f}".removeprefix("0")


def megabytes(value):
    return f"{value / 1e6:.2f} MB".removeprefix("0")


def percent_score(value):
    """98.0 %"""
    return f"{100 * value:.1f} %"


def percent(share):
    """7.8 %, 39 %"""
    return f"{100 * share:.{1 if share < 0.1 else 0}f} %"


def median_of(bench, test):
    return bench["rows"][test]["median"]


def cpu(results):
    files = [results["cpu_epyc_2_cores"], results["cpu_xeon_2_cores"]]

    def mean(file, *tests):
        return sum(row["mean"] for row in file["bench"]["result"]["rows"] if row["test"] in tests)

    def row(title, text):
        return [title, *map(text, files)]

    return table(["", "Zen 4, 2 cores", "Sapphire Rapids, 2 cores"], [
        row("pp512, tokens/s", lambda file: whole(mean(file, "pp512"))),
        row("tg128, tokens/s", lambda file: whole(mean(file, "tg128"))),
        row("one picture: preprocess + encode",
            lambda file: f"{mean(file, 'image preprocess', 'image encode'):.1f} ms"),
        row("16 pictures in one prompt, to the first token", lambda file: next(
            f"{run['ttft_ms_median']:.0f} ms" for run in file["images_in_one_prompt"] if run["images"] == 16)),
        row("a whole caption process, start to exit", lambda file: f"{file['caption_process']['seconds_median']:.2f} s"),
        row("its peak memory", lambda file: f"{file['caption_process']['peak_resident_bytes'] / 1e6:.1f} MB")])


def gpu_speed(results):
    models = [("bundled pair, Q8_0", ["bundled"]), ("SmolVLM-256M, Q8_0", ["smolvlm_256m_Q8_0"]),
              ("SmolVLM2-2.2B, F16 / Q8_0 / Q4_K", [f"smolvlm2_2.2b_{kind}" for kind in ("F16", "Q8_0", "Q4_K")]),
              ("LLaVA-1.5-7B text, Q8_0", ["llava_7b_Q8_0"]),
              ("InternVL2.5-8B text, F16 / Q8_0 / Q4_K", [f"internvl2.5_8b_{kind}" for kind in ("F16", "Q8_0", "Q4_K")]),
              ("InternVL2.5-26B text, Q4_K", ["internvl2.5_26b_Q4_K"])]

    def cell(names, pattern, text):
        rows = [results["cuda_h100"]["benches"][name]["rows"] for name in names]
        values = [[row["median"] for test, row in bench.items() if re.fullmatch(pattern, test)] for bench in rows]
        return " / ".join(text(found[0]) for found in values if found) or "-"

    def copy_rate(names):
        small = {"bundled", "smolvlm_256m_Q8_0"}  # whose steps launches take, not reading
        return "-" if small & set(names) else cell(names, r"tg\d+ of copy rate", whole) + " %"

    return table(["", "prompt, tokens/s", "decode, tokens/s", "16 sessions", "of copy rate"], [
        [title, cell(names, r"pp\d+", three_digits), cell(names, r"tg\d+", three_digits),
         cell(names, r"tg\d+ b16", three_digits), copy_rate(names)] for title, names in models])


def papers_models(results):
    file = results["papers_h200"]

    def row(model):
        benches = file["benches"]
        own, rows = benches[model], []
        runs = [(1, f"{model}_5lib"), (5, f"{model}_5lib"), (10, f"{model}_lib")]
        runs = runs if runs[0][1] in benches else [(1, f"{model}_1lib")]
        for how in ("cold", "from disk"):
            times = [median_of(benches[name], f"TTFT {count} image{'s' * (count > 1)}, {how}") for count, name in runs]
            rows.append(", ".join(map(whole, times)) + " ms")
        texts = [text for text in file["bytes_per_picture"] if text.startswith(f"{model} ")]
        sizes = [int(re.search(r"one picture (\d+) bytes", text).group(1)) / 2**20 for text in texts]
        return [f"{model}, {own['weights']}", f"{three_digits(median_of(own, 'pp512'))}, {whole(median_of(own, 'tg32'))}",
                f"{median_of(own, 'image encode'):.1f} ms", *rows,
                " / ".join(f"{size:.1f}" if size < 10 else whole(size) for size in sizes)]

    models = ["InternVL3-2B", "InternVL3.5-2B", "InternVL2.5-8B", "InternVL2.5-26B", "LLaVA-1.6-Mistral-7B",
              "LLaVA-1.6-Vicuna-7B"]
    return table(["", "prompt, decode, tokens/s", "encode", "1, 5, 10 pictures, computed", "from the library",
                  "MiB a picture, 16 / 4 / 2 / 1 bits"], [row(model) for model in models])


def families_beside_the_peer(results):
    """Ours / llama.cpp's; of the peer's encodings of a picture, and of its prompts with one, the fastest."""
    runs = results["families_h100"]["runs"]

    def run_of(program, model, weights, picture=None):
        return next(run for run in runs if (run["program"], run["model"], run["format"]) == (program, model, weights) and
                    run.get("picture") == picture and "commit" not in run)

    def row(model, weights):
        pictures = ("640x480", "1920x1080")
        ours = [run_of("ocellus", model, weights, picture) for picture in pictures]
        text = run_of("llama-bench", model, weights)
        theirs = [run_of("llama-mtmd-cli", model, weights, picture) for picture in pictures]
        encodings = [f"{own['encode_ms']:.1f} / {whole(min(peer['encode_ms']))}" for own, peer in zip(ours, theirs)]
        first_tokens = [f"{own['ttft_ms']:.0f} / {min(peer['encode_ms']) + min(peer['image_decode_ms']):.0f}"
                        for own, peer in zip(ours, theirs)]
        return [f"{model}, {weights}",
                f"{three_digits(ours[0]['prompt_tokens_s'])} / {three_digits(text['prompt_tokens_s'])}",
                f"{whole(ours[0]['decode_tokens_s'])} / {whole(text['decode_tokens_s'])}", *encodings,
                ", ".join(first_tokens) + " ms"]

    return table(["", "prompt, tokens/s", "decode, tokens/s", "encode 640 x 480, ms", "1920 x 1080, ms",
                  "first token after either"],
                 [row(model, weights) for model in ("Qwen3-VL-2B", "Qwen2.5-VL-3B", "Gemma3-4B", "Gemma4-E2B")
                  for weights in ("F16", "Q8_0", "Q4_K")])


def beside_the_peer(results):
    """Ours / llama.cpp's, from tools/bench/peer.sh."""
    rows = {(row["shape"], row["format"], row["test"]): row for row in results["peer_h100"]["rows"]}

    def cell(shape, weights, test, text=three_digits):
        row = rows.get((shape, weights, test))
        return f"{text(row['ocellus'])} / {text(row['llama.cpp'])}" if row else "-"

    tests = {"pp512": three_digits, "tg128": whole, "tg128 b16": three_digits, "image encode": whole}
    return table(["", "prompt of 512, tokens/s", "decode, tokens/s", "16 sessions", "encode 640 x 480, ms"],
                 [[f"{shape}, {weights}", *(cell(shape, weights, test, text) for test, text in tests.items())]
                  for shape in ("SmolVLM2-2.2B", "InternVL2.5-8B") for weights in ("F16", "Q8_0", "Q4_K", "Q6_K")])


def beside_the_peer_on_two_cores(results):
    rows = {(row["shape"], row["format"], row["test"]): row for row in results["peer_xeon_2_cores"]["rows"]}

    def cell(shape, weights, test):
        row = rows[shape, weights, test]
        return " / ".join(f"{float(f'{row[program]:.3g}'):,g}" for program in ("ocellus", "llama.cpp"))

    tests = [("SmolVLM-256M", "pp512"), ("SmolVLM-256M", "tg64"), ("SmolVLM2-2.2B", "pp128"), ("SmolVLM2-2.2B", "tg32")]
    return table(["", "256M: prompt of 512", "decode", "2.2B: prompt of 128", "decode"],
                 [[weights, *(cell(shape, weights, test) for shape, test in tests)]
                  for weights in ("Q4_K", "Q5_K", "Q6_K", "Q4_0", "IQ4_NL", "Q8_0", "F16")])


def families_in_memory(results):
    plans = results["families_memory"]["plans"]

    def plan_of(shape, picture, bits):
        return next(plan for plan in plans if (plan["shape"], plan["picture"], plan["kv_bits"]) == (shape, picture, bits))

    def bytes_of(shape, picture):
        values = [plan_of(shape, picture, bits)["kv_bytes_per_image"] for bits in (16, 8, 4, 2, 1)]
        peer = [values[0] * bits / 16 for bits in (16, 8.5, 4.5)]
        return " / ".join(f"{value / 1e6:.3g}" for value in values) + "; " + " / ".join(f"{value / 1e6:.3g}" for value in peer)

    def pictures_of(shape, picture):
        return " / ".join(whole(plan_of(shape, picture, bits)["images_in_budget"]) for bits in (16, 4, 2))

    return table(["", "MB, 640 x 480", "MB, 1920 x 1080", "pictures in 8 GB", "large ones"],
                 [[shape, *(bytes_of(shape, picture) for picture in ("640x480", "1920x1080")),
                   *(pictures_of(shape, picture) for picture in ("640x480", "1920x1080"))]
                  for shape in ("Qwen3-VL-2B", "Qwen2.5-VL-3B", "Gemma3-4B", "Gemma4-E2B", "Gemma4-E4B")])


def packed_and_evicted(results):
    settings = {cell["flags"]: cell for cell in results["cache_accuracy_h100"]["settings"]}

    def cell(bits, keep):
        found = settings[f"8 --evict david --keep {keep:g} --kv-bits {bits}" if keep < 1 else f"8 --kv-bits {bits}"]
        return f"{score(found['accuracy'])}, {megabytes(found['kv_bytes'])}"

    chance = results["eviction_h200"]["baselines"]["random with bits, 8 pictures"]
    titles = {16: "f16", 8: "8 bits", 4: "4 bits", 2: "2 bits", 1: "1 bit"}
    keeps = [1, 0.5, 0.2, 0.1]
    return table(["", "all slots", "DAVID 50 %", "20 %", "10 %", "`random` 50, 20, 10 %"],
                 [[title, *(cell(bits, keep) for keep in keeps), ", ".join(map(score, chance[str(bits)].values()))]
                  for bits, title in titles.items()])


def ranges(results):
    settings = results["ranges_accuracy_cpu"]["settings"]

    def cell(scheme, bits, calibrated, **options):
        found = [one for one in settings if (one["kv_scheme"], one["kv_bits"], one["calib"] != "none") ==
                 (scheme, bits, calibrated) and {key: one[key] for key in ("values", "residual") if key in one} == options]
        taus = f" (tau {found[0]['calib'][0]:g}, {found[0]['calib'][1]:g})" if found and calibrated else ""
        return score(found[0]["accuracy"]) + taus if found else ""

    def row(title, scheme, **options):
        return [title, cell(scheme, 2, False, **options), cell(scheme, 1, False, **options),
                cell(scheme, 1, True, **options)]

    return table(["range of a channel", "2 bits", "1 bit", "1 bit, calibrated"], [
        row("`per-image` (ours): of each picture", "per-image"),
        row("`calibquant`: of all pictures of the prompt", "calibquant"),
        row("`calibquant:values=global`: values have one for all channels of a head", "calibquant", values="global"),
        row("`kivi`, which packs text, too: of 32 tokens", "kivi", residual=128)])


def published_settings(results):
    """(share of the f16 cache, score, name, bits) of every published setting over 300 questions and eight pictures."""
    found = []
    for cell in results["cache_accuracy_h100"]["settings"] + results["eviction_cpu"]["cells"]:
        flags = dict(re.findall(r"--(\S+) ([^- ]\S*)", cell["flags"]))
        known = {"evict", "keep", "kv-bits", "evict-window", "evict-pool", "compress-at", "calib"}
        if cell["pictures"] != EIGHT_PICTURES or flags.keys() - known or "value-window" in cell["flags"]:
            continue
        method, _, options = flags.get("evict", "").partition(":")
        unpooled = flags.get("evict-pool") == "1" or options == "pool=1"
        found.append((cell, method, float(flags.get("keep", 1)), int(flags.get("kv-bits", 16)), unpooled))
    cells = results["matrix_h100"]["cells"] + results["matrix_packed_h200"]["cells"]
    found += [(cell, cell["method"], cell["keep"], cell["bits"], False) for cell in cells if
              cell["pictures"] == EIGHT_PICTURES and cell["questions"] == QUESTIONS and not METHODS[cell["method"]].own]
    for cell, method, keep, bits, unpooled in found:
        name = f"{NAMES.get(method, method)}{' unpooled' * unpooled}{f' {100 * keep:g} %' if keep < 1 else ''}"
        name += f", {bits} bit{'s' * (bits > 1)}" if bits < 16 else ""
        yield cell["kv_bytes"] / cell["kv_bytes_full"], cell.get("accuracy") or cell["exact"] / cell["questions"], name, bits


def our_setting(results, method, keep, bits):
    """(score, share) of one of our settings, eight pictures."""
    cell = next(cell for cell in results["matrix_h100"]["cells"] if
                (cell["pictures"], cell["method"], cell["keep"], cell["bits"]) == (EIGHT_PICTURES, method, keep, bits))
    return cell["exact"] / cell["questions"], cell["kv_bytes"] / cell["kv_bytes_full"]


def eviction(results):
    """Methods that drop tokens and pack nothing, at 50 and 20 %; a cell that was not measured is left empty."""
    def of_matrix(method, keep):
        return next(cell["exact"] / cell["questions"] for cell in results["matrix_h100"]["cells"] if
                    (cell["pictures"], cell["method"], cell["keep"], cell["bits"]) == (EIGHT_PICTURES, method, keep, 16))

    measured = {cell["flags"]: cell for cell in results["eviction_cpu"]["cells"]}

    def of_flags(flags):
        return [score(measured[one]["accuracy"]) if one in measured else "" for one in flags]

    def row(title, *methods):
        return [title, *(", ".join(score(of_matrix(method, keep)) for method in methods) for keep in (0.5, 0.2))]

    def elastic(rows, place):
        options = "elastic:window=16" if rows == 16 else "elastic"
        return of_flags([f"--evict {options} --keep {keep} --compress-at {place}" for keep in ("0.5", "0.2")])

    late = [" and ".join(filter(None, cells)) for cells in zip(elastic(1, "prompt-end"), elastic(16, "prompt-end"))]
    small = [measured[f"--mmproj {pixels}.gguf"] for pixels in (160, 64)]
    return table(["f16", "50 %", "20 %"], [
        row("SnapKV, DAVID", "snapkv", "david"), row("VL-Cache", "vl-cache"), row("CSP", "csp"), row("H2O", "h2o"),
        row("LOOK-M", "look-m"), row("Elastic Cache, the last 1 and 16 rows kept", "elastic", "elastic-prefill-16"),
        ["the same after the whole prompt, as its paper: the first token comes from the full cache",
         *(cell.replace(" and ", ", ") for cell in late)],
        row("`value-window` (ours)", "value-window"),
        ["random", *of_flags([f"--evict random --keep {keep}" for keep in ("0.5", "0.2")])],
        ["smaller pictures, 25 and 4 tokens each", *(
            f"{score(cell['accuracy'])} at {percent(cell['kv_bytes'] / cell['kv_bytes_full'])}" for cell in small)]])


def best_by_share(results):
    published = list(published_settings(results))

    def row(title, limit, ours, only_f16=False):
        (method, keep, bits), words = ours
        fits = [one for one in published if one[0] < limit + 0.0005 and (one[3] == 16 or not only_f16)]
        own_score, own_share = our_setting(results, method, keep, bits)

        def best(is_random):
            return max((one for one in fits if one[2].startswith("random") == is_random),
                       key=lambda one: (round(one[1], 3), -one[0]), default=None)

        rule, chance = best(False), best(True)
        return [title, f"{score(rule[1])} ({rule[2]})" if rule else "none: their text stays f16",
                f"{score(own_score)} at {percent(own_share)}{words}", score(chance[1]) if chance else ""]

    by_layer = "value-window-by-layer"
    return table(["share", "published rules, bits with a range per picture", "ours", "`random`"], [
        row("50 %, all in f16", 0.51, (("value-window", 0.5, 16), " (value-window 50 %)"), only_f16=True),
        row("12.5 %", 0.125, ((by_layer, 0.5, 2), " (value-window 50 %, bits by layer)")),
        row("10 %", 0.1, ((by_layer, 0.5, 2), "")), row("6.25 %", 0.0625, ((by_layer, 0.2, 2), " (20 %)")),
        row("3.1 %", 0.0315, ((by_layer, 0.1, 2), " (10 %)"))])


def goals(results):
    def cell(*setting):
        value, share = our_setting(results, *setting)
        return f"{percent_score(value)} in {percent(share)}"

    rolling = results["rolling_h200"]
    by_layer = "value-window-by-layer"
    return table(["goal", "flags", "exact answers, in this share of the f16 cache"], [
        ["as it is", "none: f16", cell("full", 1.0, 16)],
        ["no loss", "`--kv-bits 4`", cell("full", 1.0, 4)],
        ["0.7 points less", "`--kv-bits 2 --kv-scheme per-image:scales=6`", cell("small-scales", 1.0, 2)],
        ["a point less", "`--kv-layer-bits 2,1,1,1,1,1,2,4 --kv-scheme per-image:scales=6`; "
         "`ocellus calibrate --layer-bits 1.7` finds the list for another model", cell("by-layer", 1.0, 2)],
        ["less than an eighth of the bytes",
         "as above, with `per-image:scales=6,text=packed` and `--evict value-window --keep 0.5`", cell(by_layer, 0.5, 2)],
        ["fewest bytes", "the same with `--keep 0.2`, `--keep 0.1`",
         "; ".join(cell(by_layer, keep, 2) for keep in (0.2, 0.1))],
        ["long answers that read no more slots (their plan is no smaller)", "`--evict h2o --keep 0.5` or less, f16",
         cell("h2o", 0.5, 16)],
        ["an endless camera", "`--kv-bits 2 --compress-at image-end`, a rolling session",
         f"{rolling['answers_right']} of {rolling['answers']} over {rolling['images']:,} pictures (`rolling_h200.json`)"]])


def reused(results):
    found = {(cell["reuse"], cell["bits"]): cell["accuracy"] for cell in results["link_accuracy_h100"]["cells"]
             if cell["pictures"] == EIGHT_PICTURES}

    def row(title, method, counts, bits=16):
        return [title, *(score(found[f"{method}:{count}", bits]) if (f"{method}:{count}", bits) in found else ""
                         for count in counts)]

    counts = [4, 8, 16, 32]
    return table(["tokens in place, of 64", *map(str, counts)], [
        row("`mpic:K`: the first", "mpic", counts),
        row("`cacheblend:R`: those that change most, R = 6, 12, 25, 50 %", "cacheblend", [6, 12, 25, 50]),
        row("`spread:K` (ours): far from each other, chosen once a picture", "spread", counts),
        row("`carry:K` (ours): the same, and their change is applied to the others", "carry", counts),
        row("`spread:K`, 2 bits", "spread", counts, bits=2)], right=True)


def linked_and_compressed(results):
    """Every setting of its result file that links and drops or packs; smallest share last."""
    cells = results["link_cache_cpu"]["cells"]
    alone = {cell["reuse"]: cell["accuracy"] for cell in cells if cell["method"] == "none" and cell["bits"] == 16}

    def row(cell):
        kept = "" if cell["method"] == "none" else f", `{cell['method']}` {percent(cell['keep'])}"
        bits = "" if cell["bits"] == 16 else f", {cell['bits']} bits"
        return [f"`{cell['reuse']}`{kept}{bits}", score(cell["accuracy"]), score(alone[cell["reuse"]]), percent(cell["share"])]

    cells = [cell for cell in cells if cell["reuse"] != "none" and (cell["method"] != "none" or cell["bits"] < 16)]
    return table(["linked, and kept or packed", "exact answers", "all kept in f16", "share of the f16 cache"],
                 [row(cell) for cell in sorted(cells, key=lambda cell: -cell["share"])], right=True)


def request_rates(results):
    """Mean time to the first token by request rate; ways in the order of their result file."""
    found = results["serve_rates_h200"]
    points = [dict(zip(found["columns"], point)) for point in found["points"]]
    titles = {"none": "nothing reused", "prefix": "`prefix`", "full": "`full`: no token recomputed", "cacheblend:15": "`cacheblend:15`",
              "mpic:32": "`mpic:32`", "carry:32": "`carry:32` (ours)"}
    rates = sorted({point["rate"] for point in points})

    def cell(way, rate):
        times = {point["shape"]: f"{point['ttft mean']:,.0f}" for point in points
                 if (point["way"], point["rate"]) == (way, rate) and point["kept_up"] > 0.8}
        return " / ".join(times.get(shape, "-") for shape in ("LLaVA-1.5-7B", "SmolVLM2-2.2B")) if times else ""

    return table(["requests a second", *map(str, rates)],
                 [[title, *(cell(way, rate) for rate in rates)] for way, title in titles.items()], right=True)


def packed_batches(results):
    """CalibQuant's table 5: sessions of 3,328 visual tokens of the 8B shape in a budget of cache."""
    rows = {(row["kv_budget_GB"], row["bits"]): row for row in results["packed_throughput_h200"]["rows"]
            if (row["shape"], row["visual_tokens"]) == ("InternVL2.5-8B", 3328) and row.get("calibration") != "none"}

    def cell(budget, bits):
        row = rows[budget, bits]
        return f"{three_digits(row['tokens_per_s'])} ({row['sessions']})"

    def ratios(budget, bits):
        row = rows[budget, bits]
        paper = row["paper_times_16_bits"]
        return f"{row['times_16_bits']:.1f}, {row['answers_times_16_bits']:.1f} ({paper[0]:.1f}, {paper[1]:.1f})"

    return table(["GB of cache", "16 bits", "2 bits", "1 bit, calibrated", "2 bits over 16: tokens, answers (paper)",
                  "1 bit over 16: tokens, answers (paper)"],
                 [[str(budget), cell(budget, 16), cell(budget, 2), cell(budget, 1), ratios(budget, 2), ratios(budget, 1)]
                  for budget in (5, 10, 15, 20, 25, 30)])


def time_to_first_token(results):
    """Ten pictures of SmolVLM2-2.2B's shape."""
    def cell(row, key):
        return whole(row[key]) if key in row else ""

    rows = results["library_ttft_h200"]["rows"]
    places = ["computed_10_ms", "memory_10_ms", "files_10_ms", "files_uncached_10_ms", "arena_MiB"]
    return table(["", "computed", "from memory", "from files", "from an uncached disk", "planned, MiB"],
                 [["`" + row["reuse"].replace(",", "`,") + ("" if "," in row["reuse"] else "`"),
                   *(cell(row, place) for place in places)] if row["reuse"] != "no reuse" else
                  ["nothing reused", *(cell(row, place) for place in places)] for row in rows], right=True)


def day(results):
    """Days by bits, room, what goes where it is full and rows in place: the means of their seeds."""
    groups, rows = {}, []
    for cell in results["day"]["cells"]:
        key = (cell["reuse"] != "spread:40", cell["library_size"] != "256M", cell["bits"] != 2, cell["bits"],
               -int(cell["library_size"][:-1]), cell["drops"], cell["reuse"])
        groups.setdefault(key, []).append(cell)

    def mean(cells, get):
        return sum(map(get, cells)) / len(cells)

    def scores(cells, of):
        kinds = (("appear", "disappear"), ("count",), ("presence", "which"), ("change",))
        return [score(mean(cells, lambda cell: sum(cell[of][kind] for kind in kind_group) / len(kind_group)))
                for kind_group in kinds]

    for key, cells in sorted(groups.items()):
        first = cells[0]
        is_full = first["library_size"] != "256M"
        name = f"{first['bits']} bit" + ("s" if first["bits"] > 1 else "")
        name += f", `--reuse {first['reuse']}`" if key[0] else ""
        name += f", {first['library_size']}, the {first['drops']} go" if is_full else ""
        name += f" ({len(cells)} days)" if len(cells) > 1 else ""
        rows.append([name, whole(mean(cells, lambda cell: cell["frames"])),
                     f"{mean(cells, lambda cell: cell['library_bytes']) / 1e6:.0f}", *scores(cells, "exact"),
                     score(mean(cells, lambda cell: cell["several"]["4"]["exact"]))])
    plain = [cell for cell in results["day"]["cells"] if cell["bits"] == 2 and cell["library_size"] == "256M"
             and cell["reuse"] == "spread:40"]
    one = [cell for cell in results["day"]["cells"] if cell["bits"] == 1]
    rows.append(["captions alone, 2 bits", "", "", *scores(plain, "exact_by_captions"), ""])
    rows.append(["captions alone, 1 bit", "", "", *scores(one, "exact_by_captions"), ""])
    rows.append(["the newest 8 frames alone", "8", "", *scores(plain, "exact_newest_8"), ""])
    return table(["right answers about a made day", "frames", "MB", "when", "how often", "was it there, which frames",
                  "what changed", "one of 4 linked frames described"], rows, right=True)


def measured(results):
    """README's rows: what most people ask first, and one in which the peer is ahead."""
    def beside(file, shape, weights, test):
        row = next(row for row in results[file]["rows"] if (row["shape"], row["format"], row["test"]) == (shape, weights, test))
        return [f"{float(f'{row[program]:.3g}'):,g}" for program in ("ocellus", "llama.cpp")]

    def cache_megabytes(bits):
        return next(plan["kv_bytes_per_image"] for plan in results["families_memory"]["plans"]
                    if (plan["shape"], plan["picture"], plan["kv_bits"]) == ("Qwen3-VL-2B", "1920x1080", bits)) / 1e6

    xeon, h100 = ("peer_xeon_2_cores", "2 CPU cores, AMX"), ("peer_h100", "H100")
    rows = [("prompt of 512, tokens/s", "SmolVLM-256M, Q4_K", *xeon, "pp512"), ("decode, tokens/s", "SmolVLM-256M, Q4_0", *xeon, "tg64"),
            ("decode, tokens/s", "SmolVLM2-2.2B, Q8_0", *xeon, "tg32"), ("decode, tokens/s", "SmolVLM2-2.2B, Q4_K", *h100, "tg128"),
            ("encode 640 x 480, ms", "InternVL2.5-8B, F16", *h100, "image encode")]
    return table(["", "model", "on", "Ocellus", "llama.cpp", "file"], [
        *([what, model, place, *beside(file, *model.split(", "), test), f"`{file}.json`"] for what, model, file, place, test in rows),
        ["cache of a 1920 x 1080 picture, MB", "Qwen3-VL-2B", "any", f"{cache_megabytes(2):.1f} (2 bits)",
         f"{cache_megabytes(16) * 4.5 / 16:.1f} (4.5 bits, computed)", "`families_memory.json`"]])


def real_model(results):
    """SmolVLM-256M in Q8_0, which README takes as its example."""
    def on_cpu(test):
        return next(row["ocellus"] for row in results["peer_xeon_2_cores"]["rows"]
                    if (row["shape"], row["format"], row["test"]) == ("SmolVLM-256M", "Q8_0", test))

    gpu = results["cuda_h100"]["benches"]["smolvlm_256m_Q8_0"]["rows"]
    return table(["SmolVLM-256M, Q8_0", "a picture of 640 x 480, encoded", "prompt, tokens/s", "answer, tokens/s"], [
        ["2 CPU cores with AMX", f"{on_cpu('image encode') / 1000:.1f} s", three_digits(on_cpu("pp512")), three_digits(on_cpu("tg64"))],
        ["H100", f"{gpu['image encode']['median']:.1f} ms", three_digits(gpu["pp512"]["median"]), three_digits(gpu["tg128"]["median"])]])


TABLES = {"measured": measured, "a real model": real_model, "day": day, "packed batches": packed_batches, "time to the first token": time_to_first_token, "request rates": request_rates, "CPU": cpu, "GPU": gpu_speed, "beside llama.cpp": beside_the_peer, "beside llama.cpp on two cores": beside_the_peer_on_two_cores, "families": families_beside_the_peer, "families in memory": families_in_memory, "the papers' models": papers_models, "bits and DAVID": packed_and_evicted,
          "eviction": eviction, "ranges": ranges,
          "best by share": best_by_share, "goals": goals, "reuse": reused, "reuse, packed and evicted": linked_and_compressed}
