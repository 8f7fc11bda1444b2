"""What only Gemma 4's text model has: two kinds of layers with heads and a rotation each, layers that share the keys and
values of earlier ones, and inputs of every layer by token. The larger models, which have no such inputs, are refused."""
import numpy as np

from gemma3_text import GLOBAL, LOCAL, MOST_WINDOW, window_period
from gguf_file import add_linear, add_tensor
from source_json import Facts

# What transformers assumes when config.json leaves a key out.
TEXT_DEFAULTS = {"model_type": "gemma4_text", "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 30,
                 "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "rms_norm_eps": 1e-6,
                 "max_position_embeddings": 131072, "sliding_window": 512, "hidden_activation": "gelu_pytorch_tanh",
                 "hidden_size_per_layer_input": 256, "num_kv_shared_layers": 0, "use_double_wide_mlp": False}
USUAL_ROPES = {LOCAL: {"rope_type": "default", "rope_theta": 1e4},
               GLOBAL: {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6}}
USUAL_GLOBAL_HEAD = 512
UNTURNED = 1e30  # divides the frequency of pairs that do not turn
LAYER_TENSORS = {
    "per_layer_input_gate": "inp_gate",
    "per_layer_projection": "proj",
    "post_per_layer_input_norm": "post_norm",
}


def check_variant(text):
    if text["hidden_activation"] != "gelu_pytorch_tanh":
        raise SystemExit(f"{text.place}: the activation {text['hidden_activation']} is not supported")
    for key in ("enable_moe_block", "attention_k_eq_v", "use_bidirectional_attention", "attention_bias"):
        if text.get(key):
            raise SystemExit(f"{text.place}: {key} is not supported: only the small models are (E2B, E4B)")
    if not text["hidden_size_per_layer_input"]:
        raise SystemExit(f"{text.place}: hidden_size_per_layer_input is 0: only the small models are supported")


def global_head(text):
    """Length of a head in layers that see all positions: a fact of its own, or of one of these layers."""
    own = [facts.get("head_dim") for facts in (text.get("per_layer_config") or {}).values()]
    return text.get("global_head_dim") or next(filter(None, own), USUAL_GLOBAL_HEAD)


def rotations(text):
    given = text.get("rope_parameters") or {}
    ropes = {kind: {**usual, **(given.get(kind) or {})} for kind, usual in USUAL_ROPES.items()}
    for kind, expected in ((LOCAL, "default"), (GLOBAL, "proportional")):
        if ropes[kind]["rope_type"] != expected:
            raise SystemExit(f"the rope scaling {ropes[kind]['rope_type']} of {kind} is not supported")
    return ropes


def turned_pairs(text):
    """How many of a long head's first pairs turn."""
    return int(global_head(text) * rotations(text)[GLOBAL]["partial_rotary_factor"] / 2)


def own_layers(text):
    return text["num_hidden_layers"] - text["num_kv_shared_layers"]


def mlp_widths(text):
    """Of every layer: those that share keys and values may be twice as wide."""
    shared = 2 if text["use_double_wide_mlp"] else 1
    return [text["intermediate_size"] * (1 if i < own_layers(text) else shared)
            for i in range(text["num_hidden_layers"])]


def add_text_facts(writer, text):
    """Beside the facts of all text models."""
    check_variant(text)
    ropes, period, head = rotations(text), window_period(text), global_head(text)
    layers = text["num_hidden_layers"]
    writer.add_rope_freq_base(Facts(text.place, ropes[GLOBAL]).positive("rope_theta"))
    writer.add_float32("gemma4.rope.freq_base_swa", Facts(text.place, ropes[LOCAL]).positive("rope_theta"))
    writer.add_sliding_window(text.count("sliding_window", 1, MOST_WINDOW))
    writer.add_array("gemma4.attention.sliding_window_pattern", [(i + 1) % period != 0 for i in range(layers)])
    writer.add_uint32("gemma4.attention.shared_kv_layers", text["num_kv_shared_layers"])
    writer.add_uint32("gemma4.embedding_length_per_layer_input", text["hidden_size_per_layer_input"])
    for kind in ("key", "value"):
        writer.add_uint32(f"gemma4.attention.{kind}_length", head)
        writer.add_uint32(f"gemma4.attention.{kind}_length_swa", text["head_dim"])
    writer.add_rope_dimension_count(head)
    writer.add_uint32("gemma4.rope.dimension_count_swa", text["head_dim"])
    if text.get("final_logit_softcapping"):
        writer.add_final_logit_softcapping(text["final_logit_softcapping"])


def add_text_tensors(writer, source, outtype):
    """Beside the tensors of all text models."""
    text = source.text
    turned, pairs = turned_pairs(text), global_head(text) // 2
    frequencies = np.array([1.0] * turned + [UNTURNED] * (pairs - turned), dtype=np.float32)
    add_tensor(writer, "rope_freqs.weight", frequencies, outtype)
    add_tensor(writer, "per_layer_token_embd.weight", source.read("text.embed_tokens_per_layer.weight"), outtype)
    add_linear(writer, source, "text.per_layer_model_projection", "per_layer_model_proj", outtype)
    add_linear(writer, source, "text.per_layer_projection_norm", "per_layer_proj_norm", outtype)
    for layer in range(text["num_hidden_layers"]):
        name = f"text.layers.{layer}"
        for theirs, ours in LAYER_TENSORS.items():
            add_linear(writer, source, f"{name}.{theirs}", f"blk.{layer}.{ours}", outtype)
        scale = np.asarray(source.read(f"{name}.layer_scalar"), dtype=np.float32).reshape(1)
        add_tensor(writer, f"blk.{layer}.layer_output_scale.weight", scale, outtype)
    # Files may hold keys and values of layers that share another's.
    source.leave_out(*(f"text.layers.{layer}.self_attn.{part}" for layer in range(own_layers(text), len(mlp_widths(text)))
                       for part in ("k_", "v_")))
