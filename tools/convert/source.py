"""A Hugging Face folder: what it says about the model, and its tensors under one set of names."""
from pathlib import Path

from safetensors_folder import SafetensorsFolder
from progress import Progress
from source_json import Facts, look_at, read_json, shown

# What transformers assumes when config.json leaves a key out.
TEXT_DEFAULTS = {"hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32,
                 "rms_norm_eps": 1e-6, "max_position_embeddings": 2048}
WIDTHS = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
MOST_WIDTH = 1 << 20
UNREAD = ("position_ids", "rotary_emb.inv_freq", "mask_token", ".activation_scale")
SCALE = "_scale_inv"  # the end of the name of the number that multiplies weights of 8 bits


def with_text_defaults(config, text_only, defaults):
    """The same config.json with what transformers assumes of the text model, whose facts are at the top in files of
    the model types `text_only`, which have no vision part."""
    text = config if config["model_type"] in text_only else config.part("text_config")
    tied = config.get("tie_word_embeddings", True)
    return Facts(config.place, {**config, "text_config": {**defaults, "tie_word_embeddings": tied, **text}})


class Source:
    """Tensors are called `text.`, `lm_head.`, `vision.` and `projector.` something, whatever prefixes the folder uses:
    `prefixes` translates them, the first that fits, and `parts` what stands inside those of `text` or `vision`.
    `vision_defaults` is None if there is no vision part."""

    def __init__(self, folder, config, prefixes, vision_defaults, parts):
        self.folder = Path(folder)
        self.config = config
        text = config.part("text_config", "llm_config")
        self.text = Facts(text.place, {**TEXT_DEFAULTS, **text})
        self.vision = None
        if vision_defaults is not None:
            vision = config.part("vision_config")
            self.vision = Facts(vision.place, {**vision_defaults, **vision})
        for facts in filter(None, (self.text, self.vision)):
            for key in WIDTHS:
                facts.count(key, 1, MOST_WIDTH)
        processor = read_json(self.folder / "preprocessor_config.json")
        nested = read_json(self.folder / "processor_config.json").get("image_processor", {})
        self.processor = Facts(processor.place, {**processor, **nested})
        self.tensors = SafetensorsFolder(folder)
        self.names = {}
        for name in self.tensors.names():
            theirs = next((prefix for prefix in prefixes if name.startswith(prefix)), "")
            ours = prefixes.get(theirs, "") + name[len(theirs):]
            for part, own in parts.get(ours.split(".")[0], {}).items():
                ours = ours.replace(part, own)
            if ours in self.names:
                raise SystemExit(f"{self.folder} holds the tensor {ours} as {name} and as {self.names[ours]}")
            self.names[ours] = name
        self.used = set()
        self.progress = Progress(self.tensors.value_count() * 4)

    def _theirs(self, name):
        if name not in self.names:
            raise SystemExit(f"{self.folder} has no tensor {name}: its layout is another than config.json says")
        return self.names[name]

    def read(self, name):
        self.used.add(name)
        values = self.tensors.read(self._theirs(name))
        look_at(f"the tensor {self.names[name]} of the shape {shown(list(values.shape))}")
        self.progress.add(values.nbytes)
        return values * self.scale_of(name) if f"{name}{SCALE}" in self.names else values

    def scale_of(self, name):
        scale = self.read(f"{name}{SCALE}")
        if scale.size != 1:
            raise SystemExit(f"the tensor {self.names[name]} has scales of the shape {shown(list(scale.shape))}: only one "
                             "for all of a tensor is supported")
        return scale.reshape(())

    def has(self, name):
        return name in self.names

    def leave_out(self, *prefixes):
        """Tensors that the files need not hold."""
        self.used |= {name for name in self.names if name.startswith(prefixes)}

    def shape(self, name):
        """Of a tensor that must be there, without reading it."""
        return self.tensors.shape(self._theirs(name))

    def check_all_used(self):
        """A tensor nobody asked for means that the model is not what we take it for."""
        known = self.used | {n for n in self.names if n.endswith(UNREAD)}
        if self.tied():
            known.add("lm_head.weight")
        unknown = sorted(set(self.names) - known)
        if unknown:
            raise SystemExit(f"{len(unknown)} tensors are not part of the layout, the first is {unknown[0]}")

    def tied(self):
        """Whether the output weights are the embedding."""
        if not self.has("lm_head.weight"):
            return True
        return bool(self.text.get("tie_word_embeddings", self.config.get("tie_word_embeddings", False)))

    def rope_sections(self):
        """Pairs of a head that turn with time, height and width; none in models with one position a row."""
        rope = self.text.get("rope_parameters") or self.text.get("rope_scaling") or {}
        return rope.get("mrope_section", [])

    def rope_theta(self):
        """Base of the rotary frequencies. Dynamic scaling acts beyond the trained length only, where nobody runs."""
        rope = self.text.get("rope_parameters") or {}
        scaling = self.text.get("rope_scaling") or rope
        kind = scaling.get("rope_type", scaling.get("type", "default"))
        if kind not in ("default", "dynamic", "mrope"):
            raise SystemExit(f"the rope scaling {kind} is not supported")
        return Facts(self.text.place, {"rope_theta": 10000.0, **self.text, **rope}).positive("rope_theta")
