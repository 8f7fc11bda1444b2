"""What only LFM2's text model has: layers with a short convolution in place of attention."""
from gguf_file import add_linear, add_tensor
from source_json import Facts

# What transformers assumes when config.json leaves a key out.
TEXT_DEFAULTS = {"model_type": "lfm2", "hidden_size": 2560, "intermediate_size": 12288, "num_hidden_layers": 32,
                 "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 128000,
                 "rope_theta": 1e6, "norm_eps": 1e-5, "conv_L_cache": 3, "block_auto_adjust_ff_dim": True,
                 "block_multiple_of": 256, "block_ffn_dim_multiplier": 1.0, "bos_token_id": 1, "eos_token_id": 2}
CONV, ATTENTION = "conv", "full_attention"
TAPS = 3
MOST_WIDTH = 1 << 20
LAYER_TENSORS = {
    "operator_norm": "attn_norm",
    "ffn_norm": "ffn_norm",
    "feed_forward.w1": "ffn_gate",
    "feed_forward.w3": "ffn_up",
    "feed_forward.w2": "ffn_down",
}
MIXER_TENSORS = {
    ATTENTION: {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
                "self_attn.out_proj": "attn_output", "self_attn.q_layernorm": "attn_q_norm",
                "self_attn.k_layernorm": "attn_k_norm"},
    CONV: {"conv.in_proj": "shortconv.in_proj", "conv.out_proj": "shortconv.out_proj"},
}


def mlp_width(facts):
    """The width of the MLPs, from the number that config.json has for it."""
    width = facts.get("block_ff_dim", facts["intermediate_size"])
    if not facts["block_auto_adjust_ff_dim"]:
        return width
    width = int(2 * width / 3)
    if facts["block_ffn_dim_multiplier"] is not None:
        multiple = facts.count("block_multiple_of", 1, MOST_WIDTH)
        width = -(-int(facts.positive("block_ffn_dim_multiplier") * width) // multiple) * multiple
    return width


def layer_kinds(text):
    """The kind of each layer."""
    count = text["num_hidden_layers"]
    listed = text.get("full_attn_idxs")
    kinds = text.get("layer_types")
    if kinds is None:
        kinds = [ATTENTION if listed is None or i in listed else CONV for i in range(count)]
    if len(kinds) != count or not all(kind in MIXER_TENSORS for kind in kinds) or ATTENTION not in kinds:
        raise SystemExit(f"{text.place}: layer_types must say {CONV} or {ATTENTION} for each of {count} layers, and this "
                         "at least once")
    return kinds


def arrange_text(text, config):
    """The facts of the text model with what transformers assumes, under the names of other models."""
    facts = Facts(text.place, {**TEXT_DEFAULTS, **text})
    tied = facts.get("tie_embedding", facts.get("tie_word_embeddings", config.get("tie_word_embeddings", True)))
    arranged = Facts(text.place, {**facts, "intermediate_size": mlp_width(facts), "rms_norm_eps": facts["norm_eps"],
                                  "tie_word_embeddings": tied})
    if arranged.get("conv_bias"):
        raise SystemExit(f"{text.place}: conv_bias is not supported")
    arranged.count("conv_L_cache", TAPS, TAPS)
    layer_kinds(arranged)
    return arranged


def kv_heads(text):
    """Key and value heads of each layer: none in those with a convolution."""
    heads = text.get("num_key_value_heads") or text["num_attention_heads"]
    return [heads if kind == ATTENTION else 0 for kind in layer_kinds(text)]


def add_text_facts(writer, text):
    """Beside the facts of all text models."""
    writer.add_shortconv_l_cache(text["conv_L_cache"])


def add_layer(writer, source, layer, outtype):
    kind = layer_kinds(source.text)[layer]
    for theirs, ours in {**LAYER_TENSORS, **MIXER_TENSORS[kind]}.items():
        add_linear(writer, source, f"text.layers.{layer}.{theirs}", f"blk.{layer}.{ours}", outtype)
    if kind == CONV:
        weights = source.read(f"text.layers.{layer}.conv.conv.weight")
        add_tensor(writer, f"blk.{layer}.shortconv.conv.weight", weights.reshape(weights.shape[0], -1), "f32")
