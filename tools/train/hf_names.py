"""Names and config of Hugging Face's SmolVLMForConditionalGeneration, in both directions."""
import torch

VISION = "model.vision_model."
TEXT = "model.text_model."


def name_pairs(c):
    """(our name, their name) of every tensor that is the same in both; the fused vision qkv is apart."""
    pairs = [("vision.patch.weight", VISION + "embeddings.patch_embedding.weight"),
             ("vision.patch.bias", VISION + "embeddings.patch_embedding.bias"),
             ("vision.pos", VISION + "embeddings.position_embedding.weight")]
    for i in range(c.v_layers):
        ours, theirs = f"vision.blocks.{i}.", f"{VISION}encoder.layers.{i}."
        for a, b in (("out", "self_attn.out_proj"), ("ln1", "layer_norm1"), ("ln2", "layer_norm2"),
                     ("fc1", "mlp.fc1"), ("fc2", "mlp.fc2")):
            pairs += [(f"{ours}{a}.{kind}", f"{theirs}{b}.{kind}") for kind in ("weight", "bias")]
    pairs += [(f"vision.post.{kind}", f"{VISION}post_layernorm.{kind}") for kind in ("weight", "bias")]
    pairs += [("vision.proj.weight", "model.connector.modality_projection.proj.weight"),
              ("lm.emb.weight", TEXT + "embed_tokens.weight")]
    for i in range(c.layers):
        ours, theirs = f"lm.blocks.{i}.", f"{TEXT}layers.{i}."
        for a, b in (("n1", "input_layernorm"), ("n2", "post_attention_layernorm"), ("q", "self_attn.q_proj"),
                     ("k", "self_attn.k_proj"), ("v", "self_attn.v_proj"), ("o", "self_attn.o_proj"),
                     ("gate", "mlp.gate_proj"), ("up", "mlp.up_proj"), ("down", "mlp.down_proj")):
            pairs.append((f"{ours}{a}.weight", f"{theirs}{b}.weight"))
    return pairs + [("lm.norm.weight", TEXT + "norm.weight")]


def qkv_names(i, kind):
    """Our fused vision tensor and their three."""
    theirs = f"{VISION}encoder.layers.{i}.self_attn."
    return f"vision.blocks.{i}.qkv.{kind}", [f"{theirs}{part}_proj.{kind}" for part in "qkv"]


def to_hf(state, c):
    """Our state dict -> theirs."""
    out = {theirs: state[ours] for ours, theirs in name_pairs(c)}
    for i in range(c.v_layers):
        for kind in ("weight", "bias"):
            fused, parts = qkv_names(i, kind)
            out.update(zip(parts, state[fused].chunk(3)))
    return {name: tensor.detach().contiguous() for name, tensor in out.items()}


def from_hf(state, c):
    """Their state dict -> ours."""
    out = {ours: state[theirs] for ours, theirs in name_pairs(c)}
    for i in range(c.v_layers):
        for kind in ("weight", "bias"):
            fused, parts = qkv_names(i, kind)
            out[fused] = torch.cat([state[part] for part in parts])
    return out


def config_json(c, ids):
    """config.json; `ids` gives the ids of the image, pad, bos and eos tokens."""
    text = {
        "architectures": ["LlamaForCausalLM"],  # how converters find the text half
        "model_type": "llama",
        "hidden_size": c.dim,
        "intermediate_size": c.ff,
        "num_hidden_layers": c.layers,
        "num_attention_heads": c.heads,
        "num_key_value_heads": c.kv_heads,
        "head_dim": c.head_dim,
        "vocab_size": c.vocab,
        "rope_theta": c.theta,
        "rope_parameters": {"rope_type": "default", "rope_theta": c.theta},
        "rms_norm_eps": c.eps,
        "hidden_act": "silu",
        "max_position_embeddings": 8192,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": ids["bos"],
        "eos_token_id": ids["eos"],
        "pad_token_id": ids["pad"],
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
    }
    vision = {
        "model_type": "smolvlm_vision",
        "hidden_size": c.v_dim,
        "intermediate_size": c.v_ff,
        "num_hidden_layers": c.v_layers,
        "num_attention_heads": c.v_heads,
        "image_size": c.image,
        "patch_size": c.patch,
        "num_channels": 3,
        "hidden_act": "gelu_pytorch_tanh",
        "layer_norm_eps": c.v_eps,
        "attention_dropout": 0.0,
        "size": {"longest_edge": c.image},
        "max_image_size": {"longest_edge": c.image},
    }
    return {
        "architectures": ["SmolVLMForConditionalGeneration"],
        "model_type": "smolvlm",
        "image_token_id": ids["image"],
        "scale_factor": c.scale,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "pad_token_id": ids["pad"],
        "text_config": text,
        "vision_config": vision,
        "vocab_size": c.vocab,
    }
