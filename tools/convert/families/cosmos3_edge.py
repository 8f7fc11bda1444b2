"""Cosmos3-Edge: the reasoner, whose SigLIP2 tower reads pictures of any size. Its published folder has the names of
transformers or those of diffusers, whose shards hold the generator, too. No other runtime read it when this was written;
names and keys follow those of llama.cpp's families."""
import math

from families import vision
from families.qwen_vl import pixel_limits
from gguf_file import add_linear, add_tensor
from source import with_text_defaults
from source_json import Facts

MODEL_TYPES = ("cosmos3_edge",)
PREFIXES = {"model.language_model.": "text.", "model.visual.": "vision.", "model.projector.": "projector.",
            "embed_tokens.": "text.embed_tokens.", "norm.": "text.norm.", "layers.": "text.layers."}
# Those of diffusers, which transformers 5.24 writes into the tower, too, and its own.
QUERIES = {".self_attn.to_q.": ".self_attn.q_proj.", ".self_attn.to_k.": ".self_attn.k_proj.",
           ".self_attn.to_v.": ".self_attn.v_proj."}
PARTS = {"text": {**QUERIES, ".self_attn.to_out.": ".self_attn.o_proj.", ".mlp.fc1.": ".mlp.up_proj.",
                  ".mlp.fc2.": ".mlp.down_proj."},
         "vision": {**QUERIES, ".mlp.up_proj.": ".mlp.fc1.", ".mlp.down_proj.": ".mlp.fc2."}}
# What transformers assumes when config.json leaves a key out.
TEXT_DEFAULTS = {"model_type": "cosmos3_edge_text", "hidden_size": 2048, "intermediate_size": 9216,
                 "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
                 "max_position_embeddings": 131072, "hidden_act": "relu2", "rms_norm_eps": 1e-5, "bos_token_id": 1,
                 "eos_token_id": 11,
                 "rope_parameters": {"rope_type": "default", "rope_theta": 1e8, "mrope_section": [24, 20, 20]}}
VISION_DEFAULTS = {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "num_attention_heads": 16,
                   "patch_size": 16, "layer_norm_eps": 1e-6, "num_patches": 256, "spatial_merge_size": 2,
                   "hidden_act": "gelu_pytorch_tanh"}
NEEDED = {"text_config": {"hidden_act": "relu2"},
          "vision_config": {"hidden_act": "gelu_pytorch_tanh", "layer_norm_eps": 1e-6, "num_channels": 3}}
MOST_PATCHES = 1 << 16


def arrange(config):
    """The same config.json with what transformers assumes."""
    arranged = with_text_defaults(Facts(config.place, {"tie_word_embeddings": False, **config}), (), TEXT_DEFAULTS)
    facts = {**VISION_DEFAULTS, **config.part("vision_config")}
    patches = Facts(config.place, facts).count("num_patches", 1, MOST_PATCHES)
    facts["image_size"] = math.isqrt(patches) * vision.side(Facts(config.place, facts), "patch_size")
    arranged = Facts(config.place, {**arranged, "vision_config": facts})
    for part, needed in NEEDED.items():
        arranged.part(part).require(needed)
    return arranged


def add_vision_facts(writer, source):
    facts = source.vision
    vision.add_facts(writer, source, "cosmos3_edge", facts["num_hidden_layers"])
    writer.add_vision_use_gelu(True)
    writer.add_uint32("clip.vision.spatial_merge_size", vision.check_scale_factor(source, facts["spatial_merge_size"]))
    for limit, pixels in pixel_limits(source).items():
        writer.add_uint32(f"clip.vision.image_{limit}_pixels", pixels)


def add_vision(writer, source, args):
    add_vision_facts(writer, source)
    vision.add_patches(writer, source, args.outtype)
    positions = source.read("vision.embeddings.position_embedding.weight")
    add_tensor(writer, "v.position_embd.weight", positions, args.outtype)
    vision.add_layers(writer, source, source.vision["num_hidden_layers"], args.outtype)
    for theirs, ours in {"vision.post_layernorm": "v.post_ln", "projector.norm": "mm.input_norm",
                         "projector.linear_fc1": "mm.0", "projector.linear_fc2": "mm.2"}.items():
        add_linear(writer, source, theirs, ours, args.outtype)
    source.leave_out(*(name for name in source.names if "k_norm_und_for_gen" in name))  # the generator reads by it
