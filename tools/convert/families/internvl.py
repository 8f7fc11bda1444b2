"""InternVL 2.5, 3 and 3.5, in transformers' layout and in OpenGVLab's own: a tower with layer scale, pixel shuffle, a
norm and two linear maps."""
from families import vision
from gguf_file import add_linear, add_tensor

MODEL_TYPES = ("internvl", "internvl_chat")
PREFIXES = {
    "model.language_model.": "text.", "language_model.model.": "text.",
    "language_model.lm_head.": "lm_head.", "language_model.output.": "lm_head.",
    "model.vision_tower.": "vision.", "vision_tower.": "vision.", "vision_model.": "vision.",
    "model.multi_modal_projector.": "projector.", "multi_modal_projector.": "projector.", "mlp1.": "projector.",
}
VISION_DEFAULTS = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16,
                   "image_size": 448, "patch_size": 14, "layer_norm_eps": 1e-6, "hidden_act": "gelu"}

# Ours: (transformers, OpenGVLab).
EMBEDDING_TENSORS = {
    "v.class_embd": ("embeddings.cls_token", "embeddings.class_embedding"),
    "v.position_embd.weight": ("embeddings.position_embeddings", "embeddings.position_embedding"),
}
PATCHES = ("embeddings.patch_embeddings.projection", "embeddings.patch_embedding")
JOINED = "attn.qkv"
LAYER_TENSORS = {
    "ln1": ("layernorm_before", "norm1"),
    "ln2": ("layernorm_after", "norm2"),
    "attn_q": ("attention.q_proj", JOINED),
    "attn_k": ("attention.k_proj", None),
    "attn_v": ("attention.v_proj", None),
    "attn_q_norm": ("attention.q_norm", "attn.q_norm"),
    "attn_k_norm": ("attention.k_norm", "attn.k_norm"),
    "attn_out": ("attention.projection_layer", "attn.proj"),
    "ffn_up": ("mlp.fc1", "mlp.fc1"),
    "ffn_down": ("mlp.fc2", "mlp.fc2"),
}
LAYER_SCALES = {"ls1.weight": ("lambda_1", "ls1"), "ls2.weight": ("lambda_2", "ls2")}
PROJECTOR_TENSORS = {"mm.model.mlp.0": ("layer_norm", "0"), "mm.model.mlp.1": ("linear_1", "1"),
                     "mm.model.mlp.3": ("linear_2", "3")}
MOST_TILES = 16
OPTIONAL = ("attn_q_norm", "attn_k_norm")  # of the 6B tower


def add_layer(writer, source, layer, own, outtype):
    prefix = f"vision.encoder.{'layers' if own else 'layer'}.{layer}."
    for ours, names in LAYER_TENSORS.items():
        theirs = names[own]
        if theirs == JOINED:
            vision.add_joined_attention(writer, source, prefix + theirs, f"v.blk.{layer}", outtype)
        elif theirs and (ours not in OPTIONAL or source.has(f"{prefix}{theirs}.weight")):
            add_linear(writer, source, prefix + theirs, f"v.blk.{layer}.{ours}", outtype)
    for ours, names in LAYER_SCALES.items():
        add_tensor(writer, f"v.blk.{layer}.{ours}", source.read(prefix + names[own]), outtype)


def scale_factor(config):
    """Patches that are joined, a side."""
    ratio = config.get("downsample_ratio", 0.5)
    if not isinstance(ratio, (int, float)) or not 0 < ratio <= 1 or abs(round(1 / ratio) * ratio - 1) > 1e-3:
        raise SystemExit(f"{config.place}: downsample_ratio is {ratio!r}, but must be 1, 1/2, 1/3 and so on")
    return round(1 / ratio)


def add_vision_facts(writer, source):
    if source.vision["hidden_act"] != "gelu" or source.config.get("projector_hidden_act", "gelu") != "gelu":
        raise SystemExit(f"the activations of {source.folder}/config.json are not supported")
    if source.config.get("vision_feature_layer", source.config.get("select_layer", -1)) != -1:
        raise SystemExit("the projector reads the last layer of the tower in models that are supported")
    vision.add_facts(writer, source, "internvl", source.vision["num_hidden_layers"])
    writer.add_vision_use_gelu(True)
    writer.add_vision_projector_scale_factor(vision.check_scale_factor(source, scale_factor(source.config)))
    for limit in ("min", "max"):
        for facts, key in ((source.config, f"{limit}_dynamic_patch"), (source.processor, f"{limit}_patches")):
            if facts.get(key) is not None:
                writer.add_uint32(f"clip.vision.preproc_{limit}_tiles", facts.count(key, 1, MOST_TILES))
                break


def add_vision(writer, source, args):
    own = int(source.has("vision.embeddings.class_embedding"))
    add_vision_facts(writer, source)
    for ours, names in EMBEDDING_TENSORS.items():
        add_tensor(writer, ours, source.read("vision." + names[own]), args.outtype)
    add_linear(writer, source, "vision." + PATCHES[own], "v.patch_embd", args.outtype)
    for layer in range(source.vision["num_hidden_layers"]):
        add_layer(writer, source, layer, own, args.outtype)
    for ours, names in PROJECTOR_TENSORS.items():
        add_linear(writer, source, "projector." + names[own], ours, args.outtype)
