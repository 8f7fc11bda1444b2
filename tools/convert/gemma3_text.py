"""What only Gemma 3's text model has: layers with a window between layers that see all positions, each kind with a
rotation of its own, and norms whose weights are stored minus 1."""

from gguf import RopeScalingType

from source_json import Facts

# What transformers assumes when config.json leaves a key out.
TEXT_DEFAULTS = {"model_type": "gemma3_text", "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
                 "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "rms_norm_eps": 1e-6,
                 "max_position_embeddings": 131072, "query_pre_attn_scalar": 256, "sliding_window": 4096,
                 "hidden_activation": "gelu_pytorch_tanh", "rope_theta": 1e6, "rope_local_base_freq": 1e4}
LOCAL, GLOBAL = "sliding_attention", "full_attention"
USUAL_PERIOD = 6
MOST_WINDOW = (1 << 31) - 1
LARGEST_LAYERS = 62  # readers know the largest model by them: it scales scores by its width over its heads


def check_variant(text):
    """Refuses what the format has no key for."""
    if text["hidden_activation"] != "gelu_pytorch_tanh":
        raise SystemExit(f"{text.place}: the activation {text['hidden_activation']} is not supported")
    if text.get("use_bidirectional_attention"):
        raise SystemExit(f"{text.place}: use_bidirectional_attention is not supported")
    if text.get("attn_logit_softcapping"):
        raise SystemExit(f"{text.place}: attn_logit_softcapping is not supported")
    is_largest = text["num_hidden_layers"] == LARGEST_LAYERS
    scale = text["hidden_size"] / text["num_attention_heads"] if is_largest else text["head_dim"]
    if text["query_pre_attn_scalar"] != scale:
        raise SystemExit(f"{text.place}: query_pre_attn_scalar is {text['query_pre_attn_scalar']}, but readers of a "
                         f"model with {text['num_hidden_layers']} layers take {scale:g}")


def window_period(text):
    """Every how many layers one sees all positions."""
    kinds = text.get("layer_types")
    if kinds is None:
        period = text.get("sliding_window_pattern") or text.get("_sliding_window_pattern") or USUAL_PERIOD
        return max(1, period)
    period = (kinds + [GLOBAL]).index(GLOBAL) + 1
    expected = [LOCAL if (i + 1) % period else GLOBAL for i in range(text["num_hidden_layers"])]
    if kinds != expected:
        raise SystemExit(f"{text.place}: layer_types are irregular: of every n layers the last must be {GLOBAL}")
    return period


def rotations(text):
    """{kind of layer: its rope_theta, rope_type and factor}, of old and of new files."""
    old = {GLOBAL: {"rope_theta": text["rope_theta"], **(text.get("rope_scaling") or {})},
           LOCAL: {"rope_theta": text["rope_local_base_freq"]}}
    new = text.get("rope_parameters") or {}
    return {kind: {**old[kind], **(new.get(kind) or {})} for kind in old}


def add_rotations(writer, text):
    ropes = rotations(text)
    for kind, kinds in ((GLOBAL, ("default", "linear")), (LOCAL, ("default",))):
        scaling = ropes[kind].get("rope_type", ropes[kind].get("type", "default"))
        if scaling not in kinds:
            raise SystemExit(f"the rope scaling {scaling} of {kind} is not supported")
        if scaling == "linear":
            writer.add_rope_scaling_type(RopeScalingType.LINEAR)
            writer.add_rope_scaling_factor(Facts(text.place, ropes[kind]).positive("factor"))
    writer.add_rope_freq_base(Facts(text.place, ropes[GLOBAL]).positive("rope_theta"))
    writer.add_float32("gemma3.rope.freq_base_swa", Facts(text.place, ropes[LOCAL]).positive("rope_theta"))


def add_text_facts(writer, text):
    """Beside the facts of all text models."""
    check_variant(text)
    add_rotations(writer, text)
    if text.get("final_logit_softcapping"):
        writer.add_final_logit_softcapping(text["final_logit_softcapping"])
    period = window_period(text)
    if period > 1:
        writer.add_sliding_window(text.count("sliding_window", 1, MOST_WINDOW))
        writer.add_uint32("gemma3.attention.sliding_window_pattern", period)
