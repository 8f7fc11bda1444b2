"""LFM2-VL and LFM2.5-VL: a SigLIP2 tower that reads views of any size, 2 x 2 of its rows side by side, two linear maps;
or the text model alone. Names and keys are those of llama.cpp's converter, which has the numbers of views as constants:
here they have keys, too."""
import math

from families import vision
from gguf_file import add_linear, add_tensor
from lfm2_text import arrange_text
from source_json import Facts

MODEL_TYPES = ("lfm2_vl", "lfm2")
TEXT_ONLY = ("lfm2",)
PREFIXES = {
    "model.language_model.": "text.", "language_model.model.": "text.", "language_model.lm_head.": "lm_head.",
    "model.vision_tower.vision_model.": "vision.", "model.vision_tower.": "vision.",
    "vision_tower.vision_model.": "vision.", "vision_tower.": "vision.",
    "model.multi_modal_projector.": "projector.", "multi_modal_projector.": "projector.", "model.": "text.",
}
# What transformers assumes when config.json leaves a key out.
VISION_DEFAULTS = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12,
                   "patch_size": 16, "num_patches": 256, "layer_norm_eps": 1e-6, "hidden_act": "gelu_pytorch_tanh"}
PROCESSOR = {"do_image_splitting": True, "min_tiles": 2, "max_tiles": 10, "tile_size": 512, "min_image_tokens": 64,
             "max_image_tokens": 256}
NEEDED = {"use_thumbnail": True, "max_pixels_tolerance": 2.0}
PROJECTOR = {"layer_norm": "mm.input_norm", "linear_1": "mm.1", "linear_2": "mm.2"}
MOST_TILES, MOST_ROWS, MOST_PATCHES = 16, 1 << 12, 1 << 16


def arrange(config):
    """The same config.json with what transformers assumes."""
    is_text = config["model_type"] in TEXT_ONLY
    arranged = {**config, "text_config": arrange_text(config if is_text else config.part("text_config"), config)}
    if not is_text:
        facts = Facts(f"{config.place}: vision_config", {**VISION_DEFAULTS, **config.part("vision_config")})
        side = math.isqrt(facts.count("num_patches", 1, MOST_PATCHES))
        if side * side != facts["num_patches"]:
            raise SystemExit(f"{facts.place}: num_patches is {facts['num_patches']}, which is no square")
        arranged["vision_config"] = {**facts, "image_size": side * vision.side(facts, "patch_size")}
    return Facts(config.place, arranged)


def check_variant(source):
    config, tower, processor = source.config, source.vision, source.processor
    if tower["hidden_act"] != "gelu_pytorch_tanh" or config.get("projector_hidden_act", "gelu") != "gelu":
        raise SystemExit(f"the activations of {config.place} are not supported: readers take gelu_pytorch_tanh in the "
                         "tower and gelu after it")
    processor.require({**NEEDED, "encoder_patch_size": tower["patch_size"],
                       "downsample_factor": config.get("downsample_factor", 2)})


def add_view_facts(writer, source, side):
    """`side`: pixels of a row of the language model."""
    facts = Facts(source.processor.place, {**PROCESSOR, **source.processor})
    least, most = (facts.count(f"{bound}_image_tokens", 1, MOST_ROWS) for bound in ("min", "max"))
    tiles = [facts.count(f"{bound}_tiles", 1, MOST_TILES) for bound in ("min", "max")]
    tile = facts.count("tile_size", side, vision.MOST_SIDE) if facts["do_image_splitting"] else 0
    if least > most or tiles[0] > tiles[1] or tile % side:
        raise SystemExit(f"{facts.place}: there are no views of {least} to {most} rows, or {tiles[0]} to {tiles[1]} tiles "
                         f"with sides of {tile} pixels")
    writer.add_uint32("clip.vision.image_min_pixels", least * side ** 2)
    writer.add_uint32("clip.vision.image_max_pixels", most * side ** 2)
    writer.add_vision_preproc_image_size(tile)
    for bound, count in zip(("min", "max"), tiles):
        writer.add_uint32(f"clip.vision.preproc_{bound}_tiles", count)


def add_vision(writer, source, args):
    tower = source.vision
    check_variant(source)
    vision.add_facts(writer, source, "lfm2", tower["num_hidden_layers"])
    writer.add_vision_use_gelu(True)
    scale = vision.check_scale_factor(source, source.config.get("downsample_factor", 2))
    writer.add_vision_projector_scale_factor(scale)
    add_view_facts(writer, source, scale * vision.side(tower, "patch_size"))
    vision.add_patches(writer, source, args.outtype)
    positions = source.read("vision.embeddings.position_embedding.weight")
    add_tensor(writer, "v.position_embd.weight", positions, args.outtype)
    vision.add_layers(writer, source, tower["num_hidden_layers"], args.outtype)
    add_linear(writer, source, "vision.post_layernorm", "v.post_ln", args.outtype)
    for theirs, ours in PROJECTOR.items():
        if theirs != "layer_norm" or source.has(f"projector.{theirs}.weight"):
            add_linear(writer, source, f"projector.{theirs}", ours, args.outtype)
    source.leave_out("vision.head.")  # pools the rows to one, for other models
