#!/usr/bin/env python3
"""The score of a run of lmms-eval with its confidence interval, or two runs over the same questions side by side.

usage: score.py SAMPLES.jsonl [OTHER.jsonl] [--metric NAME]

The files are those that lmms-eval writes with --log_samples. It counts a request that failed as a wrong answer. Here a run
with such a request has no score, and the exit code is 1. Intervals are of 95 %: Wilson's where every answer is right or
wrong, else from the standard error. Both take questions as independent draws.
"""
import argparse
import json
import math
import sys
from pathlib import Path

from boards import NO_ANSWER

FAILED, USAGE, BAD_INPUT = 1, 2, 4
Z = 1.959964  # the normal distribution's 97.5 %
NOT_METRICS = {"doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "token_counts", "doc_hash", "input",
               "input_media"}


class Refused(Exception):
    """A sentence for the user, and the exit code."""

    def __init__(self, sentence, exit_code=BAD_INPUT):
        super().__init__(sentence)
        self.exit_code = exit_code


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Refused(message.rstrip(".") + "; see --help.", USAGE)


def read_samples(path):
    """The file's records in the order of their questions."""
    samples = {}
    try:
        lines = Path(path).read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{path} cannot be read: {error}.") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            sample = json.loads(line)
            question, _, _ = int(sample["doc_id"]), sample["filtered_resps"], sample["target"]
            is_new = samples.setdefault(question, sample) is sample
        except (ValueError, KeyError, TypeError):
            raise Refused(f"{path}, line {number}: this is no sample of lmms-eval.") from None
        if not is_new:
            raise Refused(f"{path}, line {number}: the question {question} is there twice.")
    if not samples:
        raise Refused(f"{path}: there is no sample.")
    return [samples[question] for question in sorted(samples)]


def question_of(sample):
    """What two runs must have alike. lmms-eval's doc_hash does not tell: it is that of no document."""
    return sample["doc_id"], sample.get("input"), sample["target"]


def metric_of(path, samples, name):
    """The metric that is asked for, or the first one that all samples have."""
    found = [key for key in samples[0] if key not in NOT_METRICS and all(key in sample for sample in samples)]
    if name is None and found:
        return found[0]
    if name not in found:
        raise Refused(f"{path} has no metric{f' {name}' if name else ''} of all questions; it has: {', '.join(found) or 'none'}.")
    return name


def value_of(path, sample, metric):
    """A number, or the "score" of an object, as tasks with categories have it."""
    value = sample[metric]
    value = value.get("score") if isinstance(value, dict) else value
    if not isinstance(value, (bool, int, float)) or not math.isfinite(value):
        raise Refused(f"{path}: {metric} of question {sample['doc_id']} is no number.")
    return float(value)


def has_failed(sample):
    return any(NO_ANSWER in json.dumps(sample.get(key)) for key in ("resps", "filtered_resps"))


def mean_interval(values):
    """The mean and half of its interval, from the standard error."""
    count, mean = len(values), sum(values) / len(values)
    if count < 2:
        return mean, math.inf
    return mean, Z * math.sqrt(sum((value - mean) ** 2 for value in values) / (count - 1) / count)


def wilson(right, count):
    """Low and high end. Unlike the mean's interval it has a width where all are right, and stays within 0 and 1."""
    share = right / count
    middle = (share + Z * Z / (2 * count)) / (1 + Z * Z / count)
    half = Z / (1 + Z * Z / count) * math.sqrt(share * (1 - share) / count + Z * Z / (4 * count * count))
    return middle - half, middle + half


def sign_test(better, worse):
    """How probable a split at least as uneven is, were both ways as likely (McNemar's exact test)."""
    count = better + worse
    tail = sum(math.comb(count, k) for k in range(max(better, worse), count + 1))
    return min(1.0, 2 * tail / 2**count)


def summary_of(path, samples, metric, values):
    mean, half = mean_interval(values)
    is_binary = all(value in (0, 1) for value in values)
    low, high = wilson(sum(values), len(values)) if is_binary else (mean - half, mean + half)
    empty = sum(not str(sample["filtered_resps"]).strip() for sample in samples)
    return (f"{path}\n  {metric} {100 * mean:.1f} % of {len(values)} questions, 95 %: {100 * low:.1f} to {100 * high:.1f} %" +
            (f"; empty answers: {empty}" if empty else ""))


def difference_of(first, second):
    """Sentences about the second run beside the first, question by question."""
    steps = [new - old for old, new in zip(first, second)]
    better, worse = sum(step > 0 for step in steps), sum(step < 0 for step in steps)
    if better + worse == 0:
        most = 1 - 0.05 ** (1 / len(steps))  # the share with which none of them differs once in twenty times
        return f"second minus first: no question is scored otherwise; 95 %: at most {100 * most:.1f} % of such questions are"
    mean, half = mean_interval(steps)
    return (f"second minus first: {100 * mean:+.1f} points, 95 %: {100 * (mean - half):+.1f} to {100 * (mean + half):+.1f}\n"
            f"  better on {better}, worse on {worse}, equal on {len(steps) - better - worse}; sign test p = "
            f"{sign_test(better, worse):.3g}")


def report(paths, metric=None):
    """The text, and whether there are scores."""
    runs = [read_samples(path) for path in paths]
    if any(list(map(question_of, run)) != list(map(question_of, runs[0])) for run in runs):
        raise Refused(f"{paths[0]} and {paths[1]} are not about the same questions.")
    failures = [(path, run, failed) for path, run in zip(paths, runs) if (failed := list(filter(has_failed, run)))]
    if failures:
        return "\n".join(f"{path}\n  no score: {len(failed)} of {len(run)} requests failed, the first with: "
                         f"{failed[0]['filtered_resps']}" for path, run, failed in failures), False
    metric = metric_of(paths[0], runs[0], metric)
    metrics = [metric_of(path, run, metric) for path, run in zip(paths, runs)]
    values = [[value_of(path, sample, metric) for sample in run] for path, run, metric in zip(paths, runs, metrics)]
    lines = [summary_of(path, run, metric, of_run) for path, run, of_run in zip(paths, runs, values)]
    return "\n".join(lines + ([difference_of(*values)] if len(values) == 2 else [])), True


def main():
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("samples", metavar="SAMPLES.jsonl")
    parser.add_argument("other", metavar="OTHER.jsonl", nargs="?", help="another run of the same task")
    parser.add_argument("--metric", metavar="NAME", help="default: the first that all questions have")
    try:
        given = parser.parse_args()
        text, is_scored = report([path for path in (given.samples, given.other) if path], given.metric)
    except Refused as refused:
        print(f"score: {refused}", file=sys.stderr)
        return refused.exit_code
    print(text)
    return 0 if is_scored else FAILED


if __name__ == "__main__":
    sys.exit(main())
