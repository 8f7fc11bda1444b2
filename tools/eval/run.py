#!/usr/bin/env python3
"""Measures a matrix of cache methods x budgets x picture counts: a JSON result, a Markdown table and plots.

Every cell is a run of `ocellus eval` (with --captions also of `ocellus caption`). The result file is whole after every
cell: stop at any time, go on with --resume. A new method is one line of methods.py. As a measurement on a GPU:

  run.py --questions FILE --device cuda --jobs 4 --captions FILE --out DIR -- -m MODEL.gguf --mmproj M.gguf
"""
import argparse
import concurrent.futures
import json
import os
import shlex
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "apps"))

import captions  # noqa: E402
import plots  # noqa: E402
import tables  # noqa: E402
from budget_demo import SAMPLES, Refused, find_program, format_size  # noqa: E402
from methods import METHODS, cells_of, count_pictures, place_name, settings_of  # noqa: E402
from program import INTERRUPTED, Failed, Program  # noqa: E402
from progress import Progress  # noqa: E402
from results import Results, device_name, fingerprint  # noqa: E402

USAGE, BAD_INPUT = 2, 4
ALL_BITS = [16, 8, 4, 2, 1]
IMAGES = [1, 4, 8, 16]


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Refused(message.rstrip(".") + "; see --help.")


def list_of(kind, accepted, hint):
    def parse(text):
        try:
            values = [kind(part) for part in text.split(",")]
        except ValueError:
            values = []
        if not values or not all(accepted(value) for value in values):
            raise argparse.ArgumentTypeError(f"{text!r} is not {hint}")
        return list(dict.fromkeys(values))
    return parse


def number(kind, accepted, hint):
    parse_list = list_of(kind, accepted, hint)

    def parse(text):
        values = parse_list(text)
        if len(values) != 1:
            raise argparse.ArgumentTypeError(f"{text!r} is not {hint}")
        return values[0]
    return parse


def is_fraction(value):
    return 0 < value <= 1


def parse_arguments(words):
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", metavar="FILE",
                        help="the ocellus program (default: this tree's, or the one in PATH)")
    parser.add_argument("--questions", metavar="FILE", type=Path, default=Path(os.path.relpath(SAMPLES)),
                        help="as for ocellus eval (default: 24 over eight sample pictures each, which is a try-out)")
    parser.add_argument("--images", metavar="N,...", type=list_of(int, lambda n: n >= 0, "a list of picture counts"),
                        help="pictures per question (default: those of 1,4,8,16 that the file has)")
    parser.add_argument("--keep", metavar="F,...", type=list_of(float, is_fraction, "a list of fractions, as 0.5,0.1"),
                        default=[0.5, 0.2, 0.1, 0.05], help="fractions of the cache (default: 0.5,0.2,0.1,0.05)")
    parser.add_argument("--bits", metavar="B,...", default=[16, 4, 2, 1],
                        type=list_of(int, ALL_BITS.__contains__, "a list of 16, 8, 4, 2 and 1"),
                        help="bits of visual keys and values (default: 16,4,2,1)")
    parser.add_argument("--methods", metavar="NAME,...", default=list(METHODS),
                        type=list_of(str, METHODS.__contains__, f"a list of these: {', '.join(METHODS)}"),
                        help=f"of {', '.join(METHODS)} (default: all)")
    parser.add_argument("--calib", metavar="HOW", default="auto",
                        help="how packed methods are calibrated if their line does not say (default: auto)")
    parser.add_argument("--limit", metavar="K", type=number(int, lambda n: n >= 1, "a count"),
                        help="only the first K questions of each picture count, and captions")
    parser.add_argument("--captions", metavar="FILE", type=Path,
                        help="also caption: JSON lines with image and references, or one object of captions by picture")
    parser.add_argument("--text", metavar="FILE", type=Path,
                        help="also the perplexity of this plain text, which only kivi packs (ocellus perplexity)")
    parser.add_argument("--text-model", metavar="FILE", type=Path,
                        help="a text model for that, run without the further flags (default: the same model)")
    parser.add_argument("--only-text", action="store_true", help="no questions")
    parser.add_argument("--perplexity", action="store_true", help="also ask ocellus eval for --perplexity")
    parser.add_argument("--device", metavar="D", help="as for ocellus eval")
    parser.add_argument("--jobs", metavar="N", type=number(int, lambda n: n >= 1, "a count"), default=1,
                        help="cells at a time; they slow each other down, which shows in the speeds (default: 1)")
    parser.add_argument("--kind-budget", metavar="F", type=number(float, is_fraction, "a fraction"), default=0.125,
                        help="share of the bytes for the plot by kind of question (default: 0.125)")
    parser.add_argument("--out", metavar="DIR", type=Path, default=Path("eval_matrix"),
                        help="where results.json, results.md and the plots go (default: eval_matrix)")
    parser.add_argument("--resume", action="store_true", help="keep what DIR/results.json has and run only the rest")
    parser.add_argument("extra", nargs="*", metavar="-- FLAG",
                        help="further flags of every cell after --, as in: -- --threads 1 -m MODEL.gguf")
    arguments = parser.parse_args(words)
    if arguments.only_text and not arguments.text:
        parser.error("--only-text needs --text.")
    arguments.keep = [keep for keep in arguments.keep if keep < 1]  # what keeps all is the method full
    arguments.command = shlex.join(["tools/eval/run.py", *words])
    return arguments


def count_questions(path, limit):
    """{pictures: questions}"""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{path} cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}.",
                      BAD_INPUT) from error
    counts = {}
    for number_of_line, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            pictures = len(json.loads(line)["images"])
        except (ValueError, TypeError, KeyError) as error:
            raise Refused(f"{path}, line {number_of_line}: this is not an object with a list of images.",
                          BAD_INPUT) from error
        counts[pictures] = counts.get(pictures, 0) + 1
    return {pictures: min(count, limit or count) for pictures, count in counts.items()}


def check_text(path):
    try:
        path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{path} cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}.",
                      BAD_INPUT) from error


def wanted_counts(arguments):
    if arguments.only_text:
        return {}
    counts = count_questions(arguments.questions, arguments.limit)
    wanted = arguments.images or [pictures for pictures in IMAGES if pictures in counts]
    for pictures in wanted:
        if pictures not in counts:
            raise Refused(f"{arguments.questions}: there is no question with {count_pictures(pictures)}.", BAD_INPUT)
    if not wanted:
        raise Refused(f"{arguments.questions}: no question has 1, 4, 8 or 16 pictures: say --images.", BAD_INPUT)
    return {pictures: counts[pictures] for pictures in sorted(wanted)}


def make_folder(path):
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"{path} cannot be made: {error.strerror}.") from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise Refused(f"{path} cannot be written: give another folder with --out.")


def run_cells(program, cells, results, jobs):
    """Runs them all. What is done when this is left, however it is left, is in the results."""
    progress = Progress(cells)
    pool = concurrent.futures.ThreadPoolExecutor(jobs)
    running = {pool.submit(program.run, cell, lambda share, cell=cell: progress.answered(cell, share)): cell
               for cell in cells}
    try:
        while running:
            done, _ = concurrent.futures.wait(running, timeout=0.2,
                                              return_when=concurrent.futures.FIRST_COMPLETED)
            for future in done:
                take(program, results, progress, running.pop(future), future)
            progress.draw()
    finally:
        program.stop()
        pool.shutdown(cancel_futures=True)
        for future in [future for future in running if future.done() and not future.cancelled()]:
            if not future.exception():
                results.add(future.result())
        progress.close()


def take(program, results, progress, cell, future):
    name = f"{place_name(cell.task, cell.pictures)}, {cell.name()}"
    try:
        result = future.result()
    except Failed as failure:
        if failure.exit_code in (INTERRUPTED, -signal.SIGINT):
            raise KeyboardInterrupt from failure
        if failure.exit_code == BAD_INPUT:
            raise Refused(str(failure), BAD_INPUT) from failure
        if failure.exit_code == USAGE:
            program.check_common_options()
        results.add_failure(cell, failure.exit_code, str(failure))
        progress.remark(f"matrix: {name} is left out: {failure}")
        progress.finish(cell, f"{name}: left out")
        return
    results.add(result)
    value = f"CIDEr {result['cider']:.2f}" if "cider" in result else \
        f"{result['accuracy']:.3f}" if "accuracy" in result else f"perplexity {result['perplexity']:.4g}"
    progress.finish(cell, f"{name}: {value} with {format_size(result['kv_bytes'])}")


def report(arguments, results, with_plots=True):
    """Markdown and plots of what is there. Returns the files' names."""
    if not results.cells:
        return []
    pyplot = plots.load_matplotlib() if with_plots else None
    if with_plots and not pyplot:
        print("matrix: matplotlib is missing, so there are no plots: pip install -r tools/eval/requirements.txt, then "
              "the same again with --resume.", file=sys.stderr)
    names = plots.draw_all(pyplot, results, arguments.out, arguments.kind_budget) if pyplot else []
    (arguments.out / "results.md").write_text(tables.markdown(results, names), encoding="utf-8")
    return [results.path.name, "results.md", *names]


def main():
    arguments = parse_arguments(sys.argv[1:])
    counts = wanted_counts(arguments)
    if arguments.text:
        check_text(arguments.text)
    references, scorers = [], None
    if arguments.captions:
        references = captions.read_references(arguments.captions, arguments.limit)
        scorers = captions.load_scorers()
    program = Program(find_program(arguments.program), arguments, counts, references, scorers)
    about = {"device": "", "date": "", "commit": "", "command": arguments.command, "program": program.version(),
             "jobs": arguments.jobs}
    about["device"] = device_name(program.devices(), arguments.device)
    setup = {"questions_file": arguments.questions.name, "questions": fingerprint(arguments.questions),
             "captions_file": arguments.captions and arguments.captions.name,
             "captions": arguments.captions and fingerprint(arguments.captions),
             "text_file": arguments.text and arguments.text.name, "text": arguments.text and fingerprint(arguments.text),
             "text_model": arguments.text_model and arguments.text_model.name, "limit": arguments.limit,
             "device": arguments.device, "perplexity": arguments.perplexity, "extra_flags": arguments.extra}
    make_folder(arguments.out)
    results = Results(arguments.out / "results.json", about, setup, arguments.resume)
    settings = list(settings_of(arguments.methods, sorted(arguments.keep, reverse=True),
                                sorted(arguments.bits, reverse=True)))
    cells = [cell for cell in cells_of(settings, counts, len(references), arguments.text is not None)
             if not results.has(cell, cell.flags(arguments.calib))]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        run_cells(program, cells, results, arguments.jobs)
    except (KeyboardInterrupt, Refused):
        report(arguments, results, with_plots=False)
        raise
    if not results.cells:
        raise Refused("no cell gave a result.", max((row["exit_code"] for row in results.failures.values()), default=2))
    names = report(arguments, results)
    print(f"Written to {arguments.out}: {', '.join(names)}")
    exit_codes = {failure["exit_code"] for failure in results.failures.values()} - {USAGE}
    return max(exit_codes, default=0)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Refused as refusal:
        print(f"matrix: {refusal}", file=sys.stderr)
        sys.exit(refusal.exit_code)
    except OSError as error:
        print(f"matrix: {error.filename or 'a file'} cannot be written: {error.strerror}.", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("matrix: stopped; what is done is written, --resume goes on with it.", file=sys.stderr)
        sys.exit(INTERRUPTED)
