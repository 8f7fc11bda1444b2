#!/bin/sh
# Usage: sh findings/gemma3-window-inside-a-picture.sh   (PyPI, some gigabytes for torch; minutes)
. "$(dirname "$0")/steps"
say "The rows of a picture see each other in every layer of Gemma 3." \
  "In layers with a window transformers lets a row see all rows behind it, but of those before it only the window's."
from_pypi torch==2.15.0 transformers==5.24.0
found=$("$python" - <<'PYTHON' 2>/dev/null
import torch
from transformers import Gemma3Config, Gemma3ForConditionalGeneration
torch.manual_seed(0)
rows, first = 64, 2
text = dict(vocab_size=64, hidden_size=32, intermediate_size=32, num_hidden_layers=6, num_attention_heads=2,
            num_key_value_heads=1, head_dim=16, query_pre_attn_scalar=16, sliding_window=32, max_position_embeddings=512)
vision = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=64, patch_size=8)
config = Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=rows, image_token_index=5,
                      boi_token_index=6, eoi_token_index=7)
config._attn_implementation = "eager"
ids = torch.tensor([[2, 6] + [5] * rows + [7, 9]])
attentions = Gemma3ForConditionalGeneration(config).eval()(
    input_ids=ids, token_type_ids=(ids == 5).long(), pixel_values=torch.zeros(1, 3, 64, 64),
    output_attentions=True).attentions
print("a picture of 64 rows, a window of 32")
for layer in (0, 5):
    for name, row in (("first", first), ("last", first + rows - 1)):
        seen = (attentions[layer][0, 0, row] > 0).nonzero().flatten() - first
        inside = seen[(seen >= 0) & (seen < rows)]
        print(f"{config.text_config.layer_types[layer]}: the {name} row sees rows {inside.min()} to {inside.max()}")
PYTHON
)
judge "a picture of 64 rows, a window of 32
sliding_attention: the first row sees rows 0 to 63
sliding_attention: the last row sees rows 32 to 63
full_attention: the first row sees rows 0 to 63
full_attention: the last row sees rows 0 to 63" "$found"
