"""Ministral 3, Mistral Small 3.1 and 3.2, and Pixtral 12B, which is a LLaVA by name: a tower that reads pictures of any
size, a merger of 2 x 2 patches in all but the last, two linear maps, and a row that ends lines of a picture. LightOnOCR has
all of it but that row. Names and keys are those of llama.cpp's converter, so that one reader reads both."""
from families import vision
from gguf_file import add_linear, add_tensor
from source import with_text_defaults
from source_json import Facts, read_json
from text_model import interleave_rotary_rows
from vocabulary import added_tokens

PAGES = "lighton_ocr"  # published folders say mistral3
MODEL_TYPES = ("mistral3", "ministral3", PAGES)
TEXT_ONLY = ("ministral3",)
TOWER = "pixtral"
PREFIXES = {
    "model.language_model.": "text.", "language_model.model.": "text.", "language_model.lm_head.": "lm_head.",
    "model.vision_tower.": "vision.", "vision_tower.": "vision.", "model.vision_encoder.": "vision.",
    "model.multi_modal_projector.": "projector.", "multi_modal_projector.": "projector.",
    "model.vision_projection.": "projector.", "model.": "text.",
}
# What transformers assumes when config.json leaves a key out.
MISTRAL_DEFAULTS = {"hidden_size": 5120, "intermediate_size": 32768, "num_hidden_layers": 40, "num_attention_heads": 32,
                    "num_key_value_heads": 8, "head_dim": 128, "rms_norm_eps": 1e-5, "max_position_embeddings": 131072,
                    "rope_theta": 1e9, "sliding_window": None}
TEXT_DEFAULTS = {
    "mistral": MISTRAL_DEFAULTS,
    "ministral3": {**MISTRAL_DEFAULTS, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 34,
                   "max_position_embeddings": 262144, "tie_word_embeddings": False},
}
PAGE_DEFAULTS = {
    "text_config": {"model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,
                    "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "rms_norm_eps": 1e-6,
                    "max_position_embeddings": 40960, "rope_theta": 1e6},
    "vision_config": {"image_size": 1540, "patch_size": 14, "hidden_act": "silu"},
}
PAGE_EPSILON = 1e-6  # of the merger's norm, which files do not name
VISION_DEFAULTS = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16,
                   "patch_size": 16, "image_size": 1024, "hidden_act": "gelu", "layer_norm_eps": 1e-5}
ROPE = {"rope_type": "axial", "rope_theta": 10000.0}
NORMS = {"attention_norm": "ln1", "ffn_norm": "ln2"}
MAPS = {
    "attention.q_proj": "attn_q",
    "attention.k_proj": "attn_k",
    "attention.v_proj": "attn_v",
    "attention.o_proj": "attn_out",
    "feed_forward.gate_proj": "ffn_gate",
    "feed_forward.up_proj": "ffn_up",
    "feed_forward.down_proj": "ffn_down",
}
TURNED = ("attn_q", "attn_k")
MERGER = {"norm": "mm.input_norm", "patch_merger.merging_layer": "mm.patch_merger"}
PROJECTOR = {"linear_1": "mm.1", "linear_2": "mm.2"}
ROW_END = "[IMG_BREAK]"


def arrange(config):
    kinds = config.get("architectures") or [""]
    if config["model_type"] == PAGES or (isinstance(kinds, list) and str(kinds[0]).lower().startswith("lightonocr")):
        return arrange_pages(config)
    text = config if config["model_type"] in TEXT_ONLY else config.part("text_config")
    return with_text_defaults(config, TEXT_ONLY, TEXT_DEFAULTS.get(text.get("model_type", "mistral"), {}))


def arrange_pages(config):
    """The model type of transformers, and what it assumes."""
    parts = {part: {**usual, **(config.get(part) or {})} for part, usual in PAGE_DEFAULTS.items()}
    if parts["text_config"]["rms_norm_eps"] != PAGE_EPSILON:
        raise SystemExit(f"{config.place}: text_config: rms_norm_eps is {parts['text_config']['rms_norm_eps']}, but must be "
                         f"{PAGE_EPSILON}")
    return with_text_defaults(Facts(config.place, {**config, **parts, "model_type": PAGES}), (), {})


def check_variant(source):
    tower, config = source.vision, source.config
    if tower["hidden_act"] != "silu" or config.get("projector_hidden_act", "gelu") != "gelu":
        raise SystemExit(f"the activations of {config.place} are not supported: readers take silu and gelu")
    rope = {**ROPE, "rope_theta": tower.get("rope_theta", ROPE["rope_theta"]), **(tower.get("rope_parameters") or {})}
    if any(rope[key] != value for key, value in ROPE.items()):
        raise SystemExit(f"{tower.place}: rope_parameters are not supported: readers take {ROPE}")
    last = (-1, tower["num_hidden_layers"])
    if config.get("vision_feature_layer", -1) not in last or config.get("vision_feature_select_strategy", "full") != "full":
        raise SystemExit(f"{config.place}: the projector reads all rows of the last layer in models that are supported")


def row_end(source):
    """The row of the embedding that stands after the lines of a picture."""
    config = read_json(source.folder / "tokenizer_config.json")
    listed = added_tokens(source.folder, read_json(source.folder / "tokenizer.json"), config)
    found = [number for number, (text, _) in listed.items() if text == ROW_END]
    rows = source.read("text.embed_tokens.weight")
    if not found or found[0] >= len(rows):
        raise SystemExit(f"{source.folder}: the tokenizer has no {ROW_END}, which ends lines of pictures")
    return rows[found[0]]


def add_facts(writer, source):
    tower = source.vision
    check_variant(source)
    longest = (source.processor.get("size") or {}).get("longest_edge")
    if longest is not None:
        tower["image_size"] = longest
    is_of_pages = source.config["model_type"] == PAGES
    vision.add_facts(writer, source, "lightonocr" if is_of_pages else TOWER, tower["num_hidden_layers"])
    writer.add_vision_use_silu(True)
    merge = source.config.get("spatial_merge_size", 2 if is_of_pages or source.config["model_type"] == "mistral3" else 1)
    if vision.check_scale_factor(source, merge) > 1:
        writer.add_vision_spatial_merge_size(merge)
    return merge


def add_vision(writer, source, args):
    tower = source.vision
    merge = add_facts(writer, source)
    heads = tower["num_attention_heads"]
    add_linear(writer, source, "vision.patch_conv", "v.patch_embd", args.outtype)
    add_linear(writer, source, "vision.ln_pre", "v.pre_ln", args.outtype)
    for layer in range(tower["num_hidden_layers"]):
        theirs, ours = f"vision.transformer.layers.{layer}", f"v.blk.{layer}"
        for name, part in {**NORMS, **MAPS}.items():
            turn = (lambda weight: interleave_rotary_rows(weight, heads)) if part in TURNED else lambda weight: weight
            add_linear(writer, source, f"{theirs}.{name}", f"{ours}.{part}", args.outtype, turn)
    for name, ours in {**(MERGER if merge > 1 else {}), **PROJECTOR}.items():
        add_linear(writer, source, f"projector.{name}", ours, args.outtype)
    if source.config["model_type"] != PAGES:
        add_tensor(writer, "v.token_embd.img_break", row_end(source), args.outtype)
