"""Gemma 4 E2B and E4B: a tower with maps whose values may have bounds, and one linear map; or the text model alone. What
hears is left out. Names and keys are those of llama.cpp's converter, so that one reader reads both."""
import numpy as np

from families import vision
from gemma4_text import TEXT_DEFAULTS
from gguf_file import add_linear, add_tensor
from source import with_text_defaults

MODEL_TYPES = ("gemma4", "gemma4_text")
TEXT_ONLY = ("gemma4_text",)
PREFIXES = {
    "model.language_model.": "text.", "language_model.model.": "text.", "model.vision_tower.": "vision.",
    "model.embed_vision.": "projector.", "model.audio_tower.": "audio.", "model.embed_audio.": "audio.",
    "model.": "text.",
}
VISION_DEFAULTS = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 16, "num_attention_heads": 12,
                   "head_dim": 64, "patch_size": 16, "pooling_kernel_size": 3, "rms_norm_eps": 1e-6,
                   "hidden_activation": "gelu_pytorch_tanh", "position_embedding_size": 10240,
                   "image_size": 224}  # without meaning, and yet in files
ROPE = {"rope_type": "axial", "rope_theta": 100.0}
USUAL_SCALE, MOST_SCALE = 3, 16
MAPS = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_out",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
NORMS = {
    "input_layernorm": "ln1",
    "post_attention_layernorm": "attn_post_norm",
    "pre_feedforward_layernorm": "ln2",
    "post_feedforward_layernorm": "ffn_post_norm",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
}
BOUNDS = ("input_min", "input_max", "output_min", "output_max")


def arrange(config):
    return with_text_defaults(config, TEXT_ONLY, TEXT_DEFAULTS)


def check_variant(tower):
    if tower["hidden_activation"] != "gelu_pytorch_tanh":
        raise SystemExit(f"{tower.place}: the activation {tower['hidden_activation']} is not supported")
    if tower["head_dim"] * tower["num_attention_heads"] != tower["hidden_size"]:
        raise SystemExit(f"{tower.place}: heads of {tower['head_dim']} are not supported")
    rope = {**ROPE, **(tower.get("rope_parameters") or {})}
    if any(rope[key] != value for key, value in ROPE.items()):
        raise SystemExit(f"{tower.place}: rope_parameters are not supported: readers take {ROPE}")


def add_facts(writer, source):
    tower = source.vision
    check_variant(tower)
    scale = tower.count("pooling_kernel_size", 1, MOST_SCALE)
    # The tower centres its pixels itself.
    source.processor.update({"image_mean": [0.0] * 3, "image_std": [1.0] * 3})
    tower["layer_norm_eps"] = tower["rms_norm_eps"]
    vision.add_facts(writer, source, "gemma4v", tower["num_hidden_layers"])
    if scale != USUAL_SCALE:
        writer.add_vision_projector_scale_factor(scale)


def patch_kernel(weight, patch):
    """The map of patches as a kernel [width, channels, lines, columns]: there channels are the last."""
    return np.ascontiguousarray(weight.reshape(-1, patch, patch, 3).transpose(0, 3, 1, 2))


def add_bounds(writer, source, name, ours, outtype):
    for bound in BOUNDS:
        if source.has(f"{name}.{bound}"):
            value = np.asarray(source.read(f"{name}.{bound}"), dtype=np.float32).reshape(1)
            add_tensor(writer, f"{ours}.{bound}", value, outtype)


def add_vision(writer, source, args):
    tower = source.vision
    add_facts(writer, source)
    kernel = patch_kernel(source.read("vision.patch_embedder.input_proj.weight"), tower["patch_size"])
    add_tensor(writer, "v.patch_embd.weight", kernel, args.outtype)
    positions = source.read("vision.patch_embedder.position_embedding_table")
    add_tensor(writer, "v.position_embd.weight", positions, args.outtype)
    for layer in range(tower["num_hidden_layers"]):
        theirs, ours = f"vision.encoder.layers.{layer}", f"v.blk.{layer}"
        for name, part in MAPS.items():
            add_linear(writer, source, f"{theirs}.{name}.linear", f"{ours}.{part}", args.outtype)
            add_bounds(writer, source, f"{theirs}.{name}", f"{ours}.{part}", args.outtype)
        for name, part in NORMS.items():
            add_linear(writer, source, f"{theirs}.{name}", f"{ours}.{part}", args.outtype)
    for part in ("std_bias", "std_scale"):
        if source.has(f"vision.{part}"):
            add_tensor(writer, f"v.{part}", source.read(f"vision.{part}"), args.outtype)
    add_linear(writer, source, "projector.embedding_projection", "mm.input_projection", args.outtype)
    source.leave_out("audio.")
