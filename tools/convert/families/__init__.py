"""One module a family: the model_types it reads, the prefixes of its tensors, and its vision half."""
from families import gemma3, gemma4, internvl, llava, qwen_vl, smolvlm

FAMILIES = {kind: family for family in (smolvlm, llava, internvl, qwen_vl, gemma3, gemma4)
            for kind in family.MODEL_TYPES}
