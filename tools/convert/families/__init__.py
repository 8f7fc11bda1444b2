"""One module a family: the model_types it reads, the prefixes of its tensors, and its vision half."""
from families import internvl, llava, smolvlm

FAMILIES = {kind: family for family in (smolvlm, llava, internvl) for kind in family.MODEL_TYPES}
