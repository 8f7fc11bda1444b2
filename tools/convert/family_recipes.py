"""Tiny models of every family, their tokenizers, and prompts of all shapes, for make_family_goldens.py."""
import io
import json
import tempfile
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import sentencepiece
import torch
import transformers
from PIL import Image
from safetensors.torch import save_file
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from transformers.models.llava_next.modeling_llava_next import image_size_to_num_patches
from transformers.models.qwen2_vl.image_processing_qwen2_vl import smart_resize as resize_picture
from transformers.models.qwen3_vl.video_processing_qwen3_vl import smart_resize as resize_video
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import get_vision_window_index
from transformers.models.smolvlm.processing_smolvlm import DEFAULT_CHAT_TEMPLATE, get_image_prompt_string

from make_tokenizer_fixtures import CORPUS, PRE_TOKENIZERS, train_spaced_pair

# A family's files are checked in: rows are as short as they get, and heads have a length of their own where they may.
TEXT = dict(hidden_size=16, intermediate_size=40, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
            max_position_embeddings=4096)
WIDE_TEXT = {**TEXT, "hidden_size": 32}  # where heads share the row
QUESTION = "What is on the left?"


@dataclass
class Images:
    """Pictures of a prompt as the image processor gives them."""
    pixel_values: list  # of each view [3, height, width]
    view_counts: list
    row_counts: list
    model_inputs: dict = field(default_factory=dict)
    patches: tuple = ()  # views of any size: the tower's input, all in the order of the prompt, and their grids


def train_byte_pair(pre, size):
    """(vocabulary, merges) with `size` tokens, 256 of them bytes."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = PRE_TOKENIZERS[pre]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([CORPUS], trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], [tuple(merge) for merge in model["merges"]]


def make_byte_level(pre, specials, start=None, ignore_merges=False, **options):
    """A fast tokenizer of byte pairs. `start`: the special token before every text."""
    vocabulary, merges = train_byte_pair(pre, 272)
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = PRE_TOKENIZERS[pre]
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(special_tokens(specials))
    if start:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{start} $A", special_tokens=[(start, tokenizer.token_to_id(start))])
        options["bos_token"] = start
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **options)


def train_sentence_piece(size, **options):
    """A tokenizer.model with `size` pieces, 256 of them bytes."""
    lines = [line for line in CORPUS.splitlines() if line.isascii()]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, model_type="bpe", vocab_size=size, byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True, minloglevel=2,
        **options)
    return model.getvalue()


def open_sentence_piece(pieces, **options):
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "tokenizer.model").write_bytes(pieces)
        # "legacy": a space before every text that follows a special token, as the original code has it
        return transformers.LlamaTokenizer.from_pretrained(folder, legacy=True, add_bos_token=True, **options)


def special_tokens(texts):
    return [transformers.AddedToken(text, special=True, normalized=False) for text in texts]


def make_qwen_tokenizer(specials, template):
    vocabulary, merges = train_byte_pair("qwen2", 272)
    tokenizer = transformers.Qwen2Tokenizer(vocab=vocabulary, merges=merges, eos_token="<|im_end|>",
                                            pad_token="<|endoftext|>", unk_token=None)
    tokenizer.add_tokens(special_tokens(specials))
    tokenizer.chat_template = template
    return tokenizer


class Recipe:
    """What all families have in common. A turn is a list of texts and pictures [width, height]."""
    seed = 1
    answer = "It is a large green star."
    system = ""  # text before the first turn
    between = "\n"  # a picture and the question about it
    full_cases = True  # False: another family has pictures of all sizes before the same tower
    model_of = mmproj_of = None  # the family that has the same file
    title = None  # of its files, if not the family's name or that of the one with the same file

    def __init__(self):
        self.tokenizer = self.make_tokenizer()
        self.processor = self.make_processor()
        self.image_token = self.tokenizer.convert_tokens_to_ids(self.image_text)
        self.row_tokens = {self.image_token}
        self.vocabulary = (len(self.tokenizer) + 7) // 8 * 8  # embedding rows, some of them unused

    def save(self, model, folder):
        model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        self.processor.save_pretrained(folder)

    def encode(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False)

    def facts(self):
        return {}

    def norm_mean(self, name):
        """Mean of the weights of a norm."""
        return 1

    def finish(self, model):
        """Sets what are no parameters."""

    def normaliser(self):
        """What has the image_mean and image_std of the tower's pixels."""
        return self.processor

    def deepstack_rows(self, model, images):
        """[rows of pictures, D] for each of the first layers of the text model that adds some."""
        return []

    def cases(self):
        """(name, turns) or (name, turns, what prompt() takes beside turns)"""
        sizes = self.pictures()
        pictures = list(sizes.values())
        for name, picture in sizes.items() if self.full_cases else [("wide", pictures[1])]:
            yield name, [[picture, self.between + QUESTION]]
        yield "text only", [["The quick brown fox"]]
        yield "two pictures", [["First: ", pictures[1], "then: ", pictures[2], self.between + QUESTION]]
        yield "picture in the second turn", [["Hello, who are you?"], [pictures[1], self.between + QUESTION]]
        if self.full_cases:
            yield "pictures in both turns", [[pictures[2], self.between + "a"], [pictures[0], self.between + "b"]]

    def opening(self):
        return self.system + " " if self.system else ""

    def prompt(self, turns):
        """Texts, pictures and the ids of the answer to the first turn, in which no turns are left."""
        parts = [self.opening() + self.user_first, *turns[0], self.user_close]
        for turn in turns[1:]:
            said = self.encode(self.answer) + self.encode(self.answer_end)
            parts += [{"ids": said}, self.user_later, *turn, self.user_close]
        joined = []
        for part in parts:
            if isinstance(part, str) and joined and isinstance(joined[-1], str):
                joined[-1] += part
            else:
                joined.append(part)
        return joined

    def inputs(self, prompt, pictures):
        """(ids of the prompt, Images or None)"""
        images = self.process(pictures) if pictures else None
        rows = iter(images.row_counts if images else [])
        ids = [self.tokenizer.bos_token_id] if self.adds_bos else []
        text = ""
        for part in prompt + [{"ids": []}]:
            if not isinstance(part, dict):
                text += part if isinstance(part, str) else self.picture_text(next(rows))
                continue
            ids += (self.encode(text) if text else []) + part["ids"]
            text = ""
        return ids, images

    def picture_text(self, rows):
        return self.image_text * rows


class ChatMl(Recipe):
    adds_bos = False
    user_first = "<|im_start|>user\n"
    user_later = "\n<|im_start|>user\n"
    user_close = "<|im_end|>\n<|im_start|>assistant\n"
    answer_end = "<|im_end|>"
    template = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + "
                "'<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}"
                "{% endif %}")


class InternVl(ChatMl):
    image_text = "<IMG_CONTEXT>"
    specials = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<img>", "</img>", "<IMG_CONTEXT>", "<quad>", "</quad>",
                "<ref>", "</ref>", "<box>", "</box>")
    side, patch, max_tiles = 28, 7, 6
    vision = {}
    tied = False

    def make_tokenizer(self):
        return make_qwen_tokenizer(self.specials, self.template)

    def make_processor(self):
        size = {"height": self.side, "width": self.side}
        mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
        return transformers.GotOcr2ImageProcessorPil(size=size, crop_to_patches=True, min_patches=1, image_mean=mean,
                                                     max_patches=self.max_tiles, image_std=std)

    def text_config(self):
        return transformers.Qwen2Config(**WIDE_TEXT, vocab_size=self.vocabulary, rope_theta=1e6, rms_norm_eps=1e-6,
                                        tie_word_embeddings=self.tied)

    def model(self):
        vision = dict(hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=2,
                      image_size=self.side, patch_size=self.patch, attention_bias=True)
        config = transformers.InternVLConfig(
            vision_config={**vision, **self.vision}, text_config=self.text_config().to_dict(),
            image_token_id=self.image_token, image_seq_length=4, tie_word_embeddings=self.tied)
        config._attn_implementation = "eager"
        return transformers.InternVLForConditionalGeneration(config)

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
    seed = 9
    tied = True


class InternVl35(InternVl):
    """Before Qwen3, whose heads are wider than its rows."""
    seed = 2
    tied = True
    full_cases = False
    mmproj_of = "internvl3"

    def text_config(self):
        return transformers.Qwen3Config(**WIDE_TEXT, head_dim=32, vocab_size=self.vocabulary, rope_theta=1e6,
                                        rms_norm_eps=1e-6, tie_word_embeddings=self.tied)


class InternVl6B(InternVl):
    """The large tower: RMS norms, also of whole queries and keys, and no biases there. The vocabulary in files that
    came before tokenizer.json."""
    seed = 9
    tied = True
    full_cases = False
    model_of = "internvl3"
    vision = dict(attention_bias=False, use_qk_norm=True, norm_type="rms_norm")

    def save(self, model, folder):
        super().save(model, folder)
        tokenizer = json.loads((folder / "tokenizer.json").read_text())
        (folder / "tokenizer.json").unlink()
        (folder / "vocab.json").write_text(json.dumps(tokenizer["model"]["vocab"]))
        merges = [" ".join(merge) for merge in tokenizer["model"]["merges"]]
        (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges, ""]), encoding="utf-8")
        path = folder / "tokenizer_config.json"
        decoder = {added["id"]: added for added in tokenizer["added_tokens"]}
        path.write_text(json.dumps({**json.loads(path.read_text()), "added_tokens_decoder": decoder}))


class InternVl25(InternVl):
    """Before InternLM2, which transformers has not: its arithmetic is that of llama. Saved in OpenGVLab's layout."""
    seed = 3
    adds_bos = True
    full_cases = False
    mmproj_of = "internvl3"
    specials = ("<|im_start|>", "<|im_end|>", "<img>", "</img>", "<IMG_CONTEXT>")
    text = dict(rope_theta=1e6, rms_norm_eps=1e-5)
    # In the order in which they are tried.
    renamed = {
        "model.vision_tower.embeddings.cls_token": "vision_model.embeddings.class_embedding",
        "model.vision_tower.embeddings.position_embeddings": "vision_model.embeddings.position_embedding",
        "model.vision_tower.embeddings.patch_embeddings.projection": "vision_model.embeddings.patch_embedding",
        "model.vision_tower.encoder.layer": "vision_model.encoder.layers",
        "layernorm_before": "norm1", "layernorm_after": "norm2", "lambda_": "ls",
        "attention.projection_layer": "attn.proj", "model.multi_modal_projector.layer_norm": "mlp1.0",
        "model.multi_modal_projector.linear_1": "mlp1.1", "model.multi_modal_projector.linear_2": "mlp1.3",
        "model.language_model.": "language_model.model.", "embed_tokens": "tok_embeddings",
        "lm_head": "language_model.output", "input_layernorm": "attention_norm", "post_attention_layernorm": "ffn_norm",
        "self_attn.o_proj": "attention.wo", "mlp.gate_proj": "feed_forward.w1", "mlp.up_proj": "feed_forward.w3",
        "mlp.down_proj": "feed_forward.w2",
    }

    def make_tokenizer(self):
        """With the two oddities of InternLM2's: a piece of the byte 0, and pieces that stand for nothing."""
        trained = sentencepiece_model_pb2.ModelProto.FromString(train_sentence_piece(336, add_dummy_prefix=False))
        for text in ("\0", "[UNUSED_TOKEN_1]"):
            trained.pieces.add(piece=text, score=-1000.0)
        self.pieces = trained.SerializeToString()
        tokenizer = open_sentence_piece(self.pieces, add_prefix_space=False)
        tokenizer.add_tokens(special_tokens(self.specials))
        return tokenizer

    def text_config(self):
        return transformers.LlamaConfig(**WIDE_TEXT, **self.text, vocab_size=self.vocabulary, tie_word_embeddings=False)

    def own_tensors(self, model):
        """The tensors under OpenGVLab's names, queries, keys and values joined as there."""
        tensors = {}
        for name, tensor in model.state_dict().items():
            for theirs, own in self.renamed.items():
                name = name.replace(theirs, own)
            tensors[name] = tensor
        for layer in range(TEXT["num_hidden_layers"]):
            prefix = f"language_model.model.layers.{layer}."
            parts = [tensors.pop(f"{prefix}self_attn.{part}_proj.weight") for part in "qkv"]
            groups = [part.reshape(TEXT["num_key_value_heads"], -1, 16, part.shape[1]) for part in parts]
            tensors[prefix + "attention.wqkv.weight"] = torch.cat(groups, 1).reshape(-1, parts[0].shape[1])
        for layer in range(model.config.vision_config.num_hidden_layers):
            prefix = f"vision_model.encoder.layers.{layer}."
            for kind in ("weight", "bias"):
                parts = [tensors.pop(f"{prefix}attention.{part}_proj.{kind}") for part in "qkv"]
                tensors[f"{prefix}attn.qkv.{kind}"] = torch.cat(parts)
        return tensors

    def save(self, model, folder):
        vision, text = model.config.vision_config.to_dict(), {**WIDE_TEXT, **self.text}
        own_text = {**text, "model_type": "internlm2", "vocab_size": self.vocabulary, "bias": False,
                    "rope_scaling": {"type": "dynamic", "factor": 2.0}, "tie_word_embeddings": False}
        own_vision = {**vision, "model_type": "intern_vit_6b", "image_size": self.side, "patch_size": self.patch}
        config = {"model_type": "internvl_chat", "llm_config": own_text, "vision_config": own_vision,
                  "select_layer": -1, "downsample_ratio": 0.5, "min_dynamic_patch": 1,
                  "max_dynamic_patch": self.max_tiles}
        ids = {text: self.tokenizer.convert_tokens_to_ids(text) for text in self.specials}
        decoder = {i: {"content": text, "special": True} for text, i in ids.items()}
        files = {"config": config, "added_tokens": ids,
                 "tokenizer_config": {"added_tokens_decoder": decoder, "bos_token": "<s>", "eos_token": "</s>",
                                      "add_bos_token": True, "chat_template": self.template},
                 "preprocessor_config": {key: getattr(self.processor, key) for key in ("image_mean", "image_std")}}
        for name, content in files.items():
            (folder / f"{name}.json").write_text(json.dumps(content))
        (folder / "tokenizer.model").write_bytes(self.pieces)
        save_file({name: tensor.contiguous() for name, tensor in self.own_tensors(model).items()},
                  folder / "model.safetensors")


class Llava(Recipe):
    """The tower and the tokenizer of LLaVA."""
    title = "llava"
    adds_bos = True
    image_text = "<image>"
    answer_end = "</s>"
    has_tokenizer_model = False  # only what transformers made of it
    side, patch = 28, 7
    text_config = transformers.LlamaConfig
    text = {}
    tied = False

    def make_tokenizer(self):
        self.pieces = train_sentence_piece(336)
        tokenizer = open_sentence_piece(self.pieces)
        tokenizer.add_tokens(special_tokens(["<image>", "<pad>"]))
        tokenizer.chat_template = self.template
        return tokenizer

    def save(self, model, folder):
        super().save(model, folder)
        if self.has_tokenizer_model:
            (folder / "tokenizer.model").write_bytes(self.pieces)

    def configs(self):
        vision = transformers.CLIPVisionConfig(hidden_size=32, intermediate_size=40, num_hidden_layers=3,
                                               num_attention_heads=2, image_size=self.side, patch_size=self.patch)
        text = self.text_config(**{**WIDE_TEXT, **self.text}, vocab_size=self.vocabulary, tie_word_embeddings=self.tied)
        return dict(vision_config=vision.to_dict(), text_config=text.to_dict(), image_token_index=self.image_token,
                    vision_feature_layer=-2, tie_word_embeddings=self.tied)


class LlavaNext(Llava):
    pinpoints = [[28, 56], [56, 28], [56, 56], [84, 28], [28, 84]]

    def make_processor(self):
        size = {"height": self.side, "width": self.side}
        return transformers.LlavaNextImageProcessorPil(size={"shortest_edge": self.side}, crop_size=size,
                                                       image_grid_pinpoints=self.pinpoints)

    def model(self):
        config = transformers.LlavaNextConfig(image_grid_pinpoints=self.pinpoints, **self.configs())
        config._attn_implementation = "eager"
        return transformers.LlavaNextForConditionalGeneration(config)

    def pictures(self):
        return {"native": [28, 28], "wide": [100, 41], "tall": [41, 100], "square": [57, 56], "tiny": [5, 3],
                "one pixel": [1, 1], "over the limit": [640, 480], "line": [300, 20], "column": [20, 301]}

    def process(self, pictures):
        out = self.processor(pictures, return_tensors="np")
        sizes = [[int(side) for side in size] for size in out["image_sizes"]]
        counts = [image_size_to_num_patches(size, self.pinpoints, self.side) for size in sizes]
        padded = np.asarray(out["pixel_values"], dtype=np.float32)
        views = np.concatenate([values[:count] for values, count in zip(padded, counts)])
        images = Images(views, counts, [], {"pixel_values": torch.from_numpy(padded),
                                            "image_sizes": torch.tensor(sizes)})
        images.row_counts = [self.row_count(*size) for size in sizes]
        return images

    def row_count(self, height, width):
        processor = transformers.LlavaNextProcessor(self.processor, self.tokenizer, patch_size=self.patch,
                                                    vision_feature_select_strategy="default",
                                                    num_additional_image_tokens=1)
        return processor._get_num_multimodal_tokens([[height, width]])["num_image_tokens"][0]

    def rows(self, model, images):
        out = model.model.get_image_features(**images.model_inputs, vision_feature_layer=-2,
                                             vision_feature_select_strategy="default", return_dict=True)
        return out.hidden_states[-2][:, 1:], torch.cat(list(out.pooler_output))


class LlavaNextMistral(LlavaNext):
    """Behind Mistral-7B-Instruct."""
    seed = 3
    tied = True
    has_tokenizer_model = True
    user_first = "[INST] "
    user_later = "[INST] "
    user_close = " [/INST]"
    template = ("{{ bos_token }}{% for message in messages %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
                "{% endfor %}")
    text_config = transformers.MistralConfig
    text = {"rope_theta": 1e6, "sliding_window": None, "rms_norm_eps": 1e-5}


class Vicuna:
    """What is said around turns, and no tokens for it."""
    user_first = "USER: "
    user_later = "USER: "
    user_close = " ASSISTANT:"
    template = ("{% for message in messages %}{{ message['role'].upper() + ': ' + message['content'] + ' ' }}"
                "{% endfor %}{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}")


class LlavaNextVicuna(Vicuna, LlavaNext):
    system = "A chat between a curious human and an artificial intelligence assistant."
    full_cases = False
    model_of, mmproj_of = "llava-1.5", "llava-1.6-mistral"
    seed = 5
    tied = True


class Llava15(Vicuna, Llava):
    """Pictures are padded to squares, as LLaVA was trained; the files of llava-hf crop them instead."""
    seed = 5
    tied = True

    def make_processor(self):
        size = {"height": self.side, "width": self.side}
        return transformers.LlavaImageProcessorPil(size={"shortest_edge": self.side}, crop_size=size, do_pad=True)

    def model(self):
        config = transformers.LlavaConfig(**self.configs())
        config._attn_implementation = "eager"
        return transformers.LlavaForConditionalGeneration(config)

    def pictures(self):
        return {"native": [28, 28], "wide": [100, 41], "tall": [41, 100], "tiny": [5, 3], "one pixel": [1, 1],
                "over the limit": [640, 480], "line": [300, 20]}

    def process(self, pictures):
        values = np.asarray(self.processor(pictures, return_tensors="np")["pixel_values"], dtype=np.float32)
        rows = (self.side // self.patch) ** 2
        return Images(values, [1] * len(pictures), [rows] * len(pictures), {"pixel_values": torch.from_numpy(values)})

    def rows(self, model, images):
        out = model.model.get_image_features(**images.model_inputs, vision_feature_layer=-2,
                                             vision_feature_select_strategy="default", return_dict=True)
        return out.hidden_states[-2][:, 1:], torch.cat(list(out.pooler_output))


def clip(width, height, *seconds, length=None):
    """A clip, whose frames are different parts of one picture."""
    return {"seconds": length or seconds[-1], "frames": [[second, width, height, 40 * i]
                                                         for i, second in enumerate(seconds)]}


class QwenVl(ChatMl):
    """Pictures of any size, cut into patches [height, width], which pixel_values hold in the order of merge blocks: the
    four patches of a row one after the other, each [3, 2 frames, patch, patch], blocks row by row. Rows of the tower are
    in this order, too. A clip is {"seconds": its length, "frames": [second, width, height, shift] each}; in a prompt
    its words are text, and its pairs of frames are pictures [[width, height, shift], ...], the last one of an odd number a
    pair with itself."""
    seed = 14
    between = ""
    image_text = "<|image_pad|>"
    specials = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
                "<|image_pad|>", "<|video_pad|>")
    least_rows, most_rows, least_frame_rows = 4, 64, 4
    mean, std = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]

    def __init__(self):
        super().__init__()
        self.frame_processor = self.make_processor(self.least_frame_rows)
        self.video_token = self.tokenizer.convert_tokens_to_ids("<|video_pad|>")
        self.row_tokens.add(self.video_token)

    def make_tokenizer(self):
        return make_qwen_tokenizer(self.specials, self.template)

    def make_processor(self, least_rows=None):
        pixels = (2 * self.patch) ** 2  # of a row
        size = {"shortest_edge": (least_rows or self.least_rows) * pixels, "longest_edge": self.most_rows * pixels}
        return transformers.Qwen2VLImageProcessorPil(size=size, patch_size=self.patch, image_mean=self.mean,
                                                     image_std=self.std)

    def build(self, config_class, model_class, vision, text, tied=True):
        ids = {f"{name}_token_id": self.tokenizer.convert_tokens_to_ids(f"<|{token}|>") for name, token in
               [("image", "image_pad"), ("video", "video_pad"), ("vision_start", "vision_start"),
                ("vision_end", "vision_end")]}
        text = {**WIDE_TEXT, "vocab_size": self.vocabulary, "rms_norm_eps": 1e-6, **text}
        config = config_class(vision_config=vision, text_config=text, tie_word_embeddings=tied, **ids)
        config._attn_implementation = "eager"
        return model_class(config)

    def facts(self):
        return {"most_rows": self.most_rows}

    def process(self, pictures):
        """A picture is an image, or a tuple of one or two frames of a clip."""
        planes, kinds, rows = [], {"image": [], "video": []}, []
        for picture in pictures:
            kind = "video" if isinstance(picture, tuple) else "image"
            frames = [self.cut_patches(frame, kind) for frame in (picture if kind == "video" else (picture,))]
            patches, (height, width) = frames[0]
            planes += [self.unfold(frame.numpy(), height, width) for frame, _ in frames]
            if len(frames) > 1:
                patches = torch.where(self.is_second_frame(), frames[1][0], patches)
            kinds[kind].append((patches, [1, height, width]))
            rows.append((kind, height * width // 4, patches, [1, height, width]))
        inputs = {}
        for kind, values in (("image", "pixel_values"), ("video", "pixel_values_videos")):
            if kinds[kind]:
                inputs[values] = torch.cat([patches for patches, _ in kinds[kind]])
                inputs[f"{kind}_grid_thw"] = torch.tensor([grid for _, grid in kinds[kind]])
        in_order = torch.cat([row[2] for row in rows]), torch.tensor([row[3] for row in rows])
        return Images(planes, [1] * len(rows), [row[:2] for row in rows], inputs, in_order)

    def cut_patches(self, picture, kind):
        """The patches of a picture, which is both frames of a pair, and their grid."""
        processor = self.processor if kind == "image" else self.frame_processor
        out = processor([picture], return_tensors="pt")
        return out["pixel_values"], out["image_grid_thw"][0, 1:].tolist()

    def is_second_frame(self):
        return torch.arange(3 * 2 * self.patch ** 2) // self.patch ** 2 % 2 == 1

    def unfold(self, patches, height, width):
        """The picture [3, height, width] of its patches, whose two frames are the same."""
        blocks = patches.reshape(height // 2, width // 2, 2, 2, 3, 2, self.patch, self.patch)[:, :, :, :, :, 0]
        planes = blocks.transpose(4, 0, 2, 5, 1, 3, 6)
        return planes.reshape(3, height * self.patch, width * self.patch)

    def inputs(self, prompt, pictures):
        ids, images = super().inputs(prompt, pictures)
        if images:
            types = {self.image_token: 1, self.video_token: 2}
            images.model_inputs["mm_token_type_ids"] = torch.tensor([[types.get(i, 0) for i in ids]])
        return ids, images

    def cases(self):
        yield from super().cases()
        yield from self.clips()

    def prompt(self, turns):
        parts = [[piece for part in turn for piece in (self.describe(part) if isinstance(part, dict) else [part])]
                 for turn in turns]
        return super().prompt(parts)

    def describe(self, video):
        """The pairs of a clip, and the words before them."""
        seconds, frames = zip(*((frame[0], frame[1:]) for frame in video["frames"]))
        self.check_size(*frames[0][:2], len(frames))
        pairs = [list(frames[i:i + 2]) for i in range(0, len(frames), 2)]
        self.seconds_per_pair = 2 * video["seconds"] / len(frames)
        words = self.words_between(seconds)
        assert len(words) == len(pairs)
        return [part for word, pair in zip(words, pairs) for part in (word, pair) if part]

    def picture_text(self, rows):
        kind, count = rows
        return "<|vision_start|>" + f"<|{kind}_pad|>" * count + "<|vision_end|>"

    def vision_output(self, model, images):
        patches, grids = images.patches
        return model.model.visual(patches, grid_thw=grids, return_dict=True)

    def rows(self, model, images):
        out = self.vision_output(model, images)
        return out.last_hidden_state, out.pooler_output


class Qwen3Vl(QwenVl):
    """A table of 8 x 8 positions, which grids are smaller and larger than. Rows of the layers 0 and 2 of the tower join
    the first two layers of the text model."""
    seed = 31
    patch = 8
    least_frame_rows = 1
    mean = std = [0.5, 0.5, 0.5]

    def model(self):
        vision = dict(hidden_size=16, intermediate_size=40, depth=4, num_heads=2, patch_size=self.patch,
                      num_position_embeddings=64, deepstack_visual_indexes=[0, 2],
                      out_hidden_size=TEXT["hidden_size"])
        rope = {"rope_type": "default", "rope_theta": 5e6, "mrope_section": [6, 5, 5], "mrope_interleaved": True}
        text = dict(TEXT, num_hidden_layers=4, head_dim=32, rope_parameters=rope)
        return self.build(transformers.Qwen3VLConfig, transformers.Qwen3VLForConditionalGeneration, vision, text)

    def pictures(self):
        return {"native": [64, 64], "wide": [100, 40], "tall": [30, 93], "tiny": [5, 3], "one pixel": [1, 1],
                "half to even": [72, 56], "over the limit": [431, 57], "camera": [640, 480], "line": [300, 5]}

    def clips(self):
        yield "clip", [[clip(100, 40, 0, 0.5, 1, 1.5), QUESTION]]
        yield "clip with one frame missing", [[clip(30, 93, 0.3, 0.84, 2.25, 3, 61.7), QUESTION]]
        yield "one frame", [[clip(56, 40, 0.25), QUESTION]]
        yield "large frames and a picture", [[clip(640, 480, 0, 0.5), [100, 40], QUESTION]]
        yield "clip in the second turn", [["Hello, who are you?"], [clip(24, 17, 100.04, 100.07, 3600), QUESTION]]

    def words_between(self, seconds):
        """The words of transformers' processor before each pair."""
        published = transformers.Qwen3VLProcessor
        marks = {"vision_start_token": "<|vision_start|>", "video_token": "<|video_pad|>",
                 "vision_end_token": "<|vision_end|>",
                 "_calculate_timestamps": partial(published._calculate_timestamps, None),
                 "video_processor": SimpleNamespace(merge_size=2, temporal_patch_size=2)}
        inputs = {"video_grid_thw": np.array([[(len(seconds) + 1) // 2, 2, 2]]),
                  "video_metadata": [SimpleNamespace(fps=1, frames_indices=list(seconds))]}
        text = published.replace_video_token(SimpleNamespace(**marks), inputs, 0)
        words = text.split(self.picture_text(("video", 1)))
        assert not words[-1]
        return words[:-1]

    def check_size(self, width, height, count):
        """Frames have the size that the published code gives them under the bounds of the frame processor."""
        side, count = 2 * self.patch, count + count % 2
        bounds = {"min_pixels": count * side ** 2, "max_pixels": count * self.most_rows * side ** 2}
        size = resize_video(count, height, width, 2, side, **bounds)
        assert size == resize_picture(height, width, side, side ** 2, self.most_rows * side ** 2)

    def deepstack_rows(self, model, images):
        return self.vision_output(model, images).deepstack_features


class Qwen25Vl(QwenVl):
    """Layers 0 and 2 of the tower attend inside windows of 4 x 4 rows, the others to the whole picture."""
    patch = 7
    model_of = "qwen2-vl"
    system = "You are a helpful assistant."

    def opening(self):
        return f"<|im_start|>system\n{self.system}<|im_end|>\n"

    def clips(self):
        """Short ones: transformers has the text after longer ones at other positions than Qwen's own code."""
        yield "clip", [[clip(126, 70, 0, 1, 2, 3, length=4), QUESTION]]
        yield "clip with one frame missing", [[clip(30, 130, 0, 0.5, 1, 1.5, 2.3, length=5), QUESTION]]
        yield "one frame", [[clip(28, 42, 0.25), QUESTION]]
        yield "large frames and a picture", [[clip(640, 480, 0, 0.5), [100, 40], QUESTION]]
        yield "clip in the second turn", [["Hello, who are you?"], [clip(70, 42, 0, 1, 2, length=3), QUESTION]]

    def words_between(self, seconds):
        return [""] * ((len(seconds) + 1) // 2)

    def check_size(self, width, height, count):
        pass  # as a picture

    def process(self, pictures):
        """All pairs of a prompt are one clip."""
        images = super().process(pictures)
        inputs, places = images.model_inputs, [i for i, row in enumerate(images.row_counts) if row[0] == "video"]
        for i in places:
            images.row_counts[i] += (i == places[0], i == places[-1])
        if places:
            _, height, width = inputs["video_grid_thw"][0].tolist()
            inputs["video_grid_thw"] = torch.tensor([[len(places), height, width]])
            inputs |= self.times()
        return images

    def times(self):
        return {"second_per_grid_ts": [self.seconds_per_pair]}

    def picture_text(self, rows):
        kind, count, opens, closes = rows if len(rows) == 4 else (*rows, True, True)
        return "<|vision_start|>" * opens + f"<|{kind}_pad|>" * count + "<|vision_end|>" * closes

    def text_keys(self):
        ids = [self.tokenizer.convert_tokens_to_ids(text) for text in ("<|endoftext|>", "<|im_end|>")]
        return dict(rope_parameters={"rope_type": "default", "rope_theta": 1e6, "mrope_section": [2, 3, 3]},
                    bos_token_id=ids[0], eos_token_id=ids[1])

    def model(self):
        vision = dict(hidden_size=16, intermediate_size=44, depth=4, num_heads=2, patch_size=self.patch, window_size=56,
                      fullatt_block_indexes=[1, 3], out_hidden_size=32, tokens_per_second=2)
        return self.build(transformers.Qwen2_5_VLConfig, transformers.Qwen2_5_VLForConditionalGeneration, vision,
                          self.text_keys())

    def pictures(self):
        return {"one window": [56, 56], "edge windows": [126, 70], "tall": [15, 115], "line": [140, 14],
                "tiny": [5, 3], "one pixel": [1, 1], "half to even": [35, 49], "over the limit": [431, 57],
                "camera": [640, 480]}

    def rows(self, model, images):
        """The tower's rows in the order of patches: it computes them window by window."""
        tower, projected = super().rows(model, images)
        windows, _ = get_vision_window_index(images.patches[1], spatial_merge_size=2,
                                             window_size=56, patch_size=self.patch)
        return tower.unflatten(0, (-1, 4))[torch.argsort(windows)].flatten(0, 1), projected


class Qwen2Vl(Qwen25Vl):
    model_of = None

    def times(self):
        return {}

    def model(self):
        vision = dict(embed_dim=16, mlp_ratio=4, depth=2, num_heads=2, patch_size=self.patch, hidden_size=32)
        return self.build(transformers.Qwen2VLConfig, transformers.Qwen2VLForConditionalGeneration, vision,
                          self.text_keys())

    def rows(self, model, images):
        return QwenVl.rows(self, model, images)


class Cosmos3Edge(QwenVl):
    """A table of 4 x 4 positions, which grids are smaller and larger than. Values of a patch are [patch, patch, 3], and
    the frames of a clip are pictures with their times before them."""
    seed = 4
    patch = 8
    least_frame_rows = 1
    full_cases = False
    mean = std = [0.5, 0.5, 0.5]

    def opening(self):
        return "<|im_start|>system\n<|im_end|>\n"

    def make_processor(self, least_rows=None):
        pixels = (2 * self.patch) ** 2
        size = {"shortest_edge": (least_rows or self.least_rows) * pixels, "longest_edge": self.most_rows * pixels}
        return transformers.Cosmos3EdgeImageProcessorPil(size=size, patch_size=self.patch)

    def model(self):
        vision = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
                      patch_size=self.patch, num_patches=16)
        rope = {"rope_type": "default", "rope_theta": 1e8, "mrope_section": [4, 2, 2]}
        text = dict(TEXT, head_dim=16, intermediate_size=32, rms_norm_eps=1e-5, rope_parameters=rope)
        config = transformers.Cosmos3EdgeConfig
        return self.build(partial(config, projector_hidden_size=32), transformers.Cosmos3EdgeForConditionalGeneration,
                          vision, text, tied=False)

    def pictures(self):
        return {"native": [32, 32], "wide": [100, 40], "tall": [30, 93]}

    def cases(self):
        for name, size in {"camera": [640, 480], "line": [300, 5], "one pixel": [1, 1], "half to even": [72, 56]}.items():
            yield name, [[size, QUESTION]]
        yield from super().cases()

    def clips(self):
        yield "clip", [[clip(100, 40, 0, 0.5, 1), QUESTION]]
        yield "clip in the second turn", [["Hello, who are you?"], [clip(24, 9, 100.04, 100.07), [30, 93], QUESTION]]

    def describe(self, video):
        """The frames of a clip, and the words of transformers' processor before each."""
        seconds, frames = zip(*((frame[0], frame[1:]) for frame in video["frames"]))
        published = transformers.Cosmos3EdgeProcessor
        marks = {"vision_start_token": "<|vision_start|>", "video_token": "<|video_pad|>",
                 "vision_end_token": "<|vision_end|>", "_calculate_timestamps": published._calculate_timestamps,
                 "video_processor": SimpleNamespace(merge_size=2, temporal_patch_size=1)}
        inputs = {"video_grid_thw": np.array([[len(seconds), 2, 2]]),
                  "video_metadata": [SimpleNamespace(fps=1, frames_indices=list(seconds))]}
        text = published.replace_video_token(SimpleNamespace(**marks), inputs, 0)
        words = text.split(self.picture_text(("video", 1)))
        assert len(words) == len(frames) + 1 and not words[-1]
        return [part for word, frame in zip(words, frames) for part in (word, [frame])]

    def unfold(self, patches, height, width):
        blocks = patches.reshape(height // 2, width // 2, 2, 2, self.patch, self.patch, 3)
        return blocks.transpose(6, 0, 2, 4, 1, 3, 5).reshape(3, height * self.patch, width * self.patch)

    def rows(self, model, images):
        patches, grids = images.patches
        tower = model.model.visual
        rows = tower.encoder(tower.embeddings(patches, grids), grid_thw=grids)
        return rows, model.model.projector(tower.post_layernorm(rows))


class SmolVlm(Recipe):
    seed = 7
    adds_bos = False
    image_text = "<image>"
    between = ""
    user_close = "<end_of_utterance>\nAssistant:"
    answer_end = "<end_of_utterance>"
    side, patch, longest_edge = 28, 7, 84
    specials = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<end_of_utterance>", "<fake_token_around_image>",
                "<global-img>", "<image>", *(f"<row_{row}_col_{col}>" for row in (1, 2, 3) for col in (1, 2, 3)))

    def make_tokenizer(self):
        return make_byte_level("smollm", self.specials, bos_token="<|im_start|>", eos_token="<end_of_utterance>",
                               unk_token="<|endoftext|>", pad_token="<|im_end|>", chat_template=DEFAULT_CHAT_TEMPLATE)

    def make_processor(self):
        return transformers.SmolVLMImageProcessorPil(size={"longest_edge": self.longest_edge},
                                                     max_image_size={"longest_edge": self.side})

    def model(self):
        vision = dict(hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=2,
                      image_size=self.side, patch_size=self.patch)
        text = transformers.LlamaConfig(**WIDE_TEXT, vocab_size=self.vocabulary, rope_theta=1e5, rms_norm_eps=1e-5)
        config = transformers.SmolVLMConfig(vision_config=vision, text_config=text.to_dict(), scale_factor=2,
                                            image_token_id=self.image_token, tie_word_embeddings=True)
        config._attn_implementation = "eager"
        return transformers.SmolVLMForConditionalGeneration(config)

    def pictures(self):
        return {"native": [28, 28], "wide": [60, 28], "tall": [30, 93], "tiny": [5, 3], "one pixel": [1, 1],
                "over the limit": [431, 57], "camera": [640, 480]}

    def prompt(self, turns):
        """A colon before a picture, a colon and a space before text."""
        self.user_first = "<|im_start|>User:" + " " * isinstance(turns[0][0], str)
        self.user_later = "\nUser:" + " " * isinstance(turns[-1][0], str)
        return super().prompt(turns)

    def process(self, pictures):
        values, grids = [], []
        for picture in pictures:  # one by one: together they would be padded to equal numbers of views
            out = self.processor(picture, return_tensors="np", return_row_col_info=True)
            values.append(np.asarray(out["pixel_values"], dtype=np.float32)[0])
            grids.append((out["rows"][0][0], out["cols"][0][0]))
        counts = [len(views) for views in values]
        views = np.concatenate(values)
        return Images(views, counts, grids, {"pixel_values": torch.from_numpy(views)[None]})

    def picture_text(self, grid):
        return get_image_prompt_string(*grid, 4, "<fake_token_around_image>", "<image>", "<global-img>")

    def rows(self, model, images):
        out = model.model.get_image_features(**images.model_inputs, return_dict=True)
        return out.last_hidden_state, torch.cat(list(out.pooler_output))


class SmolVlm2Video(SmolVlm):
    """Frames of a video, each of them one view, with their times. A video is {"seconds": its length, "frames": [second,
    width, height] each}; in a prompt its frames are pictures, and all words around them are text."""
    model_of = mmproj_of = "smolvlm"

    def cases(self):
        def video(seconds, *frames):
            return {"seconds": seconds, "frames": [list(frame) for frame in frames]}

        yield "three frames", [[video(3, (0, 60, 28), (1, 60, 28), (2, 61, 28)), QUESTION]]
        yield "one frame", [[video(1, (0, 28, 28)), QUESTION]]
        yield "over an hour", [[video(3725, (61, 30, 93), (3661.9, 30, 93)), QUESTION]]
        yield "many frames", [[video(24, *((2 * i, 20 + i, 31) for i in range(12))), QUESTION]]
        yield "video in the second turn", [["Hello, who are you?"], [video(2, (0, 5, 3), (1.5, 5, 3)), QUESTION]]

    def make_processor(self):
        size = {"longest_edge": self.side}
        return transformers.SmolVLMImageProcessorPil(size=size, max_image_size=size, do_image_splitting=False)

    def save(self, model, folder):
        super().save(model, folder)
        super().make_processor().save_pretrained(folder)  # pictures are tiled

    def prompt(self, turns):
        parts = [[piece for part in turn for piece in ([part] if isinstance(part, str) else self.describe(part))]
                 for turn in turns]
        return super().prompt(parts)

    def describe(self, video):
        """The words of transformers' processor, and the frames between them."""
        frames = video["frames"]
        marks = {"image_token": "<image>", "fake_image_token": "<fake_token_around_image>",
                 "global_image_token": "<global-img>", "image_seq_len": 4}
        metadata = SimpleNamespace(fps=1, duration=video["seconds"], timestamps=[frame[0] for frame in frames])
        inputs = {"pixel_values": np.zeros((1, len(frames))), "video_metadata": [metadata]}
        text = transformers.SmolVLMProcessor.replace_video_token(SimpleNamespace(**marks), inputs, 0)
        words = text.split(self.picture_text((0, 0)))
        assert len(words) == len(frames) + 1
        return [part for frame, word in zip(frames, words) for part in (word, frame[1:])] + words[-1:]


class Gemma3(Recipe):
    """Two of six layers see all positions, the others the newest 12. Rows of a picture see each other in all of them.
    Texts are trimmed, and words around pictures are joined with their line breaks before they become tokens."""
    seed = 48
    adds_bos = True
    between = ""
    image_text = "<image_soft_token>"
    user_later = "\n<start_of_turn>user\n"
    user_close = "<end_of_turn>\n<start_of_turn>model\n"
    answer_end = "<end_of_turn>"
    side, patch, rows_per_picture, window = 28, 7, 4, 12
    template = ("{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
                "{% set system = messages[0]['content'] + '\\n\\n' %}{% set turns = messages[1:] %}"
                "{% else %}{% set system = '' %}{% set turns = messages %}{% endif %}{% for turn in turns %}"
                "{{ '<start_of_turn>' + ('model' if turn['role'] == 'assistant' else turn['role']) + '\\n' }}"
                "{{ system if loop.first else '' }}{% for part in turn['content'] %}"
                "{{ '<start_of_image>' if part['type'] == 'image' else part['text'] | trim }}{% endfor %}"
                "{{ '<end_of_turn>\\n' }}{% endfor %}"
                "{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}")
    long_texts = ("The quick brown fox jumps over the lazy dog by the old river.",
                  "Where is it now, and what did it see on the way?")

    def __init__(self):
        super().__init__()
        self.published = transformers.Gemma3Processor(self.processor, self.tokenizer,
                                                      image_seq_length=self.rows_per_picture)

    def make_tokenizer(self):
        """As Gemma's: runs of line breaks and of spaces are found before pieces are merged, and the words of turns are
        pieces."""
        runs = ["\n" * count for count in range(1, 7)] + ["\u2581" * count for count in range(2, 5)]
        trained = sentencepiece_model_pb2.ModelProto.FromString(train_sentence_piece(
            350, add_dummy_prefix=False, pad_id=0, eos_id=1, bos_id=2, unk_id=3, bos_piece="<bos>", eos_piece="<eos>",
            control_symbols=["<mask>", "<start_of_turn>", "<end_of_turn>"],
            user_defined_symbols=[*runs, "<start_of_image>", "<end_of_image>"]))
        for text in ("us", "er", "user", "mo", "de", "del", "model"):
            trained.pieces.add(piece=text, score=trained.pieces[-1].score - 1)
        self.pieces = trained.SerializeToString()
        tokens = {"image_token": self.image_text, "boi_token": "<start_of_image>", "eoi_token": "<end_of_image>"}
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "tokenizer.model").write_bytes(self.pieces)
            tokenizer = transformers.GemmaTokenizer.from_pretrained(folder, add_bos_token=True,
                                                                    extra_special_tokens=tokens)
        tokenizer.chat_template = self.template
        return tokenizer

    def make_processor(self):
        return transformers.Gemma3ImageProcessorPil(size={"height": self.side, "width": self.side})

    def save(self, model, folder):
        super().save(model, folder)
        (folder / "tokenizer.model").write_bytes(self.pieces)

    def model(self):
        vision = dict(hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=3,
                      image_size=self.side, patch_size=self.patch, vision_use_head=False)
        text = {**TEXT, "num_hidden_layers": 6, "head_dim": 32, "query_pre_attn_scalar": 32,
                "vocab_size": self.vocabulary, "sliding_window": self.window, "sliding_window_pattern": 3,
                "rope_theta": 1e6, "rope_scaling": {"rope_type": "linear", "factor": 8.0}, "rope_local_base_freq": 1e4}
        config = transformers.Gemma3Config(
            vision_config=vision, text_config=text, mm_tokens_per_image=self.rows_per_picture,
            image_token_index=self.image_token, boi_token_index=self.tokenizer.boi_token_id,
            eoi_token_index=self.tokenizer.eoi_token_id)
        config._attn_implementation = "eager"
        return transformers.Gemma3ForConditionalGeneration(config)

    def norm_mean(self, name):
        """Gemma's own are stored minus 1. Those of branches are large, so that a row is more than its embedding."""
        is_branch = "post_attention_layernorm" in name or "post_feedforward_layernorm" in name
        return 5 if is_branch else 1 if "vision_tower" in name else 0

    def pictures(self):
        return {"native": [28, 28], "wide": [100, 41], "tall": [41, 100], "tiny": [5, 3], "one pixel": [1, 1],
                "line": [431, 20], "camera": [640, 480]}

    def cases(self):
        for name, turns in super().cases():
            yield name, [[part.strip() if isinstance(part, str) else part for part in turn] for turn in turns]
        before, after = self.long_texts
        system = {"system": "You are a helpful assistant."}
        yield "long text", [[before + " " + after]]
        yield "long texts around a picture", [[before, [100, 41], after]]
        yield "long texts around two pictures", [["a", [100, 41], before, [41, 100], after]]
        yield "half a picture in the window", [[before, [100, 41], "box"]]
        yield "picture at the end", [["Go:", [41, 100]]]
        yield "line breaks and spaces", [["One  line\n\n\nand   two", [5, 3], "yes\n\nno"]]
        yield "system and a picture", [[[100, 41], QUESTION]], system
        yield "system and text", [["Hello"], [[41, 100], "a"]], system

    def prompt(self, turns, system=""):
        self.user_first = "<start_of_turn>user\n" + (system + "\n\n" if system else "")
        joined = super().prompt(turns)
        assert self.as_text(joined) == self.tokenizer.apply_chat_template(
            self.messages(turns, system), tokenize=False, add_generation_prompt=True)
        return joined

    def messages(self, turns, system):
        messages = [{"role": "system", "content": system}] if system else []
        for i, turn in enumerate(turns):
            if i > 0:
                messages.append({"role": "assistant", "content": [{"type": "text", "text": self.answer}]})
            parts = [{"type": "text", "text": part} if isinstance(part, str) else {"type": "image"} for part in turn]
            messages.append({"role": "user", "content": parts})
        return messages

    def as_text(self, prompt):
        """The prompt as its template gives it, with one mark a picture."""
        return "<bos>" + "".join(part if isinstance(part, str) else "<start_of_image>" if isinstance(part, list)
                                 else self.answer + self.answer_end for part in prompt)

    def inputs(self, prompt, pictures):
        ids, images = super().inputs(prompt, pictures)
        theirs = self.published(images=pictures or None, text=self.as_text(prompt), add_special_tokens=False)
        assert theirs["input_ids"][0] == ids
        if images:
            images.model_inputs["token_type_ids"] = torch.tensor([theirs["token_type_ids"][0]])
        return ids, images

    def process(self, pictures):
        values = np.asarray(self.processor(pictures, return_tensors="np")["pixel_values"], dtype=np.float32)
        counts = [1] * len(pictures)
        rows = [self.rows_per_picture] * len(pictures)
        return Images(values, counts, rows, {"pixel_values": torch.from_numpy(values)})

    def picture_text(self, rows):
        return "\n\n<start_of_image>" + self.image_text * rows + "<end_of_image>\n\n"

    def rows(self, model, images):
        out = model.model.get_image_features(images.model_inputs["pixel_values"], return_dict=True)
        return out.last_hidden_state, out.pooler_output


class Gemma4(Gemma3):
    """The last two of six layers share keys and values with the two before; heads of layers that see all positions are
    longer. Rows of a picture do not see each other. A picture has as many rows as its budget allows, and so has a frame
    of a clip, which is a picture for the model, too; in a prompt the words between frames are text."""
    seed = 207
    image_text = "<|image|>"
    user_first = "<|turn>user\n"
    user_later = "\n<|turn>user\n"
    user_close = "<turn|>\n<|turn>model\n"
    answer_end = "<turn|>"
    patch, budget, window = 4, 12, 12
    positions = 40  # of patches, of columns and of lines
    standardize = True
    template = ("{{ bos_token }}{% for turn in messages %}"
                "{{ '<|turn>' + ('model' if turn['role'] == 'assistant' else turn['role']) + '\\n' }}"
                "{% for part in turn['content'] if turn['content'] is not string %}"
                "{{ '<|image|>' if part['type'] == 'image' else part['text'] | trim }}{% endfor %}"
                "{{ turn['content'] if turn['content'] is string else '' }}{{ '<turn|>\\n' }}{% endfor %}"
                "{% if add_generation_prompt %}{{ '<|turn>model\\n' }}{% endif %}")
    marks = {"image_token": "<|image|>", "boi_token": "<|image>", "eoi_token": "<image|>", "audio_token": "<|audio|>",
             "boa_token": "<|audio>", "eoa_token": "<audio|>", "eot_token": "<turn|>", "sot_token": "<|turn>",
             "video_token": "<|video|>"}

    def __init__(self):
        Recipe.__init__(self)
        self.published = transformers.Gemma4Processor(
            feature_extractor=transformers.Gemma4AudioFeatureExtractor(), image_processor=self.processor,
            tokenizer=self.tokenizer, video_processor=transformers.Gemma4VideoProcessor(),
            image_seq_length=self.budget)

    def make_tokenizer(self):
        """As Gemma 4's: characters and runs of line breaks merge by rank, bytes are pieces."""
        first = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]
        vocabulary, merges = train_spaced_pair(420, first, [line for line in CORPUS.splitlines() if line.isascii()])
        tokenizer = transformers.GemmaTokenizer(vocab=vocabulary, merges=[tuple(merge) for merge in merges],
                                                add_bos_token=True, extra_special_tokens=self.marks)
        tokenizer.chat_template = self.template
        return tokenizer

    def make_processor(self):
        # Of other budgets than the published ones, which are too large for tests.
        processing = transformers.models.gemma4.image_processing_pil_gemma4
        processing._SUPPORTED_SOFT_TOKENS = (self.budget,)
        return processing.Gemma4ImageProcessorPil(patch_size=self.patch, max_soft_tokens=self.budget)

    def save(self, model, folder):
        Recipe.save(self, model, folder)

    def model(self):
        vision = dict(hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=3,
                      num_key_value_heads=3, head_dim=8, patch_size=self.patch, position_embedding_size=self.positions,
                      use_clipped_linears=True, standardize=self.standardize)
        text = {**TEXT, "num_hidden_layers": 6, "head_dim": 16, "global_head_dim": 32, "vocab_size": self.vocabulary,
                "vocab_size_per_layer_input": self.vocabulary, "hidden_size_per_layer_input": 8,
                "num_kv_shared_layers": 2, "use_double_wide_mlp": True, "sliding_window": self.window,
                "layer_types": ["sliding_attention", "full_attention"] * 3, "final_logit_softcapping": 30.0}
        config = transformers.Gemma4Config(
            vision_config=vision, text_config=text, audio_config=None, image_token_id=self.image_token,
            boi_token_id=self.tokenizer.boi_token_id, eoi_token_id=self.tokenizer.eoi_token_id)
        config._attn_implementation = "eager"
        return transformers.Gemma4ForConditionalGeneration(config)

    def normaliser(self):
        return SimpleNamespace(image_mean=[0.5] * 3, image_std=[0.5] * 3)

    def finish(self, model):
        """Buffers: the scales of layers, and bounds that some values are beyond, of the maps' inputs apart."""
        generator = torch.Generator().manual_seed(self.seed)
        for name, buffer in model.named_buffers():
            draw = torch.rand((), generator=generator).item()
            if name.endswith("layer_scalar"):
                buffer.fill_(0.5 + draw)
            elif name.endswith(("_min", "_max")):
                buffer.fill_((1.5 + draw) * (-1 if name.endswith("min") else 1))
            elif name.endswith(("std_bias", "std_scale")):
                buffer.copy_(0.5 + torch.rand(buffer.shape, generator=generator))

    def norm_mean(self, name):
        """Scores are not divided by the root of a head's length: those of long queries and keys are a single row's."""
        is_branch = "post_attention_layernorm" in name or "post_feedforward_layernorm" in name
        return 0.5 if "q_norm" in name or "k_norm" in name else 3 if is_branch and "language_model" in name else 1

    def facts(self):
        return {"most_rows": self.budget}

    def pictures(self):
        return {"native": [48, 36], "wide": [100, 41], "tall": [41, 100], "tiny": [5, 3], "one pixel": [1, 1],
                "line": [431, 20], "column": [7, 300], "camera": [640, 480]}

    def prompt(self, turns, system=""):
        self.user_first = (f"<|turn>system\n{system}<turn|>\n" if system else "") + "<|turn>user\n"
        shown = [[self.describe(part) if isinstance(part, dict) else [part] for part in turn] for turn in turns]
        joined = Recipe.prompt(self, [sum(turn, []) for turn in shown])
        marks = [self.as_text(pieces) for turn in shown for pieces in turn if not isinstance(pieces[0], str) or pieces[1:]]
        text = self.tokenizer.apply_chat_template(self.messages(turns, system), tokenize=False,
                                                  add_generation_prompt=True).split("<|image|>")
        assert "<bos>" + self.as_text(joined) == text[0] + "".join(map("".join, zip(marks, text[1:], strict=True)))
        return joined

    def describe(self, video):
        """The words of transformers' processor, and the frames between them."""
        frames = video["frames"]
        marks = SimpleNamespace(**self.marks)
        inputs = {"num_soft_tokens_per_video": [1], "video_metadata": [
            SimpleNamespace(fps=1, timestamps=[frame[0] for frame in frames])]}
        words = transformers.Gemma4Processor.replace_video_token(marks, inputs, 0).split("<|image><|video|><image|>")
        assert len(words) == len(frames) + 1 and not words[-1]
        return [part for word, frame in zip(words, frames) for part in (word, frame[1:])]

    def cases(self):
        yield from super().cases()
        yield "clip", [[clip(100, 41, 0, 1.5, 2), QUESTION]]
        yield "one frame", [[clip(48, 36, 0.25), QUESTION]]
        yield "clip and a picture", [["From", clip(41, 100, 59.9, 61, 3725), "to", [48, 36], QUESTION]]
        yield "clip in the second turn", [["Hello, who are you?"], [clip(24, 17, 10, 6000), QUESTION]]

    def as_text(self, prompt):
        return "".join(part if isinstance(part, str) else "<|image|>" if isinstance(part, list)
                       else self.answer + self.answer_end for part in prompt)

    def inputs(self, prompt, pictures):
        ids, images = Recipe.inputs(self, prompt, pictures)
        theirs = self.published(images=pictures or None, text="<bos>" + self.as_text(prompt), add_special_tokens=False)
        assert theirs["input_ids"][0] == ids, (theirs["input_ids"][0], ids)
        return ids, images

    def process(self, pictures):
        out = self.processor(pictures, return_tensors="pt")
        rows = [int(count) for count in out["num_soft_tokens_per_image"]]
        places = out["image_position_ids"]
        views = [self.planes(values, at) for values, at in zip(out["pixel_values"], places)]
        return Images(views, [1] * len(pictures), rows, {"pixel_values": out["pixel_values"], "image_position_ids": places})

    def planes(self, patches, places):
        """The picture [3, height, width] of its patches, centred as the tower centres them."""
        places = places[places[:, 0] >= 0]
        cols, lines = (places.max(0).values + 1).tolist()
        grid = patches[:lines * cols].reshape(lines, cols, self.patch, self.patch, 3)
        return (2 * grid.permute(4, 0, 2, 1, 3).reshape(3, lines * self.patch, cols * self.patch) - 1).numpy()

    def picture_text(self, rows):
        return "<|image>" + self.image_text * rows + "<image|>"

    def rows(self, model, images):
        kept = []
        handle = model.model.vision_tower.encoder.register_forward_hook(
            lambda module, inputs, out: kept.append(out.last_hidden_state))
        out = model.model.get_image_features(images.model_inputs["pixel_values"],
                                             images.model_inputs["image_position_ids"], return_dict=True)
        handle.remove()
        counts = [rows * 9 for rows in images.row_counts]
        tower = torch.cat([rows[:count] for rows, count in zip(kept[0], counts)])
        return tower, torch.cat(list(out.pooler_output))


class Gemma4Pictures(Gemma4):
    """The smallest published budget, which its table of positions bounds pictures to: few of them fill it."""
    model_of = "gemma4"
    budget, positions = 70, 210

    def facts(self):
        return {}

    def pictures(self):
        return {"camera": [640, 480], "wide": [320, 180], "tall": [135, 240], "square": [200, 200], "line": [300, 20]}

    def cases(self):
        for name, picture in self.pictures().items():
            yield name, [[picture, QUESTION]]
        yield "two pictures", [["First:", [640, 480], "then:", [135, 240], QUESTION]]
        yield "picture in the second turn", [["Hello, who are you?"], [[320, 180], QUESTION]]


class Ministral3(Recipe):
    """Frequencies of the text model's pairs 1 to 6 are slowed more and more, and queries grow every 32 positions. Lines of a
    picture end with a row of the embedding, the last one with a token."""
    seed = 43
    adds_bos = True
    between = ""
    image_text = "[IMG]"
    user_first = user_later = "[INST]"
    user_close = "[/INST]"
    answer_end = "</s>"
    specials = ("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[IMG]", "[IMG_BREAK]", "[IMG_END]", "[SYSTEM_PROMPT]",
                "[/SYSTEM_PROMPT]", "[THINK]", "[/THINK]")
    template = ("{{ bos_token }}{% for message in messages %}{% if message['role'] == 'system' %}"
                "{{ '[SYSTEM_PROMPT]' + message['content'] + '[/SYSTEM_PROMPT]' }}{% elif message['role'] == 'user' %}"
                "{{ '[INST]' + message['content'] + '[/INST]' }}{% else %}{{ message['content'] + eos_token }}{% endif %}"
                "{% endfor %}")
    patch, merge, longest, tower_layers = 4, 2, 48, 2
    most_rows = None
    text = {**TEXT, "intermediate_size": 24, "head_dim": 32}
    long_text = "The quick brown fox jumps over the lazy dog by the old river. Where is it now, and what did it see on the way?"

    def __init__(self):
        super().__init__()
        self.break_token = self.tokenizer.convert_tokens_to_ids("[IMG_BREAK]")
        self.row_tokens.add(self.break_token)
        self.published = transformers.PixtralProcessor(
            self.processor, self.tokenizer, patch_size=self.patch, spatial_merge_size=self.merge)

    def make_tokenizer(self):
        return make_byte_level("tekken", self.specials, start="<s>", ignore_merges=True, eos_token="</s>",
                               unk_token="<unk>", chat_template=self.template)

    def make_processor(self):
        side = self.patch * self.merge
        return transformers.PixtralImageProcessorPil(size={"longest_edge": self.longest},
                                                     patch_size={"height": side, "width": side})

    def vision(self):
        return dict(model_type="pixtral", hidden_size=16, intermediate_size=24, num_attention_heads=2,
                    num_hidden_layers=self.tower_layers, patch_size=self.patch, image_size=self.longest,
                    hidden_act="silu")

    def model(self):
        rope = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 32,
                "beta_fast": 2.0, "beta_slow": 0.25, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1}
        text = {**self.text, "model_type": "ministral3", "vocab_size": self.vocabulary, "rope_parameters": rope}
        config = transformers.Mistral3Config(vision_config=self.vision(), text_config=text, tie_word_embeddings=True,
                                             image_token_index=self.image_token, spatial_merge_size=self.merge)
        config._attn_implementation = "eager"
        return transformers.Mistral3ForConditionalGeneration(config)

    def pictures(self):
        """Those of a single row are beyond transformers 5.24."""
        return {"line": [90, 4], "wide": [44, 19], "column": [7, 200], "over the limit": [431, 57],
                "camera": [640, 480]}

    def cases(self):
        yield from super().cases()
        yield "long texts around a picture", [[self.long_text, [44, 19], self.long_text]]

    def inputs(self, prompt, pictures):
        ids, images = super().inputs(prompt, pictures)
        if pictures and self.most_rows is None:
            text = "".join(part if isinstance(part, str) else self.image_text if isinstance(part, list)
                           else self.answer + self.answer_end for part in prompt)
            theirs = self.published(images=pictures, text="<s>" * self.adds_bos + text, add_special_tokens=False)
            assert theirs["input_ids"][0].tolist() == ids
        return ids, images

    def resize(self, picture):
        """(its planes, its size in rows): the longest side is the largest with at most most_rows."""
        side = self.patch * self.merge
        longest = self.longest
        while True:
            planes = self.processor(picture, size={"longest_edge": longest}, return_tensors="pt")["pixel_values"][0]
            lines, cols = planes.shape[1] // side, planes.shape[2] // side
            if not self.most_rows or lines * (cols + 1) - 1 <= self.most_rows:
                return planes, (lines, cols)
            longest -= side

    def process(self, pictures):
        planes, grids = zip(*map(self.resize, pictures))
        sizes = [list(view.shape[1:]) for view in planes]
        largest = [max(side) for side in zip(*sizes)]
        padded = torch.zeros(len(planes), 3, *largest)
        for view, out in zip(planes, padded):
            out[:, :view.shape[1], :view.shape[2]] = view
        inputs = {"pixel_values": padded, "image_sizes": torch.tensor(sizes)}
        return Images([view.numpy() for view in planes], [1] * len(pictures), list(grids), inputs)

    def picture_text(self, grid):
        lines, cols = grid
        return "[IMG_BREAK]".join(["[IMG]" * cols] * lines) + "[IMG_END]"

    def rows(self, model, images):
        """The tower's rows in the order in which they are joined, and the projector's with the rows that end lines."""
        out = model.model.get_image_features(**images.model_inputs, return_dict=True)
        tower, projected, first = [], [], 0
        hidden = out.last_hidden_state.reshape(-1, out.last_hidden_state.shape[-1])
        for (lines, cols), rows in zip(images.row_counts, out.pooler_output):
            count = lines * cols * self.merge ** 2
            grid = hidden[first:first + count].unflatten(0, (lines, self.merge, cols, self.merge))
            tower.append(grid.transpose(1, 2).flatten(0, 3))
            projected.append(self.end_lines(rows, (lines, cols), model))
            first += count
        return torch.cat(tower), torch.cat(projected)

    def end_lines(self, rows, grid, model):
        end = model.get_input_embeddings().weight[self.break_token]
        return torch.cat([rows.unflatten(0, grid), end.expand(grid[0], 1, -1)], 1).flatten(0, 1)[:-1]


class Pixtral(Ministral3):
    """A LLaVA by name, without a merger, before a llama; pictures of fewer rows than the longest side allows."""
    seed = 43
    merge, longest, tower_layers, most_rows = 1, 24, 1, 24
    text = {**TEXT, "intermediate_size": 24, "num_hidden_layers": 1, "head_dim": 16}
    template = ("{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}"
                "{{ '[INST]' + message['content'] + '[/INST]' }}{% else %}{{ message['content'] + eos_token }}{% endif %}"
                "{% endfor %}")

    def facts(self):
        return {"most_rows": self.most_rows}

    def model(self):
        text = {**self.text, "model_type": "mistral", "vocab_size": self.vocabulary, "rope_theta": 1e6,
                "sliding_window": None, "rms_norm_eps": 1e-5}
        config = transformers.LlavaConfig(
            vision_config=self.vision(), text_config=text, image_token_index=self.image_token, vision_feature_layer=-1,
            vision_feature_select_strategy="full", tie_word_embeddings=True)
        config._attn_implementation = "eager"
        return transformers.LlavaForConditionalGeneration(config)

    def cases(self):
        yield "text only", [["The quick brown fox"]]
        yield "camera", [[[640, 480], QUESTION]]
        yield "two pictures", [["First:", [20, 9], "then:", [9, 20], QUESTION]]
        yield "picture in the second turn", [["Hello, who are you?"], [[7, 100], QUESTION]]


class Lfm2Vl(ChatMl):
    """Layers with convolutions first and last. A table of 4 x 4 positions, which grids are smaller and larger than; tiles of
    32 x 32 pixels, 16 rows, and a thumbnail of another size."""
    seed = 51
    adds_bos = True
    between = ""
    image_text = "<image>"
    patch, tile, least_rows, most_rows, most_tiles = 4, 32, 4, 16, 6
    specials = ("<|pad|>", "<|startoftext|>", "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<image>", "<|image_start|>",
                "<|image_end|>", "<|img_thumbnail|>",
                *(f"<|img_row_{row}_col_{col}|>" for row in range(1, 7) for col in range(1, 6 // row + 1)))
    template = "{{ bos_token }}" + ChatMl.template

    def __init__(self):
        super().__init__()
        self.published = transformers.Lfm2VlProcessor(self.processor, self.tokenizer)

    def make_tokenizer(self):
        return make_byte_level("llama-bpe", self.specials, start="<|startoftext|>", ignore_merges=True,
                               eos_token="<|im_end|>", pad_token="<|pad|>", chat_template=self.template)

    def make_processor(self):
        return transformers.Lfm2VlImageProcessor(
            encoder_patch_size=self.patch, tile_size=self.tile, min_image_tokens=self.least_rows,
            max_image_tokens=self.most_rows, max_tiles=self.most_tiles)

    def model(self):
        vision = dict(model_type="siglip2_vision_model", hidden_size=16, intermediate_size=16, num_hidden_layers=2,
                      num_attention_heads=2, patch_size=self.patch, num_patches=16, vision_use_head=False)
        text = {**TEXT, "model_type": "lfm2", "vocab_size": self.vocabulary, "intermediate_size": 22, "num_hidden_layers": 4,
                "block_multiple_of": 8, "layer_types": ["conv", "full_attention", "full_attention", "conv"],
                "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}
        config = transformers.Lfm2VlConfig(vision_config=vision, text_config=text, image_token_id=self.image_token,
                                           projector_hidden_size=16, projector_use_layernorm=True)
        config._attn_implementation = "eager"
        return transformers.Lfm2VlForConditionalGeneration(config)

    def cases(self):
        yield "text only", [["The quick brown fox"]]
        for name, size in {"camera": [640, 480], "half to even": [20, 28], "line": [100, 9]}.items():
            yield name, [[size, QUESTION]]
        yield "two pictures", [["First: ", [100, 40], "then: ", [5, 3], QUESTION]]
        yield "picture in the second turn", [["Hello, who are you?"], [[30, 93], QUESTION]]

    def inputs(self, prompt, pictures):
        """The ids are those of transformers' processor, and pixels differ from its own by little."""
        ids, images = super().inputs(prompt, pictures)
        if not pictures:
            return ids, images
        text = "".join(part if isinstance(part, str) else self.image_text if isinstance(part, list)
                       else self.answer + self.answer_end for part in prompt)
        theirs = self.published(images=pictures, text=self.tokenizer.bos_token + text, return_tensors="pt")
        assert theirs["input_ids"][0].tolist() == ids
        assert torch.equal(theirs["spatial_shapes"], images.model_inputs["spatial_shapes"])
        assert torch.equal(theirs["pixel_attention_mask"], images.model_inputs["pixel_attention_mask"])
        levels = (theirs["pixel_values"] - images.model_inputs["pixel_values"]).abs().max() * 127.5
        assert levels < 2.01, levels
        return ids, images

    def cut(self, picture):
        """(views, lines and columns of tiles), resized by Pillow to what transformers' processor says."""
        width, height = picture.size
        processor = self.processor
        rows = dict(downsample_factor=2, max_image_tokens=self.most_rows, encoder_patch_size=self.patch)
        whole = picture.resize(processor.smart_resize(height, width, min_image_tokens=self.least_rows, **rows),
                               Image.BILINEAR)
        if not processor._is_image_too_large(height, width, max_pixels_tolerance=2.0, **rows):
            return [whole], (1, 1)
        cols, lines, *size, _ = processor._get_grid_layout(height, width, 2, self.most_tiles, self.tile)
        tiled = picture.resize(tuple(size), Image.BILINEAR)
        corners = [(col * self.tile, line * self.tile) for line in range(lines) for col in range(cols)]
        return [tiled.crop((x, y, x + self.tile, y + self.tile)) for x, y in corners] + [whole], (lines, cols)

    def process(self, pictures):
        views, grids = zip(*map(self.cut, pictures))
        planes = [(np.asarray(view, np.float32) / 255 - 0.5) / 0.5 for cut in views for view in cut]
        shapes = torch.tensor([[plane.shape[0] // self.patch, plane.shape[1] // self.patch] for plane in planes])
        most = max(4 * self.most_rows, (self.tile // self.patch) ** 2)
        values, mask = torch.zeros(len(planes), most, 3 * self.patch ** 2), torch.zeros(len(planes), most, dtype=torch.int32)
        for plane, (lines, cols), value, seen in zip(planes, shapes.tolist(), values, mask):
            patches = plane.reshape(lines, self.patch, cols, self.patch, 3).transpose(0, 2, 1, 3, 4)
            value[:lines * cols] = torch.from_numpy(patches.reshape(lines * cols, -1))
            seen[:lines * cols] = 1
        inputs = {"pixel_values": values, "pixel_attention_mask": mask, "spatial_shapes": shapes}
        sizes = [(grid, [view.size[0] * view.size[1] // (2 * self.patch) ** 2 for view in cut])
                 for grid, cut in zip(grids, views)]
        return Images([plane.transpose(2, 0, 1) for plane in planes], [len(cut) for cut in views], sizes, inputs)

    def picture_text(self, size):
        (lines, cols), rows = size
        marks = [f"<|img_row_{line + 1}_col_{col + 1}|>" for line in range(lines) for col in range(cols)]
        marks = [*marks, "<|img_thumbnail|>"] if len(rows) > 1 else [""]
        views = "".join(mark + self.image_text * count for mark, count in zip(marks, rows))
        return f"<|image_start|>{views}<|image_end|>"

    def rows(self, model, images):
        """The tower's rows before its last norm, in the order in which they are joined."""
        seen, tower = [], []
        hook = model.model.vision_tower.encoder.register_forward_hook(lambda *call: seen.append(call[2].last_hidden_state))
        out = model.model.get_image_features(**images.model_inputs, return_dict=True)
        hook.remove()
        for hidden, (lines, cols) in zip(seen[0], images.model_inputs["spatial_shapes"].tolist()):
            grid = hidden[:lines * cols].unflatten(0, (lines // 2, 2, cols // 2, 2))
            tower.append(grid.transpose(1, 2).flatten(0, 3))
        return torch.cat(tower), torch.cat(out.pooler_output)


class LightOnOcr(Ministral3):
    """Pixtral's tower and merger before a Qwen3, without rows that end lines. The merger's norm has the text model's
    epsilon."""
    seed = 17
    image_text = "<|image_pad|>"
    user_first, user_later, user_close, answer_end = (ChatMl.user_first, ChatMl.user_later, ChatMl.user_close,
                                                      ChatMl.answer_end)
    template, adds_bos = ChatMl.template, False
    specials = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>")
    tower_layers = 1
    text = {**TEXT, "intermediate_size": 16, "head_dim": 16}

    def __init__(self):
        Recipe.__init__(self)
        for name, text in {"image": self.image_text, "image_break": "<|vision_pad|>", "image_end": "<|vision_end|>"}.items():
            setattr(self.tokenizer, f"{name}_token", text)
            setattr(self.tokenizer, f"{name}_token_id", self.tokenizer.convert_tokens_to_ids(text))
        self.published = transformers.LightOnOcrProcessor(
            self.processor, self.tokenizer, patch_size=self.patch, spatial_merge_size=self.merge)

    def make_tokenizer(self):
        return make_qwen_tokenizer(self.specials, self.template)

    def opening(self):
        return "<|im_start|>system<|im_end|>\n"

    def model(self):
        text = {**self.text, "model_type": "qwen3", "vocab_size": self.vocabulary, "rope_theta": 1e6, "rms_norm_eps": 1e-6}
        config = transformers.LightOnOcrConfig(vision_config=self.vision(), text_config=text, tie_word_embeddings=True,
                                               image_token_id=self.image_token, spatial_merge_size=self.merge)
        config._attn_implementation = "eager"
        return transformers.LightOnOcrForConditionalGeneration(config)

    def cases(self):
        for name, size in {"one row": [5, 3], "column": [7, 200], "page": [480, 640]}.items():
            yield name, [[size]]
        yield "text only", [["The quick brown fox"]]
        yield "two pictures", [["First:", [20, 9], "then:", [9, 20], QUESTION]]
        yield "picture in the second turn", [["Hello, who are you?"], [[90, 4], QUESTION]]

    def picture_text(self, grid):
        return self.image_text * (grid[0] * grid[1])

    def end_lines(self, rows, grid, model):
        return rows


class PaddleOcr(Recipe):
    """A table of 6 x 6 positions, which grids are smaller and larger than, beside rotations. All maps of the text model
    have biases, which the published one does without."""
    seed = 2
    adds_bos = False
    between = ""
    image_text = "<|IMAGE_PLACEHOLDER|>"
    user_first = user_later = "User: "
    user_close = "\nAssistant: "
    answer_end = "</s>"
    specials = ("<|begin_of_sentence|>", "<|IMAGE_START|>", "<|IMAGE_END|>", "<|IMAGE_PLACEHOLDER|>")
    patch, least_rows, most_rows = 4, 4, 64
    template = ("{{- '<|begin_of_sentence|>' -}}{%- for message in messages -%}{%- if message['role'] == 'user' -%}"
                "{{- 'User: ' -}}{%- for content in message['content'] -%}{%- if content['type'] == 'image' -%}"
                "{{ '<|IMAGE_START|><|IMAGE_PLACEHOLDER|><|IMAGE_END|>' }}{%- endif -%}{%- endfor -%}"
                "{%- for content in message['content'] -%}{%- if content['type'] == 'text' -%}{{ content['text'] }}"
                "{%- endif -%}{%- endfor -%}{{ '\\n' -}}{%- else -%}{{- 'Assistant: ' + message['content'][0]['text'] + '</s>' "
                "-}}{%- endif -%}{%- endfor -%}{%- if add_generation_prompt -%}{{- 'Assistant: ' -}}{%- endif -%}")

    def make_tokenizer(self):
        self.pieces = train_sentence_piece(328, add_dummy_prefix=False)
        tokenizer = open_sentence_piece(self.pieces, add_prefix_space=False)
        tokenizer.add_tokens(special_tokens(self.specials))
        tokenizer.add_bos_token = False
        tokenizer.chat_template = self.template
        return tokenizer

    def make_processor(self):
        pixels = (2 * self.patch) ** 2  # of a row
        size = {"shortest_edge": self.least_rows * pixels, "longest_edge": self.most_rows * pixels}
        return transformers.PaddleOCRVLImageProcessorPil(size=size, patch_size=self.patch, image_mean=[0.5] * 3,
                                                         image_std=[0.5] * 3)

    def save(self, model, folder):
        super().save(model, folder)
        (folder / "tokenizer.model").write_bytes(self.pieces)

    def model(self):
        vision = dict(hidden_size=8, intermediate_size=24, num_hidden_layers=1, num_attention_heads=1,
                      patch_size=self.patch, image_size=6 * self.patch)
        rope = {"rope_type": "default", "rope_theta": 5e5, "mrope_section": [2, 3, 3]}
        text = dict(TEXT, head_dim=16, intermediate_size=16, vocab_size=self.vocabulary, use_bias=True, rope_parameters=rope)
        ids = {f"{name}_token_id": self.tokenizer.convert_tokens_to_ids(f"<|IMAGE_{token}|>") for name, token in
               [("image", "PLACEHOLDER"), ("vision_start", "START"), ("vision_end", "END")]}
        config = transformers.PaddleOCRVLConfig(vision_config=vision, text_config=text, tie_word_embeddings=True, **ids)
        config._attn_implementation = "eager"
        return transformers.PaddleOCRVLForConditionalGeneration(config)

    def opening(self):
        return "<|begin_of_sentence|>"

    def cases(self):
        for name, size in {"camera": [640, 480], "column": [3, 50]}.items():
            yield name, [[size, "OCR:"]]
        yield "text only", [["The quick brown fox"]]
        yield "two pictures", [["First: ", [300, 5], "then: ", [30, 93], QUESTION]]
        yield "picture in the second turn", [["Hello, who are you?"], [[41, 24], "Table Recognition:"]]

    def process(self, pictures):
        planes, patches, grids = [], [], []
        for picture in pictures:
            out = self.processor([picture], return_tensors="pt")
            height, width = out["image_grid_thw"][0, 1:].tolist()
            patches.append(out["pixel_values"])
            grids.append([1, height, width])
            blocks = patches[-1].numpy().reshape(height, width, 3, self.patch, self.patch)
            planes.append(blocks.transpose(2, 0, 3, 1, 4).reshape(3, height * self.patch, width * self.patch))
        inputs = {"pixel_values": torch.cat(patches), "image_grid_thw": torch.tensor(grids)}
        return Images(planes, [1] * len(planes), [grid[1] * grid[2] // 4 for grid in grids], inputs)

    def inputs(self, prompt, pictures):
        ids, images = super().inputs(prompt, pictures)
        if images:
            images.model_inputs["mm_token_type_ids"] = torch.tensor([[int(i == self.image_token) for i in ids]])
        return ids, images

    def picture_text(self, rows):
        return "<|IMAGE_START|>" + self.image_text * rows + "<|IMAGE_END|>"

    def rows(self, model, images):
        """The tower's rows in the order in which they are joined, and the projector's."""
        grids, tower = images.model_inputs["image_grid_thw"], model.model.visual.vision_model
        embedded = tower.embeddings(images.model_inputs["pixel_values"][None], grid_thw=grids)
        rows = tower.encoder(inputs_embeds=embedded, grid_thw=grids).last_hidden_state
        joined = [part.unflatten(0, (height // 2, 2, width // 2, 2)).transpose(1, 2).flatten(0, 3) for part, (_, height, width)
                  in zip(rows.split(grids.prod(1).tolist()), grids.tolist())]
        return torch.cat(joined), model.model.projector(tower.post_layernorm(rows), grids)


RECIPES = {  # those whose files others have come before these
    "internvl3": InternVl3, "internvl2.5": InternVl25, "internvl3.5": InternVl35, "internvl-6b": InternVl6B,
    "llava-1.5": Llava15, "llava-1.6-mistral": LlavaNextMistral, "llava-1.6-vicuna": LlavaNextVicuna,
    "smolvlm": SmolVlm, "smolvlm2-video": SmolVlm2Video, "qwen2-vl": Qwen2Vl,
    "qwen2.5-vl": Qwen25Vl, "qwen3-vl": Qwen3Vl, "cosmos3-edge": Cosmos3Edge, "gemma3": Gemma3,
    "gemma4": Gemma4, "gemma4-pictures": Gemma4Pictures, "ministral3": Ministral3, "pixtral": Pixtral,
    "lfm2-vl": Lfm2Vl,
    "lightonocr": LightOnOcr, "paddleocr": PaddleOcr,
}
