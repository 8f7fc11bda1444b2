"""LLaVA-1.5 and LLaVA-1.6 (LLaVA-NeXT): a CLIP tower that stops before its end, two linear maps."""
from families import vision
from gguf_file import add_linear, add_tensor
from source_json import whole_number

MODEL_TYPES = ("llava", "llava_next")
PREFIXES = {
    "model.language_model.": "text.", "language_model.model.": "text.", "language_model.lm_head.": "lm_head.",
    "model.vision_tower.vision_model.": "vision.", "model.vision_tower.": "vision.",
    "vision_tower.vision_model.": "vision.", "vision_tower.": "vision.",
    "model.multi_modal_projector.": "projector.", "multi_modal_projector.": "projector.",
    "model.image_newline": "image_newline",
}
VISION_DEFAULTS = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12,
                   "image_size": 224, "patch_size": 32, "layer_norm_eps": 1e-5, "hidden_act": "quick_gelu"}
MOST_GRIDS, MOST_CANVAS = 32, 1 << 16
PROJECTOR_TENSORS = {"projector.linear_1": "mm.0", "projector.linear_2": "mm.2"}


def layers_run(source):
    """Layers up to the one whose rows are projected; the others are left out of the file."""
    layers = source.vision["num_hidden_layers"]
    feature = source.config.get("vision_feature_layer", -2)
    if not isinstance(feature, int) or source.config.get("vision_feature_select_strategy", "default") != "default":
        raise SystemExit("the projector reads the patches of one layer only in models that are supported")
    run = feature if feature >= 0 else layers + 1 + feature
    if not 1 <= run <= layers:
        raise SystemExit(f"{source.config.place}: vision_feature_layer is {feature}, but the tower has {layers} layers")
    return run


def add_anyres(writer, source, outtype):
    """LLaVA-1.6: which canvases a picture may be cut from, [height, width] each, and the row that ends a line of it."""
    grids = source.config["image_grid_pinpoints"]
    is_pair = lambda grid: isinstance(grid, list) and len(grid) == 2 and all(whole_number(n, 1, MOST_CANVAS) for n in grid)
    if not isinstance(grids, list) or not 1 <= len(grids) <= MOST_GRIDS or not all(map(is_pair, grids)):
        raise SystemExit(f"{source.config.place}: image_grid_pinpoints must list 1 to {MOST_GRIDS} pairs of sides")
    writer.add_array("clip.vision.image_grid_pinpoints", [number for grid in grids for number in grid])
    writer.add_string("clip.vision.image_aspect_ratio", "anyres")
    writer.add_string("clip.vision.mm_patch_merge_type", "spatial_unpad")
    add_tensor(writer, "model.image_newline", source.read("image_newline"), outtype)


def add_vision(writer, source, args):
    layers = layers_run(source)
    activation = source.vision["hidden_act"]
    if activation not in ("gelu", "quick_gelu") or source.config.get("projector_hidden_act", "gelu") != "gelu":
        raise SystemExit(f"the activations of {source.folder}/config.json are not supported")
    vision.add_facts(writer, source, "mlp", layers)
    writer.add_bool("clip.has_llava_projector", True)
    writer.add_vision_use_gelu(activation == "gelu")
    writer.add_string("clip.vision.mm_projector_type", "mlp2x_gelu")
    if source.config["model_type"] == "llava_next":
        add_anyres(writer, source, args.outtype)
    add_tensor(writer, "v.class_embd", source.read("vision.embeddings.class_embedding"), args.outtype)
    add_linear(writer, source, "vision.embeddings.patch_embedding", "v.patch_embd", args.outtype)
    positions = source.read("vision.embeddings.position_embedding.weight")
    add_tensor(writer, "v.position_embd.weight", positions, args.outtype)
    add_linear(writer, source, "vision.pre_layrnorm", "v.pre_ln", args.outtype)  # so spelt in all files
    vision.add_layers(writer, source, layers, args.outtype)
    for theirs, ours in PROJECTOR_TENSORS.items():
        add_linear(writer, source, theirs, ours, args.outtype)
    source.leave_out("vision.post_layernorm.", *(f"vision.encoder.layers.{i}." for i in
                                                 range(layers, source.vision["num_hidden_layers"])))
