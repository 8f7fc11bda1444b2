"""Qwen2-VL, Qwen2.5-VL and Qwen3-VL (Cosmos-Reason2 is one): towers that read pictures of any size, and a merger of
2 x 2 patches. Names and keys are those of llama.cpp's converter, so that one reader reads both."""
import math

from families import vision
from gguf_file import add_linear, add_tensor
from source_json import Facts, shown, whole_number

MODEL_TYPES = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl")
PREFIXES = {"model.language_model.": "text.", "language_model.model.": "text.", "language_model.lm_head.": "lm_head.",
            "model.visual.": "vision.", "visual.": "vision.", "model.": "text."}
VISION_DEFAULTS = {"layer_norm_eps": 1e-6, "spatial_merge_size": 2, "window_size": 112}
PROJECTORS = {"qwen2_vl": "qwen2vl_merger", "qwen2_5_vl": "qwen2.5vl_merger", "qwen3_vl": "qwen3vl_merger"}
ACTIVATIONS = {"qwen2_vl": "quick_gelu", "qwen2_5_vl": "silu", "qwen3_vl": "gelu_pytorch_tanh"}
NOMINAL_SIDE = 560  # of towers without a table of positions, which have no size of their own
MOST_POSITIONS = 1 << 16
MOST_PIXELS = (1 << 31) - 1
NORMS = {"norm1": "ln1", "norm2": "ln2"}
MLPS = {
    "qwen2_vl": {"mlp.fc1": "ffn_up", "mlp.fc2": "ffn_down"},
    "qwen2_5_vl": {"mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"},
    "qwen3_vl": {"mlp.linear_fc1": "ffn_up", "mlp.linear_fc2": "ffn_down"},
}
MERGERS = {
    "qwen2_vl": {"ln_q": "v.post_ln", "mlp.0": "mm.0", "mlp.2": "mm.2"},
    "qwen2_5_vl": {"ln_q": "v.post_ln", "mlp.0": "mm.0", "mlp.2": "mm.2"},
    "qwen3_vl": {"norm": "v.post_ln", "linear_fc1": "mm.0", "linear_fc2": "mm.2"},
}
DEEPSTACK = {"norm": "norm", "linear_fc1": "fc1", "linear_fc2": "fc2"}


def nominal_side(facts):
    if "num_position_embeddings" not in facts:
        return NOMINAL_SIDE
    return math.isqrt(facts.count("num_position_embeddings", 1, MOST_POSITIONS)) * facts["patch_size"]


def arrange(config):
    """The same config.json in the keys of other families. Older ones hold the text model's facts at the top, and
    Qwen2-VL's tower calls its width embed_dim, since hidden_size there is the text model's."""
    facts = config.part("vision_config")
    named = {"num_hidden_layers": facts["depth"], "num_attention_heads": facts["num_heads"]}
    if config["model_type"] == "qwen2_vl":
        width = facts.count("embed_dim", 1, 1 << 20)
        named |= {"hidden_size": width, "intermediate_size": int(width * facts.get("mlp_ratio", 4))}
    text = config.get("text_config", {key: value for key, value in config.items() if key != "vision_config"})
    arranged = {**facts, **named, "image_size": nominal_side(facts)}
    return Facts(config.place, {**config, "text_config": text, "vision_config": arranged})


def listed_layers(source, key, least):
    """Numbers of layers of the tower, each once."""
    vision = source.vision
    layers = vision[key]
    if not isinstance(layers, list) or len(layers) < least or not all(
            whole_number(layer, 0, vision["num_hidden_layers"] - 1) for layer in layers) or len(set(layers)) < len(layers):
        raise SystemExit(f"{vision.place}: {key} is {shown(layers)}, but must list layers of the tower")
    return layers


def window_pattern(source):
    """Every how many layers one attends to the whole picture."""
    full = listed_layers(source, "fullatt_block_indexes", 1)
    pattern = full[0] + 1
    if full != list(range(pattern - 1, source.vision["num_hidden_layers"], pattern)):
        raise SystemExit(f"{source.vision.place}: fullatt_block_indexes {full} are not every {pattern}th layer")
    return pattern


def pixel_limits(source):
    """{min, max: pixels of a picture} as far as the processor names them."""
    size = source.processor.get("size") or {}
    given = {"min": (source.processor.get("min_pixels"), size.get("shortest_edge")),
             "max": (source.processor.get("max_pixels"), size.get("longest_edge"))}
    limits = {limit: next((value for value in values if value is not None), None) for limit, values in given.items()}
    limits = Facts(source.processor.place, {limit: value for limit, value in limits.items() if value is not None})
    return {limit: limits.count(limit, 1, MOST_PIXELS) for limit in limits}


def add_vision_facts(writer, source, kind):
    facts = source.vision
    if facts.get("hidden_act", ACTIVATIONS[kind]) != ACTIVATIONS[kind]:
        raise SystemExit(f"the vision activation {facts['hidden_act']} is not supported")
    if facts.get("temporal_patch_size", 2) != 2:
        raise SystemExit(f"{facts.place}: temporal_patch_size is {facts['temporal_patch_size']}, but must be 2")
    vision.add_facts(writer, source, PROJECTORS[kind], facts["num_hidden_layers"])
    writer.add_vision_use_gelu(kind == "qwen3_vl")
    writer.add_vision_use_silu(kind == "qwen2_5_vl")
    writer.add_uint32("clip.vision.spatial_merge_size", vision.check_scale_factor(source, facts["spatial_merge_size"]))
    for limit, pixels in pixel_limits(source).items():
        writer.add_uint32(f"clip.vision.image_{limit}_pixels", pixels)
    if kind == "qwen2_5_vl":
        writer.add_uint32("clip.vision.n_wa_pattern", window_pattern(source))
        writer.add_uint32("clip.vision.window_size", facts.count("window_size", 1, vision.MOST_SIDE))
    if kind == "qwen3_vl":
        listed = listed_layers(source, "deepstack_visual_indexes", 0)
        writer.add_array("clip.vision.is_deepstack_layers",
                         [layer in listed for layer in range(facts["num_hidden_layers"])])


def add_patches(writer, source, outtype):
    """The kernel reads two frames: one tensor each."""
    kernel = source.read("vision.patch_embed.proj.weight")
    for frame, name in enumerate(("v.patch_embd.weight", "v.patch_embd.weight.1")):
        add_tensor(writer, name, kernel[:, :, frame], outtype)
    if source.has("vision.patch_embed.proj.bias"):
        add_tensor(writer, "v.patch_embd.bias", source.read("vision.patch_embed.proj.bias"), outtype)


def add_attention(writer, source, theirs, ours, kind, outtype):
    """Queries, keys and values stay one matrix in Qwen3-VL only."""
    if kind == "qwen3_vl":
        add_linear(writer, source, f"{theirs}.qkv", f"{ours}.attn_qkv", outtype)
    else:
        vision.add_joined_attention(writer, source, f"{theirs}.qkv", ours, outtype)
    add_linear(writer, source, f"{theirs}.proj", f"{ours}.attn_out", outtype)


def add_layer(writer, source, layer, kind, outtype):
    theirs, ours = f"vision.blocks.{layer}", f"v.blk.{layer}"
    add_attention(writer, source, f"{theirs}.attn", ours, kind, outtype)
    for name, own in {**NORMS, **MLPS[kind]}.items():
        add_linear(writer, source, f"{theirs}.{name}", f"{ours}.{own}", outtype)


def add_deepstack(writer, source, outtype):
    """The mergers of rows that join the first layers of the text model, named by the layer they come from."""
    for i, layer in enumerate(source.vision["deepstack_visual_indexes"]):
        for name, own in DEEPSTACK.items():
            add_linear(writer, source, f"vision.deepstack_merger_list.{i}.{name}", f"v.deepstack.{layer}.{own}", outtype)


def add_vision(writer, source, args):
    kind = source.config["model_type"]
    add_vision_facts(writer, source, kind)
    add_patches(writer, source, args.outtype)
    if kind == "qwen3_vl":
        add_tensor(writer, "v.position_embd.weight", source.read("vision.pos_embed.weight"), args.outtype)
        add_deepstack(writer, source, args.outtype)
    for layer in range(source.vision["num_hidden_layers"]):
        add_layer(writer, source, layer, kind, args.outtype)
    for name, own in MERGERS[kind].items():
        add_linear(writer, source, f"vision.merger.{name}", own, args.outtype)
