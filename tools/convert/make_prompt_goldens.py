"""Makes tests/data/prompts/goldens.json: conversations with 0 to 3 pictures, and their token ids as the published chat
template of every family, its processor and the tokenizer of its tiny model of tests/data/families make them in
transformers.

usage: make_prompt_goldens.py TEMPLATES OUT_FILE     TEMPLATES: a folder with the files of FORMS, NAME.jinja each
needs: pip install torch transformers==5.24.0 jinja2 gguf sentencepiece protobuf num2words

The templates themselves are not part of this project. A form of the file has those of MARKS that its template contains:
by these a layout is chosen. Of Ministral's, whose default text is long, the mark is that text, cut. A picture of `ids` is one -1, whatever the number of its rows; ids are null where the template
raises, or has no place for a message. InternVL and LLaVA have, besides their template for transformers, the form that they
were trained with, of which render_trained() is a short account.
"""
import argparse
import copy
import json
import pathlib
import re

import jinja2
import transformers
from transformers.models.smolvlm.processing_smolvlm import _prompt_single_image
from transformers.utils.chat_template_utils import render_jinja_template

from family_recipes import RECIPES

MARKS = ["<|im_start|>", "<end_of_utterance>", "image", "'<IMG_CONTEXT>", "'<image>", "<image>", "[INST]", "upper()",
         "ASSISTANT:", "<start_of_turn>", "<|turn>", "<|channel>thought\\n<channel|>", "\\n\\n<|image|>\\n\\n",
         "<|start_header_id|>", "[SYSTEM_PROMPT]", "<|IMAGE_START|>", "Assistant:\\n"]
SOPHGO = "github sophgo/LLM-TPU, models/"
TESTS = "github huggingface/transformers, "
# (name, family of the tiny model, source and date of the template); "trained": no template
FORMS = [
    ("smolvlm", "smolvlm", TESTS + "models/smolvlm/processing_smolvlm.py, DEFAULT_CHAT_TEMPLATE, 5.24.0"),
    ("llava-vicuna", "llava-1.5", TESTS + "tests/models/llava_next/test_processing_llava_next.py, 2025"),
    ("llava-vicuna", "llava-1.6-vicuna", TESTS + "tests/models/llava_next/test_processing_llava_next.py, 2025"),
    ("trained", "llava-1.5", "github haotian-liu/LLaVA, llava/conversation.py, conv vicuna_v1, 2024"),
    ("llava-mistral", "llava-1.6-mistral",
     "chat_template.json of llava-hf/llava-v1.6-mistral-7b-hf, 2025"),
    ("internvl", "internvl3", TESTS + "models/internvl/convert_internvl_weights_to_hf.py, 2025-08"),
    ("internvl", "internvl3.5", TESTS + "models/internvl/convert_internvl_weights_to_hf.py, 2025-08"),
    ("trained", "internvl2.5", "github OpenGVLab/InternVL, internvl_chat/internvl/conversation.py, conv internvl2_5, 2025"),
    ("trained", "internvl3", "github OpenGVLab/InternVL, internvl_chat/internvl/conversation.py, conv internvl2_5, 2025"),
    ("qwen2-vl", "qwen2-vl", SOPHGO + "Qwen2_VL/config/chat_template.json, 2025-06-16"),
    ("qwen2.5-vl", "qwen2.5-vl", SOPHGO + "Qwen2_5_VL/config/chat_template.json, 2025-06-16"),
    ("qwen3-vl", "qwen3-vl", SOPHGO + "Qwen3_VL/config/chat_template.json, 2025-10-15"),
    ("gemma3", "gemma3", SOPHGO + "Gemma3/config/chat_template.json, 2025"),
    ("gemma4-launch", "gemma4", "github TheSethRose/mlx-server-gemma, chat_template.json, 2026-04-04"),
    ("gemma4", "gemma4", SOPHGO + "Gemma4/config/chat_template.jinja, 2026"),
    ("ministral3", "ministral3",
     "github ggml-org/llama.cpp, models/templates/mistralai-Ministral-3-14B-Reasoning-2512.jinja, 2025-12"),
    ("lfm2-vl", "lfm2-vl", "tokenizer_config.json of onnx-community/LFM2-VL-3B-ONNX, 2025"),
    ("paddleocr-1.5", "paddleocr", "chat_template.jinja of PaddlePaddle/PaddleOCR-VL-1.5, 2026-01"),
]
SYSTEM, USER, ASSISTANT = "system", "user", "assistant"
P = 0  # a picture
QUESTION = "What color is it?"
CASES = {
    "text": [(USER, [QUESTION])],
    "picture, text": [(USER, [P, QUESTION])],
    "text, picture": [(USER, [QUESTION, P])],
    "two pictures, text": [(USER, [P, P, QUESTION])],
    "three pictures between texts": [(USER, ["First", P, "then", P, "and", P, "Which one?"])],
    "picture between texts": [(USER, ["Here", P, QUESTION])],
    "two texts": [(USER, ["The quick", "brown fox"])],
    "a picture alone": [(USER, [P])],
    "system": [(SYSTEM, ["Be brief."]), (USER, [P, QUESTION])],
    "two turns": [(USER, [P, QUESTION]), (ASSISTANT, ["It is red."]), (USER, [P, "And now?"])],
    "prefill": [(USER, [P, QUESTION]), (ASSISTANT, ["Sure, it"])],
    "assistant first": [(ASSISTANT, ["Hello."]), (USER, [QUESTION])],
    "later system": [(USER, ["Hi"]), (ASSISTANT, ["Hello."]), (SYSTEM, ["Be brief."]), (USER, [QUESTION])],
    "two users": [(USER, ["Hi"]), (USER, [QUESTION])],
    "two answers": [(USER, ["Hi"]), (ASSISTANT, ["Hello."]), (ASSISTANT, ["Well?"]), (USER, [QUESTION])],
    "untrimmed": [(USER, ["  What is it \n"])],
    "line breaks": [(USER, ["\n\nWhat\n", P, "\nis it\n\n"])],
}
MINISTRAL_SYSTEM = "set default_system_message = 'Be\\n\"kind\".' %}"
INTERNVL_SYSTEM = ("你是书生·万象，英文名是InternVL，是由上海人工智能实验室、清华大学及多家合作单位联合开发的"
                   "多模态大语言模型。")
VICUNA_SYSTEM = ("A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, "
                 "detailed, and polite answers to the user's questions.")


def expand(family, text, recipe):
    """What the processor makes of the template's picture marks, with one row a picture."""
    if family == "smolvlm":
        block = _prompt_single_image(1, "<fake_token_around_image>", "<image>", "<global-img>")
        return text.replace("<image>", block)
    if family.startswith("internvl"):
        return text.replace("<IMG_CONTEXT>", "<img><IMG_CONTEXT></img>")
    if family == "gemma3":
        return text.replace("<start_of_image>", recipe.picture_text(1))
    if family == "ministral3":
        return text.replace("[IMG]", recipe.picture_text((1, 1)))
    if family == "lfm2-vl":
        return text.replace("<image>", recipe.picture_text(((1, 1), [1])))
    return text.replace("<|image|>", recipe.picture_text(1)) if family == "gemma4" else text


def to_messages(conversation, family):
    """Gemma 4 takes system messages as strings only."""
    messages = []
    for role, parts in conversation:
        content = [{"type": "image"} if part == P else {"type": "text", "text": part} for part in parts]
        is_string = family == "gemma4" and role == SYSTEM
        messages.append({"role": role, "content": parts[0] if is_string else content})
    return messages


def render(template, conversation, family, bos, options):
    """The prompt; None where the template raises or leaves a message out."""
    goes_on = conversation[-1][0] == ASSISTANT
    try:
        prompts, _ = render_jinja_template(
            [to_messages(copy.deepcopy(conversation), family)], chat_template=template, bos_token=bos,
            add_generation_prompt=not goes_on, continue_final_message=goes_on, **options)
    except (jinja2.TemplateError, ValueError):
        return None
    said = [part.strip() for _, parts in conversation for part in parts if part != P]
    return prompts[0] if all(part in prompts[0] for part in said) else None


def render_trained(conversation, family):
    """The makers' forms: a picture is in front of a line break, several of InternVL's in a message have numbers."""
    is_llava = family.startswith("llava")
    mark = "<image>\n" if is_llava else "<IMG_CONTEXT>\n"
    if conversation[0][0] == SYSTEM:
        system, conversation = conversation[0][1][0], conversation[1:]
    else:
        system = VICUNA_SYSTEM if is_llava else INTERNVL_SYSTEM
    prompt = system + " " if is_llava else f"<|im_start|>system\n{system}<|im_end|>\n"
    seen = 0
    for i, (role, parts) in enumerate(conversation):
        if is_llava:
            parts = sorted(parts, key=lambda part: part != P)
        shown = ""
        for part in parts:
            seen += part == P
            number = f"Image-{seen}: " if not is_llava and parts.count(P) > 1 else ""
            shown += number + mark if part == P else part
        is_last = i + 1 == len(conversation)
        if is_llava:
            prompt += f"USER: {shown} " if role == USER else f"ASSISTANT: {shown}" + ("" if is_last else "</s>")
            prompt += "ASSISTANT:" if is_last and role == USER else ""
        else:
            prompt += f"<|im_start|>{role}\n{shown}" + ("" if is_last and role == ASSISTANT else "<|im_end|>\n")
            prompt += "<|im_start|>assistant\n" if is_last and role == USER else ""
    return prompt


def ids_of(recipe, family, text):
    if text is None:
        return None
    bos = recipe.tokenizer.bos_token
    ids = recipe.encode(expand(family, text, recipe))
    if recipe.adds_bos and not text.startswith(bos):
        ids = [recipe.tokenizer.bos_token_id] + ids
    return [-1 if i in recipe.row_tokens else i for i in ids]


def make_form(name, family, source, templates):
    recipe = RECIPES[family]()
    bos = recipe.tokenizer.bos_token
    template = None if name == "trained" else (templates / f"{name}.jinja").read_text(encoding="utf-8")
    if name == "ministral3":
        template = re.sub("set default_system_message = '.*' %}", lambda _: MINISTRAL_SYSTEM, template)
    marks = [mark for mark in MARKS + [MINISTRAL_SYSTEM] if template and mark in template]
    if name == "trained" and family == "internvl2.5":
        marks = ["<|im_start|>"]
    special = {"eos_token": recipe.tokenizer.eos_token} if name == "ministral3" else {}
    cases = []

    def add(title, conversation, options=None, **facts):
        if template is None:
            if title in ("later system", "two answers"):  # the makers' code has no such thing
                return
            text = render_trained(conversation, family)
        else:
            text = render(template, conversation, family, bos, {**special, **(options or {})})
        cases.append({"name": title, **facts, "messages": conversation, "ids": ids_of(recipe, family, text)})

    for title, conversation in CASES.items():
        # The template of Ministral puts a picture in front of the only text, here parts stay in their order.
        if name == "ministral3" and title == "text, picture":
            continue
        # The tiny vocabulary has a token of four line breaks that its merges do not make.
        if name != "gemma4-launch" or title != "two pictures, text":
            add(title, conversation)
    if name.startswith("qwen"):
        numbered = [(USER, [P, P, QUESTION]), (ASSISTANT, ["Red."]), (USER, [P, "And now?"])]
        add("numbers", numbered, {"add_vision_id": True}, numbered=True)
    if name.startswith("gemma4"):
        add("thinking", CASES["picture, text"], {"enable_thinking": True}, thinks=True)
        add("thinking, system", CASES["system"], {"enable_thinking": True}, thinks=True)
    return {"name": name, "family": family, "source": source, "marks": marks, "cases": cases}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("templates", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    args = parser.parse_args()
    lines = []
    for form in FORMS:
        made = make_form(*form, args.templates)
        cases = ",\n  ".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in made.pop("cases"))
        lines.append(json.dumps(made, ensure_ascii=False)[:-1] + ', "cases": [\n  ' + cases + "]}")
    head = '{"made_with": ' + json.dumps({"transformers": transformers.__version__}) + ', "forms": [\n'
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(head + ",\n".join(lines) + "\n]}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
