// Extreme files that no real model is: NaN weights, numbers at the end of their range, plans beyond any machine. All of
// them end in an answer or in a clear sentence.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/engine/memory_plan.h"
#include "runtime/models/model.h"
#include "tests/support/short_talk.h"
#include "tests/support/small_pair.h"

namespace ocellus {
namespace {

using test::GgufBuilder;
using test::open_and_talk;
using test::set_count;
using test::set_float;
using test::set_tensor;
using test::small_model;
using test::small_projector;
using test::TemporaryFile;
using test::without;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

void fill(GgufBuilder::Tensor& tensor, float value) {
  for (size_t at = 0; at < tensor.data.size(); at += sizeof value) test::patch(tensor.data, at, value);
}

}  // namespace

TEST_SUITE("weights that are not numbers") {
  TEST_CASE("a model that gives no number says so") {
    for (const float value : {kNan, kInfinity}) {
      for (const std::string name : {"token_embd.weight", "output_norm.weight"}) {
        // A GPU's f16 activations stop at 65504, so that infinity is a very large number there.
        if (value == kInfinity && name == "output_norm.weight" && cuda_device_count() > 0) continue;
        GgufBuilder text = small_model();
        fill(text.tensor(name), value);
        CHECK(open_and_talk(text, small_projector()).code() == Code::kBadFile);
        const std::string sentence = last_failure().sentence;
        CHECK_MESSAGE(sentence.find("the model's output is not a number") != std::string::npos, sentence);
      }
    }
  }

  TEST_CASE("any tensor of any value ends in an answer or in that sentence") {
    const GgufBuilder text = small_model(), vision = small_projector();
    for (const float value : {kNan, kInfinity, -kInfinity, 3e38f, 1e-45f, 0.0f}) {
      const auto check = [&](const GgufBuilder& one, const GgufBuilder& other, const std::string& name) {
        CAPTURE(name);
        CAPTURE(value);
        if (open_and_talk(one, other).ok()) return;
        const std::string sentence = last_failure().sentence;
        CHECK_MESSAGE(sentence.find("the model's output is not a number") != std::string::npos, sentence);
      };
      for (size_t i = 0; i < text.tensors.size(); ++i) {
        GgufBuilder changed = text;
        fill(changed.tensors[i], value);
        check(changed, vision, text.tensors[i].name);
      }
      for (size_t i = 0; i < vision.tensors.size(); ++i) {
        GgufBuilder changed = vision;
        fill(changed.tensors[i], value);
        check(text, changed, vision.tensors[i].name);
      }
      GgufBuilder changed = text;
      set_tensor(changed, "rope_freqs.weight", {4});
      fill(changed.tensor("rope_freqs.weight"), value);
      check(changed, vision, "rope_freqs.weight");
    }
  }

  TEST_CASE("numbers at the end of their range") {
    const auto check_harmless = [](const GgufBuilder& text, const GgufBuilder& vision) {
      const Status status = open_and_talk(text, vision);
      CHECK_MESSAGE((status.ok() || status.code() == Code::kBadFile || status.code() == Code::kFull),
                    last_failure().sentence);
    };
    for (const std::string key :
         {"llama.attention.layer_norm_rms_epsilon", "llama.rope.freq_base", "llama.rope.scaling.factor"}) {
      for (const float value : {1e-45f, 3e38f}) {
        GgufBuilder text = small_model();
        text.add_string("llama.rope.scaling.type", "linear");
        set_float(text, "llama.rope.scaling.factor", 1);
        set_float(text, key, value);
        check_harmless(text, small_projector());
      }
    }
    GgufBuilder vision = small_projector();
    without(vision, "clip.vision.image_std").add_f32_array("clip.vision.image_std", {1e-45f, 1, 3e38f});
    without(vision, "clip.vision.image_mean").add_f32_array("clip.vision.image_mean", {3e38f, -3e38f, 1e-45f});
    check_harmless(small_model(), vision);
    set_float(vision, "clip.vision.attention.layer_norm_epsilon", 3e38f);
    check_harmless(small_model(), vision);
  }

  TEST_CASE("a context too short for the conversation") {
    for (const char* key : {"llama.context_length", "llama.attention.sliding_window"}) {
      for (const uint32_t length : {1u, 8u}) {
        GgufBuilder text = small_model();
        set_count(text, key, length);
        CHECK(open_and_talk(text, small_projector()).code() == Code::kFull);
        const std::string sentence = last_failure().sentence;
        CHECK_MESSAGE(sentence.find("but the model has " + std::to_string(length)) != std::string::npos, sentence);
      }
    }
  }
}

TEST_SUITE("plans of models that ask for too much") {
  /// Has the tokens before 16 x 16 tiles, and little else.
  void name_tiles(GgufBuilder & text) {
    std::vector<std::string> tokens = {"\u010a", "\u010a\u010a", "<fake_token_around_image>", "<global-img>"};  // "\n"
    for (int row = 1; row <= 16; ++row)
      for (int col = 1; col <= 16; ++col)
        tokens.push_back("<row_" + std::to_string(row) + "_col_" + std::to_string(col) + ">");
    const size_t named = tokens.size();
    while (tokens.size() < 1024) tokens.push_back("token " + std::to_string(tokens.size()));
    std::vector<int32_t> kinds(tokens.size(), static_cast<int32_t>(TokenKind::kNormal));
    std::fill(kinds.begin() + 2, kinds.begin() + static_cast<ptrdiff_t>(named),
              static_cast<int32_t>(TokenKind::kControl));
    without(text, "tokenizer.ggml.tokens").add_string_array("tokenizer.ggml.tokens", tokens);
    without(text, "tokenizer.ggml.token_type").add_i32_array("tokenizer.ggml.token_type", kinds);
    without(text, "tokenizer.ggml.merges").add_string_array("tokenizer.ggml.merges", {"\u010a \u010a"});
  }

  // 64 layers of 1024 heads of 256: a token takes 64 MiB of cache. The tensors are a hole of 1.2 GB in the file.
  GgufBuilder make_wide() {
    GgufBuilder file = small_model();
    name_tiles(file);
    set_count(file, "llama.block_count", 64);
    set_count(file, "llama.context_length", 1 << 24);
    set_count(file, "llama.attention.head_count", 1024);
    set_count(file, "llama.attention.head_count_kv", 1024);
    set_count(file, "llama.attention.key_length", 256);
    set_count(file, "llama.attention.value_length", 256);
    GgufBuilder wide = file;
    wide.tensors.clear();
    const auto add = [&](const std::string& name, const std::string& like, std::vector<uint64_t> ne) {
      GgufBuilder::Tensor tensor = file.tensor(like);
      tensor.name = name;
      if (ne.empty()) ne = tensor.ne;
      if (ne.size() > 1) tensor.type = format_info(WeightFormat::kQ4_0).ggml_id;
      tensor.ne = std::move(ne);
      tensor.data.clear();
      wide.tensors.push_back(tensor);
    };
    add("token_embd.weight", "token_embd.weight", {});
    add("output_norm.weight", "output_norm.weight", {});
    for (int i = 0; i < 64; ++i) {
      const std::string layer = "blk." + std::to_string(i) + ".";
      for (const std::string part : {"attn_norm", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down"})
        add(layer + part + ".weight", "blk.0." + part + ".weight", {});
      for (const std::string part : {"attn_q", "attn_k", "attn_v"})
        add(layer + part + ".weight", "blk.0." + part + ".weight", {32, 1024 * 256});
      add(layer + "attn_output.weight", "blk.0.attn_output.weight", {1024 * 256, 32});
    }
    uint64_t offset = 0;
    for (GgufBuilder::Tensor& tensor : wide.tensors) {
      const WeightFormat format = find_format(tensor.type)->format;
      const int64_t rows = tensor.ne.size() > 1 ? static_cast<int64_t>(tensor.ne[1]) : 1;
      tensor.forged_offset = offset;
      offset += static_cast<uint64_t>((rows * row_bytes(format, static_cast<int64_t>(tensor.ne[0])) + 31) / 32 * 32);
    }
    return wide;
  }

  /// Views of 32 pixels in up to 16 x 16 tiles.
  GgufBuilder make_tiled() {
    GgufBuilder file = small_projector();
    set_count(file, "clip.vision.preproc_image_size", 512);
    return file;
  }

  void check_plan(const Model& model, const ocellus_limits& limits) {
    ocellus_plan plan;
    REQUIRE_MESSAGE(plan_memory(model, limits, &plan).ok(), last_failure().sentence);
    // Phases share their bytes: those of the device, and those of staging.
    double total = 0;
    std::map<std::string, double> phases[2];
    for (int i = 0; i < plan.row_count; ++i) {
      const ocellus_plan_row& row = plan.rows[i];
      CHECK(row.bytes >= 0);
      const bool staging = std::string(row.lifetime) == "staging";
      (std::string(row.phase) == "-" ? total : phases[staging][row.phase]) += static_cast<double>(row.bytes);
    }
    for (const auto& shared : phases) {
      double largest = 0;
      for (const auto& [phase, bytes] : shared) largest = std::max(largest, bytes);
      total += largest;
    }
    CHECK(total == static_cast<double>(plan.total_bytes));
    const double slots = limits.max_sessions * (static_cast<double>(limits.max_text_tokens) + limits.max_images);
    CHECK(static_cast<double>(plan.total_bytes) >= slots * static_cast<double>(plan.kv_bytes_per_token));
    CHECK(plan.fits == (limits.budget_bytes == 0 || plan.total_bytes <= limits.budget_bytes));
  }

  TEST_CASE("limits that multiply beyond 63 bits are refused, others are planned exactly") {
    const TemporaryFile text(make_wide());
    std::filesystem::resize_file(text.path(), uint64_t{5} << 28);
    const TemporaryFile vision(make_tiled());
    Model model;
    REQUIRE_MESSAGE(model.open(text.c_str(), vision.c_str()).ok(), last_failure().sentence);
    ocellus_limits limits;
    ocellus_limits_init(&limits);
    limits.budget_bytes = int64_t{1} << 30;
    check_plan(model, limits);

    ocellus_engine_config config;
    ocellus_engine_config_init(&config);
    config.limits = limits;
    std::unique_ptr<Engine> engine;
    CHECK(Engine::create(model, config, &engine).code() == Code::kOverBudget);
    config.limits.budget_bytes = 0;
    config.limits.max_text_tokens = 1 << 20;  // 64 TiB
    CHECK(Engine::create(model, config, &engine).code() == Code::kIo);

    for (const int32_t sessions : {1, 512}) {
      for (const int32_t images : {0, 1, 65536}) {
        for (const int32_t tokens : {1, 1 << 24}) {
          limits.max_sessions = sessions;
          limits.max_images = images;
          limits.max_text_tokens = tokens;
          for (const int64_t budget : {int64_t{0}, int64_t{1} << 30, INT64_MAX}) {
            limits.budget_bytes = budget;
            if (tokens == 1 && images <= 1) {
              check_plan(model, limits);
              continue;
            }
            ocellus_plan plan;
            CHECK(plan_memory(model, limits, &plan).code() == Code::kBadArgument);
            const std::string sentence = last_failure().sentence;
            CHECK_MESSAGE(sentence.find("ask for a cache of") != std::string::npos, sentence);
          }
        }
      }
    }
  }

  TEST_CASE("the largest limits of a small model") {
    GgufBuilder named = small_model();
    name_tiles(named);
    const TemporaryFile text(named);
    const TemporaryFile vision(make_tiled());
    Model model;
    REQUIRE_MESSAGE(model.open(text.c_str(), vision.c_str()).ok(), last_failure().sentence);
    ocellus_limits limits;
    ocellus_limits_init(&limits);
    limits.max_image_pixels = int64_t{1} << 28;
    limits.max_prompt_rows = 1 << 24;
    limits.thread_count = 64;
    limits.max_text_tokens = 1 << 24;
    limits.max_images = 65536;
    check_plan(model, limits);
    limits.budget_bytes = 1;
    check_plan(model, limits);
  }
}

}  // namespace ocellus
