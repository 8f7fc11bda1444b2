"""Writes a trained run as a Hugging Face folder: safetensors in f16, config, processor and tokenizer files."""
import argparse
import json
import os
import random

import numpy as np
import torch

import drawing
import hf_names
import model
import scenes

CHAT_TEMPLATE = ("<|im_start|>{% for message in messages %}{{message['role'] | capitalize}}: {{message['content']}}"
                 "<end_of_utterance>\n{% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}")


def processor_json(config):
    edge = {"longest_edge": config.image}
    return {
        "image_processor_type": "SmolVLMImageProcessor",
        "processor_class": "SmolVLMProcessor",
        "do_convert_rgb": True,
        "do_resize": True,
        "do_image_splitting": False,
        "do_rescale": True,
        "do_normalize": True,
        "do_pad": True,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
        "rescale_factor": 1 / 255,
        "resample": 1,
        "size": edge,
        "max_image_size": edge,
    }


def tokenizer_config_json():
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<|im_start|>",
        "eos_token": "<end_of_utterance>",
        "pad_token": "<|im_end|>",
        "clean_up_tokenization_spaces": False,
        "model_max_length": 8192,
        "chat_template": CHAT_TEMPLATE,
    }


def write_json(path, value):
    with open(path, "w") as file:
        json.dump(value, file, indent=1)


def check_against_transformers(net, config, config_json, state, tokenizer):
    """Prints how far our logits are from transformers' on a prompt of two boards."""
    from transformers import SmolVLMConfig, SmolVLMForConditionalGeneration
    skip = ("architectures", "model_type", "torch_dtype")
    hf = SmolVLMForConditionalGeneration(SmolVLMConfig(**{k: v for k, v in config_json.items() if k not in skip}))
    hf.eval()
    loaded = hf.load_state_dict(state, strict=False)
    print("missing", [name for name in loaded.missing_keys if "position_ids" not in name],
          "unexpected", loaded.unexpected_keys)
    rng = random.Random(5)
    boards = [scenes.sample_scene(rng) for _ in range(2)]
    params = torch.tensor(np.stack([drawing.scene_params(board, rng) for board in boards]))
    pictures = drawing.render(params, torch.from_numpy(drawing.glyph_atlas())) * 2 - 1

    def encode(text):
        return tokenizer.encode(text, add_special_tokens=False).ids

    image_id = tokenizer.token_to_id("<image>")
    image = encode(scenes.IMAGE_OPEN) + [image_id] * config.image_tokens + encode(scenes.IMAGE_CLOSE)
    question = encode("\nDescribe image 2.<end_of_utterance>\nAssistant:")
    row = encode("<|im_start|>User: Image 1:") + image + encode("\nImage 2:") + image + question
    ids = torch.tensor([row])
    embeddings = hf.model.vision_model.embeddings
    positions = torch.arange((config.image // config.patch) ** 2)

    def plain_positions(pixel_values, patch_attention_mask=None):
        # Releases since 4.55 bucket the positions in pixel precision, which shifts them in float32.
        return embeddings.patch_embedding(pixel_values).flatten(2).transpose(1, 2) + \
            embeddings.position_embedding(positions)

    embeddings.forward = plain_positions
    with torch.no_grad():
        rows = net.vision(pictures).reshape(-1, config.dim)
        cos, sin = model.rope_tables(len(row), config.head_dim, config.theta, "cpu")
        ours = net.lm(ids, (ids.view(-1) == image_id).nonzero().squeeze(1), rows, cos, sin) @ net.lm.emb.weight.t()
        mask = torch.ones(1, 2, config.image, config.image, dtype=torch.bool)
        theirs = hf(input_ids=ids, pixel_values=pictures[None], pixel_attention_mask=mask).logits
    print("relative error of the logits:", ((ours - theirs).norm() / theirs.norm()).item(),
          "same argmax:", (ours.argmax(-1) == theirs.argmax(-1)).float().mean().item())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", help="folder with ema.pt, cfg.json and tokenizer.json")
    parser.add_argument("out", help="folder to write")
    parser.add_argument("--check", action="store_true", help="compare logits with the transformers package")
    args = parser.parse_args()

    from safetensors.torch import save_file
    from tokenizers import Tokenizer
    os.makedirs(args.out, exist_ok=True)
    with open(f"{args.run}/cfg.json") as file:
        config = model.Config(**json.load(file))
    net = model.VisionLanguageModel(config).eval()
    net.load_state_dict(torch.load(f"{args.run}/ema.pt", map_location="cpu"))
    tokenizer = Tokenizer.from_file(f"{args.run}/tokenizer.json")
    tokenizer.save(f"{args.out}/tokenizer.json")
    names = {"image": "<image>", "pad": "<|im_end|>", "bos": "<|im_start|>", "eos": "<end_of_utterance>"}
    config_json = hf_names.config_json(config, {key: tokenizer.token_to_id(text) for key, text in names.items()})
    write_json(f"{args.out}/config.json", config_json)
    processor = processor_json(config)
    write_json(f"{args.out}/preprocessor_config.json", processor)
    write_json(f"{args.out}/processor_config.json",
               {"image_processor": processor, "image_seq_len": config.image_tokens,
                "processor_class": "SmolVLMProcessor"})
    write_json(f"{args.out}/tokenizer_config.json", tokenizer_config_json())
    state = hf_names.to_hf(net.state_dict(), config)
    save_file({name: tensor.half().clone() for name, tensor in state.items()}, f"{args.out}/model.safetensors",
              metadata={"format": "pt"})
    print(len(state), "tensors,", sum(tensor.numel() for tensor in state.values()), "parameters")
    if args.check:
        check_against_transformers(net, config, config_json, state, tokenizer)


if __name__ == "__main__":
    main()
