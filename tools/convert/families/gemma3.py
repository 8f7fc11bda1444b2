"""Gemma 3: a SigLIP tower, the mean of squares of its rows, a norm and one linear map; or the text model alone. Names
and keys are those of llama.cpp's converter, so that one reader reads both."""
import math

from families import vision
from gemma3_text import TEXT_DEFAULTS
from gguf_file import add_linear, add_tensor
from source import with_text_defaults
from source_json import Facts

MODEL_TYPES = ("gemma3", "gemma3_text")
TEXT_ONLY = ("gemma3_text",)
PREFIXES = {
    "model.language_model.": "text.", "language_model.model.": "text.", "language_model.lm_head.": "lm_head.",
    "model.vision_tower.vision_model.": "vision.", "model.vision_tower.": "vision.",
    "vision_tower.vision_model.": "vision.", "vision_tower.": "vision.",
    "model.multi_modal_projector.": "projector.", "multi_modal_projector.": "projector.", "model.": "text.",
}
VISION_DEFAULTS = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12,
                   "image_size": 224, "patch_size": 16, "layer_norm_eps": 1e-6, "hidden_act": "gelu_pytorch_tanh"}
MOST_ROWS = 1 << 16
USUAL_ROWS, USUAL_SCALE = 256, 4


def arrange(config):
    return with_text_defaults(config, TEXT_ONLY, TEXT_DEFAULTS)


def scale_factor(source):
    """Patches a side of the squares whose mean is one row."""
    config = Facts(source.config.place, {"mm_tokens_per_image": USUAL_ROWS, **source.config})
    rows = config.count("mm_tokens_per_image", 1, MOST_ROWS)
    side = math.isqrt(rows)
    patches = vision.side(source.vision, "image_size") // vision.side(source.vision, "patch_size")
    if side * side != rows or patches % side:
        raise SystemExit(f"{config.place}: {patches} patches a side cannot become {rows} rows of equal squares")
    return vision.check_scale_factor(source, patches // side)


def add_facts(writer, source):
    if source.vision["hidden_act"] != "gelu_pytorch_tanh":
        raise SystemExit(f"the vision activation {source.vision['hidden_act']} is not supported")
    if source.processor.get("do_pan_and_scan"):
        raise SystemExit(f"{source.processor.place}: do_pan_and_scan cuts pictures into views, which is not supported")
    scale = scale_factor(source)
    vision.add_facts(writer, source, "gemma3", source.vision["num_hidden_layers"])
    writer.add_vision_use_gelu(True)
    if scale != USUAL_SCALE:
        writer.add_vision_projector_scale_factor(scale)


def add_vision(writer, source, args):
    add_facts(writer, source)
    add_linear(writer, source, "vision.embeddings.patch_embedding", "v.patch_embd", args.outtype)
    positions = source.read("vision.embeddings.position_embedding.weight")
    add_tensor(writer, "v.position_embd.weight", positions, args.outtype)
    vision.add_layers(writer, source, source.vision["num_hidden_layers"], args.outtype)
    add_linear(writer, source, "vision.post_layernorm", "v.post_ln", args.outtype)
    add_tensor(writer, "mm.soft_emb_norm.weight", source.read("projector.mm_soft_emb_norm.weight") + 1, args.outtype)
    # Stored as it is multiplied, a row for each number of the tower, and F16 in files of all types.
    add_tensor(writer, "mm.input_projection.weight", source.read("projector.mm_input_projection_weight"), "f16")
    source.leave_out("vision.head.")  # pools the rows to one, for other models
