#include "tests/support/small_pair.h"

namespace ocellus::test {

bool has_entry(const GgufBuilder& file, std::string_view key) {
  return std::any_of(file.entries.begin(), file.entries.end(), [&](const auto& entry) { return entry.key == key; });
}

GgufBuilder& without(GgufBuilder& file, std::string_view key) {
  if (has_entry(file, key)) file.remove(key);
  return file;
}

void set_count(GgufBuilder& file, std::string_view key, uint32_t value) { without(file, key).add_u32(key, value); }

void set_float(GgufBuilder& file, std::string_view key, float value) { without(file, key).add_f32(key, value); }

void set_tensor(GgufBuilder& file, const std::string& name, const std::vector<uint64_t>& ne, float size) {
  int64_t count = 1;
  for (const uint64_t extent : ne) count *= static_cast<int64_t>(extent);
  Random random(std::hash<std::string>()(name));
  const auto same = [&](const auto& tensor) { return tensor.name == name; };
  file.tensors.erase(std::remove_if(file.tensors.begin(), file.tensors.end(), same), file.tensors.end());
  file.add_tensor(name, ne, random.normals(count, size));
}

GgufBuilder facts_of(const std::string& path) {
  GgufFile file;
  if (!file.open(path.c_str()).ok()) throw std::runtime_error(last_failure().sentence);
  GgufBuilder facts(file);
  facts.tensors.clear();
  return facts;
}

GgufBuilder small_model() {
  static const GgufBuilder built = [] {
    GgufBuilder file = facts_of(bundled_pair().model);
    set_count(file, "llama.block_count", 2);
    set_count(file, "llama.embedding_length", 32);
    set_count(file, "llama.feed_forward_length", 64);
    set_count(file, "llama.attention.head_count", 4);
    set_count(file, "llama.attention.head_count_kv", 2);
    set_count(file, "llama.rope.dimension_count", 8);
    set_tensor(file, "token_embd.weight", {32, 1024}, 1.0f);
    set_tensor(file, "output_norm.weight", {32}, 1.0f);
    for (const std::string layer : {"blk.0.", "blk.1."}) {
      set_tensor(file, layer + "attn_norm.weight", {32}, 1.0f);
      set_tensor(file, layer + "attn_q.weight", {32, 32});
      set_tensor(file, layer + "attn_k.weight", {32, 16});
      set_tensor(file, layer + "attn_v.weight", {32, 16});
      set_tensor(file, layer + "attn_output.weight", {32, 32});
      set_tensor(file, layer + "ffn_norm.weight", {32}, 1.0f);
      set_tensor(file, layer + "ffn_gate.weight", {32, 64});
      set_tensor(file, layer + "ffn_up.weight", {32, 64});
      set_tensor(file, layer + "ffn_down.weight", {64, 32});
    }
    return file;
  }();
  return built;
}

GgufBuilder small_projector() {
  static const GgufBuilder built = [] {
    GgufBuilder file = facts_of(bundled_pair().mmproj);
    set_count(file, "clip.vision.image_size", 32);
    set_count(file, "clip.vision.patch_size", 8);
    set_count(file, "clip.vision.embedding_length", 16);
    set_count(file, "clip.vision.feed_forward_length", 32);
    set_count(file, "clip.vision.block_count", 2);
    set_count(file, "clip.vision.attention.head_count", 2);
    set_count(file, "clip.vision.projection_dim", 32);
    set_tensor(file, "v.patch_embd.weight", {8, 8, 3, 16});
    set_tensor(file, "v.patch_embd.bias", {16});
    set_tensor(file, "v.position_embd.weight", {16, 16});
    set_tensor(file, "v.post_ln.weight", {16});
    set_tensor(file, "v.post_ln.bias", {16});
    set_tensor(file, "mm.model.fc.weight", {64, 32});
    for (const std::string layer : {"v.blk.0.", "v.blk.1."}) {
      for (const std::string norm : {"ln1", "ln2"}) {
        set_tensor(file, layer + norm + ".weight", {16}, 1.0f);
        set_tensor(file, layer + norm + ".bias", {16});
      }
      for (const std::string part : {"attn_q", "attn_k", "attn_v", "attn_out"}) {
        set_tensor(file, layer + part + ".weight", {16, 16});
        set_tensor(file, layer + part + ".bias", {16});
      }
      set_tensor(file, layer + "ffn_up.weight", {16, 32});
      set_tensor(file, layer + "ffn_up.bias", {32});
      set_tensor(file, layer + "ffn_down.weight", {32, 16});
      set_tensor(file, layer + "ffn_down.bias", {16});
    }
    return file;
  }();
  return built;
}

GgufBuilder small_llava_projector() {
  static const GgufBuilder built = [] {
    GgufBuilder file = small_projector();
    without(file, "clip.projector_type").add_string("clip.projector_type", "mlp");
    for (const char* key : {"clip.vision.projector.scale_factor", "clip.vision.preproc_image_size", "clip.use_gelu"})
      without(file, key);
    set_count(file, "clip.vision.projection_dim", 768);
    for (const char* name : {"v.patch_embd.bias", "v.post_ln.weight", "v.post_ln.bias", "mm.model.fc.weight"})
      file.remove_tensor(name);
    set_tensor(file, "v.class_embd", {16});
    set_tensor(file, "v.position_embd.weight", {16, 17});
    set_tensor(file, "v.pre_ln.weight", {16}, 1.0f);
    set_tensor(file, "v.pre_ln.bias", {16});
    set_tensor(file, "mm.0.weight", {16, 24});
    set_tensor(file, "mm.0.bias", {24});
    set_tensor(file, "mm.2.weight", {24, 32});
    set_tensor(file, "mm.2.bias", {32});
    return file;
  }();
  return built;
}

}  // namespace ocellus::test
