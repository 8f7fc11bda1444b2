"""The exported model in float32 PyTorch on the CPU, read without transformers, safetensors or tokenizers.

Its tokenizer is written out here on purpose: parity tests compare a runtime with something that shares no code with it.
"""
import json
import re
import struct

import numpy as np
import torch
from PIL import Image

import hf_names
import model
import scenes

MAX_TOKENS = 4096
WORDS = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+")


def read_safetensors(path):
    """{name: float32 tensor} of a file of F16 and F32 tensors."""
    dtypes = {"F16": np.float16, "F32": np.float32}
    with open(path, "rb") as file:
        header_bytes = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(header_bytes))
        header.pop("__metadata__", None)
        data = file.read()
    out = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        array = np.frombuffer(data[begin:end], dtypes[entry["dtype"]]).reshape(entry["shape"])
        out[name] = torch.from_numpy(array.astype(np.float32))
    return out


def byte_characters():
    """The printable character that byte-level BPE uses for each byte."""
    printable = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    table = {byte: chr(byte) for byte in printable}
    for byte in range(256):
        if byte not in table:
            table[byte] = chr(256 + len(table) - len(printable))
    return table


class ReferenceTokens:
    """Byte-level BPE with single digits; ASCII classes only, enough for what is said about boards."""

    def __init__(self, path):
        with open(path) as file:
            content = json.load(file)
        self.vocab = content["model"]["vocab"]
        merges = content["model"]["merges"]
        self.ranks = {tuple(m.split(" ") if isinstance(m, str) else m): rank for rank, m in enumerate(merges)}
        self.special = {added["content"]: added["id"] for added in content["added_tokens"]}
        longest_first = sorted(self.special, key=len, reverse=True)
        self.special_pattern = re.compile("(" + "|".join(re.escape(text) for text in longest_first) + ")")
        self.characters = byte_characters()
        self.bytes = {character: byte for byte, character in self.characters.items()}
        self.texts = {i: text for text, i in self.vocab.items()}

    def word_ids(self, word):
        parts = list(word)
        while len(parts) > 1:
            ranks = [self.ranks.get(pair, 1 << 30) for pair in zip(parts, parts[1:])]
            best = min(range(len(ranks)), key=ranks.__getitem__)
            if ranks[best] == 1 << 30:
                break
            parts[best:best + 2] = [parts[best] + parts[best + 1]]
        return [self.vocab[part] for part in parts]

    def encode(self, text):
        ids = []
        for part in self.special_pattern.split(text):
            if part in self.special:
                ids.append(self.special[part])
                continue
            for piece in re.split(r"(\d)", part):
                for word in WORDS.findall(piece):
                    ids += self.word_ids("".join(self.characters[byte] for byte in word.encode()))
        return ids

    def decode(self, ids):
        special = set(self.special.values())
        texts = (self.texts[i] for i in ids if i in self.texts and i not in special)
        return bytes(self.bytes[character] for text in texts for character in text).decode("utf8", "replace")


class Reference:
    """Model and tokenizer of a Hugging Face folder written by export.py."""

    def __init__(self, folder):
        with open(f"{folder}/config.json") as file:
            vocab = json.load(file)["text_config"]["vocab_size"]
        self.config = model.Config(vocab=vocab)
        self.net = model.VisionLanguageModel(self.config).eval()
        self.net.load_state_dict(hf_names.from_hf(read_safetensors(f"{folder}/model.safetensors"), self.config))
        self.tokens = ReferenceTokens(f"{folder}/tokenizer.json")
        self.image_id = self.tokens.special["<image>"]
        self.end_id = self.tokens.special["<end_of_utterance>"]
        self.cos, self.sin = model.rope_tables(MAX_TOKENS, self.config.head_dim, self.config.theta, "cpu")

    @torch.no_grad()
    def image_rows(self, path):
        """[image_tokens, dim] of one 256x256 picture."""
        pixels = torch.from_numpy(np.asarray(Image.open(path).convert("RGB"), np.float32))
        return self.net.vision(pixels.permute(2, 0, 1)[None] / 255 * 2 - 1)[0]

    def prompt_ids(self, prompt):
        """The chat template around a prompt in which '<image>' stands for an image."""
        encode = self.tokens.encode
        image = encode(scenes.IMAGE_OPEN) + [self.image_id] * self.config.image_tokens + encode(scenes.IMAGE_CLOSE)
        first, *rest = prompt.split("<image>")
        ids = encode("<|im_start|>") + encode("User: ") + encode(first)
        for part in rest:
            ids += image + encode(part)
        return ids + encode("<end_of_utterance>") + encode("\nAssistant:")

    @torch.no_grad()
    def logits(self, ids, image_rows):
        """[tokens, vocab] for the whole row of ids."""
        row = torch.tensor([ids])
        slots = (row.view(-1) == self.image_id).nonzero().squeeze(1)
        hidden = self.net.lm(row, slots, image_rows, self.cos[:len(ids)], self.sin[:len(ids)])
        return (hidden @ self.net.lm.emb.weight.t())[0]
