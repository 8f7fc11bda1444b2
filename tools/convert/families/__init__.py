"""One module a family: the model_types it reads, the prefixes of its tensors, and its vision half."""
from families import internvl, smolvlm

FAMILIES = {kind: family for family in (smolvlm, internvl) for kind in family.MODEL_TYPES}
