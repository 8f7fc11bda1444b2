"""Trains the shapeboard model for a given time and writes tokenizer.json, cfg.json and ema.pt (averaged weights).

Boards are drawn on the training device from fresh random scenes, so no picture is ever seen twice. Three phases move
from single boards to conversations over sixteen.
"""
import argparse
import dataclasses
import json
import math
import os
import random
import time

import torch
import torch.nn.functional as F

import batches
import drawing
import model
import tokens

# (share of the time at which the phase ends, weights of the buckets)
FINAL_PHASE = (1.01, {"S": 0.2, "M": 0.3, "X": 0.3, "XX": 0.2})
PHASES = [(0.25, {"S": 1.0}), (0.60, {"S": 0.3, "M": 0.5, "X": 0.2}), FINAL_PHASE]
EVALUATION_SEED = 10_000_019
LOG_SECONDS, SAVE_SECONDS = 15, 150


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=960)
    parser.add_argument("--out", default="out")
    parser.add_argument("--images", type=int, default=640, help="boards per step, in every bucket")
    parser.add_argument("--lr", type=float, default=1.2e-3)
    parser.add_argument("--workers", type=int, default=14, help="processes that build batches")
    parser.add_argument("--no-compile", action="store_true", help="do not torch.compile the model and the drawing")
    parser.add_argument("--resume", default="", help="an ema.pt to go on from, in the last phase")
    parser.add_argument("--debug", action="store_true", help="three steps of a tiny model with byte tokens")
    return parser.parse_args()


def open_tokenizer(args):
    if args.debug:
        return tokens.ByteTokens()
    path = f"{args.out}/tokenizer.json"
    if not os.path.exists(path):
        tokens.train(path)
    return tokens.Tokens(path)


def debug_config():
    return model.Config(vocab=320, layers=2, v_layers=1, dim=64, heads=1, kv_heads=1, v_dim=64, v_heads=1)


class Trainer:
    """The network, its drawing and its forward pass on one device."""

    def __init__(self, args, config, builder):
        self.args, self.config, self.builder = args, config, builder
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        if self.device == "cuda":
            torch.set_float32_matmul_precision("high")
        self.atlas = torch.from_numpy(drawing.glyph_atlas()).to(self.device)
        self.net = model.VisionLanguageModel(config).to(self.device)
        if args.resume:
            self.net.load_state_dict(torch.load(args.resume))
        longest = 8192 if args.debug else 2048
        self.cos, self.sin = model.rope_tables(longest, config.head_dim, config.theta, self.device)
        self.vision, self.lm, self.render = self.net.vision, self.net.lm, drawing.render
        if self.device == "cuda" and not args.no_compile:
            self.vision = torch.compile(self.net.vision)
            self.lm = torch.compile(self.net.lm, dynamic=False)
            self.render = torch.compile(drawing.render)

    def forward(self, batch):
        """Logits and targets of the labelled positions, and where those are in the flattened batch."""
        cuda = self.device == "cuda"
        ids, labels, params = (batch[key].to(self.device, non_blocking=True) for key in ("ids", "labels", "params"))
        with torch.no_grad():
            pictures = self.render(params, self.atlas) * 2 - 1
        length = ids.shape[1]
        slots = (ids.view(-1) == self.builder.image_id).nonzero().squeeze(1)
        with torch.autocast(self.device, torch.bfloat16, enabled=cuda):
            rows = self.vision(pictures.to(torch.bfloat16) if cuda else pictures).reshape(-1, self.config.dim)
            hidden = self.lm(ids, slots, rows, self.cos[:length], self.sin[:length])
        end = labels.new_full((labels.shape[0], 1), batches.NO_LABEL)
        targets = torch.cat([labels[:, 1:], end], 1).view(-1)
        selected = (targets >= 0).nonzero().squeeze(1)
        logits = hidden.reshape(-1, self.config.dim)[selected].float() @ self.net.lm.emb.weight.t()
        return logits, targets[selected], selected

    @torch.no_grad()
    def evaluate(self, state=None, names=tuple(batches.BUCKETS), repetitions=2):
        """Exact answers per bucket and kind under teacher forcing, with `state` in place of the raw weights."""
        kept = None
        if state is not None:
            kept = {name: tensor.clone() for name, tensor in self.net.state_dict().items()}
            self.net.load_state_dict(state)
        result = {}
        for name in names:
            rng = random.Random(EVALUATION_SEED)
            counts = {}
            for _ in range(repetitions):
                self.count_exact(self.builder.batch(rng, name, self.args.images), counts)
            hits, total = (sum(count[i] for count in counts.values()) for i in (0, 1))
            by_kind = {kind: round(count[0] / count[1], 3) for kind, count in sorted(counts.items())}
            result[name] = {"all": round(hits / max(1, total), 4), **by_kind}
        if kept is not None:
            self.net.load_state_dict(kept)
        return result

    def count_exact(self, batch, counts):
        """Adds to counts[kind] = [exact answers, answers]."""
        logits, targets, selected = self.forward(batch)
        right = torch.zeros(batch["ids"].numel(), dtype=torch.bool)
        right[selected.cpu()] = (logits.argmax(-1) == targets).cpu()
        right = right.view(batch["ids"].shape)
        for row, kinds in enumerate(batch["kinds"]):
            for kind, start, length in kinds:
                count = counts.setdefault(kind, [0, 0])
                count[0] += bool(right[row, start - 1:start - 1 + length].all())
                count[1] += 1

    def optimizer(self):
        """AdamW; embeddings, positions, biases and norms do not decay."""
        decay, keep = [], []
        for name, parameter in self.net.named_parameters():
            matrix = parameter.ndim >= 2 and "emb" not in name and "pos" not in name
            (decay if matrix else keep).append(parameter)
        groups = [{"params": decay, "weight_decay": 0.05}, {"params": keep, "weight_decay": 0.0}]
        options = dict(fused=True) if self.device == "cuda" else {}
        return torch.optim.AdamW(groups, lr=self.args.lr, betas=(0.9, 0.98), **options)


def learning_rate(peak, step, share):
    """200 steps of warm-up, then a cosine over the time down to 3%."""
    return peak * min(1, (step + 1) / 200) * (0.03 + 0.97 * 0.5 * (1 + math.cos(math.pi * share)))


@torch.no_grad()
def update_average(average, state, step):
    """Exponential moving average of the weights, quicker in the first 500 steps."""
    names = list(average)
    torch._foreach_lerp_([average[n] for n in names], [state[n] for n in names], 0.002 if step > 500 else 0.05)


def save(average, path):
    torch.save(average, path + ".tmp")
    os.replace(path + ".tmp", path)


def train(trainer, args):
    """The loop. Returns the averaged weights."""
    phases = [FINAL_PHASE] if args.resume else PHASES
    pin = trainer.device == "cuda"
    optimizer = trainer.optimizer()
    average = {name: tensor.detach().clone() for name, tensor in trainer.net.state_dict().items()}
    phase, seen, step, losses = 0, 0, 0, []
    stream = batches.loader(trainer.builder, phases[0][1], 1, args.images, args.workers, pin)
    start = last_log = last_save = time.time()
    while (share := (time.time() - start) / args.seconds) < 1:
        while share >= phases[phase][0]:
            phase += 1
            stream = batches.loader(trainer.builder, phases[phase][1], 100 + phase, args.images, args.workers, pin)
            print("phase", phase, phases[phase][1], flush=True)
        rate = learning_rate(args.lr, step, share)
        for group in optimizer.param_groups:
            group["lr"] = rate
        batch = next(stream)
        logits, targets, _ = trainer.forward(batch)
        loss = F.cross_entropy(logits, targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trainer.net.parameters(), 1.0)
        optimizer.step()
        step += 1
        seen += batch["params"].shape[0]
        losses.append(loss.detach())
        update_average(average, trainer.net.state_dict(), step)
        now = time.time()
        if now - last_log > LOG_SECONDS or args.debug:
            mean = torch.stack(losses).mean().item()
            print(f"t {now - start:6.0f}s step {step} phase {phase} loss {mean:.4f} lr {rate:.2e} images {seen} "
                  f"({seen / (now - start):.0f}/s) last {batch['name']}", flush=True)
            losses, last_log = [], now
        if now - last_save > SAVE_SECONDS:
            save(average, f"{args.out}/ema.pt")
            names = ("S", "M", "X") if phase else ("S",)
            print("eval", json.dumps(trainer.evaluate(names=names, repetitions=1)), flush=True)
            last_save = now
        if args.debug and step >= 3:
            break
    print("done", step, seen, flush=True)
    return average


def main():
    args = parse_arguments()
    os.makedirs(args.out, exist_ok=True)
    torch.manual_seed(0)
    tokenizer = open_tokenizer(args)
    config = debug_config() if args.debug else model.Config(vocab=max(1024, tokenizer.count))
    # Bytes need about three times the room of trained tokens.
    buckets = {k: (n, t, length * 3) for k, (n, t, length) in batches.BUCKETS.items()} if args.debug else None
    builder = batches.Builder(tokenizer, config.image_tokens, buckets)
    trainer = Trainer(args, config, builder)
    for part in ("vision", "lm"):
        count = sum(p.numel() for p in getattr(trainer.net, part).parameters())
        print(f"{part} {count / 1e6:.1f}M parameters", flush=True)
    average = train(trainer, args)
    print("final raw", json.dumps(trainer.evaluate()), flush=True)
    print("final ema", json.dumps(trainer.evaluate(average)), flush=True)
    save(average, f"{args.out}/ema.pt")
    with open(f"{args.out}/cfg.json", "w") as file:
        json.dump(dataclasses.asdict(config), file)


if __name__ == "__main__":
    main()
