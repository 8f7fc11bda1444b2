"""The byte-level BPE tokenizer, with SmolLM's pre-tokenizer: single digits, then the GPT-2 expression."""
import random
import re
import sys

import scenes

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<image>", "<fake_token_around_image>", "<global-img>",
           "<end_of_utterance>"]
TILES = [f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)]


def corpus(count=30000):
    """What is said about boards. Sign texts are left out: signs are to be read letter by letter."""
    rng = random.Random(7)
    for _ in range(count):
        boards = [scenes.sample_scene(rng) for _ in range(rng.choice((1, 1, 4, 8)))]
        for text, _, _ in scenes.conversation(boards, rng, 6):
            text = re.sub(r"<[a-z_|]+>", " ", text.replace(scenes.IMAGE_MARK, "\n\n"))
            yield re.sub(r"\b(?=[A-Z0-9]{2,4}\b)[A-Z0-9]+\b", "", text)


def train(path, vocab=1024):
    """Writes tokenizer.json with at most `vocab` tokens."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocab - len(TILES), initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  special_tokens=SPECIAL, min_frequency=2, show_progress=False)
    words = ["User", "Assistant", " please", " the", " image", " picture", " images"] * 50
    tokenizer.train_from_iterator(list(corpus()) + words + ["x\n\n", "\n\n"] * 20000, trainer)
    # Both must be one token: image prompts of other runtimes look them up by their text.
    assert len(tokenizer.encode("\n\n").ids) == 1 and len(tokenizer.encode("\n").ids) == 1
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in TILES])
    tokenizer.save(path)
    return tokenizer


class Tokens:
    """A trained tokenizer with a cache: training repeats the same few thousand sentences."""

    def __init__(self, path):
        from tokenizers import Tokenizer
        self.tokenizer = Tokenizer.from_file(path)
        self.count = self.tokenizer.get_vocab_size()
        self.cache = {}

    def id(self, text):
        return self.tokenizer.token_to_id(text)

    def encode(self, text):
        ids = self.cache.get(text)
        if ids is None:
            ids = self.tokenizer.encode(text, add_special_tokens=False).ids
            if len(self.cache) < 200000:
                self.cache[text] = ids
        return ids


class ByteTokens:
    """For `train.py --debug`: one id per special token and one per byte, nothing to train."""
    count = 320

    def id(self, text):
        return SPECIAL.index(text)

    def encode(self, text):
        ids = []
        for part in re.split("(" + "|".join(re.escape(special) for special in SPECIAL) + ")", text):
            if part in SPECIAL:
                ids.append(SPECIAL.index(part))
            else:
                ids += [len(SPECIAL) + byte for byte in part.encode()]
        return ids


if __name__ == "__main__":
    trained = train(sys.argv[1])
    print(trained.get_vocab_size(), trained.encode("<|im_start|>User:" + scenes.IMAGE_OPEN).tokens)
    print(trained.encode(" A large red circle at the top left, a sign reading 4K7 in the center.").tokens)
