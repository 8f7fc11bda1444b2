"""The tokenizer half of a conversion -> tokenizer.ggml.* keys: tokenizer.json of a byte-level BPE model, or of Gemma
4's, whose characters merge, or the tokenizer.model or tokenizer.json of a SentencePiece one."""
from gguf import TokenType

from source_json import Facts, read_json, shown, whole_number

SPECIAL_IDS = ("bos", "eos", "unk", "pad")
GGUF_NAMES = {"unk": "unknown", "pad": "padding"}
TEKKEN_MODELS = ("mistral3", "ministral3")
MOST_TOKENS, NO_TOKEN = 1 << 24, -1
ADDED_SCORE, UNUSED_SCORE = -1000.0, -10000.0
# Marks of thoughts and calls in Gemma 4's answers, which readers of these look for.
SHOWN = {"<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>", '<|"|>'}


def detect_pre_tokenizer(tokenizer, architecture, model_type):
    """The GGUF name of the expression that cuts text into words, from the pre_tokenizer of tokenizer.json. Without one,
    Qwen's models have theirs. Folders of Mistral Small 3.1 hold another one than the model was trained with."""
    if model_type in TEKKEN_MODELS:
        return "tekken"
    if "pre_tokenizer" not in tokenizer and architecture in ("qwen2", "qwen3", "qwen2vl", "qwen3vl"):
        return "qwen2"
    stage = tokenizer.get("pre_tokenizer") or {}
    stages = stage.get("pretokenizers", [stage])
    kinds = [s.get("type") for s in stages]
    expressions = "".join(s.get("pattern", {}).get("Regex", "") for s in stages if s.get("type") == "Split")
    if kinds == ["Digits", "ByteLevel"] and stages[0].get("individual_digits"):
        return "smollm"
    if kinds == ["ByteLevel"]:
        return "gpt-2"
    if r"\p{Lu}" in expressions:
        return "tekken"
    if r"\p{N}{1,3}" in expressions:
        return "lfm2" if architecture == "lfm2" else "llama-bpe"
    if r"|\p{N}|" in expressions:
        return "qwen2"
    raise SystemExit(f"the pre-tokenizer {kinds} is not known: name one with --pre-tokenizer")


def read_tokenizer(folder, tokenizer_config, rows):
    """tokenizer.json, or the same of the files that came before it: vocab.json and merges.txt."""
    tokenizer = read_files(folder, tokenizer_config)
    if "model" in tokenizer:
        check_model(Facts(tokenizer.place, tokenizer).part("model"), rows)
    check_added(tokenizer.place, tokenizer.get("added_tokens", []))
    return tokenizer


def read_files(folder, tokenizer_config):
    if (folder / "tokenizer.json").exists() or not (folder / "vocab.json").exists():
        return read_json(folder / "tokenizer.json")
    lines = (folder / "merges.txt").read_text(encoding="utf-8").splitlines()
    merges = [line for line in lines if line and not line.startswith("#version")]
    added = [{"id": i, "content": text, "special": special}
             for i, (text, special) in added_tokens(folder, {}, tokenizer_config).items()]
    model = {"type": "BPE", "vocab": read_json(folder / "vocab.json"), "merges": merges}
    return Facts(folder / "vocab.json", {"model": model, "added_tokens": added})


def check_id(place, text, number, rows):
    if not isinstance(text, str) or not whole_number(number, 0, rows - 1):
        raise SystemExit(f"{place}: the token {shown(text)} has the id {shown(number)}, but must have a text and an id of "
                         f"0 to {rows - 1}, a row of the embedding")


def check_model(model, rows):
    """Refuses ids that are no rows or two tokens', and merges of tokens that are not there."""
    vocabulary = model.part("vocab")
    for text, number in vocabulary.items():
        check_id(model.place, text, number, rows)
    if len(set(vocabulary.values())) < len(vocabulary):
        texts = {number: text for text, number in vocabulary.items()}
        text = next(text for text, number in vocabulary.items() if texts[number] != text)
        other = texts[vocabulary[text]]
        raise SystemExit(f"{model.place}: the tokens {shown(text)} and {shown(other)} have the same id")
    merges = model["merges"]
    if not isinstance(merges, list) or not merges:
        raise SystemExit(f"{model.place} lists no merges")
    for merge in merges:
        parts = merge.split(" ") if isinstance(merge, str) else merge
        if not isinstance(parts, list) or len(parts) != 2 or not all(isinstance(part, str) for part in parts):
            raise SystemExit(f"{model.place}: the merge {shown(merge)} does not have two parts")
        if any(text not in vocabulary for text in (*parts, "".join(parts))):
            raise SystemExit(f"{model.place}: the merge {shown(merge)} is of tokens that the vocabulary does not have")


def check_added(place, added):
    """Ids past the embedding are looked at where they are used: files list tokens that models do not have."""
    if not isinstance(added, list) or not all(isinstance(token, dict) for token in added):
        raise SystemExit(f"{place}: added_tokens must list objects")
    texts = {}
    for token in added:
        text, number = token.get("content"), token.get("id")
        check_id(place, text, number, MOST_TOKENS)
        if texts.setdefault(number, text) != text:
            raise SystemExit(f"{place}: the tokens {shown(texts[number])} and {shown(text)} have the same id")


def token_tables(tokenizer, rows):
    """(texts, types), one per embedding row; ids nobody uses become [PADi]."""
    texts, types = [None] * rows, [TokenType.UNUSED] * rows
    for text, i in tokenizer["model"]["vocab"].items():
        texts[i], types[i] = text, TokenType.NORMAL
    for added in tokenizer["added_tokens"]:
        number, text = added["id"], added["content"]
        check_id(tokenizer.place, text, number, rows)
        if texts[number] not in (None, text):
            raise SystemExit(f"{tokenizer.place}: the tokens {shown(texts[number])} and {shown(text)} have the same id")
        texts[number] = text
        types[number] = TokenType.CONTROL if added.get("special") else TokenType.USER_DEFINED
    return [f"[PAD{i}]" if text is None else text for i, text in enumerate(texts)], types


def check_special_ids(facts, rows):
    """Refuses ids that are no tokens. Older files say -1 where there is no padding token."""
    for name in SPECIAL_IDS:
        value = facts.get(f"{name}_token_id")
        ids = value if isinstance(value, list) and value else [value]
        if value is not None and value != NO_TOKEN and not all(whole_number(i, 0, rows - 1) for i in ids):
            raise SystemExit(f"{facts.place}: {name}_token_id is {shown(value)}, but must be an id of 0 to {rows - 1}")


def special_ids(texts, tokenizer_config, source):
    """{bos, eos, unk, pad: id} as far as the folder names them: tokenizer_config first, then config.json."""
    for facts in (source.text, source.config):
        check_special_ids(facts, len(texts))
    by_text = {text: i for i, text in enumerate(texts)}
    out = {}
    for name in SPECIAL_IDS:
        token = tokenizer_config.get(f"{name}_token")
        text = token["content"] if isinstance(token, dict) else token
        value = by_text.get(text)
        for place in (source.text, source.config):
            if value is None:
                value = place.get(f"{name}_token_id")
        if isinstance(value, list):  # several end tokens: the first is the main one
            value = value[0]
        if value is not None and value != NO_TOKEN:
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
    if bos_text is None:
        return False
    if not tokenizer:  # SentencePiece models, unless told otherwise
        return True
    post = tokenizer.get("post_processor") or {}
    for stage in [post] + post.get("processors", []):
        single = stage.get("single", [])
        if single and single[0].get("SpecialToken", {}).get("id") == bos_text:
            return True
    return False


def add_byte_pair(writer, tokenizer, texts, types, pre_tokenizer):
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre_tokenizer)
    writer.add_token_list(texts)
    writer.add_token_types(types)
    merges = tokenizer["model"]["merges"]
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in merges])


def read_pieces(path):
    """[(text, score, type)] of a tokenizer.model, and whether it puts a space before a text."""
    from sentencepiece import sentencepiece_model_pb2  # the other kind of vocabulary does without
    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString(path.read_bytes())
    kinds = sentencepiece_model_pb2.ModelProto.SentencePiece
    types = {kinds.UNKNOWN: TokenType.UNKNOWN, kinds.CONTROL: TokenType.CONTROL, kinds.UNUSED: TokenType.UNUSED,
             kinds.USER_DEFINED: TokenType.USER_DEFINED, kinds.BYTE: TokenType.BYTE}
    pieces = [(piece.piece, piece.score, types.get(piece.type, TokenType.NORMAL)) for piece in model.pieces]
    return pieces, model.normalizer_spec.add_dummy_prefix


def derive_pieces(tokenizer):
    """The same from a tokenizer.json that was made of a tokenizer.model: what is merged earlier scores higher."""
    model = tokenizer["model"]
    merges = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
    ranks = {}
    for left, right in merges:
        ranks.setdefault(left + right, len(ranks))
    pieces = [(f"[PAD{i}]", UNUSED_SCORE, TokenType.UNUSED) for i in range(max(model["vocab"].values()) + 1)]
    for text, number in model["vocab"].items():
        is_byte = len(text) == 6 and text.startswith("<0x")
        is_unknown = text == (model.get("unk_token") or "<unk>")
        kind = TokenType.BYTE if is_byte else TokenType.UNKNOWN if is_unknown else TokenType.NORMAL
        pieces[number] = (text, 0.0 if is_byte or is_unknown else -float(ranks.get(text, len(ranks))), kind)
    stages = [tokenizer.get(stage) or {} for stage in ("normalizer", "pre_tokenizer")]
    stages += [inner for stage in stages for inner in stage.get("normalizers", [])]
    spaced = any(s.get("type") == "Prepend" or s.get("prepend_scheme", "never") != "never" for s in stages)
    return pieces, spaced


def added_tokens(folder, tokenizer, tokenizer_config):
    """{id: (text, whether it is a control token)} of tokens beside the pieces, wherever the folder lists them."""
    first = read_json(folder / "added_tokens.json")
    check_added(folder / "added_tokens.json", [{"id": i, "content": text} for text, i in first.items()])
    listed = {i: (text, False) for text, i in first.items()}
    decoder = tokenizer_config.get("added_tokens_decoder", {})
    decoded = [{"id": int(i), **Facts(f"{folder}: added_tokens_decoder", token)} for i, token in decoder.items()]
    check_added(folder / "tokenizer_config.json", decoded)
    for added in tokenizer.get("added_tokens", []) + decoded:
        listed[added["id"]] = (added["content"], bool(added.get("special")))
    return listed


def add_sentence_piece(writer, folder, tokenizer, tokenizer_config, rows):
    """Writes the pieces; returns the texts."""
    model = folder / "tokenizer.model"
    pieces, spaced = read_pieces(model) if model.exists() else derive_pieces(tokenizer)
    if isinstance(tokenizer_config.get("add_prefix_space"), bool):
        spaced = tokenizer_config["add_prefix_space"]
    if len(pieces) > rows:
        raise SystemExit(f"{folder}: the tokenizer has {len(pieces)} pieces, and the embedding {rows} rows")
    pieces += [(f"[PAD{i}]", UNUSED_SCORE, TokenType.UNUSED) for i in range(len(pieces), rows)]
    for i, (text, special) in added_tokens(folder, tokenizer, tokenizer_config).items():
        if i < rows and pieces[i][2] != TokenType.UNKNOWN:
            pieces[i] = (text, ADDED_SCORE, TokenType.CONTROL if special else TokenType.USER_DEFINED)
    # internlm2 has a piece of the byte 0, which texts in C end at, and pieces that stand for nothing.
    pieces = [("\U0001f409" if text == "\0" else text, score, TokenType.UNUSED if text.startswith("[UNUSED") else kind)
              for text, score, kind in pieces]
    # Pieces that are found in a text before it is merged: there spaces are spaces.
    pieces = [(text.replace("\u2581", " ") if kind == TokenType.USER_DEFINED else text, score, kind)
              for text, score, kind in pieces]
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([text for text, _, _ in pieces])
    writer.add_token_scores([score for _, score, _ in pieces])
    writer.add_token_types([kind for _, _, kind in pieces])
    writer.add_add_space_prefix(spaced)
    return [text for text, _, _ in pieces]


def add_spaced_pair(writer, folder, tokenizer, tokenizer_config, rows):
    """Writes Gemma 4's, whose pieces are spelled as SentencePiece's and merge by rank; returns the texts."""
    pieces, _ = derive_pieces(tokenizer)
    pieces += [(f"[PAD{i}]", UNUSED_SCORE, TokenType.UNUSED) for i in range(len(pieces), rows)]
    for i, (text, special) in added_tokens(folder, tokenizer, tokenizer_config).items():
        if i < rows and pieces[i][2] != TokenType.UNKNOWN:
            is_control = special and text not in SHOWN
            pieces[i] = (text, ADDED_SCORE, TokenType.CONTROL if is_control else TokenType.USER_DEFINED)
    merges = tokenizer["model"]["merges"]
    writer.add_tokenizer_model("gemma4")
    writer.add_token_list([text for text, _, _ in pieces])
    writer.add_token_scores([score for _, score, _ in pieces])
    writer.add_token_types([kind for _, _, kind in pieces])
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in merges])
    writer.add_add_space_prefix(False)
    return [text for text, _, _ in pieces]


def add_vocabulary(writer, source, architecture, rows, pre_tokenizer):
    """Writes every tokenizer key. `rows` is the number of embedding rows."""
    folder = source.folder
    tokenizer_config = read_json(folder / "tokenizer_config.json")
    tokenizer = read_tokenizer(folder, tokenizer_config, rows)
    model = tokenizer.get("model", {})
    if architecture == "gemma4":
        texts = add_spaced_pair(writer, folder, tokenizer, tokenizer_config, rows)
    elif model.get("type") == "BPE" and not model.get("byte_fallback"):
        texts, types = token_tables(tokenizer, rows)
        pre_tokenizer = pre_tokenizer or detect_pre_tokenizer(tokenizer, architecture, source.config["model_type"])
        add_byte_pair(writer, tokenizer, texts, types, pre_tokenizer)
    elif model.get("byte_fallback") or (folder / "tokenizer.model").exists():
        texts = add_sentence_piece(writer, folder, tokenizer, tokenizer_config, rows)
    else:
        raise SystemExit(f"{folder} holds no tokenizer.model and no tokenizer.json of a BPE tokenizer")
    ids = special_ids(texts, tokenizer_config, source)
    if architecture == "internlm2" and "<|im_end|>" in texts:
        ids["eos"] = texts.index("<|im_end|>")  # its chats end with it
    for name, value in ids.items():
        writer.add_uint32(f"tokenizer.ggml.{GGUF_NAMES.get(name, name)}_token_id", value)
    bos_text = texts[ids["bos"]] if "bos" in ids else None
    writer.add_add_bos_token(adds_bos(tokenizer, tokenizer_config, bos_text))
    template = chat_template(folder, tokenizer_config)
    if template and not isinstance(template, str):
        raise SystemExit(f"{folder}: the chat template is no text")
    if template:
        writer.add_chat_template(template)
