"""The text half of a conversion: llama and its like."""
import numpy as np

import gemma4_text
import lfm2_text
import yarn
from gemma3_text import add_text_facts as add_gemma3_facts
from gguf_file import add_linear, add_tensor, close_writer, open_writer
from source_json import shown, whole_number
from tensor_shapes import text_shapes
from vocabulary import add_vocabulary

# config.json's model_type: the architecture's name in GGUF.
ARCHITECTURES = {"llama": "llama", "mistral": "llama", "ministral3": "mistral3", "qwen2": "qwen2", "qwen3": "qwen3",
                 "internlm2": "internlm2", "qwen2_vl": "qwen2vl", "qwen2_vl_text": "qwen2vl", "qwen2_5_vl": "qwen2vl",
                 "qwen2_5_vl_text": "qwen2vl", "qwen3_vl_text": "qwen3vl", "cosmos3_edge_text": "cosmos3-edge",
                 "gemma3_text": "gemma3", "gemma4_text": "gemma4", "lfm2": "lfm2",
                 "paddleocr_vl": "paddleocr", "paddleocr_vl_text": "paddleocr"}
LAYER_TENSORS = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
INTERNLM2_LAYER_TENSORS = {
    "attention_norm": "attn_norm",
    "attention.wo": "attn_output",
    "ffn_norm": "ffn_norm",
    "feed_forward.w1": "ffn_gate",
    "feed_forward.w3": "ffn_up",
    "feed_forward.w2": "ffn_down",
}
GEMMA3_LAYER_TENSORS = {
    **LAYER_TENSORS,
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
UNGATED_LAYER_TENSORS = {theirs: ours for theirs, ours in LAYER_TENSORS.items() if ours != "ffn_gate"}
OWN_LAYER_TENSORS = {"internlm2": INTERNLM2_LAYER_TENSORS, "gemma3": GEMMA3_LAYER_TENSORS,
                     "gemma4": GEMMA3_LAYER_TENSORS, "cosmos3-edge": UNGATED_LAYER_TENSORS}
ROTATES_NEIGHBOURS = ("llama", "internlm2", "mistral3")
HAS_WINDOWS = ("gemma3_text", "gemma4_text")
OPTIONAL = ("attn_q_norm", "attn_k_norm")
MOST_HEAD, MOST_POSITIONS = 4096, 1 << 30
OF_OWN_KEYS = ("attn_k", "attn_v", "attn_k_norm")  # not of layers that share keys and values


def architecture_of(source):
    kind = source.text.get("model_type", "llama")
    if kind not in ARCHITECTURES:
        raise SystemExit(f"the text model is {kind}: only {', '.join(ARCHITECTURES)} are supported")
    window = source.text.get("sliding_window") if kind not in HAS_WINDOWS else None
    if window and source.text.get("use_sliding_window", True) and window < source.text["max_position_embeddings"]:
        raise SystemExit(f"the text model attends to a window of {window} tokens, which is not supported")
    return ARCHITECTURES[kind]


def interleave_rotary_rows(weight, heads):
    """Per head, row 2i+j becomes old row j*E/2+i: GGUF's llama rotates neighbours, Hugging Face rotates halves."""
    half = weight.shape[0] // heads // 2
    return weight.reshape(heads, 2, half, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def split_groups(weight, kv_heads, head_dim):
    """(query, key, value) of internlm2's one matrix: for each key/value head its query heads, the key, the value."""
    groups = weight.reshape(kv_heads, -1, head_dim, *weight.shape[1:])
    parts = groups[:, :-2], groups[:, -2], groups[:, -1]
    return [np.ascontiguousarray(part).reshape(-1, *weight.shape[1:]) for part in parts]


def norm_change(architecture):
    """How weights of norms change: Gemma's are stored minus 1."""
    return lambda weight: weight + 1 if architecture == "gemma3" else weight


def add_layer(writer, source, layer, architecture, outtype):
    if architecture == "lfm2":
        return lfm2_text.add_layer(writer, source, layer, outtype)
    text = source.text
    heads = text["num_attention_heads"]
    kv_heads = text.get("num_key_value_heads") or heads
    turned = {"attn_q": heads, "attn_k": kv_heads} if architecture in ROTATES_NEIGHBOURS else {}

    def change(ours):
        if "norm" in ours:
            return norm_change(architecture)
        return lambda array: interleave_rotary_rows(array, turned[ours]) if ours in turned else array

    if architecture == "internlm2":
        joined = source.read(f"text.layers.{layer}.attention.wqkv.weight")
        parts = split_groups(joined, kv_heads, text["hidden_size"] // heads)
        for ours, part in zip(("attn_q", "attn_k", "attn_v"), parts):
            add_tensor(writer, f"blk.{layer}.{ours}.weight", change(ours)(part), outtype)
    shares = architecture == "gemma4" and layer >= gemma4_text.own_layers(text)
    for theirs, ours in OWN_LAYER_TENSORS.get(architecture, LAYER_TENSORS).items():
        if shares and ours in OF_OWN_KEYS:
            continue
        name = f"text.layers.{layer}.{theirs}"
        if ours not in OPTIONAL or source.has(f"{name}.weight"):
            add_linear(writer, source, name, f"blk.{layer}.{ours}", outtype, change(ours))


def embedding_name(architecture):
    return "text.tok_embeddings.weight" if architecture == "internlm2" else "text.embed_tokens.weight"


def check_facts(source, architecture):
    """Refuses sizes that no model has; more would be found by the shapes of its tensors."""
    text = source.text
    heads = text["num_attention_heads"]
    kv_heads = text.count("num_key_value_heads", 1, heads) if text.get("num_key_value_heads") is not None else heads
    if heads % kv_heads:
        raise SystemExit(f"{text.place}: {kv_heads} key/value heads do not divide {heads} heads")
    if text.get("head_dim") is not None:
        text.count("head_dim", 2, MOST_HEAD)
    elif text["hidden_size"] % heads:
        raise SystemExit(f"{text.place}: {heads} heads do not divide {text['hidden_size']}")
    head_dim = text.get("head_dim") or text["hidden_size"] // heads
    if head_dim % 2:
        raise SystemExit(f"{text.place}: heads of {head_dim} numbers cannot be turned in pairs")
    text.count("max_position_embeddings", 1, MOST_POSITIONS)
    text.positive("rms_norm_eps")
    rows = source.shape(embedding_name(architecture))[0]
    if text.get("vocab_size") is not None and text.count("vocab_size", 1, MOST_POSITIONS) != rows:
        raise SystemExit(f"{text.place}: vocab_size is {text['vocab_size']}, and the embedding has {rows} rows")
    sections = source.rope_sections()
    if sections and (len(sections) != 3 or not all(whole_number(part, 0, head_dim) for part in sections)
                     or sum(sections) != head_dim // 2):
        raise SystemExit(f"{text.place}: mrope_section is {shown(sections)}, but must list 3 parts of {head_dim // 2}")
    if architecture == "gemma4":
        text.count("num_kv_shared_layers", 0, text["num_hidden_layers"] - 1)


def add_facts(writer, source, architecture, rows):
    text = source.text
    heads, width = text["num_attention_heads"], text["hidden_size"]
    head_dim = text.get("head_dim") or width // heads
    writer.add_block_count(text["num_hidden_layers"])
    writer.add_context_length(text["max_position_embeddings"])
    writer.add_embedding_length(width)
    widths = gemma4_text.mlp_widths(text) if architecture == "gemma4" else [text["intermediate_size"]]
    writer.add_feed_forward_length(widths[0] if len(set(widths)) == 1 else widths)
    writer.add_head_count(heads)
    writer.add_head_count_kv(lfm2_text.kv_heads(text) if architecture == "lfm2" else
                             text.get("num_key_value_heads") or heads)
    writer.add_layer_norm_rms_eps(text["rms_norm_eps"])
    writer.add_vocab_size(rows)
    if architecture == "gemma4":
        return gemma4_text.add_text_facts(writer, text)
    if architecture == "lfm2":
        lfm2_text.add_text_facts(writer, text)
    if architecture == "gemma3":
        add_gemma3_facts(writer, text)
    elif architecture == "mistral3":
        yarn.add_text_facts(writer, text)
    else:
        writer.add_rope_freq_base(source.rope_theta())
    writer.add_rope_dimension_count(head_dim)
    if source.rope_sections():  # readers take four
        writer.add_array(f"{architecture}.rope.dimension_sections", (source.rope_sections() + [0])[:4])
    if architecture == "qwen3vl":
        deepstack = source.vision["deepstack_visual_indexes"]
        writer.add_uint32("qwen3vl.n_deepstack_layers", len(deepstack))
    if head_dim * heads != width or architecture in ("qwen3", "qwen3vl", "gemma3"):
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)


def write_text_model(source, path, title, args):
    architecture = architecture_of(source)
    embedding = embedding_name(architecture)
    check_facts(source, architecture)
    rows = source.shape(embedding)[0]
    writer = open_writer(path, architecture, title, args.outtype, text_shapes(source, architecture, rows),
                         source.progress)
    add_facts(writer, source, architecture, rows)
    add_vocabulary(writer, source, architecture, rows, args.pre_tokenizer)
    add_tensor(writer, "token_embd.weight", source.read(embedding), args.outtype)
    theirs, ours = ("embedding_norm", "token_embd_norm") if architecture == "lfm2" else ("norm", "output_norm")
    add_linear(writer, source, f"text.{theirs}", ours, args.outtype, norm_change(architecture))
    if not source.tied():
        add_tensor(writer, "output.weight", source.read("lm_head.weight"), args.outtype)
    for layer in range(source.text["num_hidden_layers"]):
        add_layer(writer, source, layer, architecture, args.outtype)
    if architecture == "gemma4":
        gemma4_text.add_text_tensors(writer, source, args.outtype)
    close_writer(writer)
