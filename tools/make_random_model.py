#!/usr/bin/env python3
"""Writes a GGUF pair with the shape of a public model and random weights: `ocellus bench --shape` as files that other
programs can read too.

usage: make_random_model.py NAME [--format F16|Q8_0|Q4_K] [--layers N] [--output DIR] [--dry-run]

The same NAME, format and number of layers give the same bytes. Tensors, formats and vocabulary are those of
runtime/models/model_shapes.h; tests/apps/random_model_test.py compares the two. Needs nothing but Python.
"""
import argparse
import array
import dataclasses
import math
import pathlib
import random
import struct

ALIGNMENT = 32
CHUNK_BYTES = 4 << 20
GROUP_SCALE = 8  # of every group of Q4_K


@dataclasses.dataclass(frozen=True)
class Vision:
    """A SigLIP tower and the Idefics3 projector, or a CLIP tower and LLaVA-1.5's."""
    image_size: int
    patch_size: int
    width: int
    mlp_width: int
    layers: int
    heads: int
    scale_factor: int = 1
    longest_edge: int = 0
    is_llava: bool = False

    def rows(self):
        """Of a view in the tower: CLIP has a class row."""
        return (self.image_size // self.patch_size) ** 2 + self.is_llava


@dataclasses.dataclass(frozen=True)
class Shape:
    """A language model, and the tower in front of it if there is one."""
    architecture: str
    layers: int
    width: int
    query_heads: int
    kv_heads: int
    head_dim: int
    mlp_width: int
    vocabulary: int
    context_length: int
    rope_base: float
    epsilon: float = 1e-5
    tied: bool = False
    vision: Vision | None = None

    def is_llava(self):
        return self.vision is not None and self.vision.is_llava


SIGLIP_BASE = Vision(512, 16, 768, 3072, 12, 12, 4, 2048)
SIGLIP_SO400M = Vision(384, 14, 1152, 4304, 27, 16, 3, 1536)
CLIP_VIT_LARGE = Vision(336, 14, 1024, 4096, 23, 16, is_llava=True)
CLIP_MEAN, CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
SHAPES = {
    "SmolVLM-256M": Shape("llama", 30, 576, 9, 3, 64, 1536, 49280, 8192, 1e5, vision=SIGLIP_BASE),
    "SmolVLM-500M": Shape("llama", 32, 960, 15, 5, 64, 2560, 49280, 8192, 1e5, vision=SIGLIP_BASE),
    "SmolVLM2-2.2B": Shape("llama", 24, 2048, 32, 32, 64, 8192, 49280, 8192, 1.3e5, vision=SIGLIP_SO400M),
    "LLaVA-1.5-7B": Shape("llama", 32, 4096, 32, 32, 128, 11008, 32000, 4096, 1e4, vision=CLIP_VIT_LARGE),
    "LLaVA-1.5-13B": Shape("llama", 40, 5120, 40, 40, 128, 13824, 32000, 4096, 1e4, vision=CLIP_VIT_LARGE),
    "LLaVA-1.6-Vicuna-7B": Shape("llama", 32, 4096, 32, 32, 128, 11008, 32000, 4096, 1e4),
    "LLaVA-1.6-Mistral-7B": Shape("llama", 32, 4096, 32, 8, 128, 14336, 32000, 32768, 1e6),
    "InternVL2.5-8B": Shape("internlm2", 32, 4096, 32, 8, 128, 14336, 92553, 32768, 1e6),
    "InternVL2.5-26B": Shape("internlm2", 48, 6144, 48, 8, 128, 16384, 92553, 32768, 5e7),
    "InternVL3-2B": Shape("qwen2", 28, 1536, 12, 2, 128, 8960, 151674, 32768, 1e6, 1e-6),
    "InternVL3.5-2B": Shape("qwen3", 28, 2048, 16, 8, 128, 6144, 151936, 40960, 1e6, 1e-6),
    "Qwen2.5-0.5B": Shape("qwen2", 24, 896, 14, 2, 64, 4864, 151936, 32768, 1e6, 1e-6, tied=True),
    "Qwen2.5-1.5B": Shape("qwen2", 28, 1536, 12, 2, 128, 8960, 151936, 32768, 1e6, 1e-6, tied=True),
}


@dataclasses.dataclass(frozen=True)
class Format:
    """A weight format as GGUF files have it, and the deviation of its random codes at scale 1."""
    ggml_id: int
    block_bytes: int
    block_elements: int
    code_deviation: float = 0.0


FORMATS = {
    "F32": Format(0, 4, 1),
    "F16": Format(1, 2, 1),
    "Q8_0": Format(8, 34, 32, 73.90),
    "Q4_K": Format(12, 144, 256, 4.610 * GROUP_SCALE),
}


def format_that_fits(name, columns):
    """The format itself where its blocks divide the row, else Q8_0, else F16."""
    return next(choice for choice in (name, "Q8_0", "F16") if columns % FORMATS[choice].block_elements == 0)


@dataclasses.dataclass(frozen=True)
class Tensor:
    """`extents` fastest first. Every weight is `mean` plus a random number of about this deviation."""
    name: str
    format: str
    extents: tuple
    mean: float
    deviation: float

    def bytes(self):
        return math.prod(self.extents) // FORMATS[self.format].block_elements * FORMATS[self.format].block_bytes


def text_tensors(shape, weight_format):
    """The tensors of the model file, in file order."""
    query_width, kv_width = shape.query_heads * shape.head_dim, shape.kv_heads * shape.head_dim
    biased = shape.architecture == "qwen2"
    residual_share = 1 / math.sqrt(2 * shape.layers)

    def matrix(name, rows, columns, share=1.0):
        return Tensor(name, format_that_fits(weight_format, columns), (columns, rows), 0, share / math.sqrt(columns))

    yield matrix("token_embd.weight", shape.vocabulary, shape.width)
    for layer in range(shape.layers):
        at = f"blk.{layer}."
        yield Tensor(at + "attn_norm.weight", "F32", (shape.width,), 1, 0)
        for part, rows in (("attn_q", query_width), ("attn_k", kv_width), ("attn_v", kv_width)):
            yield matrix(f"{at}{part}.weight", rows, shape.width)
            if biased:
                yield Tensor(f"{at}{part}.bias", "F32", (rows,), 0, 0.02)
        if shape.architecture == "qwen3":
            for part in ("attn_q_norm", "attn_k_norm"):
                yield Tensor(f"{at}{part}.weight", "F32", (shape.head_dim,), 1, 0)
        yield matrix(at + "attn_output.weight", shape.width, query_width, residual_share)
        yield Tensor(at + "ffn_norm.weight", "F32", (shape.width,), 1, 0)
        yield matrix(at + "ffn_gate.weight", shape.mlp_width, shape.width)
        yield matrix(at + "ffn_up.weight", shape.mlp_width, shape.width)
        yield matrix(at + "ffn_down.weight", shape.width, shape.mlp_width, residual_share)
    yield Tensor("output_norm.weight", "F32", (shape.width,), 1, 0)
    if not shape.tied:
        yield matrix("output.weight", shape.vocabulary, shape.width)


def vision_tensors(vision, text_width, weight_format):
    """The tensors of the mmproj file, in file order."""
    residual_share = 1 / math.sqrt(2 * vision.layers)
    patch_values = 3 * vision.patch_size ** 2

    def linear(name, rows, columns, share=1.0):
        deviation = share / math.sqrt(columns)
        yield Tensor(name + ".weight", format_that_fits(weight_format, columns), (columns, rows), 0, deviation)
        yield Tensor(name + ".bias", "F32", (rows,), 0, 0.02)

    def norm(name):
        yield Tensor(name + ".weight", "F32", (vision.width,), 1, 0)
        yield Tensor(name + ".bias", "F32", (vision.width,), 0, 0.02)

    # A convolution's rows are a patch wide, too short for blocks.
    yield Tensor("v.patch_embd.weight", "F16", (vision.patch_size, vision.patch_size, 3, vision.width), 0,
                 1 / math.sqrt(patch_values))
    yield Tensor("v.position_embd.weight", "F32", (vision.width, vision.rows()), 0, 1 / math.sqrt(vision.width))
    if vision.is_llava:
        yield Tensor("v.class_embd", "F32", (vision.width,), 1, 0)
        yield from norm("v.pre_ln")
    else:
        yield Tensor("v.patch_embd.bias", "F32", (vision.width,), 0, 0.02)
        yield from norm("v.post_ln")
    for layer in range(vision.layers):
        at = f"v.blk.{layer}."
        yield from norm(at + "ln1")
        for part in ("attn_q", "attn_k", "attn_v"):
            yield from linear(at + part, vision.width, vision.width)
        yield from linear(at + "attn_out", vision.width, vision.width, residual_share)
        yield from norm(at + "ln2")
        yield from linear(at + "ffn_up", vision.mlp_width, vision.width)
        yield from linear(at + "ffn_down", vision.width, vision.mlp_width, residual_share)
    if vision.is_llava:
        yield from linear("mm.0", text_width, vision.width)
        yield from linear("mm.2", text_width, text_width)
        return
    joined = vision.width * vision.scale_factor ** 2
    yield Tensor("mm.model.fc.weight", format_that_fits(weight_format, joined), (joined, text_width), 0,
                 1 / math.sqrt(joined))


class Header:
    """Metadata of a GGUF file."""

    def __init__(self):
        self.entries = []

    def add(self, key, value_type, value):
        self.entries.append(self.string(key) + struct.pack("<I", value_type) + value)

    @staticmethod
    def string(text):
        encoded = text.encode("utf-8")
        return struct.pack("<Q", len(encoded)) + encoded

    def add_count(self, key, value):
        self.add(key, 4, struct.pack("<I", value))

    def add_float(self, key, value):
        self.add(key, 6, struct.pack("<f", value))

    def add_flag(self, key, value):
        self.add(key, 7, struct.pack("<?", value))

    def add_string(self, key, value):
        self.add(key, 8, self.string(value))

    def add_array(self, key, element_type, encoded):
        self.add(key, 9, struct.pack("<IQ", element_type, len(encoded)) + b"".join(encoded))

    def build(self, tensors):
        """The bytes before the tensor data."""
        out = bytearray(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(self.entries)))
        out += b"".join(self.entries)
        offset = 0
        for tensor in tensors:
            out += self.string(tensor.name) + struct.pack("<I", len(tensor.extents))
            out += struct.pack(f"<{len(tensor.extents)}Q", *tensor.extents)
            out += struct.pack("<IQ", FORMATS[tensor.format].ggml_id, offset)
            offset += padded(tensor.bytes())
        return bytes(out) + bytes(-len(out) % ALIGNMENT)


def padded(size):
    return size + -size % ALIGNMENT


def byte_spellings():
    """The spellings GPT-2 gave to bytes: printable Latin-1 as it is, the others from U+0100 on."""
    shown = [0x20 < byte < 0x7F or (byte > 0xA0 and byte != 0xAD) for byte in range(256)]
    return [chr(byte if shown[byte] else 0x100 + shown[:byte].count(False)) for byte in range(256)]


def add_vocabulary(header, shape):
    """256 byte tokens, a double line break, the special tokens, then made-up words up to the model's size."""
    spellings = byte_spellings()
    line_break, space = spellings[ord("\n")], spellings[ord(" ")]
    tokens = spellings + [line_break * 2]
    first_special = len(tokens)
    tokens += ["<unk>", "<s>", "</s>"] if shape.is_llava() else ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    end = tokens[-1]
    if shape.vision and not shape.is_llava():
        end = "<end_of_utterance>"
        tokens += [end, "<fake_token_around_image>", "<image>", "<global-img>"]
        tokens += [f"<row_{row}_col_{col}>" for row in range(1, 7) for col in range(1, 7)]
    first_word = len(tokens)
    tokens += [f"{space}w{number}" for number in range(first_word, shape.vocabulary)]
    kinds = [3 if first_special <= number < first_word else 1 for number in range(len(tokens))]
    header.add_string("tokenizer.ggml.model", "gpt2")
    header.add_string("tokenizer.ggml.pre", "qwen2" if shape.architecture.startswith("qwen") else "smollm")
    header.add_array("tokenizer.ggml.tokens", 8, [header.string(token) for token in tokens])
    header.add_array("tokenizer.ggml.token_type", 5, [struct.pack("<i", kind) for kind in kinds])
    header.add_array("tokenizer.ggml.merges", 8, [header.string(f"{line_break} {line_break}")])
    header.add_count("tokenizer.ggml.bos_token_id", first_special + shape.is_llava())
    header.add_count("tokenizer.ggml.eos_token_id", tokens.index(end))
    header.add_flag("tokenizer.ggml.add_bos_token", shape.is_llava())
    if shape.is_llava():
        header.add_string("tokenizer.chat_template", "USER: {{ question }}\nASSISTANT:")


def text_header(name, shape):
    """Metadata of the model file."""
    header = Header()
    header.add_string("general.architecture", shape.architecture)
    header.add_string("general.name", f"{name}, random weights")
    counts = {
        "block_count": shape.layers,
        "context_length": shape.context_length,
        "embedding_length": shape.width,
        "feed_forward_length": shape.mlp_width,
        "attention.head_count": shape.query_heads,
        "attention.head_count_kv": shape.kv_heads,
        "attention.key_length": shape.head_dim,
        "attention.value_length": shape.head_dim,
        "rope.dimension_count": shape.head_dim,
        "vocab_size": shape.vocabulary,
    }
    for key, value in counts.items():
        header.add_count(f"{shape.architecture}.{key}", value)
    header.add_float(f"{shape.architecture}.attention.layer_norm_rms_epsilon", shape.epsilon)
    header.add_float(f"{shape.architecture}.rope.freq_base", shape.rope_base)
    add_vocabulary(header, shape)
    return header


def vision_header(name, shape):
    """Metadata of the mmproj file."""
    vision, header = shape.vision, Header()
    header.add_string("general.architecture", "clip")
    header.add_string("general.name", f"{name}, random weights")
    header.add_flag("clip.has_vision_encoder", True)
    header.add_string("clip.projector_type", "mlp" if vision.is_llava else "idefics3")
    header.add_flag("clip.use_gelu", not vision.is_llava)
    counts = {
        "image_size": vision.image_size,
        "patch_size": vision.patch_size,
        "embedding_length": vision.width,
        "feed_forward_length": vision.mlp_width,
        "block_count": vision.layers,
        "projection_dim": shape.width,
        "attention.head_count": vision.heads,
    }
    if not vision.is_llava:
        counts.update({"projector.scale_factor": vision.scale_factor, "preproc_image_size": vision.longest_edge})
    for key, value in counts.items():
        header.add_count(f"clip.vision.{key}", value)
    header.add_float("clip.vision.attention.layer_norm_epsilon", 1e-5 if vision.is_llava else 1e-6)
    mean, deviation = (CLIP_MEAN, CLIP_STD) if vision.is_llava else ((0.5,) * 3, (0.5,) * 3)
    for key, values in (("image_mean", mean), ("image_std", deviation)):
        header.add_array(f"clip.vision.{key}", 6, [struct.pack("<f", value) for value in values])
    return header


def random_floats(generator, count, mean, deviation):
    spread = deviation * math.sqrt(3)
    values = array.array("f", (mean + generator.uniform(-spread, spread) for _ in range(count)))
    return values.tobytes()


def random_halves(generator, count, deviation):
    """Random signs and fractions at one exponent: the numbers in +-[2^e, 2^(e + 1)), whose deviation is 1.53 * 2^e."""
    data = bytearray(generator.randbytes(2 * count))
    exponent = max(round(math.log2(deviation / math.sqrt(7 / 3))) + 15, 1)
    high_bytes = bytes((byte & 0x83) | exponent << 2 for byte in range(256))
    data[1::2] = data[1::2].translate(high_bytes)
    return data


def random_blocks(generator, count, weight_format, deviation):
    """Random codes, the same scales in each of `count` blocks."""
    kind = FORMATS[weight_format]
    scale = deviation / kind.code_deviation
    scales = struct.pack("<e", scale)
    if weight_format == "Q4_K":  # with the minimum that puts the mean at 0, and the scales of the eight groups
        scales = struct.pack("<ee", scale, scale * 7.5) + bytes([GROUP_SCALE] * 8 + [GROUP_SCALE * 0x11] * 4)
    data = bytearray(generator.randbytes(kind.block_bytes * count))
    for place, byte in enumerate(scales):
        data[place::kind.block_bytes] = bytes([byte]) * count
    return data


def tensor_data(tensor):
    """The bytes of a tensor, in pieces."""
    generator = random.Random(tensor.name)
    kind = FORMATS[tensor.format]
    left = tensor.bytes() // kind.block_bytes
    while left > 0:
        count = min(left, CHUNK_BYTES // kind.block_bytes)
        left -= count
        if tensor.format == "F32":
            yield random_floats(generator, count, tensor.mean, tensor.deviation)
        elif tensor.format == "F16":
            yield random_halves(generator, count, tensor.deviation)
        else:
            yield random_blocks(generator, count, tensor.format, tensor.deviation)


def write(path, header, tensors):
    with open(path, "wb") as file:
        file.write(header.build(tensors))
        for tensor in tensors:
            for piece in tensor_data(tensor):
                file.write(piece)
            file.write(bytes(-tensor.bytes() % ALIGNMENT))


def find_name(text):
    """The shape of this name, in any case of letters."""
    for name in SHAPES:
        if name.lower() == text.lower():
            return name
    raise argparse.ArgumentTypeError(f"there is no shape named {text}: choose one of {', '.join(SHAPES)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("name", type=find_name, help=", ".join(SHAPES))
    parser.add_argument("--format", type=str.upper, choices=["F16", "Q8_0", "Q4_K"], default="Q8_0")
    parser.add_argument("--layers", type=int, help="fewer layers, of the language model and of the tower")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("."), metavar="DIR")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be written")
    options = parser.parse_args()
    shape = SHAPES[options.name]
    if options.layers is not None:
        if options.layers < 1:
            parser.error("--layers must be at least 1")
        vision = shape.vision and dataclasses.replace(shape.vision, layers=options.layers)
        shape = dataclasses.replace(shape, layers=options.layers, vision=vision)
    stem = f"{options.name}-{options.format}.gguf".lower()
    files = [(stem, text_header(options.name, shape), list(text_tensors(shape, options.format)))]
    if shape.vision:
        tensors = list(vision_tensors(shape.vision, shape.width, options.format))
        files.append((f"mmproj-{stem}", vision_header(options.name, shape), tensors))
    for file_name, header, tensors in files:
        path = options.output / file_name
        if not options.dry_run:
            options.output.mkdir(parents=True, exist_ok=True)
            write(path, header, tensors)
        print(f"{path}: {sum(padded(tensor.bytes()) for tensor in tensors)} bytes of tensors")


if __name__ == "__main__":
    main()
