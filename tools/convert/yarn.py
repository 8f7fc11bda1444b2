"""What only Ministral 3's text model has: pairs of a head that turn slower the longer their wave is (YaRN), and queries that
grow with their position."""
from gguf import RopeScalingType

from source_json import Facts

MOST_LENGTH = 1 << 30
# What transformers assumes when config.json leaves all of it out.
USUAL = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 16.0, "original_max_position_embeddings": 16384,
         "beta_fast": 32.0, "beta_slow": 1.0, "mscale_all_dim": 1.0, "mscale": 1.0, "llama_4_scaling_beta": 0.1}


def rotation(text):
    given = text.get("rope_parameters") or text.get("rope_scaling")
    if not given:
        return Facts(text.place, USUAL)
    theta = {"rope_theta": text["rope_theta"]} if "rope_theta" in text else {}
    return Facts(f"{text.place}: rope_parameters", {"beta_fast": 32.0, "beta_slow": 1.0, **theta, **given})


def check_variant(rope):
    """Refuses what the format has no key for."""
    kind = rope.get("rope_type", rope.get("type"))
    if kind != "yarn":
        raise SystemExit(f"{rope.place}: the rope scaling {kind} is not supported: readers of ministral3 take yarn")
    if rope.get("truncate", True) is not True or rope.get("attention_factor") is not None:
        raise SystemExit(f"{rope.place}: truncate and attention_factor are not supported")
    if rope.get("mscale") != 1 or rope.get("mscale_all_dim") is None:
        raise SystemExit(f"{rope.place}: mscale must be 1, and mscale_all_dim be there: readers know no others")


def add_text_facts(writer, text):
    """Beside the facts of all text models."""
    rope = rotation(text)
    check_variant(rope)
    writer.add_rope_freq_base(rope.positive("rope_theta"))
    writer.add_rope_scaling_type(RopeScalingType.YARN)
    writer.add_rope_scaling_factor(rope.positive("factor"))
    writer.add_rope_scaling_orig_ctx_len(rope.count("original_max_position_embeddings", 1, MOST_LENGTH))
    writer.add_rope_scaling_yarn_beta_fast(rope.positive("beta_fast"))
    writer.add_rope_scaling_yarn_beta_slow(rope.positive("beta_slow"))
    writer.add_rope_scaling_yarn_log_mul(rope.positive("mscale_all_dim"))
    writer.add_attn_temperature_scale(rope.positive("llama_4_scaling_beta"))
