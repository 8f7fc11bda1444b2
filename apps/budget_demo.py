#!/usr/bin/env python3
"""What fits a shrinking cache budget, and what it costs: bytes, answers and accuracy side by side, and a picture of it.

Answers the same questions under many settings (bits of visual keys and values, and how much of the cache is kept),
then shows the best setting for every budget. With its defaults it takes a minute or two on two cores; --questions and
--limit make it a measurement. The full grid:

  budget_demo.py --questions FILE --bits 16,8,4,2,1 --keep 1,0.5,0.2,0.1,0.05 --evict david,snapkv
"""
import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
SAMPLES = HERE / "samples" / "questions_8.jsonl"
SAMPLES_LIMIT = 16  # of them, so that the demo is short
SHOWN_QUESTIONS = 4
SHOWN_CHARACTERS = 100


class Refused(Exception):
    """A sentence for the user, and the exit code."""

    def __init__(self, sentence, exit_code=2):
        super().__init__(sentence)
        self.exit_code = exit_code


def parse_arguments():
    def numbers(kind, low, high):
        def parse(text):
            values = [kind(part) for part in text.split(",")]
            if not all(low <= value <= high for value in values):
                raise ValueError
            return sorted(set(values), reverse=True)
        parse.__name__ = "list"
        return parse

    def fraction(text):
        value = float(text)
        if not 0 < value <= 1:
            raise ValueError
        return value

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", metavar="FILE", type=Path, default=SAMPLES,
                        help="as for ocellus eval (default: 16 questions over eight sample pictures each)")
    parser.add_argument("--per-question", metavar="N", type=int, help="only questions with N pictures")
    parser.add_argument("--limit", metavar="K", type=int, help="only the first K of them")
    parser.add_argument("--bits", metavar="B,...", type=numbers(int, 1, 16), default=[16, 4, 2, 1],
                        help="bits to try (default: 16,4,2,1)")
    parser.add_argument("--keep", metavar="F,...", type=numbers(fraction, 0, 1), default=[1.0, 0.5, 0.2, 0.1],
                        help="fractions of the cache to try (default: 1,0.5,0.2,0.1)")
    parser.add_argument("--evict", metavar="NAME,...", default="david", help="rules that choose (default: david)")
    parser.add_argument("--calib", metavar="HOW", default="auto", help="as for ocellus eval (default: auto)")
    parser.add_argument("--budgets", metavar="F,...", type=numbers(fraction, 0, 1),
                        default=[1, 1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32],
                        help="fractions of the f16 cache (default: halved five times)")
    parser.add_argument("--png", metavar="FILE", type=Path, default=Path("budget_demo.png"))
    parser.add_argument("--no-png", action="store_true", help="only text and JSON")
    parser.add_argument("--json", metavar="FILE", type=Path, default=Path("budget_demo.json"))
    parser.add_argument("--program", metavar="FILE", help="the ocellus program (default: this tree's, or the one in PATH)")
    parser.add_argument("ocellus_flags", nargs="*", metavar="-- FLAG",
                        help="further flags of ocellus eval after --, as in: -- --device cuda -m MODEL.gguf --mmproj M.gguf")
    return parser.parse_args()


def find_program(given):
    for path in [given, os.environ.get("OCELLUS_PROGRAM"), HERE.parent / "build" / "release" / "apps" / "ocellus",
                 shutil.which("ocellus")]:
        if path and os.access(path, os.X_OK) and Path(path).is_file():
            return str(path)
        if path and path == given:
            raise Refused(f"{given} is no program.")
    raise Refused("there is no ocellus program yet: run tools/build.sh first, or give one with --program.")


def load_matplotlib():
    """pyplot, or None if it cannot be had. Another python3 of the system may have it."""
    try:
        return import_matplotlib()
    except ImportError:
        pass
    system = "/usr/bin/python3"
    has_it = subprocess.run([system, "-c", "import matplotlib"], capture_output=True).returncode == 0 \
        if os.access(system, os.X_OK) else False
    if has_it and Path(system).resolve() != Path(sys.executable).resolve():
        os.execv(system, [system, *sys.argv])
    print("budget_demo: matplotlib is missing, so there will be no picture; install python3-matplotlib.", file=sys.stderr)
    return None


def import_matplotlib():
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as pyplot
    return pyplot


def settings_of(arguments):
    """Name and flags of every setting, the gentlest first; what keeps everything needs no rule."""
    for keep in arguments.keep:
        for rule in ["none"] if keep == 1 else arguments.evict.split(","):
            for bits in arguments.bits:
                flags = ["--kv-bits", str(bits)]
                flags += ["--calib", arguments.calib] if bits < 16 else []
                flags += ["--evict", rule, "--keep", str(keep)] if keep < 1 else []
                yield describe({"kv_bits": bits, "calib": "none", "evict": rule, "keep": keep}), flags


def describe_bits(bits):
    return "f16" if bits == 16 else f"{bits} bit" + ("s" if bits > 1 else "")


def describe(policy):
    """'2 bits, david keeps 20 %'"""
    text = describe_bits(policy["kv_bits"])
    if policy["calib"] != "none":
        text += " (tau {:g}, {:g})".format(*policy["calib"])
    return text + (f", {policy['evict']} keeps {100 * policy['keep']:g} %" if policy["keep"] < 1 else "")


def format_size(count):
    for unit, size in [("MiB", 1 << 20), ("KiB", 1 << 10)]:
        if count >= size:
            return f"{count / size:.1f} {unit}" if count < 100 * size else f"{count / size:.0f} {unit}"
    return f"{count:.0f} B"


def format_seconds(seconds):
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


class ProgressBar:
    """On a terminal a bar that moves; otherwise a line for every setting."""
    WIDTH = 30

    def __init__(self, settings):
        self.settings = settings
        self.begin = time.monotonic()
        self.on_terminal = sys.stderr.isatty()

    def show(self, done, text):
        share = done / self.settings
        if self.on_terminal:
            filled = int(share * self.WIDTH)
            left = f", {format_seconds((time.monotonic() - self.begin) * (1 / share - 1))} left" if done > 0.2 else ""
            print(f"\r\033[K[{'#' * filled}{'.' * (self.WIDTH - filled)}] {text}{left}", end="", file=sys.stderr,
                  flush=True)
        elif done == int(done) and done > 0:
            print(f"{int(done)} of {self.settings}: {text}", file=sys.stderr, flush=True)

    def finish(self):
        if self.on_terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def evaluate(program, arguments, flags, on_answer):
    """What ocellus eval says: its answers and its summary."""
    command = [program, "eval", str(arguments.questions), "--json", "--quiet", *flags, *arguments.ocellus_flags]
    for name in ["per_question", "limit"]:
        if getattr(arguments, name) is not None:
            command += ["--" + name.replace("_", "-"), str(getattr(arguments, name))]
    answers = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            answers.append(json.loads(line))
            on_answer(len(answers))
        sentence = process.stderr.read().strip()
    if process.returncode != 0:
        raise Refused(sentence.removeprefix("ocellus: ") or f"{program} was stopped.", process.returncode or 1)
    summary = answers.pop()
    return {"setting": describe(summary["policy"]), "flags": flags, **summary,
            "answers": [{key: answer[key] for key in ["line", "expected", "answer", "exact"]} for answer in answers]}


def run_all(program, arguments):
    settings = list(settings_of(arguments))
    bar = ProgressBar(len(settings))
    results = []
    bar.show(0, "starting ...")
    for index, (name, flags) in enumerate(settings):
        known = len(results[0]["answers"]) if results else None
        result = evaluate(program, arguments, flags,
                          lambda count: bar.show(index + min(count / (known or math.inf), 0.999), name))
        results.append(result)
        bar.show(index + 1, f"{result['setting']}: {result['accuracy']:.3f} with {format_size(result['kv_bytes'])}")
    bar.finish()
    return results


def best_by_budget(results, fractions):
    """For each budget the most accurate setting that fits it, among equals the smallest."""
    full = results[0]["kv_bytes_full"]
    rows = []
    for fraction in fractions:
        fitting = [result for result in results if result["kv_bytes"] <= fraction * full + 0.5]
        best = min(fitting, key=lambda result: (-result["exact"], result["kv_bytes"]), default=None)
        rows.append({"budget_bytes": int(fraction * full), "fraction": fraction, "best": best})
    return rows


def print_table(results, rows):
    first = results[0]
    pictures = " or ".join(first["by_images"])
    print(f"{first['questions']} questions over {pictures} pictures. As f16 the cache of one takes "
          f"{format_size(first['kv_bytes_full'])}: keys, values and, of packed ones, their scales.\n")
    lines = [("cache budget", "", "used", "best setting", "accuracy")]
    for row in rows:
        best = row["best"]
        lines.append((format_size(row["budget_bytes"]), f"{100 * row['fraction']:.3g} %",
                      format_size(best["kv_bytes"]) if best else "-", best["setting"] if best else "nothing fits",
                      f"{best['accuracy']:.3f}" if best else "-"))
    widths = [max(len(line[column]) for line in lines) for column in range(5)]
    for line in lines:
        cells = [cell.ljust(width) if column == 3 else cell.rjust(width)
                 for column, (cell, width) in enumerate(zip(line, widths))]
        print("  ".join(cells).rstrip())
    print(f"\nWith {first['questions']} questions, differences below {1 / math.sqrt(first['questions']):.2f} may be chance.")


def questions_to_show(rows):
    """One for every budget at which a question is lost first, as far as there are such, and one that stays right."""
    bests = [row["best"] for row in rows if row["best"]]
    by_first_loss = {}
    for index in range(len(bests[0]["answers"])):
        lost = [i for i, best in enumerate(bests) if not best["answers"][index]["exact"]]
        by_first_loss.setdefault(lost[0] if lost else len(bests), []).append(index)
    shown = []
    while len(shown) < SHOWN_QUESTIONS and any(by_first_loss.values()):
        for first_loss in sorted(by_first_loss):
            shown += by_first_loss[first_loss][:1]
            del by_first_loss[first_loss][:1]
    return shown[:SHOWN_QUESTIONS]


def shortened(text):
    text = " ".join(text.split())
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS - 3] + "..."


def print_answers(rows, questions_file):
    prompts = [json.loads(line)["prompt"] if line.strip() else "" for line in questions_file.read_text().splitlines()]
    fitting = [row for row in rows if row["best"]]
    if not fitting:
        return
    width = max(len(format_size(row["budget_bytes"])) for row in rows)
    print("\nThe same questions at every budget (x: not the exact answer):")
    for index in questions_to_show(rows):
        answer = fitting[0]["best"]["answers"][index]
        question = prompts[answer["line"] - 1].split("<image>")[-1].strip()
        print(f"\n{shortened(question)}   right: {shortened(answer['expected'])}")
        for row in fitting:
            given = row["best"]["answers"][index]
            size = format_size(row["budget_bytes"]).rjust(width)
            print(f"  {size} {' ' if given['exact'] else 'x'} {shortened(given['answer'])}")


def draw(pyplot, results, rows, path):
    figure, axes = pyplot.subplots(figsize=(9, 5.5), layout="constrained")
    all_bits = sorted({result["policy"]["kv_bits"] for result in results}, reverse=True)
    colors = dict(zip(all_bits, pyplot.get_cmap("viridis")([i / max(1, len(all_bits)) for i in range(len(all_bits))])))
    rules = sorted({result["policy"]["evict"] for result in results} - {"none"})
    for rule in rules or ["none"]:
        for bits in all_bits:
            line = sorted((result for result in results if result["policy"]["kv_bits"] == bits
                           and result["policy"]["evict"] in ("none", rule)), key=lambda result: result["kv_bytes"])
            label = describe_bits(bits)
            axes.plot([result["kv_bytes"] for result in line], [result["accuracy"] for result in line],
                      marker="o" if rule == (rules or ["none"])[0] else "s", color=colors[bits], markersize=6,
                      linestyle="-" if rule == (rules or ["none"])[0] else "--", linewidth=1,
                      label=label + (f", {rule}" if len(rules) > 1 else ""))
            for result in line:
                axes.annotate(f"{100 * result['policy']['keep']:g} %", (result["kv_bytes"], result["accuracy"]),
                              textcoords="offset points", xytext=(0, -13), ha="center", fontsize=7, color=colors[bits],
                              bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.8})
    frontier, best = [], -1.0
    for result in sorted(results, key=lambda result: (result["kv_bytes"], -result["accuracy"])):
        if result["accuracy"] > best:
            best = result["accuracy"]
            frontier.append(result)
    right = max(result["kv_bytes"] for result in results) * 1.15
    axes.step([result["kv_bytes"] for result in frontier] + [right],
              [result["accuracy"] for result in frontier] + [best], where="post", color="black", linewidth=2.5,
              alpha=0.25, label="best within a budget", zorder=1)
    for row in rows:
        axes.axvline(row["budget_bytes"], color="gray", linewidth=0.6, linestyle=":")
    axes.set_xscale("log", base=2)
    ticks = [row["budget_bytes"] for row in rows if row["best"]]
    axes.set_xticks(ticks, [format_size(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_xlim(min(result["kv_bytes"] for result in results) / 1.2, right)
    axes.set_ylim(0, 1.04)
    axes.grid(axis="y", linewidth=0.4)
    axes.set_xlabel("cache per question: keys, values and scales (log scale)")
    axes.set_ylabel("exact answers")
    first = results[0]
    kept = f"; percentages: what {' or '.join(rules)} keeps" if rules else ""
    axes.set_title(f"{first['questions']} questions over {' or '.join(first['by_images'])} pictures{kept}", fontsize=11)
    axes.legend(loc="lower right", fontsize=9)
    figure.savefig(path, dpi=150)


def main():
    arguments = parse_arguments()
    program = find_program(arguments.program)
    if arguments.questions == SAMPLES and arguments.limit is None:
        arguments.limit = SAMPLES_LIMIT
    if not arguments.questions.is_file():
        raise Refused(f"{arguments.questions} is not there.", 4)
    pyplot = None if arguments.no_png else load_matplotlib()
    for path in [arguments.json] + ([arguments.png] if pyplot else []):
        if not os.access(path.resolve().parent, os.W_OK):
            raise Refused(f"{path} cannot be written; give another place with --json and --png.", 1)
    results = run_all(program, arguments)
    rows = best_by_budget(results, arguments.budgets)
    print_table(results, rows)
    print_answers(rows, arguments.questions)
    report = {"program": subprocess.run([program, "--version"], capture_output=True, text=True).stdout.strip(),
              "questions_file": str(arguments.questions), "settings": results,
              "budgets": [{**row, "best": row["best"] and row["best"]["setting"]} for row in rows]}
    arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    if pyplot:
        draw(pyplot, results, rows, arguments.png)
    print(f"\nWritten: {arguments.json}" + (f", {arguments.png}" if pyplot else ""))


if __name__ == "__main__":
    try:
        main()
    except Refused as refusal:
        print(f"\nbudget_demo: {refusal}" if sys.stderr.isatty() else f"budget_demo: {refusal}", file=sys.stderr)
        sys.exit(refusal.exit_code)
    except KeyboardInterrupt:
        print("", file=sys.stderr)
        sys.exit(130)
