"""Training batches: conversations over boards as token rows with labels, and the numbers to draw the boards."""
import random

import numpy as np
import torch

import drawing
import scenes

# name: images per row, turns of the conversation, tokens per row
BUCKETS = {"S": (1, 6, 256), "M": (4, 8, 512), "X": (8, 12, 832), "XX": (16, 16, 1472)}
NO_LABEL = -1


class Builder:
    """Builds rows with one tokenizer. A row holds whole turns only; questions carry no label, answers do."""

    def __init__(self, tokens, image_tokens, buckets=None):
        self.tokens = tokens
        self.buckets = buckets or BUCKETS
        self.image_id = tokens.id("<image>")
        self.pad_id = tokens.id("<|im_end|>")
        self.image_ids = (tokens.encode(scenes.IMAGE_OPEN) + [self.image_id] * image_tokens +
                          tokens.encode(scenes.IMAGE_CLOSE))

    def question_ids(self, question):
        """Segment by segment, as a runtime does: text before an image, the image, text after it."""
        first, *rest = question.split(scenes.IMAGE_MARK)
        ids = list(self.tokens.encode(first))
        for part in rest:
            ids += self.image_ids + self.tokens.encode(part)
        return ids

    def row(self, rng, name):
        """(ids, labels, drawing parameters, [(kind, answer start, answer length)]) of one row."""
        image_count, turns, length = self.buckets[name]
        boards = [scenes.sample_scene(rng) for _ in range(image_count)]
        ids, labels, kinds = [], [], []
        pieces = scenes.conversation(boards, rng, turns)
        for (question, _, kind), (answer, _, _) in zip(pieces[::2], pieces[1::2]):
            question_ids, answer_ids = self.question_ids(question), self.tokens.encode(answer)
            if len(ids) + len(question_ids) + len(answer_ids) > length:
                break
            kinds.append((kind, len(ids) + len(question_ids), len(answer_ids)))
            labels += [NO_LABEL] * len(question_ids) + answer_ids
            ids += question_ids + answer_ids
        pad = length - len(ids)
        params = [drawing.scene_params(board, rng) for board in boards]
        return ids + [self.pad_id] * pad, labels + [NO_LABEL] * pad, params, kinds

    def batch(self, rng, name, images):
        """Rows of one bucket with about `images` boards in all."""
        rows = [self.row(rng, name) for _ in range(max(1, images // self.buckets[name][0]))]
        ids, labels, params, kinds = zip(*rows)
        return dict(name=name, ids=torch.from_numpy(np.array(ids, np.int64)),
                    labels=torch.from_numpy(np.array(labels, np.int64)),
                    params=torch.from_numpy(np.array([p for row in params for p in row], np.float32)), kinds=kinds)


class Stream(torch.utils.data.IterableDataset):
    """Endless batches; buckets are drawn with the weights of `mix`, every worker has its own seed."""

    def __init__(self, builder, mix, seed, images):
        self.builder, self.mix, self.seed, self.images = builder, mix, seed, images

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        rng = random.Random(self.seed * 1000 + (worker.id if worker else 0))
        names, weights = list(self.mix), list(self.mix.values())
        while True:
            batch = self.builder.batch(rng, rng.choices(names, weights)[0], self.images)
            batch["kinds"] = None
            yield batch


def loader(builder, mix, seed, images, workers, pin):
    options = dict(prefetch_factor=4) if workers else {}
    return iter(torch.utils.data.DataLoader(Stream(builder, mix, seed, images), batch_size=None, num_workers=workers,
                                            pin_memory=pin, **options))
