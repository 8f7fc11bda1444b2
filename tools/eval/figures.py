"""What the scripts that draw papers' figures for the bundled model share: arguments, what the reference model's layers see
while it reads a prompt, and the result file."""
import argparse
import datetime
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "train"))

import model  # noqa: E402
import reference  # noqa: E402
import scenes  # noqa: E402


class Recorder:
    """In the place of model.attend: notes the last query, and all keys and values, of every layer of the text model."""

    def __init__(self):
        self.attend = model.attend
        self.layers = []

    def __call__(self, q, k, v, causal):
        if causal:
            self.layers.append([x[0].double().numpy() for x in (q[:, :, -1], k, v)])
        return self.attend(q, k, v, causal)


@dataclass
class Prompt:
    """A question in the chat template. `rows`: [pictures * image tokens, dim]; `visual`: where these stand in the prompt;
    `images`: slices of them, one a picture."""
    ids: list
    rows: object
    visual: np.ndarray
    images: list


class Prompts:
    """The chosen questions, and the reference model that reads them."""

    def __init__(self, options):
        lines = [json.loads(line) for line in (options.eval / "questions.jsonl").read_text().splitlines()]
        self.chosen = [line for line in lines if line["n"] == options.pictures][:options.questions]
        if not self.chosen:
            sys.exit(f"{Path(sys.argv[0]).name}: {options.eval} has no questions about {options.pictures} pictures")
        self.folder = options.eval
        self.net = reference.Reference(options.hf)
        self.recorder = model.attend = Recorder()

    def __iter__(self):
        each = self.net.config.image_tokens
        for line in self.chosen:
            ids = self.net.prompt_ids(line["prompt"])
            rows = reference.torch.cat([self.net.image_rows(self.folder / path) for path in line["images"]])
            visual = np.flatnonzero(np.array(ids) == self.net.image_id)
            yield Prompt(ids, rows, visual, [slice(i * each, (i + 1) * each) for i in range(len(line["images"]))])

    def read(self, ids, rows, position=0):
        """[layers] of (last query [heads, E], keys and values [heads, tokens, E]) of ids that start at `position`."""
        self.recorder.layers.clear()
        row = reference.torch.tensor([ids])
        slots = (row.view(-1) == self.net.image_id).nonzero().squeeze(1)
        seen = slice(position, position + len(ids))
        with reference.torch.no_grad():
            self.net.net.lm(row, slots, rows, self.net.cos[seen], self.net.sin[seen])
        return list(self.recorder.layers)


def softmax(scores):
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


def parse_arguments(description, flag=None):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hf", type=Path)
    parser.add_argument("eval", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--questions", type=int, default=30)
    parser.add_argument("--pictures", type=int, default=8)
    if flag is not None:
        parser.add_argument(flag, action="store_true")
    return parser.parse_args()


def write(options, prompts, description, results, lines="layers"):
    """Writes `results`, a line for each of results[lines]. The fourth paragraph of `description` says what they are."""
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
    report = {"what": " ".join(description.split("\n\n")[3].split()), "device": "CPU, float32 reference in PyTorch",
              "date": datetime.date.today().isoformat(), "commit": commit.stdout.strip(),
              "command": f"tools/eval/{Path(sys.argv[0]).name} HF EVAL OUT.json --questions "
                         f"{len(prompts.chosen)} --pictures {options.pictures}"
                         + "".join(f" --{name}" for name, value in vars(options).items() if value is True), **results}
    rows = ",\n".join("  " + json.dumps(line) for line in report.pop(lines))
    options.out.write_text(json.dumps(report, indent=1)[:-2] + f',\n "{lines}": [\n{rows}\n ]\n}}\n')
