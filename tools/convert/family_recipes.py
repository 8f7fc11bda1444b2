"""Tiny models of every family, their tokenizers, and prompts of all shapes, for make_family_goldens.py."""
import json
from dataclasses import dataclass, field

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from make_tokenizer_fixtures import CORPUS, PRE_TOKENIZERS

TEXT = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
            max_position_embeddings=4096)
QUESTION = "What is on the left?"


@dataclass
class Images:
    """Pictures of a prompt as the image processor gives them."""
    pixel_values: np.ndarray  # [views, 3, side, side]
    view_counts: list
    row_counts: list
    model_inputs: dict = field(default_factory=dict)


def train_byte_pair(pre, size):
    """(vocabulary, merges) with `size` tokens, 256 of them bytes."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = PRE_TOKENIZERS[pre]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([CORPUS], trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], [tuple(merge) for merge in model["merges"]]


class Recipe:
    """What all families have in common. Prompts are lists of turns, turns lists of texts and pictures [width, height]."""
    seed = 1
    vocabulary = 288  # embedding rows
    answer = "It is a large green star."

    def __init__(self):
        self.tokenizer = self.make_tokenizer()
        self.processor = self.make_processor()
        self.image_token = self.tokenizer.convert_tokens_to_ids(self.image_text)
        assert len(self.tokenizer) <= self.vocabulary

    def save(self, model, folder):
        model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        self.processor.save_pretrained(folder)

    def encode(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False)

    def facts(self):
        return {}

    def cases(self):
        """(name, turns, answer)"""
        answer = self.encode(self.answer) + self.encode(self.answer_end)
        for name, picture in self.pictures().items():
            yield name, [[picture, self.between + QUESTION]], []
        yield "text only", [["The quick brown fox"]], []
        pictures = list(self.pictures().values())
        yield "two pictures", [["First: ", pictures[1], " then: ", pictures[2], self.between + QUESTION]], []
        yield "picture in the second turn", [["Hello, who are you?"], [pictures[1], self.between + QUESTION]], answer
        yield "pictures in both turns", [[pictures[2], self.between + "a"], [pictures[0], self.between + "b"]], answer

    def inputs(self, turns, answer, pictures):
        """(ids of the prompt, Images or None)"""
        images = self.process(pictures) if pictures else None
        rows = iter(images.row_counts if images else [])
        blocks = [["".join(part if isinstance(part, str) else self.picture_text(next(rows)) for part in turn)]
                  for turn in turns]
        ids = self.encode(self.prompt_start + self.user_first + blocks[0][0] + self.user_close)
        for block in blocks[1:]:
            ids += answer + self.encode(self.user_later + block[0] + self.user_close)
        return ids, images

    def picture_text(self, rows):
        return self.image_text * rows


class ChatMl(Recipe):
    prompt_start = ""
    user_first = "<|im_start|>user\n"
    user_later = "\n<|im_start|>user\n"
    user_close = "<|im_end|>\n<|im_start|>assistant\n"
    answer_end = "<|im_end|>"
    template = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + "
                "'<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}"
                "{% endif %}")


class InternVl(ChatMl):
    image_text = "<IMG_CONTEXT>"
    between = "\n"
    specials = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<img>", "</img>", "<IMG_CONTEXT>", "<quad>", "</quad>",
                "<ref>", "</ref>", "<box>", "</box>")
    side, patch, max_tiles = 28, 7, 6
    text_type = "qwen2"
    vision = {}
    tied = False

    def make_tokenizer(self):
        vocabulary, merges = train_byte_pair("qwen2", 272)
        tokenizer = transformers.Qwen2Tokenizer(vocab=vocabulary, merges=merges, eos_token="<|im_end|>",
                                                pad_token="<|endoftext|>", unk_token=None)
        tokenizer.add_tokens([transformers.AddedToken(text, special=True) for text in self.specials])
        tokenizer.chat_template = self.template
        return tokenizer

    def make_processor(self):
        size = {"height": self.side, "width": self.side}
        mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
        return transformers.GotOcr2ImageProcessorPil(size=size, crop_to_patches=True, min_patches=1, image_mean=mean,
                                                     max_patches=self.max_tiles, image_std=std)

    def text_config(self):
        kinds = {"qwen2": transformers.Qwen2Config}
        return kinds[self.text_type](**TEXT, vocab_size=self.vocabulary, rope_theta=1e6, rms_norm_eps=1e-6,
                                     tie_word_embeddings=self.tied)

    def model(self):
        vision = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
                      image_size=self.side, patch_size=self.patch, attention_bias=True)
        config = transformers.InternVLConfig(
            vision_config={**vision, **self.vision}, text_config=self.text_config().to_dict(),
            image_token_id=self.image_token, image_seq_length=4, tie_word_embeddings=self.tied)
        config._attn_implementation = "eager"
        return transformers.InternVLForConditionalGeneration(config)

    def facts(self):
        return {"max_tiles": self.max_tiles}

    def pictures(self):
        return {"native": [28, 28], "wide": [60, 28], "tall": [30, 93], "tiny": [5, 3], "one pixel": [1, 1],
                "over the limit": [431, 57], "camera": [640, 480], "large square": [41, 41], "small square": [39, 39]}

    def process(self, pictures):
        out = self.processor(pictures, return_tensors="np")
        counts = [int(count) for count in out["num_patches"]]
        values = np.asarray(out["pixel_values"], dtype=np.float32)
        return Images(values, counts, [4 * count for count in counts], {"pixel_values": torch.from_numpy(values)})

    def picture_text(self, rows):
        return "<img>" + self.image_text * rows + "</img>"

    def rows(self, model, images):
        out = model.model.get_image_features(images.model_inputs["pixel_values"], vision_feature_layer=-1,
                                             vision_feature_select_strategy="default", return_dict=True)
        return out.last_hidden_state[:, 1:], out.pooler_output


class InternVl3(InternVl):
    seed = 3
    tied = True


RECIPES = {"internvl3": InternVl3}
