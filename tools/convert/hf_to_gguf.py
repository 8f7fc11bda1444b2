"""Converts a Hugging Face folder of a SmolVLM or Idefics3 model into a GGUF pair: text model and mmproj.

Writes OUT/NAME-TYPE.gguf and OUT/mmproj-NAME-TYPE.gguf. Norms, biases and position embeddings stay F32; with q8_0,
tensors whose rows are no multiple of 32 become F16. The tokenizer must be byte-level BPE.
"""
import argparse
import json
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

from safetensors_folder import SafetensorsFolder
from vocabulary import add_vocabulary

FILE_TYPES = {"f32": gguf.LlamaFileType.ALL_F32, "f16": gguf.LlamaFileType.MOSTLY_F16,
              "q8_0": gguf.LlamaFileType.MOSTLY_Q8_0}
WEIGHT_TYPES = {"f32": Type.F32, "f16": Type.F16, "q8_0": Type.Q8_0}
Q8_0_BLOCK = 32

TEXT, VISION = "model.text_model.", "model.vision_model."
TEXT_TENSORS = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
VISION_TENSORS = {
    "layer_norm1": "ln1",
    "layer_norm2": "ln2",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.out_proj": "attn_out",
    "mlp.fc1": "ffn_up",
    "mlp.fc2": "ffn_down",
}
# What transformers assumes when config.json leaves a key of vision_config out.
VISION_DEFAULTS = {"hidden_size": 1152, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 16,
                   "image_size": 224, "patch_size": 32, "layer_norm_eps": 1e-6}
TEXT_DEFAULTS = {"rms_norm_eps": 1e-6, "max_position_embeddings": 2048}


def read_json(path):
    return json.loads(path.read_text()) if path.exists() else {}


class Source:
    """Everything the folder says about the model."""

    def __init__(self, folder):
        folder = Path(folder)
        self.config = read_json(folder / "config.json")
        if "text_config" not in self.config or "vision_config" not in self.config:
            raise SystemExit(f"{folder}/config.json has no text_config and vision_config: not SmolVLM or Idefics3")
        self.text = {**TEXT_DEFAULTS, **self.config["text_config"]}
        self.vision = {**VISION_DEFAULTS, **self.config["vision_config"]}
        self.architecture = self.text.get("model_type", "llama")
        if self.architecture not in ("llama", "qwen2"):
            raise SystemExit(f"the text model is {self.architecture}: only llama and qwen2 are supported")
        nested = read_json(folder / "processor_config.json").get("image_processor", {})
        self.processor = {**read_json(folder / "preprocessor_config.json"), **nested}
        self.folder = folder
        self.tensors = SafetensorsFolder(folder)
        self.used = set()

    def read(self, name):
        self.used.add(name)
        return self.tensors.read(name)

    def has(self, name):
        return name in self.tensors.names()

    def check_all_used(self):
        """A tensor nobody asked for means that the model is not what we take it for."""
        known = self.used | {n for n in self.tensors.names() if n.endswith(("position_ids", "rotary_emb.inv_freq"))}
        if self.tied():
            known.add("lm_head.weight")
        unknown = sorted(self.tensors.names() - known)
        if unknown:
            raise SystemExit(f"{len(unknown)} tensors are not part of the SmolVLM layout, the first is {unknown[0]}")

    def tied(self):
        """Whether the output weights are the embedding."""
        if not self.has("lm_head.weight"):
            return True
        return bool(self.text.get("tie_word_embeddings", self.config.get("tie_word_embeddings", False)))

    def rope_theta(self):
        rope = self.text.get("rope_parameters") or {}
        scaling = self.text.get("rope_scaling") or rope
        kind = scaling.get("rope_type", scaling.get("type", "default"))
        if kind != "default":
            raise SystemExit(f"the rope scaling {kind} is not supported")
        return float(rope.get("rope_theta", self.text.get("rope_theta", 10000.0)))


def interleave_rotary_rows(weight, heads):
    """Per head, row 2i+j becomes old row j*E/2+i: GGUF's llama rotates neighbours, Hugging Face rotates halves."""
    half = weight.shape[0] // heads // 2
    return weight.reshape(heads, 2, half, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def quantize_q8_0(array):
    """Blocks of 32: an f16 scale and 32 int8, as bytes [..., row bytes]. The gguf package rounds halves away from zero;
    half to even is what processors do, and weights that were f16 before do hit exact halves."""
    blocks = array.reshape(-1, Q8_0_BLOCK)
    scale = np.abs(blocks).max(axis=1, keepdims=True) / 127
    inverse = np.where(scale > 0, 1 / np.maximum(scale, 1e-30), 0)
    codes = np.rint(blocks * inverse).clip(-127, 127).astype(np.int8)
    packed = np.concatenate([scale.astype(np.float16).view(np.uint8), codes.view(np.uint8)], axis=1)
    return packed.reshape(*array.shape[:-1], -1)


def add_tensor(writer, name, array, outtype):
    weight_type = WEIGHT_TYPES[outtype]
    if array.ndim == 1 or "position_embd" in name:
        weight_type = Type.F32
    elif weight_type == Type.Q8_0 and array.shape[-1] % Q8_0_BLOCK:
        weight_type = Type.F16
    array = np.ascontiguousarray(array)
    data = quantize_q8_0(array) if weight_type == Type.Q8_0 else gguf.quants.quantize(array, weight_type)
    writer.add_tensor(name, data, raw_dtype=weight_type)


def add_text_tensors(writer, source, outtype):
    heads = source.text["num_attention_heads"]
    turned = {"attn_q": heads, "attn_k": source.text.get("num_key_value_heads", heads)}
    add_tensor(writer, "token_embd.weight", source.read(TEXT + "embed_tokens.weight"), outtype)
    add_tensor(writer, "output_norm.weight", source.read(TEXT + "norm.weight"), outtype)
    if not source.tied():
        add_tensor(writer, "output.weight", source.read("lm_head.weight"), outtype)
    for layer in range(source.text["num_hidden_layers"]):
        for theirs, ours in TEXT_TENSORS.items():
            for kind in ("weight", "bias"):
                name = f"{TEXT}layers.{layer}.{theirs}.{kind}"
                if kind == "bias" and not source.has(name):
                    continue
                array = source.read(name)
                if source.architecture == "llama" and ours in turned:
                    array = interleave_rotary_rows(array, turned[ours])
                add_tensor(writer, f"blk.{layer}.{ours}.{kind}", array, outtype)


def add_vision_tensors(writer, source, outtype):
    for kind in ("weight", "bias"):
        add_tensor(writer, f"v.patch_embd.{kind}", source.read(f"{VISION}embeddings.patch_embedding.{kind}"), outtype)
    positions = source.read(VISION + "embeddings.position_embedding.weight")
    add_tensor(writer, "v.position_embd.weight", positions, outtype)
    for kind in ("weight", "bias"):
        add_tensor(writer, f"v.post_ln.{kind}", source.read(f"{VISION}post_layernorm.{kind}"), outtype)
    projection = source.read("model.connector.modality_projection.proj.weight")
    add_tensor(writer, "mm.model.fc.weight", projection, outtype)
    for layer in range(source.vision["num_hidden_layers"]):
        for theirs, ours in VISION_TENSORS.items():
            for kind in ("weight", "bias"):
                array = source.read(f"{VISION}encoder.layers.{layer}.{theirs}.{kind}")
                add_tensor(writer, f"v.blk.{layer}.{ours}.{kind}", array, outtype)


def open_writer(path, architecture, title, outtype):
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name(title)
    writer.add_file_type(FILE_TYPES[outtype])
    return writer


def close_writer(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_text_model(source, path, title, args):
    text = source.text
    heads, width = text["num_attention_heads"], text["hidden_size"]
    head_dim = text.get("head_dim") or width // heads
    rows = source.tensors.rows(TEXT + "embed_tokens.weight")
    writer = open_writer(path, source.architecture, title, args.outtype)
    writer.add_block_count(text["num_hidden_layers"])
    writer.add_context_length(text["max_position_embeddings"])
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(text["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(text.get("num_key_value_heads", heads))
    writer.add_layer_norm_rms_eps(text["rms_norm_eps"])
    writer.add_rope_freq_base(source.rope_theta())
    writer.add_rope_dimension_count(head_dim)
    writer.add_vocab_size(rows)
    if head_dim * heads != width:
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    add_vocabulary(writer, source.folder, source.config, rows, args.pre_tokenizer)
    add_text_tensors(writer, source, args.outtype)
    close_writer(writer)


def preprocess_size(source, override):
    """Longest side before tiling. 0 says that pictures are never tiled, which the format has no other word for."""
    if override is not None:
        return override
    if not source.processor.get("do_image_splitting", True):
        return 0
    return source.processor["size"]["longest_edge"]


def write_vision_model(source, path, title, args):
    vision = source.vision
    if vision.get("hidden_act", "gelu_pytorch_tanh") != "gelu_pytorch_tanh":
        raise SystemExit(f"the vision activation {vision['hidden_act']} is not supported")
    writer = open_writer(path, "clip", title, args.outtype)
    writer.add_clip_has_vision_encoder(True)
    writer.add_string("clip.projector_type", "idefics3")
    writer.add_vision_use_gelu(True)
    writer.add_vision_image_size(vision["image_size"])
    writer.add_vision_patch_size(vision["patch_size"])
    writer.add_vision_embedding_length(vision["hidden_size"])
    writer.add_vision_feed_forward_length(vision["intermediate_size"])
    writer.add_vision_block_count(vision["num_hidden_layers"])
    writer.add_vision_head_count(vision["num_attention_heads"])
    writer.add_vision_attention_layernorm_eps(vision["layer_norm_eps"])
    writer.add_vision_projection_dim(source.text["hidden_size"])
    writer.add_vision_image_mean(source.processor["image_mean"])
    writer.add_vision_image_std(source.processor["image_std"])
    writer.add_vision_projector_scale_factor(source.config.get("scale_factor", 2))
    writer.add_uint32("clip.vision.preproc_image_size", preprocess_size(source, args.preproc_image_size))
    add_vision_tensors(writer, source, args.outtype)
    close_writer(writer)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="Hugging Face folder with config.json, tokenizer.json and safetensors")
    parser.add_argument("out", help="folder to write")
    parser.add_argument("--name", help="stem of the file names (default: the folder's name)")
    parser.add_argument("--title", help="general.name in the files (default: the stem)")
    parser.add_argument("--outtype", choices=list(WEIGHT_TYPES), default="f16")
    parser.add_argument("--pre-tokenizer", choices=["gpt-2", "smollm", "qwen2", "llama-bpe"],
                        help="how text is cut before merging (default: found out from tokenizer.json)")
    parser.add_argument("--preproc-image-size", type=int,
                        help="longest side before tiling, 0 for no tiling (default: from the processor config)")
    args = parser.parse_args()

    source = Source(args.model)
    name = args.name or source.folder.resolve().name
    title = args.title or name
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    write_text_model(source, out / f"{name}-{args.outtype}.gguf", title, args)
    write_vision_model(source, out / f"mmproj-{name}-{args.outtype}.gguf", title, args)
    source.check_all_used()


if __name__ == "__main__":
    main()
