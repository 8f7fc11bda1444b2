"""One module a family: the model_types it reads, the prefixes of its tensors, and its vision half."""
from families import cosmos3_edge, gemma3, gemma4, internvl, llava, qwen_vl, smolvlm

FAMILIES = {kind: family for family in (smolvlm, llava, internvl, qwen_vl, cosmos3_edge, gemma3, gemma4)
            for kind in family.MODEL_TYPES}
