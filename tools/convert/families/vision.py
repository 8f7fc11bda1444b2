"""What the vision halves of all families have in common."""
from gguf_file import add_linear, add_tensor
from source_json import Facts, shown, whole_number

# One layer of a SigLIP or CLIP tower.
LAYER_TENSORS = {
    "layer_norm1": "ln1",
    "layer_norm2": "ln2",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.out_proj": "attn_out",
    "mlp.fc1": "ffn_up",
    "mlp.fc2": "ffn_down",
}


# Mean and deviation of pixels in the data that towers were trained on.
COLOURS = {"half": ([0.5] * 3, [0.5] * 3), "imagenet": ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
           "clip": ([0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711])}
USUAL_COLOURS = {"idefics3": "half", "smolvlm": "half", "llava": "clip", "llava_next": "clip", "internvl": "imagenet",
                 "internvl_chat": "imagenet", "qwen2_vl": "clip", "qwen2_5_vl": "clip", "qwen3_vl": "half",
                 "cosmos3_edge": "half", "lfm2_vl": "half", "gemma3": "half", "gemma4": "half", "mistral3": "clip",
                 "lighton_ocr": "clip", "paddleocr_vl": "half"}
MOST_SIDE = 4096
MOST_SCALE = 64
LEAST_DEVIATION = 1e-6  # pixels are divided by it


def side(facts, key):
    """Sizes are a number or [height, width] of a square."""
    sides = facts[key] if isinstance(facts[key], list) else [facts[key]]
    if len(sides) > 2 or len(set(sides)) != 1:
        raise SystemExit(f"{facts.place}: {key} is {facts[key]}, but only squares are supported")
    return Facts(facts.place, {key: sides[0]}).count(key, 1, MOST_SIDE)


def check_scale_factor(source, scale):
    """The projector joins squares of scale x scale patches."""
    patches = side(source.vision, "image_size") // side(source.vision, "patch_size")
    if not whole_number(scale, 1, MOST_SCALE) or patches % scale:
        raise SystemExit(f"{source.config.place}: {patches} patches a side cannot be joined {shown(scale)} by {shown(scale)}")
    return scale


def usual_colours(source):
    """The family's mean and deviation, which a folder may leave out, and then that is told."""
    mean, std = COLOURS[USUAL_COLOURS[source.config["model_type"]]]
    usual = {"image_mean": mean, "image_std": std}
    for key, values in usual.items():
        if source.processor.get(key) is None:
            source.processor.pop(key, None)
            source.progress.note(f"{source.processor.place} has no {key}: the family's is taken, {values}")
    return usual


def add_facts(writer, source, projector, layers):
    vision = source.vision
    if side(vision, "patch_size") > side(vision, "image_size"):
        raise SystemExit(f"{vision.place}: patches of {vision['patch_size']} are larger than pictures")
    if vision["hidden_size"] % vision["num_attention_heads"]:
        raise SystemExit(f"{vision.place}: {vision['num_attention_heads']} heads do not divide {vision['hidden_size']}")
    writer.add_clip_has_vision_encoder(True)
    writer.add_clip_projector_type(projector)
    writer.add_vision_image_size(side(vision, "image_size"))
    writer.add_vision_patch_size(side(vision, "patch_size"))
    writer.add_vision_embedding_length(vision["hidden_size"])
    writer.add_vision_feed_forward_length(vision["intermediate_size"])
    writer.add_vision_block_count(layers)
    writer.add_vision_head_count(vision["num_attention_heads"])
    writer.add_vision_attention_layernorm_eps(vision.positive("layer_norm_eps"))
    writer.add_vision_projection_dim(source.text["hidden_size"])
    colours = Facts(source.processor.place, {**usual_colours(source), **source.processor})
    writer.add_vision_image_mean(colours.numbers("image_mean", 3))
    writer.add_vision_image_std(colours.numbers("image_std", 3, least=LEAST_DEVIATION))


def add_patches(writer, source, outtype):
    """The map reads the colours of a pixel one after the other; in GGUF each colour is a plane."""
    name, patch = "vision.embeddings.patch_embedding", source.vision["patch_size"]
    width, values = source.shape(f"{name}.weight")
    if values != 3 * patch * patch:
        raise SystemExit(f"{source.vision.place}: the tensor {name}.weight reads {values} values of a patch of {patch}")
    kernel = source.read(f"{name}.weight").reshape(width, patch, patch, 3)
    add_tensor(writer, "v.patch_embd.weight", kernel.transpose(0, 3, 1, 2), outtype)
    add_tensor(writer, "v.patch_embd.bias", source.read(f"{name}.bias"), outtype)


def add_layers(writer, source, layers, outtype):
    for layer in range(layers):
        for theirs, ours in LAYER_TENSORS.items():
            add_linear(writer, source, f"vision.encoder.layers.{layer}.{theirs}", f"v.blk.{layer}.{ours}", outtype)


def add_joined_attention(writer, source, name, ours, outtype):
    """Query, key and value of one matrix, in this order."""
    for part, kind_of_row in enumerate(("attn_q", "attn_k", "attn_v")):
        for kind in ("weight", "bias"):
            if kind == "weight" or source.has(f"{name}.bias"):
                joined = source.read(f"{name}.{kind}")
                array = joined.reshape(3, -1, *joined.shape[1:])[part]
                add_tensor(writer, f"{ours}.{kind_of_row}.{kind}", array, outtype)
