"""Tiny Hugging Face folders of every family, with random weights, for the converter's tests."""

import json
import struct

import numpy

WIDTH, MLP, VOCABULARY = 32, 64, 320
SIDE, PATCH, PATCHES = 28, 7, 16
TEXT = {"model_type": "llama", "hidden_size": WIDTH, "intermediate_size": MLP, "num_hidden_layers": 1,
        "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 4096,
        "tie_word_embeddings": True}
VISION = {"hidden_size": WIDTH, "intermediate_size": MLP, "num_hidden_layers": 2, "num_attention_heads": 2,
          "image_size": SIDE, "patch_size": PATCH}
GEMMA_TEXT = {**TEXT, "model_type": "gemma3_text", "num_hidden_layers": 3, "head_dim": 16, "query_pre_attn_scalar": 16,
              "sliding_window": 8, "sliding_window_pattern": 2, "rope_scaling": {"rope_type": "linear", "factor": 8.0}}
CONFIGS = {
    "smolvlm": {"model_type": "smolvlm", "scale_factor": 2},
    "llava-1.6": {"model_type": "llava_next", "vision_feature_layer": -2, "image_grid_pinpoints": [[28, 56], [56, 28]]},
    "internvl": {"model_type": "internvl", "downsample_ratio": 0.5, "max_dynamic_patch": 6},
    "qwen2-vl": {"model_type": "qwen2_vl"},
    "qwen2.5-vl": {"model_type": "qwen2_5_vl"},
    "qwen3-vl": {"model_type": "qwen3_vl"},
    "cosmos3-edge": {"model_type": "cosmos3_edge", "projector_hidden_size": 4 * WIDTH},
    "gemma3": {"model_type": "gemma3", "mm_tokens_per_image": 4},
    "ministral3": {"model_type": "mistral3"},
    "pixtral": {"model_type": "llava", "vision_feature_layer": -1, "vision_feature_select_strategy": "full"},
    "lightonocr": {"model_type": "mistral3", "architectures": ["LightOnOCRForConditionalGeneration"]},
    "paddleocr": {"model_type": "paddleocr_vl", **{key: value for key, value in TEXT.items() if key != "model_type"},
                  "head_dim": 16, "use_bias": False, "rope_theta": 500000,
                  "rope_scaling": {"mrope_section": [2, 3, 3], "rope_type": "default", "type": "default"}},
    "gemma3-text": GEMMA_TEXT,
    "lfm2-vl": {"model_type": "lfm2_vl", "projector_hidden_size": WIDTH},
}
QWEN_VISION = {"depth": 2, "num_heads": 2, "patch_size": PATCH, "hidden_size": WIDTH}
# What is not as in TEXT and VISION.
PARTS = {
    "qwen2-vl": {"vision_config": {**QWEN_VISION, "embed_dim": WIDTH, "mlp_ratio": 2}},
    "qwen2.5-vl": {"vision_config": {**QWEN_VISION, "intermediate_size": MLP, "fullatt_block_indexes": [1]}},
    "qwen3-vl": {"vision_config": {**QWEN_VISION, "intermediate_size": MLP, "num_position_embeddings": PATCHES,
                                   "deepstack_visual_indexes": [0]}},
}
for qwen, kind in (("qwen2-vl", "qwen2_vl_text"), ("qwen2.5-vl", "qwen2_5_vl_text"), ("qwen3-vl", "qwen3_vl_text")):
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [3, 3, 2]}
    PARTS[qwen]["text_config"] = {**TEXT, "model_type": kind, "rope_parameters": rope}
QWEN = tuple(PARTS)
PARTS["cosmos3-edge"] = {
    "text_config": {**TEXT, "model_type": "cosmos3_edge_text", "head_dim": 16, "tie_word_embeddings": False,
                    "rope_parameters": {"rope_type": "default", "rope_theta": 1e8, "mrope_section": [4, 2, 2]}},
    "vision_config": {**{key: value for key, value in VISION.items() if key != "image_size"}, "num_patches": PATCHES},
    "tie_word_embeddings": False}
PIXTRAL = {**VISION, "model_type": "pixtral", "hidden_act": "silu"}
YARN = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 16.0, "original_max_position_embeddings": 1024, "mscale": 1.0,
        "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1}
PARTS["ministral3"] = {"vision_config": PIXTRAL,
                       "text_config": {**TEXT, "model_type": "ministral3", "head_dim": 16, "rope_parameters": YARN}}
PARTS["pixtral"] = {"vision_config": PIXTRAL, "text_config": {**TEXT, "model_type": "mistral", "head_dim": 16}}
PARTS["lightonocr"] = {"vision_config": PIXTRAL, "text_config": {**TEXT, "model_type": "qwen3", "head_dim": 16}}
PARTS["paddleocr"] = {"text_config": None}
PARTS["gemma3"] = {"text_config": GEMMA_TEXT}
LFM2_TEXT = {"model_type": "lfm2", "hidden_size": WIDTH, "block_ff_dim": 3 * MLP // 2, "block_multiple_of": 1,
             "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "full_attn_idxs": [1],
             "max_position_embeddings": 4096, "tie_embedding": True}
PARTS["lfm2-vl"] = {"text_config": LFM2_TEXT,
                    "vision_config": {**PARTS["cosmos3-edge"]["vision_config"], "model_type": "siglip2_vision_model"}}
PARTS["gemma3-text"] = {"text_config": None, "vision_config": None}
GEMMA_TOKENS = ["<bos>", "<end_of_turn>", "<start_of_turn>", "<start_of_image>", "<end_of_image>"]
MISTRAL_TOKENS = ["<s>", "</s>", "[INST]", "[/INST]", "[IMG]", "[IMG_BREAK]", "[IMG_END]"]
SPECIAL_TOKENS = {
    "smolvlm": ["<|im_start|>", "<end_of_utterance>", "<fake_token_around_image>", "<global-img>", "<image>",
                *(f"<row_{row}_col_{col}>" for row in range(1, 4) for col in range(1, 4))],
    "llava-1.6": ["<s>", "</s>", "<image>"],
    "internvl": ["<|im_start|>", "<|im_end|>", "<img>", "</img>", "<IMG_CONTEXT>"],
    **{family: ["<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>"]
       for family in (*QWEN, "cosmos3-edge", "lightonocr")},
    "paddleocr": ["<s>", "</s>", "<|begin_of_sentence|>", "<|IMAGE_START|>", "<|IMAGE_END|>", "<|IMAGE_PLACEHOLDER|>"],
    "gemma3": GEMMA_TOKENS, "gemma3-text": GEMMA_TOKENS, "ministral3": MISTRAL_TOKENS, "pixtral": MISTRAL_TOKENS,
    "lfm2-vl": ["<|startoftext|>", "<|im_end|>", "<|im_start|>", "<image>", "<|image_start|>", "<|image_end|>",
                "<|img_thumbnail|>",
                *(f"<|img_row_{row}_col_{col}|>" for row in range(1, 11) for col in range(1, 10 // row + 1))],
}


def linear(name, rows, cols):
    return {f"{name}.weight": (rows, cols), f"{name}.bias": (rows,)}


def norm(name, width=WIDTH):
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def text_tensors(prefix):
    return {f"{prefix}embed_tokens.weight": (VOCABULARY, WIDTH), f"{prefix}norm.weight": (WIDTH,),
            **text_layer_tensors(f"{prefix}layers.0.")}


def text_layer_tensors(layer):
    shapes = {}
    for name in ("input_layernorm", "post_attention_layernorm"):
        shapes[f"{layer}{name}.weight"] = (WIDTH,)
    for name, rows, cols in [("self_attn.q_proj", WIDTH, WIDTH), ("self_attn.k_proj", WIDTH // 2, WIDTH),
                             ("self_attn.v_proj", WIDTH // 2, WIDTH), ("self_attn.o_proj", WIDTH, WIDTH),
                             ("mlp.gate_proj", MLP, WIDTH), ("mlp.up_proj", MLP, WIDTH), ("mlp.down_proj", WIDTH, MLP)]:
        shapes[f"{layer}{name}.weight"] = (rows, cols)
    return shapes


def layer_tensors(prefix, attention, output, norms):
    shapes = {**linear(f"{prefix}{attention}.{output}", WIDTH, WIDTH), **linear(f"{prefix}mlp.fc1", MLP, WIDTH),
              **linear(f"{prefix}mlp.fc2", WIDTH, MLP)}
    for name in ("q_proj", "k_proj", "v_proj"):
        shapes.update(linear(f"{prefix}{attention}.{name}", WIDTH, WIDTH))
    for name in norms:
        shapes.update(norm(prefix + name))
    return shapes


def tower_tensors(prefix):
    shapes = {}
    for layer in range(VISION["num_hidden_layers"]):
        shapes.update(layer_tensors(f"{prefix}encoder.layers.{layer}.", "self_attn", "out_proj",
                                    ("layer_norm1", "layer_norm2")))
    return {**shapes, f"{prefix}embeddings.patch_embedding.weight": (WIDTH, 3, PATCH, PATCH)}


def smolvlm_tensors():
    tower = "model.vision_model."
    return {**text_tensors("model.text_model."), **tower_tensors(tower), **norm(f"{tower}post_layernorm"),
            f"{tower}embeddings.patch_embedding.bias": (WIDTH,),
            f"{tower}embeddings.position_embedding.weight": (PATCHES, WIDTH),
            "model.connector.modality_projection.proj.weight": (WIDTH, 4 * WIDTH)}


def llava_tensors():
    tower = "vision_tower.vision_model."
    return {**text_tensors("language_model.model."), **tower_tensors(tower), **norm(f"{tower}pre_layrnorm"),
            f"{tower}embeddings.class_embedding": (WIDTH,),
            f"{tower}embeddings.position_embedding.weight": (PATCHES + 1, WIDTH), "image_newline": (WIDTH,),
            **linear("multi_modal_projector.linear_1", WIDTH, WIDTH),
            **linear("multi_modal_projector.linear_2", WIDTH, WIDTH)}


def internvl_tensors():
    tower, projector = "vision_tower.", "multi_modal_projector."
    shapes = {**text_tensors("language_model.model."), f"{tower}embeddings.cls_token": (1, 1, WIDTH),
              f"{tower}embeddings.position_embeddings": (1, PATCHES + 1, WIDTH),
              f"{tower}embeddings.patch_embeddings.projection.weight": (WIDTH, 3, PATCH, PATCH),
              f"{tower}embeddings.patch_embeddings.projection.bias": (WIDTH,), **norm(f"{projector}layer_norm", 4 * WIDTH),
              **linear(f"{projector}linear_1", WIDTH, 4 * WIDTH), **linear(f"{projector}linear_2", WIDTH, WIDTH)}
    for layer in range(VISION["num_hidden_layers"]):
        prefix = f"{tower}encoder.layer.{layer}."
        shapes.update(layer_tensors(prefix, "attention", "projection_layer", ("layernorm_before", "layernorm_after")))
        shapes.update({f"{prefix}lambda_1": (WIDTH,), f"{prefix}lambda_2": (WIDTH,)})
    return shapes


def qwen_merger(prefix, norm_shapes, first, second):
    return {**norm_shapes, **linear(prefix + first, 4 * WIDTH, 4 * WIDTH), **linear(prefix + second, WIDTH, 4 * WIDTH)}


def qwen_tensors(mlp, norms=norm):
    """What the three generations have in common. mlp: {map: (rows, cols)} of a layer of the tower."""
    shapes = {**text_tensors("model.language_model."),
              "model.visual.patch_embed.proj.weight": (WIDTH, 3, 2, PATCH, PATCH)}
    for layer in range(QWEN_VISION["depth"]):
        prefix = f"model.visual.blocks.{layer}."
        shapes |= {**linear(f"{prefix}attn.qkv", 3 * WIDTH, WIDTH), **linear(f"{prefix}attn.proj", WIDTH, WIDTH),
                   **norms(f"{prefix}norm1"), **norms(f"{prefix}norm2")}
        for name, sides in mlp.items():
            shapes |= linear(f"{prefix}mlp.{name}", *sides)
    return shapes


def qwen2_tensors():
    merger = "model.visual.merger."
    return {**qwen_tensors({"fc1": (MLP, WIDTH), "fc2": (WIDTH, MLP)}),
            **qwen_merger(merger, norm(f"{merger}ln_q"), "mlp.0", "mlp.2")}


def scale(name):
    return {f"{name}.weight": (WIDTH,)}


def qwen25_tensors():
    merger, mlp = "model.visual.merger.", {"gate_proj": (MLP, WIDTH), "up_proj": (MLP, WIDTH), "down_proj": (WIDTH, MLP)}
    return {**qwen_tensors(mlp, scale), **qwen_merger(merger, scale(f"{merger}ln_q"), "mlp.0", "mlp.2")}


def qwen3_tensors():
    merger, deepstack = "model.visual.merger.", "model.visual.deepstack_merger_list.0."
    attention, head = "model.language_model.layers.0.self_attn.", (WIDTH // TEXT["num_attention_heads"],)
    return {**qwen_tensors({"linear_fc1": (MLP, WIDTH), "linear_fc2": (WIDTH, MLP)}),
            f"{attention}q_norm.weight": head, f"{attention}k_norm.weight": head,
            "model.visual.patch_embed.proj.bias": (WIDTH,), "model.visual.pos_embed.weight": (PATCHES, WIDTH),
            **qwen_merger(merger, norm(f"{merger}norm"), "linear_fc1", "linear_fc2"),
            **qwen_merger(deepstack, norm(f"{deepstack}norm", 4 * WIDTH), "linear_fc1", "linear_fc2")}


# Names of diffusers, which the published folder has, and those of transformers.
COSMOS_NAMES = {".to_q.": ".q_proj.", ".to_k.": ".k_proj.", ".to_v.": ".v_proj.", ".to_out.": ".o_proj."}


def cosmos_tensors():
    """In the layout of the published files, with a norm that only the generator reads by."""
    tower, projector = "model.visual.", "model.projector."
    shapes = {name: shape for name, shape in text_tensors("").items() if "gate_proj" not in name}
    for published, own in COSMOS_NAMES.items():
        shapes = {name.replace(own, published): shape for name, shape in shapes.items()}
    return {**shapes, "lm_head.weight": (VOCABULARY, WIDTH), "layers.0.self_attn.k_norm_und_for_gen.weight": (16,),
            **tower_tensors(tower), **norm(f"{tower}post_layernorm"),
            **linear(f"{tower}embeddings.patch_embedding", WIDTH, 3 * PATCH * PATCH),
            f"{tower}embeddings.position_embedding.weight": (PATCHES, WIDTH), **norm(f"{projector}norm"),
            **linear(f"{projector}linear_fc1", 4 * WIDTH, 4 * WIDTH), **linear(f"{projector}linear_fc2", WIDTH, 4 * WIDTH)}


def write_parts(folder, shapes):
    """The tensors in folders below, as the index lists them, which leaves out the generator's."""
    index = {}
    for part, is_of_tower in (("transformer/diffusion_pytorch_model", False), ("vision_encoder/model", True)):
        path = folder / f"{part}.safetensors"
        path.parent.mkdir()
        own = {name: shape for name, shape in shapes.items() if name.startswith("model.") == is_of_tower}
        write_safetensors(path, {**own, **({} if is_of_tower else {"layers.0.mlp_moe_gen.up_proj.weight": (4, 4)})})
        index |= {name: f"{part}.safetensors" for name in own}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))


def gemma_text_tensors(prefix):
    shapes = text_tensors(prefix)
    for number in range(GEMMA_TEXT["num_hidden_layers"]):
        layer = f"{prefix}layers.{number}."
        shapes |= {**text_layer_tensors(layer), **scale(f"{layer}pre_feedforward_layernorm"),
                   **scale(f"{layer}post_feedforward_layernorm")}
        shapes |= {f"{layer}self_attn.{part}_norm.weight": (GEMMA_TEXT["head_dim"],) for part in "qk"}
    return shapes


def gemma_tensors():
    """In the layout of the published files, with the head that only other models use."""
    tower, projector = "vision_tower.vision_model.", "multi_modal_projector."
    return {**gemma_text_tensors("language_model.model."), **tower_tensors(tower), **norm(f"{tower}post_layernorm"),
            f"{tower}embeddings.patch_embedding.bias": (WIDTH,),
            f"{tower}embeddings.position_embedding.weight": (PATCHES, WIDTH), f"{tower}head.probe": (1, 1, WIDTH),
            f"{projector}mm_soft_emb_norm.weight": (WIDTH,),
            f"{projector}mm_input_projection_weight": (WIDTH, WIDTH)}


def pixtral_tensors():
    """In the layout of the published files."""
    tower, projector = "vision_tower.", "multi_modal_projector."
    shapes = {**text_tensors("language_model.model."), f"{tower}patch_conv.weight": (WIDTH, 3, PATCH, PATCH),
              **scale(f"{tower}ln_pre"), f"{projector}linear_1.weight": (WIDTH, WIDTH),
              f"{projector}linear_2.weight": (WIDTH, WIDTH)}
    for number in range(VISION["num_hidden_layers"]):
        layer = f"{tower}transformer.layers.{number}."
        shapes |= {**scale(f"{layer}attention_norm"), **scale(f"{layer}ffn_norm"),
                   f"{layer}feed_forward.down_proj.weight": (WIDTH, MLP)}
        shapes |= {f"{layer}attention.{part}_proj.weight": (WIDTH, WIDTH) for part in "qkvo"}
        shapes |= {f"{layer}feed_forward.{part}_proj.weight": (MLP, WIDTH) for part in ("gate", "up")}
    return shapes


def ministral3_tensors():
    projector = "multi_modal_projector."
    return {**pixtral_tensors(), **scale(f"{projector}norm"),
            f"{projector}patch_merger.merging_layer.weight": (WIDTH, 4 * WIDTH)}


def lfm2_tensors():
    """In the layout of the published files, with the head that only other models use."""
    tower, projector, text = "model.vision_tower.vision_model.", "model.multi_modal_projector.", "model.language_model."
    shapes = {f"{text}embed_tokens.weight": (VOCABULARY, WIDTH), **scale(f"{text}embedding_norm"),
              **tower_tensors(tower), **norm(f"{tower}post_layernorm"),
              **linear(f"{tower}embeddings.patch_embedding", WIDTH, 3 * PATCH * PATCH),
              f"{tower}embeddings.position_embedding.weight": (PATCHES, WIDTH), f"{tower}head.probe": (1, 1, WIDTH),
              **linear(f"{projector}linear_1", WIDTH, 4 * WIDTH), **linear(f"{projector}linear_2", WIDTH, WIDTH)}
    for number in range(LFM2_TEXT["num_hidden_layers"]):
        layer = f"{text}layers.{number}."
        shapes |= {**scale(f"{layer}operator_norm"), **scale(f"{layer}ffn_norm"),
                   f"{layer}feed_forward.w1.weight": (MLP, WIDTH), f"{layer}feed_forward.w2.weight": (WIDTH, MLP),
                   f"{layer}feed_forward.w3.weight": (MLP, WIDTH)}
    attention = f"{text}layers.1.self_attn."
    for name, rows in (("q_proj", WIDTH), ("k_proj", WIDTH // 2), ("v_proj", WIDTH // 2), ("out_proj", WIDTH)):
        shapes[f"{attention}{name}.weight"] = (rows, WIDTH)
    return {**shapes, f"{attention}q_layernorm.weight": (WIDTH // 2,), f"{attention}k_layernorm.weight": (WIDTH // 2,),
            f"{text}layers.0.conv.in_proj.weight": (3 * WIDTH, WIDTH), f"{text}layers.0.conv.conv.weight": (WIDTH, 1, 3),
            f"{text}layers.0.conv.out_proj.weight": (WIDTH, WIDTH)}


def lightonocr_tensors():
    """In the layout of the published files."""
    text, head = "model.language_model.", (16,)
    renamed = {"language_model.model.": text, "vision_tower.": "model.vision_encoder.",
               "multi_modal_projector.": "model.vision_projection."}
    shapes = {f"{text}layers.0.self_attn.{part}_norm.weight": head for part in "qk"}
    for name, shape in ministral3_tensors().items():
        theirs = next(prefix for prefix in renamed if name.startswith(prefix))
        shapes[renamed[theirs] + name[len(theirs):]] = shape
    return shapes


def paddleocr_tensors():
    """In the layout of the published files, with what only other models use."""
    tower, projector = "visual.vision_model.", "mlp_AR."
    return {**text_tensors("model."), "lm_head.weight": (VOCABULARY, WIDTH), **tower_tensors(tower),
            **norm(f"{tower}post_layernorm"), f"{tower}embeddings.patch_embedding.bias": (WIDTH,),
            f"{tower}embeddings.position_embedding.weight": (PATCHES, WIDTH),
            f"{tower}embeddings.packing_position_embedding.weight": (2, WIDTH), f"{tower}head.probe": (1, 1, WIDTH),
            **norm(f"{projector}pre_norm"), **linear(f"{projector}linear_1", 4 * WIDTH, 4 * WIDTH),
            **linear(f"{projector}linear_2", WIDTH, 4 * WIDTH)}


TENSORS = {"smolvlm": smolvlm_tensors, "llava-1.6": llava_tensors, "internvl": internvl_tensors,
           "qwen2-vl": qwen2_tensors, "qwen2.5-vl": qwen25_tensors, "qwen3-vl": qwen3_tensors,
           "cosmos3-edge": cosmos_tensors, "ministral3": ministral3_tensors, "pixtral": pixtral_tensors,
           "lightonocr": lightonocr_tensors, "paddleocr": paddleocr_tensors, "lfm2-vl": lfm2_tensors,
           "gemma3": gemma_tensors, "gemma3-text": lambda: gemma_text_tensors("model.")}


def write_safetensors(path, shapes):
    generator, header, data = numpy.random.default_rng(1), {}, b""
    for name, shape in shapes.items():
        values = generator.normal(0, 0.1, shape).astype(numpy.float32).tobytes()
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def byte_texts():
    """How byte-level vocabularies write the 256 bytes."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return [chr(byte) for byte in shown] + [chr(256 + i) for i in range(len(hidden))]


def write_folder(folder, family):
    """The folder of a model that the converter and the program take."""
    folder.mkdir(parents=True)
    config = {**CONFIGS[family], "text_config": TEXT, "vision_config": VISION, "tie_word_embeddings": True,
              **PARTS.get(family, {})}
    processor = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "size": {"longest_edge": 3 * SIDE}}
    if family in (*QWEN, "cosmos3-edge", "paddleocr"):  # in pixels of the picture there
        processor["size"] = {"shortest_edge": SIDE * SIDE, "longest_edge": 16 * SIDE * SIDE}
    if family == "lfm2-vl":
        processor |= {"tile_size": 2 * SIDE, "min_image_tokens": 4, "max_image_tokens": 16, "max_tiles": 6}
    texts = byte_texts()
    added = [{"id": 257 + i, "content": text, "special": True} for i, text in enumerate(SPECIAL_TOKENS[family])]
    vocabulary = {text: i for i, text in enumerate([*texts, "th"])}
    tokenizer = {"model": {"type": "BPE", "vocab": vocabulary, "merges": ["t h"]}, "added_tokens": added,
                 "pre_tokenizer": {"type": "ByteLevel"}}
    names = SPECIAL_TOKENS[family]
    for name, content in [("config", config), ("preprocessor_config", processor), ("tokenizer", tokenizer),
                          ("tokenizer_config", {"bos_token": names[0], "eos_token": names[1]})]:
        (folder / f"{name}.json").write_text(json.dumps(content))
    if family == "cosmos3-edge":
        write_parts(folder, TENSORS[family]())
    else:
        write_safetensors(folder / "model.safetensors", TENSORS[family]())
