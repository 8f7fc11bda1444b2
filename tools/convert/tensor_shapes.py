"""The shapes that tensors of a GGUF file have by the facts of config.json: a file with others is read as noise, or not."""
import re

from gemma3_text import window_period
from gemma4_text import global_head, mlp_widths
from lfm2_text import TAPS
from source_json import shown


class Shapes:
    """`shapes` maps expressions of whole names to extents; None stands for any."""

    def __init__(self, place, shapes):
        self.place = place
        self.shapes = [(re.compile(name), shape) for name, shape in shapes.items()]

    def check(self, name, array):
        for expression, shape in self.shapes:
            if not expression.fullmatch(name):
                continue
            if len(shape) != array.ndim or any(e is not None and e != n for e, n in zip(shape, array.shape)):
                wanted = " x ".join("any" if extent is None else str(extent) for extent in shape)
                raise SystemExit(f"{self.place}: the tensor {name} has the shape {shown(list(array.shape))} after its "
                                 f"conversion, and by these facts {wanted}")
            return


def layer_shapes(number, text, head, kv_heads, mlp):
    width, queries, keys = text["hidden_size"], text["num_attention_heads"] * head, kv_heads * head
    layer = rf"blk\.{number}\."
    return {rf"{layer}attn_q\.weight": (queries, width), rf"{layer}attn_[kv]\.weight": (keys, width),
            rf"{layer}attn_q\.bias": (queries,), rf"{layer}attn_[kv]\.bias": (keys,),
            rf"{layer}attn_output\.weight": (width, queries), rf"{layer}ffn_(gate|up)\.weight": (mlp, width),
            rf"{layer}ffn_down\.weight": (width, mlp), rf"{layer}attn_[qk]_norm\.weight": (head,),
            rf"{layer}(attn_norm|ffn_norm|post_\w+)\.weight": (width,),
            rf"{layer}shortconv\.in_proj\.weight": (3 * width, width), rf"{layer}shortconv\.conv\.weight": (width, TAPS),
            rf"{layer}shortconv\.out_proj\.weight": (width, width)}


def text_shapes(source, architecture, rows):
    """Of the text model. Gemma 4's layers have heads of two lengths, and maps of two widths."""
    text = source.text
    width, layers = text["hidden_size"], text["num_hidden_layers"]
    heads = text["num_attention_heads"]
    head = text.get("head_dim") or width // heads
    own = architecture == "gemma4"
    period = window_period(text) if own else 0
    shapes = {r"(token_embd|output)\.weight": (rows, width), r"(output_norm|token_embd_norm)\.weight": (width,)}
    for i, mlp in enumerate(mlp_widths(text) if own else [text["intermediate_size"]] * layers):
        of_layer = global_head(text) if own and (i + 1) % period == 0 else head
        shapes |= layer_shapes(i, text, of_layer, text.get("num_key_value_heads") or heads, mlp)
    return Shapes(text.place, shapes)


def vision_shapes(source):
    """Of a tower's layers, patches and last map; its positions and first maps differ by family."""
    vision = source.vision
    width, mlp, patch = vision["hidden_size"], vision["intermediate_size"], vision["patch_size"]
    side = patch[0] if isinstance(patch, list) else patch
    layer = r"v\.blk\.\d+\."
    return Shapes(vision.place, {
        r"v\.patch_embd\.weight(\.1)?": (width, 3, side, side), r"v\.patch_embd\.bias": (width,),
        rf"{layer}attn_(q|k|v|out)\.weight": (width, width), rf"{layer}attn_(q|k|v|out)\.bias": (width,),
        rf"{layer}attn_qkv\.weight": (3 * width, width), rf"{layer}attn_qkv\.bias": (3 * width,),
        rf"{layer}ffn_(up|gate)\.weight": (mlp, width), rf"{layer}ffn_(up|gate)\.bias": (mlp,),
        rf"{layer}ffn_down\.weight": (width, mlp), rf"{layer}ffn_down\.bias": (width,),
        rf"{layer}(ln1|ln2|ls1|ls2|attn_post_norm|ffn_post_norm)\.(weight|bias)": (width,),
        r"mm\.(2|model\.fc|model\.mlp\.3|input_projection)\.weight": (source.text["hidden_size"], None)
        if source.config["model_type"] != "gemma3" else (None, source.text["hidden_size"]),
    })
