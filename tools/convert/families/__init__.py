"""One module a family: the model_types it reads, the prefixes of its tensors, and its vision half."""
from families import cosmos3_edge, gemma3, gemma4, internvl, lfm2, llava, paddleocr, pixtral, qwen_vl, smolvlm

FAMILIES = {kind: family for family in (smolvlm, llava, internvl, qwen_vl, cosmos3_edge, gemma3, gemma4, pixtral, lfm2,
                                        paddleocr)
            for kind in family.MODEL_TYPES}


def family_of(config):
    """A LLaVA with Pixtral's tower is Pixtral 12B."""
    kind = config["model_type"]
    tower = config.get("vision_config") if kind == "llava" else None
    is_pixtral = isinstance(tower, dict) and tower.get("model_type") == pixtral.TOWER
    return pixtral if is_pixtral else FAMILIES[kind]
