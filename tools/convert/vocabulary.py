"""The tokenizer half of a conversion: tokenizer.json of a byte-level BPE model -> tokenizer.ggml.* keys."""
import json

from gguf import TokenType

SPECIAL_IDS = ("bos", "eos", "unk", "pad")
GGUF_NAMES = {"unk": "unknown", "pad": "padding"}


def read_json(path):
    return json.loads(path.read_text()) if path.exists() else {}


def detect_pre_tokenizer(tokenizer):
    """The GGUF name of the expression that cuts text into words, from the pre_tokenizer of tokenizer.json."""
    stage = tokenizer.get("pre_tokenizer") or {}
    stages = stage.get("pretokenizers", [stage])
    kinds = [s.get("type") for s in stages]
    expressions = "".join(s.get("pattern", {}).get("Regex", "") for s in stages if s.get("type") == "Split")
    if kinds == ["Digits", "ByteLevel"] and stages[0].get("individual_digits"):
        return "smollm"
    if kinds == ["ByteLevel"]:
        return "gpt-2"
    if r"\p{N}{1,3}" in expressions:
        return "llama-bpe"
    if r"|\p{N}|" in expressions:
        return "qwen2"
    raise SystemExit(f"the pre-tokenizer {kinds} is not known: name one with --pre-tokenizer")


def token_tables(tokenizer, rows):
    """(texts, types), one per embedding row; ids nobody uses become [PADi]."""
    texts, types = [None] * rows, [TokenType.UNUSED] * rows
    for text, i in tokenizer["model"]["vocab"].items():
        texts[i], types[i] = text, TokenType.NORMAL
    for added in tokenizer["added_tokens"]:
        texts[added["id"]] = added["content"]
        types[added["id"]] = TokenType.CONTROL if added["special"] else TokenType.USER_DEFINED
    return [f"[PAD{i}]" if text is None else text for i, text in enumerate(texts)], types


def special_ids(tokenizer, tokenizer_config, config):
    """{bos, eos, unk, pad: id} as far as the folder names them: tokenizer_config first, then config.json."""
    by_text = {added["content"]: added["id"] for added in tokenizer["added_tokens"]}
    out = {}
    for name in SPECIAL_IDS:
        token = tokenizer_config.get(f"{name}_token")
        text = token["content"] if isinstance(token, dict) else token
        value = by_text.get(text)
        for place in (config["text_config"], config):
            if value is None:
                value = place.get(f"{name}_token_id")
        if isinstance(value, list):  # several end tokens: the first is the main one
            value = value[0]
        if value is not None:
            out[name] = value
    return out


def chat_template(folder, tokenizer_config):
    """The Jinja text, wherever this release of transformers put it; None if there is none."""
    jinja = folder / "chat_template.jinja"
    if jinja.exists():
        return jinja.read_text()
    for place in (tokenizer_config, read_json(folder / "chat_template.json")):
        template = place.get("chat_template")
        if isinstance(template, list):
            template = next((t["template"] for t in template if t["name"] == "default"), None)
        if template:
            return template
    return None


def adds_bos(tokenizer, tokenizer_config, bos_text):
    """Whether encoding puts the first token in front by itself."""
    if "add_bos_token" in tokenizer_config:
        return bool(tokenizer_config["add_bos_token"])
    post = tokenizer.get("post_processor") or {}
    single = post.get("single", [])
    return bool(single) and single[0].get("SpecialToken", {}).get("id") == bos_text


def add_vocabulary(writer, folder, config, rows, pre_tokenizer):
    """Writes every tokenizer key. `rows` is the number of embedding rows."""
    tokenizer = read_json(folder / "tokenizer.json")
    tokenizer_config = read_json(folder / "tokenizer_config.json")
    if tokenizer.get("model", {}).get("type") != "BPE" or tokenizer["model"].get("byte_fallback"):
        raise SystemExit(f"{folder}/tokenizer.json is not a byte-level BPE tokenizer")
    texts, types = token_tables(tokenizer, rows)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre_tokenizer or detect_pre_tokenizer(tokenizer))
    writer.add_token_list(texts)
    writer.add_token_types(types)
    merges = tokenizer["model"]["merges"]
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in merges])
    ids = special_ids(tokenizer, tokenizer_config, config)
    for name, value in ids.items():
        writer.add_uint32(f"tokenizer.ggml.{GGUF_NAMES.get(name, name)}_token_id", value)
    bos_text = texts[ids["bos"]] if "bos" in ids else None
    writer.add_add_bos_token(adds_bos(tokenizer, tokenizer_config, bos_text))
    template = chat_template(folder, tokenizer_config)
    if template:
        writer.add_chat_template(template)
