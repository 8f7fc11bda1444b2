"""The converter of tools/convert, on tiny folders that the test makes. Run as a program it installs what the converter
needs in a virtual environment below the build folder; run with other tests it is skipped without that."""

import contextlib
import fcntl
import importlib.util
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import unittest

from program import BAD_INPUT, RUNTIME, SOURCE, FolderTest, board
from virtual_environment import go_on_with

HAS_PACKAGES = all(importlib.util.find_spec(name) for name in ("gguf", "numpy", "sentencepiece"))
if HAS_PACKAGES:
    import numpy
    from hugging_face_folder import CONFIGS, COSMOS_NAMES, MLP, PATCH, SIDE, write_folder

CONVERT = SOURCE / "tools" / "convert"
if HAS_PACKAGES:
    sys.path.insert(0, str(CONVERT))
    import conversion
    import hf_to_gguf
# The projector's name, and tensors that only some generations have.
QWEN_FILES = {
    "qwen2-vl": ("qwen2vl_merger", ["v.patch_embd.weight.1", "v.blk.0.attn_q.bias", "v.post_ln.bias", "mm.2.bias"]),
    "qwen2.5-vl": ("qwen2.5vl_merger", ["v.patch_embd.weight.1", "v.blk.0.attn_v.weight", "v.blk.1.ffn_gate.bias"]),
    "qwen3-vl": ("qwen3vl_merger", ["v.patch_embd.bias", "v.blk.1.attn_qkv.bias", "v.position_embd.weight",
                                    "v.deepstack.0.norm.bias", "v.deepstack.0.fc2.weight"]),
}
GEMMA_TEXT_FACTS = {"attention.sliding_window": 8, "attention.sliding_window_pattern": 2, "rope.freq_base": 1e6,
                    "rope.freq_base_swa": 1e4, "rope.scaling.type": "linear", "rope.scaling.factor": 8,
                    "attention.key_length": 16, "attention.value_length": 16}
GEMMA_NORMS = ["output_norm", *(f"blk.2.{norm}" for norm in ("attn_norm", "attn_q_norm", "attn_k_norm", "ffn_norm",
                                                            "post_attention_norm", "post_ffw_norm"))]
NAMES = ["mmproj-tiny-f16.gguf", "tiny-f16.gguf"]


def changed(part=None, **facts):
    """A change of config.json, or of one object in it."""
    def change(folder):
        path = folder / "config.json"
        config = json.loads(path.read_text())
        (config[part] if part else config).update(facts)
        path.write_text(json.dumps(config))
    return change


def lacking(key):
    def change(folder):
        path = folder / "config.json"
        config = json.loads(path.read_text())
        del config[key]
        path.write_text(json.dumps(config))
    return change


def replaced(name, content):
    return lambda folder: (folder / name).write_bytes(content)


def removed(name):
    return lambda folder: (folder / name).unlink()


def halved(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:path.stat().st_size // 2])


def in_file(name, change):
    """A change of what a JSON file holds."""
    def apply(folder):
        path = folder / name
        facts = json.loads(path.read_text())
        change(facts)
        path.write_text(json.dumps(facts))
    return apply


def in_rope(**facts):
    return in_file("config.json", lambda config: config["text_config"]["rope_parameters"].update(facts))


def in_header(change):
    """A change of the header of model.safetensors; `change` gets it and the data, and returns the data."""
    def apply(folder):
        path = folder / "model.safetensors"
        content = path.read_bytes()
        (size,) = struct.unpack_from("<Q", content)
        header = json.loads(content[8:8 + size])
        data = change(header, content[8 + size:])
        text = (header if isinstance(header, str) else json.dumps(header)).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return apply


def open_shard(path):
    """(the header, the data)"""
    content = path.read_bytes()
    (size,) = struct.unpack_from("<Q", content)
    return json.loads(content[8:8 + size]), content[8 + size:]


def read_tensor(path, name):
    header, data = open_shard(path)
    return numpy.frombuffer(data[slice(*header[name]["data_offsets"])], numpy.float32)


def rename_tensors(path, rename):
    header, data = open_shard(path)
    text = json.dumps({rename(name): entry for name, entry in header.items()}).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


NORM, QUERY, EMBEDDING = (f"model.text_model.{name}.weight" for name in
                          ("norm", "layers.0.self_attn.q_proj", "embed_tokens"))


def entry(name, **facts):
    def change(header, data):
        header[name].update(facts)
        return data
    return in_header(change)


def moved(header, data):
    """Onto the tensor before it, with a hole where it was."""
    begin, end = header[NORM]["data_offsets"]
    header[NORM]["data_offsets"] = [begin - 64, end - 64]
    return data


def behind_a_gap(header, data):
    header["behind"] = {"dtype": "F32", "shape": [1], "data_offsets": [len(data) + 4, len(data) + 8]}
    return data + bytes(8)


def twice(folder):
    path = folder / "model.safetensors"
    content = path.read_bytes()
    (size,) = struct.unpack_from("<Q", content)
    text = content[8:8 + size].decode()
    (one,) = re.findall(rf'"{NORM}": {{[^}}]*}}', text)
    text = f"{text[:-1]}, {one}}}".encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + size:])


def value(name, number, dtype=None):
    """The first value of a tensor."""
    def change(header, data):
        begin, end = header[name]["data_offsets"]
        bits = struct.pack("<f", number)
        if dtype is None:
            return data[:begin] + bits + data[begin + 4:]
        count = (end - begin) // 4  # the same number of values in half the bytes, and the rest moves up
        header[name] |= {"dtype": dtype, "data_offsets": [begin, begin + 2 * count]}
        for other in header.values():
            if other["data_offsets"][0] >= end:
                other["data_offsets"] = [offset - 2 * count for offset in other["data_offsets"]]
        first = bits[2:] if dtype == "BF16" else struct.pack("<e", number)
        return data[:begin] + first + bytes(2 * count - 2) + data[end:]
    return in_header(change)


def copied(name, copy):
    return lambda folder: shutil.copy(folder / name, folder / copy)


def index(weight_map):
    content = json.dumps({"weight_map": weight_map}).encode()
    return replaced("model.safetensors.index.json", content)


def token(text, number):
    return in_file("tokenizer.json", lambda facts: facts["model"]["vocab"].update({text: number}))


def added(**facts):
    return in_file("tokenizer.json", lambda tokenizer: tokenizer["added_tokens"][0].update(facts))


def merges(*pairs):
    return in_file("tokenizer.json", lambda facts: facts["model"].update(merges=list(pairs)))


def in_text(**facts):
    return changed("text_config", **facts)


def in_processor(**facts):
    return in_file("preprocessor_config.json", lambda processor: processor.update(facts))


DEEP = b'{"model_type": ' + b"[" * 100000 + b"]" * 100000 + b"}"
DAMAGED = "is not a whole safetensors file: "

# family, what is changed in its folder, the sentence
BAD_FOLDERS = [
    # Tensors that are not where, or what, the header says.
    ("smolvlm", in_header(moved), f"{DAMAGED}the tensor {NORM} overlaps model"),
    ("smolvlm", entry(NORM, data_offsets=[0, 128]), f"{DAMAGED}the tensor .* overlaps"),
    ("smolvlm", in_header(behind_a_gap), f"{DAMAGED}the tensor behind leaves a gap behind model"),
    ("smolvlm", in_header(lambda header, data: data + b"more"), f"{DAMAGED}4 bytes behind its last tensor"),
    ("smolvlm", entry(NORM, data_offsets=[-128, 0]), f"{DAMAGED}the tensor {NORM} lies at bytes -128 to 0"),
    ("smolvlm", entry(NORM, data_offsets=[128, 0]), f"{DAMAGED}the tensor {NORM} lies at bytes 128 to 0"),
    ("smolvlm", entry(NORM, data_offsets=[0.0, 128.0]), f"{DAMAGED}the tensor {NORM} lies at bytes 0.0 to 128.0"),
    ("smolvlm", entry(NORM, data_offsets=[0, 1 << 70]), f"{DAMAGED}the tensor {NORM} lies at bytes 0 to"),
    ("smolvlm", entry(NORM, data_offsets=[128]), f"{DAMAGED}"),
    ("smolvlm", entry(NORM, data_offsets="128"), f"{DAMAGED}"),
    ("smolvlm", entry(NORM, shape=[33]), f"{DAMAGED}the tensor {NORM} has 128 bytes, which its shape"),
    ("smolvlm", entry(NORM, shape=[-8, -4]), rf"{DAMAGED}the tensor {NORM} has the shape \[-8, -4\]"),
    ("smolvlm", entry(NORM, shape=[32.0]), rf"{DAMAGED}the tensor {NORM} has the shape \[32.0\]"),
    ("smolvlm", entry(NORM, shape=[1 << 62, 1 << 62]), f"{DAMAGED}the tensor {NORM} has the shape"),
    ("smolvlm", entry(NORM, shape=32), f"{DAMAGED}"),
    ("smolvlm", entry(NORM, dtype="F16"), f"{DAMAGED}the tensor {NORM} has 128 bytes, which its shape"),
    ("smolvlm", entry(NORM, dtype="I32"), f"the tensor {NORM} has dtype I32: expected"),
    ("smolvlm", entry(NORM, dtype=["F32"]), f"{DAMAGED}"),
    ("smolvlm", in_header(lambda header, data: header.update({NORM: 7}) or data), f"{DAMAGED}"),
    ("smolvlm", in_header(lambda header, data: header.update({NORM: {}}) or data), f"{DAMAGED}"),
    ("smolvlm", twice, f"{DAMAGED}'{NORM}' is there twice"),
    ("smolvlm", replaced("model.safetensors", struct.pack("<Q", len(DEEP)) + DEEP), f"{DAMAGED}"),
    ("smolvlm", copied("model.safetensors", "model-2.safetensors"), "model.safetensors holds the tensor .*, and so does"),
    ("smolvlm", index({NORM: "model-00001-of-00002.safetensors"}), "says that model-00001-of-00002.safetensors holds"),
    ("smolvlm", index({"model.another": "model.safetensors"}), "holds the tensor model.another, which it does not"),
    ("smolvlm", index([]), "weight_map is no JSON object"),
    ("smolvlm", replaced("model.safetensors.index.json", b"{"), "index.json is no JSON: "),
    # Weights that are no numbers, or none of the type.
    ("smolvlm", value(NORM, float("nan")), f"the tensor {NORM} holds values that are no finite numbers"),
    ("smolvlm", value(QUERY, float("inf")), f"the tensor {QUERY} holds values that are no finite numbers"),
    ("smolvlm", value(QUERY, float("-inf"), "F16"), f"the tensor {QUERY} holds values that are no finite numbers"),
    ("smolvlm", value(QUERY, float("nan"), "BF16"), f"the tensor {QUERY} holds values that are no finite numbers"),
    # Shapes that are not those of config.json.
    ("smolvlm", entry(NORM, shape=[2, 16]), "the tensor output_norm.weight has the shape .* by these facts 32"),
    ("smolvlm", entry(QUERY, shape=[16, 64]), "the tensor blk.0.attn_q.weight has the shape .* by these facts 32 x 32"),
    ("smolvlm", entry(EMBEDDING, shape=[640, 16]), "the tensor token_embd.weight has the shape .* by these facts 640 x 32"),
    ("smolvlm", entry(EMBEDDING, shape=[]), f"{DAMAGED}"),
    ("smolvlm", in_text(intermediate_size=32), "the tensor blk.0.ffn_gate.weight has the shape .* by these facts 32 x 32"),
    ("smolvlm", in_text(num_key_value_heads=2), "the tensor blk.0.attn_k.weight has the shape .* by these facts 32 x 32"),
    ("smolvlm", in_text(head_dim=8), "the tensor blk.0.attn_q.weight has the shape .* by these facts 16 x 32"),
    ("smolvlm", changed("vision_config", intermediate_size=32), "v.blk.0.ffn_up.weight has the shape .* 32 x 32"),
    ("smolvlm", changed("vision_config", patch_size=14), "v.patch_embd.weight has the shape .* 32 x 3 x 14 x 14"),
    # Facts that no model has.
    ("smolvlm", in_text(hidden_size=-32), "hidden_size is -32, but must be a whole number"),
    ("smolvlm", in_text(hidden_size=1 << 40), "hidden_size is 1099511627776, but must be a whole number"),
    ("smolvlm", in_text(num_hidden_layers=True), "num_hidden_layers is True, but must be a whole number"),
    ("smolvlm", in_text(num_attention_heads=3), "1 key/value heads|3 heads do not divide 32"),
    ("smolvlm", in_text(num_attention_heads=3, num_key_value_heads=2), "2 key/value heads do not divide 3 heads"),
    ("smolvlm", in_text(num_key_value_heads=-1), "num_key_value_heads is -1, but must be a whole number"),
    ("smolvlm", in_text(num_key_value_heads=0), "num_key_value_heads is 0, but must be a whole number"),
    ("smolvlm", in_text(head_dim=-16), "head_dim is -16, but must be a whole number"),
    ("smolvlm", in_text(head_dim=15), "heads of 15 numbers cannot be turned in pairs"),
    ("smolvlm", in_text(max_position_embeddings=-1), "max_position_embeddings is -1, but must be"),
    ("smolvlm", in_text(max_position_embeddings="4096"), "max_position_embeddings is '4096', but must be"),
    ("smolvlm", in_text(rms_norm_eps=-1e-5), "rms_norm_eps is -1e-05, but must be a number above 0"),
    ("smolvlm", in_text(rms_norm_eps=float("nan")), "rms_norm_eps is nan, but must be a number above 0"),
    ("smolvlm", in_text(rope_theta=0), "rope_theta is 0, but must be a number above 0"),
    ("smolvlm", in_text(rope_theta=float("inf")), "rope_theta is inf, but must be a number above 0"),
    ("smolvlm", in_text(vocab_size=0), "vocab_size is 0, but must be"),
    ("smolvlm", in_text(vocab_size=10), "vocab_size is 10, and the embedding has 320 rows"),
    ("smolvlm", changed("vision_config", patch_size=0), "patch_size is 0, but must be a whole number"),
    ("smolvlm", changed("vision_config", patch_size=56), "patches of 56 are larger than pictures"),
    ("smolvlm", changed("vision_config", layer_norm_eps="x"), "layer_norm_eps is 'x', but must be a number above 0"),
    ("smolvlm", changed(scale_factor="2"), "4 patches a side cannot be joined '2' by '2'"),
    ("smolvlm", in_processor(image_std=[0.5, 0, 0.5]), "image_std is .*, but must list 3 numbers"),
    ("smolvlm", in_processor(image_mean=[0.5]), "image_mean is .*, but must list 3 numbers"),
    ("smolvlm", in_processor(image_mean=[0.5, None, 0.5]), "image_mean is .*, but must list 3 numbers"),
    ("smolvlm", in_processor(size=7), "size is no JSON object"),
    ("qwen2.5-vl", in_text(rope_parameters={"mrope_section": [3, 3, 3]}), "mrope_section is .*, but must list 3 parts of 8"),
    ("qwen2.5-vl", in_text(rope_parameters={"mrope_section": [-3, 8, 3]}), "mrope_section is .*, but must list 3 parts"),
    ("qwen2.5-vl", changed("vision_config", fullatt_block_indexes=[]), "fullatt_block_indexes is .*, but must list"),
    ("qwen2.5-vl", changed("vision_config", window_size=-1), "window_size is -1, but must be a whole number"),
    ("qwen3-vl", changed("vision_config", deepstack_visual_indexes=[7]), "deepstack_visual_indexes is .*, but must list"),
    ("qwen3-vl", changed("vision_config", deepstack_visual_indexes=[0, 0]), "deepstack_visual_indexes is .*, but must"),
    ("gemma3", in_text(rope_theta="x"), "rope_theta is 'x', but must be a number above 0"),
    # Tokenizers.
    ("smolvlm", replaced("tokenizer.json", DEEP), "tokenizer.json is no JSON: "),
    ("smolvlm", replaced("config.json", DEEP), "config.json is no JSON: "),
    ("smolvlm", replaced("tokenizer_config.json", b"[]"), "tokenizer_config.json is no JSON object"),
    ("smolvlm", token("a", -1), "the token 'a' has the id -1, but must have"),
    ("smolvlm", token("a", "5"), "the token 'a' has the id '5', but must have"),
    ("smolvlm", token("a", 320), "the token 'a' has the id 320, but must have a text and an id of 0 to 319"),
    ("smolvlm", token("a", 1 << 62), "the token 'a' has the id .*, but must have a text"),
    ("smolvlm", token("a", 66), "the tokens 'a' and .* have the same id|the tokens .* and 'a' have the same id"),
    ("smolvlm", added(id=-1), "the token '<|im_start|>' has the id -1, but must have".replace("|", r"\|")),
    ("smolvlm", added(id=320), "has the id 320, but must have a text and an id of 0 to 319"),
    ("smolvlm", added(id=258), "have the same id"),
    ("smolvlm", added(id=65), "have the same id"),
    ("smolvlm", added(content=None), "the token None has the id 257, but must have a text"),
    ("smolvlm", in_file("tokenizer.json", lambda facts: facts.update(added_tokens={})), "added_tokens must list objects"),
    ("smolvlm", in_file("tokenizer.json", lambda facts: facts["model"].pop("merges")), "tokenizer.json: model has no merges"),
    ("smolvlm", in_file("tokenizer.json", lambda facts: facts["model"].pop("vocab")), "tokenizer.json: model has no vocab"),
    ("smolvlm", in_file("tokenizer.json", lambda facts: facts["model"].update(vocab=[])), "vocab is no JSON object"),
    ("smolvlm", in_file("tokenizer.json", lambda facts: facts.update(model=[])), "model is no JSON object"),
    ("smolvlm", merges(), "model lists no merges"),
    ("smolvlm", merges("th"), "the merge 'th' does not have two parts"),
    ("smolvlm", merges(["t", 7]), "the merge .* does not have two parts"),
    ("smolvlm", merges("t h", "x y"), "the merge 'x y' is of tokens that the vocabulary does not have"),
    ("smolvlm", in_text(bos_token_id=-7), "bos_token_id is -7, but must be an id of 0 to 319"),
    ("smolvlm", in_text(pad_token_id=1000), "pad_token_id is 1000, but must be an id of 0 to 319"),
    ("smolvlm", in_text(eos_token_id=[]), r"eos_token_id is \[\], but must be an id"),
    ("smolvlm", in_file("tokenizer_config.json", lambda facts: facts.update(chat_template=7)), "chat template is no text"),
    ("smolvlm", shutil.rmtree, "config.json does not exist: name the folder"),
    ("smolvlm", removed("config.json"), "config.json does not exist: name the folder"),
    ("smolvlm", replaced("config.json", b"not json"), "config.json is no JSON: "),
    ("smolvlm", replaced("config.json", b"\xff{}"), "config.json is no JSON: "),
    ("smolvlm", replaced("config.json", b"[]"), "config.json is no JSON object"),
    ("smolvlm", replaced("config.json", b"{}"), "config.json has no model_type"),
    ("smolvlm", changed(model_type=["smolvlm"]), "says model_type .*: expected one of"),
    ("smolvlm", changed(model_type="whisper"), "says model_type 'whisper': expected one of"),
    ("smolvlm", lacking("vision_config"), "config.json has no vision_config"),
    ("smolvlm", lacking("text_config"), "config.json has no text_config"),
    ("smolvlm", changed(text_config=7), "text_config is no JSON object"),
    ("smolvlm", changed("text_config", num_attention_heads=0), "num_attention_heads is 0, but must be"),
    ("smolvlm", changed("vision_config", num_hidden_layers="2"), "num_hidden_layers is '2', but must be a whole number"),
    ("smolvlm", changed("vision_config", num_hidden_layers=1), r"\d+ tensors are not part of the layout"),
    ("smolvlm", changed("vision_config", num_hidden_layers=3), "has no tensor vision.encoder.layers.2"),
    ("smolvlm", changed("vision_config", hidden_act="relu"), "the vision activation relu is not supported"),
    ("smolvlm", changed("vision_config", num_attention_heads=3), "3 heads do not divide 32"),
    ("smolvlm", changed("vision_config", image_size=[28, 56]), "only squares are supported"),
    ("smolvlm", changed(scale_factor=3), "4 patches a side cannot be joined 3 by 3"),
    ("smolvlm", removed("preprocessor_config.json"), "preprocessor_config.json has no "),
    ("smolvlm", removed("tokenizer.json"), "holds no tokenizer.model and no tokenizer.json"),
    ("smolvlm", removed("model.safetensors"), "holds no model.*safetensors file"),
    ("smolvlm", halved, "model.safetensors is not a whole safetensors file: the tensor .* ends at byte"),
    ("smolvlm", replaced("model.safetensors", b""), "is not a whole safetensors file: "),
    ("smolvlm", replaced("model.safetensors", b"\xff" * 100), "is not a whole safetensors file: its header would have"),
    ("smolvlm", replaced("model.safetensors", b"\x02" + bytes(7) + b"[]"), "is not a whole safetensors file: "),
    ("internvl", changed(downsample_ratio=0), "downsample_ratio is 0, but must be"),
    ("internvl", changed(downsample_ratio=0.3), "downsample_ratio is 0.3, but must be"),
    ("internvl", changed(max_dynamic_patch="12"), "max_dynamic_patch is '12', but must be a whole number of 1 to 16"),
    ("internvl", changed(max_dynamic_patch=40), "max_dynamic_patch is 40, but must be a whole number of 1 to 16"),
    ("llava-1.6", changed(vision_feature_layer=-99), "vision_feature_layer is -99, but the tower has 2 layers"),
    ("llava-1.6", changed(vision_feature_layer=0), "vision_feature_layer is 0, but the tower has 2 layers"),
    ("llava-1.6", changed(image_grid_pinpoints=[]), "image_grid_pinpoints must list 1 to 32 pairs"),
    ("llava-1.6", changed(image_grid_pinpoints=[[28], "x"]),
     "image_grid_pinpoints must list 1 to 32 pairs"),
    ("smolvlm", changed("vision_config", patch_size=[]), r"vision_config: patch_size, which is \[\], cannot be used"),
    ("smolvlm", in_text(rope_scaling=[1]), r"text_config: rope_scaling, which is \[1\], cannot be used"),
    ("gemma3", in_text(layer_types="x"), "text_config: layer_types, which is 'x', cannot be used"),
    ("smolvlm", in_file("tokenizer.json", lambda facts: facts.update(pre_tokenizer="x")),
     "tokenizer.json: pre_tokenizer, which is 'x', cannot be used"),
    ("llava-1.6", lacking("image_grid_pinpoints"), "config.json has no image_grid_pinpoints"),
    ("qwen2-vl", changed("vision_config", embed_dim="32"), "embed_dim is '32', but must be a whole number"),
    ("qwen2-vl", changed("vision_config", hidden_act="relu"), "the vision activation relu is not supported"),
    ("qwen2.5-vl", changed("vision_config", fullatt_block_indexes=[0]), "are not every 1th layer"),
    ("qwen2.5-vl", changed("vision_config", temporal_patch_size=1), "temporal_patch_size is 1, but must be 2"),
    ("qwen3-vl", changed("vision_config", depth=3), "has no tensor vision.blocks.2"),
    ("qwen3-vl", changed("vision_config", deepstack_visual_indexes=[]), r"\d+ tensors are not part of the layout"),
    ("cosmos3-edge", in_text(hidden_act="silu"), "text_config: hidden_act is silu, but must be relu2"),
    ("cosmos3-edge", changed("vision_config", layer_norm_eps=1e-5), "layer_norm_eps is 1e-05, but must be 1e-06"),
    ("cosmos3-edge", changed("vision_config", patch_size=14), "patch_embedding.weight reads 147 values of a patch of 14"),
    ("cosmos3-edge", changed("vision_config", spatial_merge_size=3), "4 patches a side cannot be joined 3 by 3"),
    ("cosmos3-edge", in_text(rope_parameters={"mrope_section": [4, 2, 1]}), "mrope_section is .*, but must list 3 parts of 8"),
    ("cosmos3-edge", lambda folder: shutil.rmtree(folder / "vision_encoder"), "says that vision_encoder/model.safetensors holds"),
    ("gemma3", lacking("vision_config"), "config.json has no vision_config"),
    ("gemma3", changed("text_config", query_pre_attn_scalar=24), "query_pre_attn_scalar is 24, but readers .* take 16"),
    ("gemma3", changed("text_config", hidden_activation="silu"), "text_config: the activation silu is not supported"),
    ("gemma3", changed("text_config", attn_logit_softcapping=50), "attn_logit_softcapping is not supported"),
    ("gemma3", changed("text_config", use_bidirectional_attention=True), "use_bidirectional_attention is not supported"),
    ("gemma3", changed("text_config", layer_types=["full_attention", "sliding_attention", "full_attention"]),
     "layer_types are irregular: of every n layers the last must be full_attention"),
    ("gemma3", changed("text_config", rope_scaling={"rope_type": "yarn"}), "scaling yarn of full_attention is not"),
    ("gemma3", changed("text_config", rope_parameters={"sliding_attention": {"rope_type": "linear", "factor": 8}}),
     "the rope scaling linear of sliding_attention is not supported"),
    ("gemma3", changed("text_config", sliding_window=0), "sliding_window is 0, but must be a whole number"),
    ("gemma3", changed("vision_config", hidden_act="gelu"), "the vision activation gelu is not supported"),
    ("gemma3", changed(mm_tokens_per_image="4"), "mm_tokens_per_image is '4', but must be a whole number"),
    ("gemma3", changed(mm_tokens_per_image=8), "4 patches a side cannot become 8 rows of equal squares"),
    ("gemma3", changed(mm_tokens_per_image=9), "4 patches a side cannot become 9 rows of equal squares"),
    ("gemma3", replaced("preprocessor_config.json", b'{"do_pan_and_scan": true}'), "do_pan_and_scan cuts pictures"),
    ("ministral3", changed("vision_config", hidden_act="gelu"), "the activations of .* are not supported"),
    ("ministral3", changed("vision_config", rope_parameters={"rope_theta": 100.0}), "rope_parameters are not supported"),
    ("ministral3", changed(vision_feature_layer=0), "the projector reads all rows of the last layer"),
    ("ministral3", changed(spatial_merge_size=5), "12 patches a side cannot be joined 5 by 5"),
    ("ministral3", changed(spatial_merge_size=1), "2 tensors are not part of the layout"),
    ("ministral3", in_file("tokenizer.json", lambda facts: facts["added_tokens"].pop(5)),
     r"the tokenizer has no \[IMG_BREAK\]"),
    ("lightonocr", in_text(rms_norm_eps=1e-5), "rms_norm_eps is 1e-05, but must be 1e-06"),
    ("lightonocr", changed("vision_config", hidden_act="gelu"), "the activations of .* are not supported"),
    ("lightonocr", changed(spatial_merge_size=1), "2 tensors are not part of the layout"),
    ("paddleocr", changed("vision_config", hidden_act="gelu"), "hidden_act is gelu, but must be gelu_pytorch_tanh"),
    ("paddleocr", changed("vision_config", spatial_merge_size=1), "spatial_merge_size is 1, but must be 2"),
    ("paddleocr", changed("vision_config", image_size=35), "position_embedding.weight has 16 rows, and by these facts 25"),
    ("paddleocr", changed(rope_scaling={"mrope_section": [2, 3, 2]}), "mrope_section is .*, but must list 3 parts of 8"),
    ("paddleocr", lacking("rope_scaling"), "has no mrope_section, by which positions of pictures are read"),
    ("ministral3", in_rope(rope_type="linear"), "the rope scaling linear is not supported"),
    ("ministral3", in_rope(mscale=2), "mscale must be 1"),
    ("ministral3", in_rope(factor=0), "factor is 0, but must be a number above 0"),
    ("ministral3", in_rope(original_max_position_embeddings=0.5),
     "original_max_position_embeddings is 0.5, but must be a whole number"),
    ("lfm2-vl", in_text(conv_bias=True), "text_config: conv_bias is not supported"),
    ("lfm2-vl", in_text(conv_L_cache=4), "conv_L_cache is 4, but must be a whole number of 3 to 3"),
    ("lfm2-vl", in_text(full_attn_idxs=[]), "layer_types must say conv or full_attention for each of 2 layers"),
    ("lfm2-vl", in_text(layer_types=["conv"]), "layer_types must say conv or full_attention for each of 2 layers"),
    ("lfm2-vl", in_text(full_attn_idxs=[0, 1]), r"has no tensor text.layers.0.self_attn.q_proj"),
    ("lfm2-vl", in_text(block_auto_adjust_ff_dim=False), "tensor blk.0.ffn_gate.weight has the shape"),
    ("lfm2-vl", changed("vision_config", num_patches=15), "num_patches is 15, which is no square"),
    ("lfm2-vl", changed("vision_config", hidden_act="gelu"), "the activations of .* are not supported"),
    ("lfm2-vl", changed(downsample_factor=3), "4 patches a side cannot be joined 3 by 3"),
    ("lfm2-vl", in_file("preprocessor_config.json", lambda facts: facts.update(use_thumbnail=False)),
     "use_thumbnail is False, but must be True"),
    ("lfm2-vl", in_file("preprocessor_config.json", lambda facts: facts.update(tile_size=50)),
     "there are no views of 4 to 16 rows, or 2 to 6 tiles with sides of 50 pixels"),
]


class WithoutPackagesTest(unittest.TestCase):
    def test_help_needs_no_package_and_a_conversion_names_the_missing_one(self):
        command = [sys.executable, "-I", "-S", "-B", "-c", "import sys; sys.path.insert(0, sys.argv[1]); "
                   "sys.argv = sys.argv[2:]; import hf_to_gguf; hf_to_gguf.main()", CONVERT, "hf_to_gguf.py"]
        done = subprocess.run([*command, "--help"], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("bf16", done.stdout)
        done = subprocess.run([*command, "folder", "out"], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, RUNTIME)
        self.assertRegex(done.stderr, r"\Athe Python package (gguf|numpy) is not installed: .*requirements.txt\n\Z")


@unittest.skipUnless(HAS_PACKAGES, "packages of tools/convert/requirements.txt are missing: run this file as a program")
class ConverterTest(FolderTest):
    def command(self, folder, *arguments):
        return [sys.executable, "-B", CONVERT / "hf_to_gguf.py", folder, self.folder / "out", "--name", "tiny", *arguments]

    def convert(self, folder, *arguments):
        return subprocess.run(self.command(folder, *arguments), capture_output=True, text=True, timeout=120, check=False)

    def convert_here(self, folder):
        """The same in a fork of this process, which has the packages already: exit code, output and notes."""
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as notes:
            child = os.fork()
            if child == 0:
                os.dup2(out.fileno(), 1)
                os.dup2(notes.fileno(), 2)
                sys.argv = list(map(str, self.command(folder)[2:]))
                try:
                    hf_to_gguf.main()
                    os._exit(0)
                except SystemExit as error:
                    sys.stderr.flush()
                    os._exit(error.code)
                finally:
                    os._exit(255)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            for file in (out, notes):
                file.seek(0)
            return status, out.read(), notes.read()

    def out(self):
        """What the folder holds."""
        return {path.name: path.read_bytes() for path in sorted((self.folder / "out").iterdir()) if path.is_file()}

    def test_the_program_reads_the_converted_files(self):
        for family in sorted(CONFIGS):
            with self.subTest(family=family):
                write_folder(self.folder / family, family)
                for _ in range(2):  # the second time over the files of the first
                    done = self.convert(self.folder / family)
                    self.assertEqual(done.returncode, 0, done.stderr)
                mmproj, model = [self.folder / "out" / name for name in NAMES]
                images = int(mmproj.exists())
                pair = ["-m", model, "--mmproj", mmproj] if images else ["-m", model]
                (plan,) = self.objects("plan", *pair, "--images", images)
                self.assertEqual(plan["images"], images)
                self.assertEqual(list(self.out()), NAMES[1:] if family == "gemma3-text" else NAMES)
                shutil.rmtree(self.folder / "out")

    def test_qwen_files_have_the_tensors_that_readers_ask_for(self):
        from gguf import GGUFReader  # the class is skipped without it
        for family, (projector, tensors) in QWEN_FILES.items():
            with self.subTest(family=family):
                write_folder(self.folder / family, family)
                done = self.convert(self.folder / family)
                self.assertEqual(done.returncode, 0, done.stderr)
                mmproj, model = [GGUFReader(self.folder / "out" / name) for name in NAMES]
                self.assertEqual(mmproj.fields["clip.projector_type"].contents(), projector)
                self.assertLessEqual(set(tensors), {tensor.name for tensor in mmproj.tensors})
                sections = next(model.fields[key] for key in model.fields if key.endswith(".rope.dimension_sections"))
                self.assertEqual(sections.contents(), [3, 3, 2, 0])

    def test_cosmos3_edge_is_read_under_the_names_of_diffusers_and_of_transformers(self):
        from gguf import GGUFReader  # the class is skipped without it
        write_folder(self.folder / "published", "cosmos3-edge")
        done = self.convert(self.folder / "published")
        self.assertEqual(done.returncode, 0, done.stderr)
        mmproj, model = [GGUFReader(self.folder / "out" / name) for name in NAMES]
        self.assertEqual(mmproj.fields["clip.projector_type"].contents(), "cosmos3_edge")
        self.assertEqual(mmproj.fields["clip.vision.image_size"].contents(), SIDE)
        self.assertEqual(model.fields["general.architecture"].contents(), "cosmos3-edge")
        self.assertEqual(model.fields["cosmos3-edge.rope.dimension_sections"].contents(), [4, 2, 2, 0])
        names = {tensor.name for tensor in model.tensors}
        self.assertLessEqual({"output.weight", "blk.0.ffn_up.weight", "blk.0.ffn_down.weight"}, names)
        self.assertFalse([name for name in names if "gate" in name])
        tensors = {tensor.name: tensor.data for tensor in mmproj.tensors}
        self.assertLessEqual({"v.post_ln.bias", "mm.input_norm.weight", "mm.2.bias"}, set(tensors))
        files = [(self.folder / "out" / name).read_bytes() for name in NAMES]
        # The second value of a pixel is that of the second plane.
        kernel = read_tensor(self.folder / "published/vision_encoder/model.safetensors",
                             "model.visual.embeddings.patch_embedding.weight").reshape(-1, PATCH, PATCH, 3)
        self.assertTrue((kernel.transpose(0, 3, 1, 2).astype("float16") == tensors["v.patch_embd.weight"]).all())
        shutil.copytree(self.folder / "published", self.folder / "native")
        renamed = {**{f".self_attn{theirs}": f".self_attn{ours}" for theirs, ours in COSMOS_NAMES.items()},
                   "layers.0.mlp.up_proj": "layers.0.mlp.fc1", "layers.0.mlp.down_proj": "layers.0.mlp.fc2"}

        def native(name):
            for theirs, ours in renamed.items():
                name = name.replace(theirs, ours)
            return name if name.startswith(("model.", "lm_head.")) else f"model.language_model.{name}"

        rename_tensors(self.folder / "native/transformer/diffusion_pytorch_model.safetensors", native)
        in_file("model.safetensors.index.json", lambda facts: facts.update(
            weight_map={native(name): shard for name, shard in facts["weight_map"].items()}))(self.folder / "native")
        done = self.convert(self.folder / "native")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([(self.folder / "out" / name).read_bytes() for name in NAMES], files)

    def test_gemma_files_hold_windows_rotations_and_whole_norms(self):
        from gguf import GGUFReader  # the class is skipped without it
        for family in ("gemma3", "gemma3-text"):
            write_folder(self.folder / family, family)
            done = self.convert(self.folder / family, "--outtype", "f32")
            self.assertEqual(done.returncode, 0, done.stderr)
            model = GGUFReader(self.folder / "out" / "tiny-f32.gguf")
            facts = {key: model.fields[f"gemma3.{key}"].contents() for key in GEMMA_TEXT_FACTS}
            self.assertEqual(facts, GEMMA_TEXT_FACTS)
            tensors = {tensor.name: tensor.data for tensor in model.tensors}
            self.assertNotIn("output.weight", tensors)
            for norm in GEMMA_NORMS:  # weights near 0 plus 1
                self.assertAlmostEqual(float(tensors[f"{norm}.weight"].mean()), 1, delta=0.2)
        mmproj = GGUFReader(self.folder / "out" / "mmproj-tiny-f32.gguf")
        self.assertEqual(mmproj.fields["clip.projector_type"].contents(), "gemma3")
        self.assertEqual(mmproj.fields["clip.vision.projector.scale_factor"].contents(), 2)
        tensors = {tensor.name: tensor for tensor in mmproj.tensors}
        self.assertEqual(tensors["mm.input_projection.weight"].tensor_type.name, "F16")
        self.assertAlmostEqual(float(tensors["mm.soft_emb_norm.weight"].data.mean()), 1, delta=0.2)
        self.assertIn("v.post_ln.bias", tensors)

    def test_files_of_pixtrals_tower_have_what_their_models_have(self):
        from gguf import GGUFReader  # the class is skipped without it
        for family, architecture, has_merger in (("ministral3", "mistral3", True), ("pixtral", "llama", False)):
            with self.subTest(family=family):
                write_folder(self.folder / family, family)
                done = self.convert(self.folder / family)
                self.assertEqual(done.returncode, 0, done.stderr)
                mmproj, model = [GGUFReader(self.folder / "out" / name) for name in NAMES]
                self.assertEqual(mmproj.fields["clip.projector_type"].contents(), "pixtral")
                self.assertEqual("clip.vision.spatial_merge_size" in mmproj.fields, has_merger)
                tensors = {tensor.name: tensor.data for tensor in mmproj.tensors}
                self.assertEqual("mm.patch_merger.weight" in tensors, has_merger)
                self.assertEqual(model.fields["general.architecture"].contents(), architecture)
                embedding = next(tensor.data for tensor in model.tensors if tensor.name == "token_embd.weight")
                self.assertAlmostEqual(float(abs(tensors["v.token_embd.img_break"] - embedding[262]).max()), 0, 3)
        self.assertNotIn("llama.rope.scaling.type", model.fields)

    def test_files_of_lfm2_hold_the_kind_of_each_layer_and_the_numbers_of_views(self):
        from gguf import GGUFReader  # the class is skipped without it
        write_folder(self.folder / "lfm2-vl", "lfm2-vl")
        done = self.convert(self.folder / "lfm2-vl", "--outtype", "q8_0")
        self.assertEqual(done.returncode, 0, done.stderr)
        mmproj, model = [GGUFReader(self.folder / "out" / name.replace("f16", "q8_0")) for name in NAMES]
        facts = {"attention.head_count_kv": [0, 1], "shortconv.l_cache": 3, "feed_forward_length": MLP}
        self.assertEqual({key: model.fields[f"lfm2.{key}"].contents() for key in facts}, facts)
        tensors = {tensor.name: tensor for tensor in model.tensors}
        self.assertEqual(tensors["blk.0.shortconv.conv.weight"].tensor_type.name, "F32")
        self.assertEqual(tensors["blk.0.shortconv.in_proj.weight"].tensor_type.name, "Q8_0")
        self.assertLessEqual({"token_embd_norm.weight", "blk.1.attn_q_norm.weight", "blk.1.attn_output.weight"}, set(tensors))
        self.assertEqual(mmproj.fields["clip.projector_type"].contents(), "lfm2")
        facts = {"image_min_pixels": 4 * 196, "image_max_pixels": 16 * 196, "preproc_image_size": 2 * SIDE,
                 "preproc_min_tiles": 2, "preproc_max_tiles": 6, "image_size": SIDE}
        self.assertEqual({key: mmproj.fields[f"clip.vision.{key}"].contents() for key in facts}, facts)
        names = {tensor.name for tensor in mmproj.tensors}
        self.assertLessEqual({"v.post_ln.bias", "mm.1.bias", "mm.2.weight"}, names)
        self.assertNotIn("mm.input_norm.weight", names)

    def test_lightonocr_is_no_mistral_in_its_files(self):
        from gguf import GGUFReader  # the class is skipped without it
        write_folder(self.folder / "published", "lightonocr")
        done = self.convert(self.folder / "published", "--pre-tokenizer", "qwen2")
        self.assertEqual(done.returncode, 0, done.stderr)
        mmproj, model = [GGUFReader(self.folder / "out" / name) for name in NAMES]
        self.assertEqual(mmproj.fields["clip.projector_type"].contents(), "lightonocr")
        self.assertEqual(mmproj.fields["clip.vision.spatial_merge_size"].contents(), 2)
        names = {tensor.name for tensor in mmproj.tensors}
        self.assertLessEqual({"mm.input_norm.weight", "mm.patch_merger.weight", "v.blk.1.ffn_gate.weight"}, names)
        self.assertNotIn("v.token_embd.img_break", names)
        self.assertEqual(model.fields["general.architecture"].contents(), "qwen3")
        files = [(self.folder / "out" / name).read_bytes() for name in NAMES]
        changed(model_type="lighton_ocr")(self.folder / "published")
        self.assertEqual(self.convert(self.folder / "published", "--pre-tokenizer", "qwen2").returncode, 0)
        self.assertEqual([(self.folder / "out" / name).read_bytes() for name in NAMES], files)

    def test_paddleocr_is_read_under_its_own_names_and_those_of_transformers(self):
        from gguf import GGUFReader  # the class is skipped without it
        write_folder(self.folder / "published", "paddleocr")
        done = self.convert(self.folder / "published")
        self.assertEqual(done.returncode, 0, done.stderr)
        mmproj, model = [GGUFReader(self.folder / "out" / name) for name in NAMES]
        facts = {"clip.projector_type": "paddleocr", "clip.vision.image_size": 4 * SIDE, "clip.use_gelu": True,
                 "clip.vision.image_min_pixels": SIDE * SIDE, "clip.vision.image_max_pixels": 16 * SIDE * SIDE}
        self.assertEqual({key: mmproj.fields[key].contents() for key in facts}, facts)
        names = {tensor.name for tensor in mmproj.tensors}
        self.assertLessEqual({"v.position_embd.weight", "v.post_ln.bias", "mm.input_norm.bias", "mm.1.bias", "mm.2.bias"},
                             names)
        self.assertEqual(model.fields["paddleocr.rope.dimension_sections"].contents(), [2, 3, 3, 0])
        files = [(self.folder / "out" / name).read_bytes() for name in NAMES]
        prefixes = {"visual.": "model.visual.", "mlp_AR.": "model.projector.", "model.": "model.language_model."}

        def native(name):
            theirs = next((prefix for prefix in prefixes if name.startswith(prefix)), "")
            return prefixes.get(theirs, "") + name[len(theirs):]

        rename_tensors(self.folder / "published/model.safetensors", native)
        text = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
                "max_position_embeddings", "head_dim", "rope_theta", "rope_scaling")
        in_file("config.json", lambda config: config.update(text_config={
            **{key: config.pop(key) for key in text}, "model_type": "paddleocr_vl_text"}))(self.folder / "published")
        done = self.convert(self.folder / "published")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([(self.folder / "out" / name).read_bytes() for name in NAMES], files)

    def test_weights_of_8_bits_are_multiplied_out(self):
        from gguf import GGUFReader  # the class is skipped without it
        name = "language_model.model.layers.0.self_attn.o_proj.weight"

        def pack(header, data):
            """A weight of 1.5 throughout, all others after it, and two scales."""
            begin, end = header[name]["data_offsets"]
            count, cut = (end - begin) // 4, (end - begin) // 4 * 3
            for entry in header.values():
                entry["data_offsets"] = [at - cut if at >= end else at for at in entry["data_offsets"]]
            header[name] |= {"dtype": "F8_E4M3", "data_offsets": [begin, begin + count]}
            size = len(data) - cut
            header[f"{name}_scale_inv"] = {"dtype": "F32", "shape": [], "data_offsets": [size, size + 4]}
            header[name.replace("weight", "activation_scale")] = {"dtype": "F32", "shape": [],
                                                                  "data_offsets": [size + 4, size + 8]}
            return data[:begin] + bytes([0x3C] * count) + data[end:] + struct.pack("<2f", -0.5, 3)

        write_folder(self.folder / "ministral3", "ministral3")
        in_header(pack)(self.folder / "ministral3")
        done = self.convert(self.folder / "ministral3")
        self.assertEqual(done.returncode, 0, done.stderr)
        tensors = {tensor.name: tensor.data for tensor in GGUFReader(self.folder / "out" / NAMES[1]).tensors}
        self.assertTrue((tensors["blk.0.attn_output.weight"] == -0.75).all())

    def test_gemma_files_name_the_scale_of_their_projector_only_if_it_is_unusual(self):
        from gguf import GGUFReader  # the class is skipped without it
        write_folder(self.folder / "gemma3", "gemma3")
        changed(mm_tokens_per_image=1)(self.folder / "gemma3")
        done = self.convert(self.folder / "gemma3")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("clip.vision.projector.scale_factor", GGUFReader(self.folder / "out" / NAMES[0]).fields)

    def test_a_bad_folder_gets_one_sentence_and_replaces_nothing(self):
        (self.folder / "out").mkdir()
        for number, (family, change, sentence) in enumerate(BAD_FOLDERS):
            for name in NAMES:
                (self.folder / "out" / name).write_text("good")
            with self.subTest(number=number, sentence=sentence):
                folder = self.folder / f"{number}"
                write_folder(folder, family)
                change(folder)
                code, out, notes = self.convert_here(folder)
                self.assertEqual((code, out), (BAD_INPUT, ""), notes)
                self.assertRegex(notes, rf"\A[^\n]*({sentence})[^\n]*\n\Z")
                self.assertNotIn("Error:", notes)
                self.assertLess(len(notes), 1100)
                self.assertTrue(self.out() == {name: b"good" for name in NAMES}, "files were replaced or left")

    def test_bf16_files_hold_the_upper_halves_of_weights(self):
        import numpy
        from gguf import GGUFReader  # the class is skipped without it
        write_folder(self.folder / "good", "smolvlm")
        for outtype in ("f32", "bf16"):
            done = self.convert(self.folder / "good", "--outtype", outtype)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
        whole, halves = [{tensor.name: tensor for tensor in GGUFReader(self.folder / "out" / f"tiny-{outtype}.gguf").tensors}
                         for outtype in ("f32", "bf16")]
        name = "blk.0.attn_q.weight"
        self.assertEqual(halves[name].tensor_type.name, "BF16")
        self.assertEqual(halves["output_norm.weight"].tensor_type.name, "F32")
        bits = halves[name].data.view(numpy.uint16).astype(numpy.uint32) << 16
        self.assertLess(abs(bits.view(numpy.float32) / whole[name].data - 1).max(), 1 / 256)
        pair = [self.folder / "out" / file for file in ("tiny-bf16.gguf", "mmproj-tiny-bf16.gguf")]
        self.assertIn(", BF16, ", self.answer("plan", "-m", pair[0], "--mmproj", pair[1]))

    def test_values_beyond_f16_are_told_and_kept(self):
        from gguf import GGUFReader  # the class is skipped without it
        for number, outtype, stored in ((2.0**17, "f16", "BF16"), (1e5 + 0.25, "f16", "F32"), (2.0**24, "q8_0", "BF16")):
            with self.subTest(number=number, outtype=outtype):
                folder = self.folder / f"{number}"
                write_folder(folder, "smolvlm")
                if stored == "BF16":
                    value(QUERY, number, "BF16")(folder)
                else:
                    value(QUERY, number)(folder)
                done = self.convert(folder, "--outtype", outtype)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertRegex(done.stderr, rf"\Athe tensor blk.0.attn_q.weight holds a value of \S+, and {outtype.upper()} "
                                              rf"at most [\d.e+]+: it is stored as {stored}\n\Z")
                tensors = {tensor.name: tensor for tensor in GGUFReader(self.folder / "out" / f"tiny-{outtype}.gguf").tensors}
                self.assertEqual(tensors["blk.0.attn_q.weight"].tensor_type.name, stored)
                self.assertEqual(tensors["blk.0.attn_k.weight"].tensor_type.name, outtype.upper())

    def test_the_family_has_colours_where_the_folder_names_none(self):
        from gguf import GGUFReader  # the class is skipped without it
        for family, mean, std in (("smolvlm", 0.5, 0.5), ("llava-1.6", 0.48145466, 0.26862954), ("gemma3", 0.5, 0.5),
                                  ("internvl", 0.485, 0.229), ("qwen2-vl", 0.48145466, 0.26862954), ("qwen3-vl", 0.5, 0.5)):
            with self.subTest(family=family):
                write_folder(self.folder / family, family)
                in_file("preprocessor_config.json",
                        lambda facts: [facts.pop(key) for key in ("image_mean", "image_std")])(self.folder / family)
                done = self.convert(self.folder / family)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("preprocessor_config.json has no image_mean: the family's is taken", done.stderr)
                fields = GGUFReader(self.folder / "out" / NAMES[0]).fields
                self.assertAlmostEqual(fields["clip.vision.image_mean"].contents()[0], mean, 6)
                self.assertAlmostEqual(fields["clip.vision.image_std"].contents()[0], std, 6)

    def quick(self, *flags, columns=0):
        """What a conversion shows whose progress begins at once and is drawn at every tensor, where stderr is a pipe or
        a terminal."""
        if not (self.folder / "good").exists():
            write_folder(self.folder / "good", "smolvlm")
        code = ("import sys; sys.path.insert(0, sys.argv[1]); sys.argv[1:] = sys.argv[2:]; import progress; "
                "progress.FIRST_AFTER_S = progress.REDRAWN_AFTER_S = 0; import hf_to_gguf; hf_to_gguf.main()")
        ours, its = os.openpty() if columns else os.pipe()
        if columns:
            fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        command = [sys.executable, "-B", "-c", code, CONVERT, *self.command(self.folder / "good")[3:], *flags]
        with subprocess.Popen(command, stderr=its) as program, os.fdopen(ours, "rb", buffering=0) as screen:
            os.close(its)
            shown = b""
            with contextlib.suppress(OSError):  # the end of a terminal, as Linux tells it
                while part := screen.read(4096):
                    shown += part
        self.assertEqual(program.returncode, 0, shown)
        return shown.decode()

    def test_progress_is_a_line_for_each_tenth(self):
        lines = self.quick().splitlines()
        amount = r"\d+ of (\d+) KiB, \d+(?:\.\d)? [KM]iB/s, "
        shares = [int(re.match(r"converting: (\d+) %, " + amount, line)[1]) for line in lines]
        tenths = [share // 10 for share in shares]
        self.assertEqual(tenths, sorted(set(tenths)))
        self.assertGreater(len(tenths), 3)
        self.assertRegex(lines[-1], r"converting: 100 %, " + amount + r"after \d+ s$")
        self.assertEqual(self.quick("--quiet"), "")

    def test_progress_is_a_bar_on_a_terminal_as_wide_as_that(self):
        for columns in (30, 60, 200):
            frames = self.quick(columns=columns).split("\r\x1b[K")
            self.assertGreater(len(frames), 20)
            self.assertEqual((frames[0], frames[-1]), ("", ""))
            self.assertLess(max(map(len, frames)), columns)
            self.assertRegex(frames[-2], r"\Aconverting  100 % " + (r"\[#{24}\] \d+ of" if columns > 60 else ""))

    def test_a_place_that_cannot_be_written_keeps_both_files(self):
        write_folder(self.folder / "good", "smolvlm")
        (self.folder / "out" / NAMES[0]).mkdir(parents=True)
        (self.folder / "out" / NAMES[1]).write_text("good")
        done = self.convert(self.folder / "good")
        self.assertEqual(done.returncode, RUNTIME)
        self.assertRegex(done.stderr, rf"\A[^\n]*{NAMES[0]}: is a folder: choose another[^\n]*\n\Z")
        self.assertEqual(self.out(), {NAMES[1]: b"good"})
        shutil.rmtree(self.folder / "out")
        (self.folder / "out").write_text("")
        self.assertRegex(self.convert(self.folder / "good").stderr, r"\A[^\n]*/out: File exists\n\Z")

    def test_an_interrupted_run_leaves_nothing(self):
        write_folder(self.folder / "good", "smolvlm")
        # It stops before the second file, when the first one is there.
        wait = ("import sys, time; sys.path.insert(0, sys.argv[1]); sys.argv[1:] = sys.argv[2:]; import hf_to_gguf; "
                "import conversion; "
                "conversion.write_vision_model = lambda *_: (print(flush=True), time.sleep(60)); hf_to_gguf.main()")
        command = [sys.executable, "-B", "-c", wait, CONVERT, *self.command(self.folder / "good")[3:]]
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
                self.assertEqual(program.stdout.readline(), "\n")
                self.assertEqual(list(self.out()), [f"{NAMES[1]}.{program.pid}"])
                program.send_signal(number)
                _, notes = program.communicate(timeout=60)
            self.assertEqual((program.returncode, notes), (128 + number, ""))
            self.assertEqual(self.out(), {})


@unittest.skipUnless(HAS_PACKAGES, "packages of tools/convert/requirements.txt are missing: run this file as a program")
class SmallerPicturesTest(FolderTest):
    MMPROJ = SOURCE / "apps" / "models" / "mmproj-shapeboard-34m-q8_0.gguf"
    MODEL = SOURCE / "apps" / "models" / "shapeboard-34m-q8_0.gguf"

    def shrink(self, source, pixels):
        return subprocess.run([sys.executable, "-B", CONVERT / "shrink_pictures.py", source, self.folder / "small.gguf",
                               str(pixels)], capture_output=True, text=True, timeout=120, check=False)

    def test_smaller_pictures_have_fewer_tokens_and_whole_ones_the_same_answers(self):
        for pixels, tokens in ((64, 4), (160, 25), (256, 64)):
            with self.subTest(pixels=pixels):
                done = self.shrink(self.MMPROJ, pixels)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(f": {tokens} tokens a view\n", done.stdout)
                pair = ["-m", self.MODEL, "--mmproj", self.folder / "small.gguf"]
                (plan,) = self.objects("plan", *pair, "--images", 1)
                self.assertEqual(plan["kv_bytes_per_image"], tokens * 8192)
                (answer,) = self.objects("ask", "--prompt", "What is on the left?", board("115"), *pair)
        self.assertEqual(answer["answer"], "A large cyan star.")

    def test_sizes_that_leave_no_whole_tokens_and_other_files_are_refused(self):
        for pixels in (0, 48, 288):
            self.assertRegex(self.shrink(self.MMPROJ, pixels).stderr, r"give a multiple of 32 up to 256\.\n\Z")
        self.assertIn("the file has no clip.vision.image_size", self.shrink(self.MODEL, 64).stderr)


if __name__ == "__main__":
    if not HAS_PACKAGES:
        go_on_with("convert", CONVERT / "requirements.txt")
    unittest.main()
