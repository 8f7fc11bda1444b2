"""SmolVLM, SmolVLM2 and Idefics3: a SigLIP tower, pixel shuffle, one linear map."""
from families import vision
from gguf_file import add_linear, add_tensor

MODEL_TYPES = ("idefics3", "smolvlm")
PREFIXES = {"model.text_model.": "text.", "model.vision_model.": "vision.",
            "model.connector.modality_projection.": "projector."}
MOST_LONGEST_EDGE = 16384
VISION_DEFAULTS = {"hidden_size": 1152, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 16,
                   "image_size": 224, "patch_size": 32, "layer_norm_eps": 1e-6, "hidden_act": "gelu_pytorch_tanh"}


def preprocess_size(source, override):
    """Longest side before tiling. 0 says that pictures are never tiled, which the format has no other word for."""
    if override is not None:
        return override
    if not source.processor.get("do_image_splitting", True):
        return 0
    return source.processor.part("size").count("longest_edge", 0, MOST_LONGEST_EDGE)


def add_vision(writer, source, args):
    layers = source.vision["num_hidden_layers"]
    if source.vision["hidden_act"] != "gelu_pytorch_tanh":
        raise SystemExit(f"the vision activation {source.vision['hidden_act']} is not supported")
    vision.add_facts(writer, source, "idefics3", layers)
    writer.add_vision_use_gelu(True)
    writer.add_vision_projector_scale_factor(vision.check_scale_factor(source, source.config.get("scale_factor", 2)))
    writer.add_vision_preproc_image_size(preprocess_size(source, args.preproc_image_size))
    add_linear(writer, source, "vision.embeddings.patch_embedding", "v.patch_embd", args.outtype)
    positions = source.read("vision.embeddings.position_embedding.weight")
    add_tensor(writer, "v.position_embd.weight", positions, args.outtype)
    add_linear(writer, source, "vision.post_layernorm", "v.post_ln", args.outtype)
    add_linear(writer, source, "projector.proj", "mm.model.fc", args.outtype)
    vision.add_layers(writer, source, layers, args.outtype)
