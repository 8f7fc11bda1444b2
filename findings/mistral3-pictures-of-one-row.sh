#!/bin/sh
# Usage: sh findings/mistral3-pictures-of-one-row.sh   (PyPI, some gigabytes for torch; minutes)
. "$(dirname "$0")/steps"
say "What Mistral 3's processor accepts its model reads, and a picture of any shape has at least one row." \
  "A picture of one row of the language model is prepared and then refused by the model; one that is reduced to less than
a pixel of height is refused by the processor."
from_pypi torch==2.15.0 transformers==5.24.0 torchvision==0.29.2 pillow==12.3.0 numpy==2.4.6
found=$("$python" - <<'PYTHON' 2>/dev/null
import numpy, torch
from PIL import Image
from transformers import Mistral3Config, Mistral3Model, PixtralImageProcessor
torch.manual_seed(0)
part = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2, head_dim=16)
config = Mistral3Config(vision_config=dict(part, model_type="pixtral", patch_size=14, image_size=1540),
                        text_config=dict(part, model_type="mistral", num_key_value_heads=2, vocab_size=64),
                        image_token_index=10, spatial_merge_size=2)
model = Mistral3Model(config).eval()
processor = PixtralImageProcessor(patch_size=28, size={"longest_edge": 1540})
for width, height in ((56, 28), (28, 28), (20, 20), (4000, 2)):
    said = f"{width} x {height}: "
    try:
        ready = processor(Image.fromarray(numpy.zeros((height, width, 3), numpy.uint8)), return_tensors="pt")
        said += "prepared as {1} x {0}, ".format(*ready["image_sizes"][0].tolist())
        rows = model.get_image_features(ready["pixel_values"], image_sizes=ready["image_sizes"]).pooler_output
        said += f"rows: {len(rows[0])}"
    except (RuntimeError, ValueError) as error:
        said += type(error).__name__
    print(said)
PYTHON
)
judge "56 x 28: prepared as 56 x 28, rows: 2
28 x 28: prepared as 28 x 28, RuntimeError
20 x 20: prepared as 28 x 28, RuntimeError
4000 x 2: ValueError" "$found"
