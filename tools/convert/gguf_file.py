"""Writing GGUF: which type each tensor is stored in, and what stands at the head of every file."""
import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

FILE_TYPES = {"f32": gguf.LlamaFileType.ALL_F32, "f16": gguf.LlamaFileType.MOSTLY_F16,
              "bf16": gguf.LlamaFileType.MOSTLY_BF16, "q8_0": gguf.LlamaFileType.MOSTLY_Q8_0}
WEIGHT_TYPES = {"f32": Type.F32, "f16": Type.F16, "bf16": Type.BF16, "q8_0": Type.Q8_0}
Q8_0_BLOCK = 32
F16_MOST = 65504


def quantize_q8_0(array):
    """Blocks of 32: an f16 scale and 32 int8, as bytes [..., row bytes]. The gguf package rounds halves away from zero;
    half to even is what processors do, and weights that were f16 before do hit exact halves."""
    blocks = array.reshape(-1, Q8_0_BLOCK)
    scale = np.abs(blocks).max(axis=1, keepdims=True) / 127
    inverse = np.where(scale > 0, 1 / np.maximum(scale, 1e-30), 0)
    codes = np.rint(blocks * inverse).clip(-127, 127).astype(np.int8)
    packed = np.concatenate([scale.astype(np.float16).view(np.uint8), codes.view(np.uint8)], axis=1)
    return packed.reshape(*array.shape[:-1], -1)


def type_that_holds(name, array, weight_type, note):
    """F16 holds less than the types of published weights: what would become infinite there is stored as BF16, if that
    loses nothing, else as F32, and told."""
    largest = {Type.F16: F16_MOST, Type.Q8_0: 127 * F16_MOST}.get(weight_type)
    size = float(np.abs(array).max(initial=0))
    if not largest or size <= largest:
        return weight_type
    is_bf16 = not (np.ascontiguousarray(array, np.float32).view(np.uint32) & 0xFFFF).any()
    wider = Type.BF16 if is_bf16 else Type.F32
    note(f"the tensor {name} holds a value of {size:g}, and {weight_type.name} at most {largest:g}: it is stored as "
         f"{wider.name}")
    return wider


def add_tensor(writer, name, array, outtype):
    writer.shapes.check(name, array)
    weight_type = WEIGHT_TYPES[outtype]
    is_weight = name.endswith((".weight", ".weight.1"))  # the second frame of a patch kernel
    if array.ndim == 1 or not is_weight or "position_embd" in name:
        weight_type = Type.F32
    elif weight_type == Type.Q8_0 and array.shape[-1] % Q8_0_BLOCK:
        weight_type = Type.F16
    array = np.ascontiguousarray(array)
    weight_type = type_that_holds(name, array, weight_type, writer.progress.note)
    data = quantize_q8_0(array) if weight_type == Type.Q8_0 else gguf.quants.quantize(array, weight_type)
    writer.add_tensor(name, data, raw_dtype=weight_type)


def add_linear(writer, source, theirs, ours, outtype, change=lambda array: array):
    """The tensors THEIRS.weight and, where there is one, THEIRS.bias."""
    for kind in ("weight", "bias"):
        if kind == "weight" or source.has(f"{theirs}.bias"):
            add_tensor(writer, f"{ours}.{kind}", change(source.read(f"{theirs}.{kind}")), outtype)


def open_writer(path, architecture, title, outtype, shapes, progress):
    """`shapes`: what its tensors are checked by, see Shapes."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.shapes, writer.progress, writer.written = shapes, progress, path
    writer.add_type("mmproj" if architecture == "clip" else "model")
    writer.add_name(title)
    writer.add_file_type(FILE_TYPES[outtype])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    return writer


def close_writer(writer):
    writer.progress.writing(writer.written)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
