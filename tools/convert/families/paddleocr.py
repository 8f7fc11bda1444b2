"""PaddleOCR-VL: a SigLIP tower that reads pictures of any size, with learned positions beside rotations, and a projector of
2 x 2 patches. Its published folder has names of its own, that of transformers others. Names and keys are those of
llama.cpp's converter, so that one reader reads both."""
import math

from families import vision
from families.qwen_vl import pixel_limits
from gguf_file import add_linear, add_tensor
from source import with_text_defaults
from source_json import Facts

MODEL_TYPES = ("paddleocr_vl",)
PREFIXES = {"model.language_model.": "text.", "model.visual.vision_model.": "vision.", "model.projector.": "projector.",
            "visual.vision_model.": "vision.", "mlp_AR.": "projector.", "model.": "text."}
# What transformers assumes when config.json or preprocessor_config.json leaves a key out.
TEXT_DEFAULTS = {"model_type": "paddleocr_vl_text", "hidden_size": 1024, "intermediate_size": 3072,
                 "num_hidden_layers": 18, "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 128,
                 "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "hidden_act": "silu",
                 "bos_token_id": 1, "eos_token_id": 2}
VISION_DEFAULTS = {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "num_attention_heads": 16,
                   "image_size": 384, "patch_size": 14, "layer_norm_eps": 1e-6, "spatial_merge_size": 2,
                   "hidden_act": "gelu_pytorch_tanh"}
PIXELS = {"min": 384 * 384, "max": 1536 * 1536}
NEEDED = {"text_config": {"hidden_act": "silu"},
          "vision_config": {"hidden_act": "gelu_pytorch_tanh", "spatial_merge_size": 2}}
LAST = {"vision.post_layernorm": "v.post_ln", "projector.pre_norm": "mm.input_norm", "projector.linear_1": "mm.1",
        "projector.linear_2": "mm.2"}
UNUSED = ("vision.head.", "vision.embeddings.packing_position_embedding.")


def arrange(config):
    """The same config.json with what transformers assumes. The published one has the text model's facts at the top."""
    text = config.get("text_config") or {key: value for key, value in config.items() if key != "vision_config"}
    arranged = with_text_defaults(Facts(config.place, {**config, "text_config": text}), (), TEXT_DEFAULTS)
    for part, needed in NEEDED.items():
        arranged.part(part).require(needed)
    return arranged


def add_vision_facts(writer, source):
    """The side that files name is the root of the most pixels, as llama.cpp writes it."""
    facts = source.vision
    limits = {**PIXELS, **pixel_limits(source)}
    source.vision = Facts(facts.place, {**facts, "image_size": math.isqrt(limits["max"])})
    vision.add_facts(writer, source, "paddleocr", facts["num_hidden_layers"])
    writer.add_vision_use_gelu(True)
    for limit, pixels in limits.items():
        writer.add_uint32(f"clip.vision.image_{limit}_pixels", pixels)


def add_positions(writer, source, outtype):
    """A table of positions, which is a square of the patches of a nominal picture."""
    name = "vision.embeddings.position_embedding.weight"
    count = (vision.side(source.vision, "image_size") // vision.side(source.vision, "patch_size")) ** 2
    if source.shape(name)[0] != count:
        raise SystemExit(f"{source.vision.place}: the tensor {name} has {source.shape(name)[0]} rows, and by these facts "
                         f"{count}")
    add_tensor(writer, "v.position_embd.weight", source.read(name), outtype)


def add_vision(writer, source, args):
    if not source.rope_sections():
        raise SystemExit(f"{source.text.place} has no mrope_section, by which positions of pictures are read")
    add_positions(writer, source, args.outtype)
    add_vision_facts(writer, source)
    add_linear(writer, source, "vision.embeddings.patch_embedding", "v.patch_embd", args.outtype)
    vision.add_layers(writer, source, source.vision["num_hidden_layers"], args.outtype)
    for theirs, ours in LAST.items():
        add_linear(writer, source, theirs, ours, args.outtype)
    source.leave_out(*UNUSED)  # other models of this kind have them, too
