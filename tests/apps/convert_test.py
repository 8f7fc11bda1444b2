"""The converter of tools/convert, on tiny folders that the test makes. Run as a program it installs what the converter
needs in a virtual environment below the build folder; run with other tests it is skipped without that."""

import importlib.util
import json
import shutil
import signal
import subprocess
import sys
import unittest

from program import RUNTIME, SOURCE, FolderTest, board
from virtual_environment import go_on_with

HAS_PACKAGES = all(importlib.util.find_spec(name) for name in ("gguf", "numpy", "sentencepiece"))
if HAS_PACKAGES:
    from hugging_face_folder import CONFIGS, write_folder

CONVERT = SOURCE / "tools" / "convert"
# The projector's name, and tensors that only some generations have.
QWEN_FILES = {
    "qwen2-vl": ("qwen2vl_merger", ["v.patch_embd.weight.1", "v.blk.0.attn_q.bias", "v.post_ln.bias", "mm.2.bias"]),
    "qwen2.5-vl": ("qwen2.5vl_merger", ["v.patch_embd.weight.1", "v.blk.0.attn_v.weight", "v.blk.1.ffn_gate.bias"]),
    "qwen3-vl": ("qwen3vl_merger", ["v.patch_embd.bias", "v.blk.1.attn_qkv.bias", "v.position_embd.weight",
                                    "v.deepstack.0.norm.bias", "v.deepstack.0.fc2.weight"]),
}
GEMMA_TEXT_FACTS = {"attention.sliding_window": 8, "attention.sliding_window_pattern": 2, "rope.freq_base": 1e6,
                    "rope.freq_base_swa": 1e4, "rope.scaling.type": "linear", "rope.scaling.factor": 8,
                    "attention.key_length": 16, "attention.value_length": 16}
GEMMA_NORMS = ["output_norm", *(f"blk.2.{norm}" for norm in ("attn_norm", "attn_q_norm", "attn_k_norm", "ffn_norm",
                                                            "post_attention_norm", "post_ffw_norm"))]
NAMES = ["mmproj-tiny-f16.gguf", "tiny-f16.gguf"]


def changed(part=None, **facts):
    """A change of config.json, or of one object in it."""
    def change(folder):
        path = folder / "config.json"
        config = json.loads(path.read_text())
        (config[part] if part else config).update(facts)
        path.write_text(json.dumps(config))
    return change


def lacking(key):
    def change(folder):
        path = folder / "config.json"
        config = json.loads(path.read_text())
        del config[key]
        path.write_text(json.dumps(config))
    return change


def replaced(name, content):
    return lambda folder: (folder / name).write_bytes(content)


def removed(name):
    return lambda folder: (folder / name).unlink()


def halved(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:path.stat().st_size // 2])


# family, what is changed in its folder, the sentence
BAD_FOLDERS = [
    ("smolvlm", shutil.rmtree, "config.json does not exist: name the folder"),
    ("smolvlm", removed("config.json"), "config.json does not exist: name the folder"),
    ("smolvlm", replaced("config.json", b"not json"), "config.json is no JSON: "),
    ("smolvlm", replaced("config.json", b"\xff{}"), "config.json is no JSON: "),
    ("smolvlm", replaced("config.json", b"[]"), "config.json is no JSON object"),
    ("smolvlm", replaced("config.json", b"{}"), "config.json has no model_type"),
    ("smolvlm", changed(model_type=["smolvlm"]), "says model_type .*: expected one of"),
    ("smolvlm", changed(model_type="whisper"), "says model_type whisper: expected one of"),
    ("smolvlm", lacking("vision_config"), "config.json has no vision_config"),
    ("smolvlm", lacking("text_config"), "config.json has no text_config"),
    ("smolvlm", changed(text_config=7), "text_config is no JSON object"),
    ("smolvlm", changed("text_config", num_attention_heads=0), "num_attention_heads is 0, but must be"),
    ("smolvlm", changed("vision_config", num_hidden_layers="2"), "num_hidden_layers is '2', but must be a whole number"),
    ("smolvlm", changed("vision_config", num_hidden_layers=1), r"\d+ tensors are not part of the layout"),
    ("smolvlm", changed("vision_config", num_hidden_layers=3), "has no tensor vision.encoder.layers.2"),
    ("smolvlm", changed("vision_config", hidden_act="relu"), "the vision activation relu is not supported"),
    ("smolvlm", changed("vision_config", num_attention_heads=3), "3 heads do not divide 32"),
    ("smolvlm", changed("vision_config", image_size=[28, 56]), "only squares are supported"),
    ("smolvlm", changed(scale_factor=3), "4 patches a side cannot be joined 3 by 3"),
    ("smolvlm", removed("preprocessor_config.json"), "preprocessor_config.json has no "),
    ("smolvlm", removed("tokenizer.json"), "holds no tokenizer.model and no tokenizer.json"),
    ("smolvlm", removed("model.safetensors"), "holds no model.*safetensors file"),
    ("smolvlm", halved, "model.safetensors is not a whole safetensors file: the tensor .* ends at byte"),
    ("smolvlm", replaced("model.safetensors", b""), "is not a whole safetensors file: "),
    ("smolvlm", replaced("model.safetensors", b"\xff" * 100), "is not a whole safetensors file: its header would have"),
    ("smolvlm", replaced("model.safetensors", b"\x02" + bytes(7) + b"[]"), "is not a whole safetensors file: "),
    ("internvl", changed(downsample_ratio=0), "downsample_ratio is 0, but must be"),
    ("internvl", changed(downsample_ratio=0.3), "downsample_ratio is 0.3, but must be"),
    ("internvl", changed(max_dynamic_patch="12"), "max_dynamic_patch is '12', but must be a whole number of 1 to 16"),
    ("internvl", changed(max_dynamic_patch=40), "max_dynamic_patch is 40, but must be a whole number of 1 to 16"),
    ("llava-1.6", changed(vision_feature_layer=-99), "vision_feature_layer is -99, but the tower has 2 layers"),
    ("llava-1.6", changed(vision_feature_layer=0), "vision_feature_layer is 0, but the tower has 2 layers"),
    ("llava-1.6", changed(image_grid_pinpoints=[]), "image_grid_pinpoints must list 1 to 32 pairs"),
    ("llava-1.6", changed(image_grid_pinpoints=[[28], "x"]), "is not laid out as its config.json says: "),
    ("llava-1.6", lacking("image_grid_pinpoints"), "config.json has no image_grid_pinpoints"),
    ("qwen2-vl", changed("vision_config", embed_dim="32"), "embed_dim is '32', but must be a whole number"),
    ("qwen2-vl", changed("vision_config", hidden_act="relu"), "the vision activation relu is not supported"),
    ("qwen2.5-vl", changed("vision_config", fullatt_block_indexes=[0]), "are not every 1th layer"),
    ("qwen2.5-vl", changed("vision_config", temporal_patch_size=1), "temporal_patch_size is 1, but must be 2"),
    ("qwen3-vl", changed("vision_config", depth=3), "has no tensor vision.blocks.2"),
    ("qwen3-vl", changed("vision_config", deepstack_visual_indexes=[]), r"\d+ tensors are not part of the layout"),
    ("gemma3", lacking("vision_config"), "config.json has no vision_config"),
    ("gemma3", changed("text_config", query_pre_attn_scalar=24), "query_pre_attn_scalar is 24, but readers .* take 16"),
    ("gemma3", changed("text_config", hidden_activation="silu"), "text_config: the activation silu is not supported"),
    ("gemma3", changed("text_config", attn_logit_softcapping=50), "attn_logit_softcapping is not supported"),
    ("gemma3", changed("text_config", use_bidirectional_attention=True), "use_bidirectional_attention is not supported"),
    ("gemma3", changed("text_config", layer_types=["full_attention", "sliding_attention", "full_attention"]),
     "layer_types are irregular: of every n layers the last must be full_attention"),
    ("gemma3", changed("text_config", rope_scaling={"rope_type": "yarn"}), "scaling yarn of full_attention is not"),
    ("gemma3", changed("text_config", rope_parameters={"sliding_attention": {"rope_type": "linear", "factor": 8}}),
     "the rope scaling linear of sliding_attention is not supported"),
    ("gemma3", changed("text_config", sliding_window=0), "sliding_window is 0, but must be a whole number"),
    ("gemma3", changed("vision_config", hidden_act="gelu"), "the vision activation gelu is not supported"),
    ("gemma3", changed(mm_tokens_per_image="4"), "mm_tokens_per_image is '4', but must be a whole number"),
    ("gemma3", changed(mm_tokens_per_image=8), "4 patches a side cannot become 8 rows of equal squares"),
    ("gemma3", changed(mm_tokens_per_image=9), "4 patches a side cannot become 9 rows of equal squares"),
    ("gemma3", replaced("preprocessor_config.json", b'{"do_pan_and_scan": true}'), "do_pan_and_scan cuts pictures"),
]


@unittest.skipUnless(HAS_PACKAGES, "packages of tools/convert/requirements.txt are missing: run this file as a program")
class ConverterTest(FolderTest):
    def command(self, folder, *arguments):
        return [sys.executable, "-B", CONVERT / "hf_to_gguf.py", folder, self.folder / "out", "--name", "tiny", *arguments]

    def convert(self, folder, *arguments):
        return subprocess.run(self.command(folder, *arguments), capture_output=True, text=True, timeout=120, check=False)

    def out(self):
        """What the folder holds."""
        return {path.name: path.read_bytes() for path in sorted((self.folder / "out").iterdir()) if path.is_file()}

    def test_the_program_reads_the_converted_files(self):
        for family in sorted(CONFIGS):
            with self.subTest(family=family):
                write_folder(self.folder / family, family)
                for _ in range(2):  # the second time over the files of the first
                    done = self.convert(self.folder / family)
                    self.assertEqual(done.returncode, 0, done.stderr)
                mmproj, model = [self.folder / "out" / name for name in NAMES]
                images = int(mmproj.exists())
                pair = ["-m", model, "--mmproj", mmproj] if images else ["-m", model]
                (plan,) = self.objects("plan", *pair, "--images", images)
                self.assertEqual(plan["images"], images)
                self.assertEqual(list(self.out()), NAMES[1:] if family == "gemma3-text" else NAMES)
                shutil.rmtree(self.folder / "out")

    def test_qwen_files_have_the_tensors_that_readers_ask_for(self):
        from gguf import GGUFReader  # the class is skipped without it
        for family, (projector, tensors) in QWEN_FILES.items():
            with self.subTest(family=family):
                write_folder(self.folder / family, family)
                done = self.convert(self.folder / family)
                self.assertEqual(done.returncode, 0, done.stderr)
                mmproj, model = [GGUFReader(self.folder / "out" / name) for name in NAMES]
                self.assertEqual(mmproj.fields["clip.projector_type"].contents(), projector)
                self.assertLessEqual(set(tensors), {tensor.name for tensor in mmproj.tensors})
                sections = next(model.fields[key] for key in model.fields if key.endswith(".rope.dimension_sections"))
                self.assertEqual(sections.contents(), [3, 3, 2, 0])

    def test_gemma_files_hold_windows_rotations_and_whole_norms(self):
        from gguf import GGUFReader  # the class is skipped without it
        for family in ("gemma3", "gemma3-text"):
            write_folder(self.folder / family, family)
            done = self.convert(self.folder / family, "--outtype", "f32")
            self.assertEqual(done.returncode, 0, done.stderr)
            model = GGUFReader(self.folder / "out" / "tiny-f32.gguf")
            facts = {key: model.fields[f"gemma3.{key}"].contents() for key in GEMMA_TEXT_FACTS}
            self.assertEqual(facts, GEMMA_TEXT_FACTS)
            tensors = {tensor.name: tensor.data for tensor in model.tensors}
            self.assertNotIn("output.weight", tensors)
            for norm in GEMMA_NORMS:  # weights near 0 plus 1
                self.assertAlmostEqual(float(tensors[f"{norm}.weight"].mean()), 1, delta=0.2)
        mmproj = GGUFReader(self.folder / "out" / "mmproj-tiny-f32.gguf")
        self.assertEqual(mmproj.fields["clip.projector_type"].contents(), "gemma3")
        self.assertEqual(mmproj.fields["clip.vision.projector.scale_factor"].contents(), 2)
        tensors = {tensor.name: tensor for tensor in mmproj.tensors}
        self.assertEqual(tensors["mm.input_projection.weight"].tensor_type.name, "F16")
        self.assertAlmostEqual(float(tensors["mm.soft_emb_norm.weight"].data.mean()), 1, delta=0.2)
        self.assertIn("v.post_ln.bias", tensors)

    def test_gemma_files_name_the_scale_of_their_projector_only_if_it_is_unusual(self):
        from gguf import GGUFReader  # the class is skipped without it
        write_folder(self.folder / "gemma3", "gemma3")
        changed(mm_tokens_per_image=1)(self.folder / "gemma3")
        done = self.convert(self.folder / "gemma3")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("clip.vision.projector.scale_factor", GGUFReader(self.folder / "out" / NAMES[0]).fields)

    def test_a_bad_folder_gets_one_sentence_and_replaces_nothing(self):
        (self.folder / "out").mkdir()
        for name in NAMES:
            (self.folder / "out" / name).write_text("good")
        for number, (family, change, sentence) in enumerate(BAD_FOLDERS):
            with self.subTest(number=number, sentence=sentence):
                folder = self.folder / f"{number}"
                write_folder(folder, family)
                change(folder)
                done = self.convert(folder)
                self.assertEqual((done.returncode, done.stdout), (RUNTIME, ""))
                self.assertRegex(done.stderr, rf"\A[^\n]*{sentence}[^\n]*\n\Z")
                self.assertEqual(self.out(), {name: b"good" for name in NAMES})

    def test_a_place_that_cannot_be_written_keeps_both_files(self):
        write_folder(self.folder / "good", "smolvlm")
        (self.folder / "out" / NAMES[0]).mkdir(parents=True)
        (self.folder / "out" / NAMES[1]).write_text("good")
        done = self.convert(self.folder / "good")
        self.assertEqual(done.returncode, RUNTIME)
        self.assertRegex(done.stderr, rf"\A[^\n]*{NAMES[0]} is a folder: choose another[^\n]*\n\Z")
        self.assertEqual(self.out(), {NAMES[1]: b"good"})
        shutil.rmtree(self.folder / "out")
        (self.folder / "out").write_text("")
        self.assertRegex(self.convert(self.folder / "good").stderr, r"\A[^\n]*/out: File exists\n\Z")

    def test_an_interrupted_run_leaves_nothing(self):
        write_folder(self.folder / "good", "smolvlm")
        # It stops before the second file, when the first one is there.
        wait = ("import sys, time; sys.path.insert(0, sys.argv[1]); sys.argv[1:] = sys.argv[2:]; import hf_to_gguf; "
                "hf_to_gguf.write_vision_model = lambda *_: (print(flush=True), time.sleep(60)); hf_to_gguf.main()")
        command = [sys.executable, "-B", "-c", wait, CONVERT, *self.command(self.folder / "good")[3:]]
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
                self.assertEqual(program.stdout.readline(), "\n")
                self.assertEqual(list(self.out()), [f"{NAMES[1]}.{program.pid}"])
                program.send_signal(number)
                _, notes = program.communicate(timeout=60)
            self.assertEqual((program.returncode, notes), (128 + number, ""))
            self.assertEqual(self.out(), {})


@unittest.skipUnless(HAS_PACKAGES, "packages of tools/convert/requirements.txt are missing: run this file as a program")
class SmallerPicturesTest(FolderTest):
    MMPROJ = SOURCE / "apps" / "models" / "mmproj-shapeboard-34m-q8_0.gguf"
    MODEL = SOURCE / "apps" / "models" / "shapeboard-34m-q8_0.gguf"

    def shrink(self, source, pixels):
        return subprocess.run([sys.executable, "-B", CONVERT / "shrink_pictures.py", source, self.folder / "small.gguf",
                               str(pixels)], capture_output=True, text=True, timeout=120, check=False)

    def test_smaller_pictures_have_fewer_tokens_and_whole_ones_the_same_answers(self):
        for pixels, tokens in ((64, 4), (160, 25), (256, 64)):
            with self.subTest(pixels=pixels):
                done = self.shrink(self.MMPROJ, pixels)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(f": {tokens} tokens a view\n", done.stdout)
                pair = ["-m", self.MODEL, "--mmproj", self.folder / "small.gguf"]
                (plan,) = self.objects("plan", *pair, "--images", 1)
                self.assertEqual(plan["kv_bytes_per_image"], tokens * 8192)
                (answer,) = self.objects("ask", "--prompt", "What is on the left?", board("115"), *pair)
        self.assertEqual(answer["answer"], "A large cyan star.")

    def test_sizes_that_leave_no_whole_tokens_and_other_files_are_refused(self):
        for pixels in (0, 48, 288):
            self.assertRegex(self.shrink(self.MMPROJ, pixels).stderr, r"give a multiple of 32 up to 256\.\n\Z")
        self.assertIn("the file has no clip.vision.image_size", self.shrink(self.MODEL, 64).stderr)


if __name__ == "__main__":
    if not HAS_PACKAGES:
        go_on_with("convert", CONVERT / "requirements.txt")
    unittest.main()
