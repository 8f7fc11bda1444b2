#!/bin/sh
# Usage: sh findings/qwen-clips-two-samplings.sh   (PyPI, some gigabytes for torch; minutes)
. "$(dirname "$0")/steps"
say "Qwen's own helper and transformers' class for the same model show it the same frames of a video." \
  "Of 25 frames at 12.5 a second the helper takes the last one too, the class of Qwen2-VL does not, that of Qwen3-VL does."
from_pypi torch==2.15.0 torchvision==0.29.2 transformers==5.24.0 qwen-vl-utils==0.0.14
found=$("$python" - <<'PYTHON' 2>/dev/null
import torch
from qwen_vl_utils import vision_process
from transformers import Qwen2VLVideoProcessor, Qwen3VLVideoProcessor
from transformers.video_utils import VideoMetadata
frames, rate = 25, 12.5
count = vision_process.smart_nframes({"fps": 2}, total_frames=frames, video_fps=rate)
print("qwen-vl-utils:", *torch.linspace(0, frames - 1, count).round().long().tolist())
metadata = VideoMetadata(total_num_frames=frames, fps=rate)
for kind in (Qwen2VLVideoProcessor, Qwen3VLVideoProcessor):
    print(f"{kind.__name__}:", *kind().sample_frames(metadata, fps=2).tolist())
PYTHON
)
judge "qwen-vl-utils: 0 8 16 24
Qwen2VLVideoProcessor: 0 6 12 18
Qwen3VLVideoProcessor: 0 8 16 24" "$found"
