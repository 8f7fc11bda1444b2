// Shapes without weights: the numbers of the model cards, generated files, and engines that run on them.
#include "runtime/models/model_shapes.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

#include "runtime/engine/memory_plan.h"
#include "runtime/models/random_weights.h"
#include "tests/support/device.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/loaded_engine.h"
#include "tests/support/small_shapes.h"
#include "tests/support/temporary_file.h"

namespace ocellus {
namespace {

constexpr WeightFormat kFormats[] = {WeightFormat::kF16,  WeightFormat::kQ8_0, WeightFormat::kQ4_K,
                                     WeightFormat::kQ2_K, WeightFormat::kQ3_K, WeightFormat::kIQ4_XS,
                                     WeightFormat::kMXFP4};

/// Parameters as the model cards count them (of a text part alone: those of the language model it is; of LLaVA without
/// the last layer of its tower, which is not run; of Gemma 3 without 64 rows of the embedding that files have not; of
/// Gemma 4 without the part that hears; of PaddleOCR-VL without a table and a head of its tower that it does not use).
struct Published {
  const char* name;
  int64_t parameters;
  int32_t layers, width, query_heads, kv_heads, head_dim, vocabulary, tokens_per_view;
};
constexpr Published kPublished[] = {
    {"SmolVLM-256M", 256484928, 30, 576, 9, 3, 64, 49280, 64},
    {"SmolVLM-500M", 507482304, 32, 960, 15, 5, 64, 49280, 64},
    {"SmolVLM2-2.2B", 2246784880, 24, 2048, 32, 32, 64, 49280, 81},
    {"LLaVA-1.5-7B", 7050304512, 32, 4096, 32, 32, 128, 32000, 576},
    {"LLaVA-1.5-13B", 13338241024, 40, 5120, 40, 40, 128, 32000, 576},
    {"LLaVA-1.6-Vicuna-7B", 7050308608, 32, 4096, 32, 32, 128, 32000, 576},
    {"LLaVA-1.6-Mistral-7B", 7553625088, 32, 4096, 32, 8, 128, 32000, 576},
    {"InternVL2.5-8B", 8075291648, 32, 4096, 32, 8, 128, 92553, 256},
    {"InternVL2.5-26B", 25514075520, 48, 6144, 48, 8, 128, 92553, 256},
    {"InternVL3-2B", 2088957440, 28, 1536, 12, 2, 128, 151674, 256},
    {"InternVL3.5-2B", 2348347392, 28, 2048, 16, 8, 128, 151936, 256},
    {"Qwen2.5-VL-3B", 3754622976, 36, 2048, 16, 2, 128, 151936, 1280},
    {"Qwen2.5-VL-7B", 8292166656, 28, 3584, 28, 4, 128, 152064, 1280},
    {"Qwen2-VL-2B", 2208985600, 28, 1536, 12, 2, 128, 151936, 1280},
    {"Qwen2-VL-7B", 8291375616, 28, 3584, 28, 4, 128, 152064, 1280},
    {"Qwen3-VL-2B", 2127532032, 28, 2048, 16, 8, 128, 151936, 1280},
    {"Qwen3-VL-4B", 4437815808, 36, 2560, 32, 8, 128, 151936, 1280},
    {"Qwen3-VL-8B", 8767123696, 36, 4096, 32, 8, 128, 151936, 1280},
    {"Cosmos-Reason2-2B", 2127532032, 28, 2048, 16, 8, 128, 151936, 1280},
    {"Cosmos-Reason2-8B", 8767123696, 36, 4096, 32, 8, 128, 151936, 1280},
    {"Cosmos3-Edge", 2435616496, 28, 2048, 16, 8, 128, 131072, 1280},
    {"Gemma3-4B", 4299915632, 34, 2560, 8, 4, 256, 262144, 256},
    {"Gemma3-12B", 12187079280, 48, 3840, 16, 8, 256, 262144, 256},
    {"Gemma4-E2B", 4797113891, 35, 1536, 8, 1, 512, 262144, 280},
    {"Gemma4-E4B", 7632344362, 42, 2560, 8, 2, 512, 262144, 280},
    {"Ministral3-3B", 3849093120, 26, 3072, 32, 8, 128, 131072, 1280},
    {"Ministral3-8B", 8918030336, 34, 4096, 32, 8, 128, 131072, 1280},
    {"Ministral3-14B", 13945036800, 40, 5120, 32, 8, 128, 131072, 1280},
    {"Mistral3.2-24B", 24011366400, 40, 5120, 32, 8, 128, 131072, 1280},
    {"Pixtral-12B", 12682744832, 40, 5120, 32, 8, 128, 131072, 1280},
    {"LFM2-VL-3B", 2995557616, 30, 2048, 32, 8, 64, 65536, 256},
    {"LFM2.5-VL-450M", 448718848, 16, 1024, 16, 8, 64, 65536, 256},
    {"LFM2.5-VL-1.6B", 1596625904, 16, 2048, 32, 8, 64, 65536, 256},
    {"LFM2.5-VL-3B", 3123483888, 30, 2048, 32, 8, 64, 128000, 256},
    {"LightOnOCR-1B", 1005647872, 28, 1024, 16, 8, 128, 151936, 3025},
    {"LightOnOCR-2-1B", 1005647872, 28, 1024, 16, 8, 128, 151936, 3025},
    {"PaddleOCR-VL-1.0", 905601648, 18, 1024, 16, 2, 128, 103424, 3600},
    {"PaddleOCR-VL-1.5", 905601648, 18, 1024, 16, 2, 128, 103424, 1280},
    {"Qwen2.5-0.5B", 494032768, 24, 896, 14, 2, 64, 151936, 0},
    {"Qwen2.5-1.5B", 1543714304, 28, 1536, 12, 2, 128, 151936, 0},
    {"Gemma3-270M", 268098176, 18, 640, 4, 1, 256, 262144, 0},
    {"Gemma3-1B", 999885952, 26, 1152, 4, 1, 256, 262144, 0},
};

const char* template_of(const ModelShape& shape) {
  const Family* family = family_of(shape.vision);
  if (family == &find_family("SmolVLM")) return "smolvlm";
  return family != nullptr && family->speaks_vicuna ? "vicuna" : "chatml";
}

void open(Model& model, const ModelShape& shape, WeightFormat format) {
  const Status status = model.open_shape(shape, format);
  REQUIRE_MESSAGE(status.ok(), last_failure().sentence);
}

ocellus_limits cpu_limits(int32_t images, int32_t text_tokens) {
  ocellus_limits limits = test::board_limits(images, text_tokens);
  limits.device = OCELLUS_DEVICE_CPU;
  return limits;
}

WeightFormat format_of(const GgufFile& file, std::string_view name) {
  const GgufTensor* tensor = file.find_tensor(name);
  REQUIRE_MESSAGE(tensor != nullptr, name);
  return tensor->format;
}

TEST_CASE("Every shape has the numbers of its model card, whatever the format" * doctest::test_suite("long")) {
  CHECK(model_shape_count() == static_cast<int32_t>(std::size(kPublished)));
  size_t next = 0;
  for (const Published& published : kPublished) {
    CAPTURE(published.name);
    const WeightFormat format = kFormats[next++ % std::size(kFormats)];
    Model model;
    REQUIRE_MESSAGE(model.open_shape(published.name, format_info(format).name).ok(), last_failure().sentence);
    ocellus_model_facts facts;
    model.describe(&facts);
    CHECK(std::string(facts.name) == std::string(published.name) + ", random weights");
    CHECK(static_cast<double>(facts.parameter_count) ==
          doctest::Approx(static_cast<double>(published.parameters)).epsilon(0.0001));
    CHECK(facts.layer_count == published.layers);
    CHECK(facts.width == published.width);
    CHECK(facts.query_heads == published.query_heads);
    CHECK(facts.kv_heads == published.kv_heads);
    CHECK(facts.head_dim == published.head_dim);
    CHECK(facts.vocabulary_size == published.vocabulary);
    CHECK(facts.tokens_per_view == published.tokens_per_view);
    CHECK(facts.has_vision == (published.tokens_per_view > 0 ? 1 : 0));
    const ModelShape* shape = nullptr;
    REQUIRE(find_model_shape(published.name, &shape).ok());
    CHECK(std::string(facts.chat_template) == template_of(*shape));
  }
}

TEST_CASE("The file pair says what the shape says" * doctest::test_suite("long")) {
  for (int32_t i = 0; i < model_shape_count(); ++i) {
    const ModelShape& shape = model_shape(i);
    CAPTURE(shape.name);
    Model model;
    open(model, shape, WeightFormat::kF16);
    CHECK(!model.text_file().has_data());
    CHECK(model.text().mlp_width == shape.text.mlp_width);
    CHECK(model.text().context_length == shape.text.context_length);
    CHECK(model.text().epsilon == shape.text.epsilon);
    CHECK(model.text().rope.base == shape.text.rope.base);
    CHECK(model.text().rope.rotated == shape.text.head_dim);
    CHECK((model.text_file().find_tensor("output.weight") == nullptr) == shape.tied);
    CHECK((model.text_file().find_tensor("blk.0.attn_q.bias") != nullptr) == shape.text.architecture->has_qkv_biases);
    const std::string layer = shape.text.local.convolve() ? "blk.2." : "blk.0.";
    CHECK((model.text_file().find_tensor(layer + "attn_k_norm.weight") != nullptr) ==
          (shape.text.architecture->normalise_heads != nullptr));
    CHECK(model.text().local.window == shape.text.local.window);
    CHECK(model.text().local.period == shape.text.local.period);
    CHECK(model.text().local.head_dim == shape.text.local.head_dim);
    CHECK(model.text().global_layers() == shape.text.global_layers());
    CHECK(model.text().sharing.count == shape.text.sharing.count);
    CHECK((shape.text.sharing.count == 0 || model.text().sharing.mlp_width == shape.text.sharing.mlp_width));
    CHECK(model.text().layer_input_width == shape.text.layer_input_width);
    CHECK(model.text().logit_cap == shape.text.logit_cap);
    CHECK(model.text().yarn.length == shape.text.yarn.length);
    CHECK(model.text().yarn.factor == shape.text.yarn.factor);
    CHECK(model.text().temperature.scale == 1.0f);
    CHECK(model.text().temperature.beta == shape.text.temperature.beta);
    CHECK(model.text().temperature.length == shape.text.temperature.length);
    CHECK(model.text().architecture == shape.text.architecture);
    if (!shape.has_vision()) continue;
    CHECK(model.vision().layer_count == shape.vision.layer_count);
    CHECK(model.vision().longest_edge == shape.vision.longest_edge);
    CHECK(model.vision().output_width == shape.text.width);
    CHECK(model.vision().position_rows() == shape.vision.position_rows());
    CHECK(model.vision().projector_width == shape.vision.projector_width);
    CHECK(model.vision().activation == shape.vision.activation);
    CHECK(model.vision().epsilon == shape.vision.epsilon);
    CHECK(model.vision().head_dim() == shape.vision.head_dim());
    CHECK(model.vision().mlp_width == shape.vision.mlp_width);
    CHECK(model.vision().any_size == shape.vision.any_size);
    CHECK(model.vision().usual_rows == shape.vision.usual_rows);
    CHECK(model.vision().max_pixels == shape.vision.max_pixels);
    const VisionTower* const tower = shape.vision.tower;  // null: the family's
    CHECK(model.vision().tower == (tower == nullptr ? shape.vision.family->tower : tower));
    CHECK(model.vision().window == shape.vision.window);
    CHECK(model.vision().deepstack_count == shape.text.deepstack_layers);
    CHECK(model.vision().deepstack_layers[2] == shape.vision.deepstack_layers[2]);
    CHECK(model.vision().min_pixels == shape.vision.min_pixels);
  }
}

TEST_CASE("Matrices have the formats of a published file, or one where its blocks divide their rows") {
  Model model;
  REQUIRE(model.open_shape("SmolVLM-256M", "Q4_K_M").ok());
  CHECK(format_of(model.text_file(), "token_embd.weight") == WeightFormat::kQ5_0);
  CHECK(format_of(model.text_file(), "output.weight") == WeightFormat::kQ8_0);
  CHECK(format_of(model.text_file(), "blk.3.attn_v.weight") == WeightFormat::kQ5_0);
  CHECK(format_of(model.text_file(), "blk.29.attn_v.weight") == WeightFormat::kQ8_0);
  CHECK(format_of(model.text_file(), "blk.29.ffn_down.weight") == WeightFormat::kQ6_K);
  CHECK(format_of(model.text_file(), "output_norm.weight") == WeightFormat::kF32);
  CHECK(format_of(model.vision_file(), "v.patch_embd.weight") == WeightFormat::kF32);
  CHECK(format_of(model.vision_file(), "v.position_embd.weight") == WeightFormat::kF32);
  CHECK(format_of(model.vision_file(), "v.blk.0.attn_q.weight") == WeightFormat::kQ8_0);
  CHECK(format_of(model.vision_file(), "v.blk.0.attn_q.bias") == WeightFormat::kF32);
  int64_t bytes = 0, of_q5_0 = 0;
  for (const GgufTensor& tensor : model.text_file().tensors()) {
    bytes += tensor.bytes;
    of_q5_0 += tensor.format == WeightFormat::kQ5_0 ? tensor.bytes : 0;
  }
  CHECK(static_cast<double>(of_q5_0) / static_cast<double>(bytes) > 0.5);
  Model pure;
  REQUIRE(pure.open_shape("SmolVLM-256M", "q4_k-pure").ok());
  CHECK(format_of(pure.text_file(), "blk.29.ffn_down.weight") == WeightFormat::kQ4_K);
  CHECK(format_of(pure.text_file(), "output.weight") == WeightFormat::kQ5_0);
  CHECK(format_of(pure.vision_file(), "v.blk.0.attn_q.weight") == WeightFormat::kQ4_K);
}

TEST_CASE("Names are found in any case; an unknown one gets the nearest") {
  const ModelShape* shape = nullptr;
  REQUIRE(find_model_shape("smolvlm2-2.2b", &shape).ok());
  CHECK(std::string(shape->name) == "SmolVLM2-2.2B");
  const auto sentence_of = [&](const std::string& wrong) -> std::string {
    CHECK(find_model_shape(wrong.c_str(), &shape).code() == Code::kBadArgument);
    return last_failure().sentence;
  };
  const std::string begin = "no such shape: choose one that `ocellus models` lists, such as ";
  for (const Published& published : kPublished)
    CHECK(sentence_of(published.name + std::string("x")) == begin + published.name);
  CHECK(sentence_of("lfm2") == begin + "LFM2-VL-3B, LFM2.5-VL-450M, LFM2.5-VL-1.6B, LFM2.5-VL-3B");
  for (const std::string& wrong : {std::string("SmolVLM"), std::string(), std::string(10000, 'x')})
    CHECK(sentence_of(wrong).find(begin + "SmolVLM-256M, SmolVLM-500M") == 0);
  ocellus_model* handle = nullptr;
  CHECK(ocellus_model_open_shape(nullptr, "F16", 0, &handle) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_model_open_shape("SmolVLM-256M", nullptr, 0, &handle) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_model_open_shape("SmolVLM-256M", "Q8", 0, &handle) == OCELLUS_BAD_ARGUMENT);
  CHECK(handle == nullptr);
  REQUIRE(ocellus_model_open_shape("smolvlm-256m", "f16", 0, &handle) == OCELLUS_OK);
  ocellus_model_close(handle);
}

TEST_CASE("Made-up vocabularies read any text, know the special tokens and can print every id") {
  for (const Published& published : kPublished) {
    CAPTURE(published.name);
    Model model;
    REQUIRE(model.open_shape(published.name, "F16").ok());
    int64_t count = 0;
    REQUIRE(model
                .count_tokens("\x01"
                              "A caf\xC3\xA9 \xF0\x9F\x98\x80\n\n",
                              false, &count)
                .ok());
    CHECK(count == 14);  // one per byte, two line breaks in one
    const bool is_llava = model.has_vision() && std::string(model.vision().family->projector) == "mlp";
    REQUIRE(model.count_tokens(is_llava ? "<s></s>" : "<|im_start|><|im_end|>", true, &count).ok());
    CHECK(count == 2);
    if (is_llava) CHECK(model.delimiter_tokens({}) == 1);  // the line break after a picture
    if (!model.has_vision() || model.vision().family != &find_family("SmolVLM").vision) continue;
    REQUIRE(
        model.count_tokens("<fake_token_around_image><row_4_col_4><global-img><end_of_utterance>", true, &count).ok());
    CHECK(count == 4);
    CHECK(model.delimiter_tokens({.tiles = 16, .tile_rows = 4}) == 16 * 2 + 3 + 4);
  }
  Model model;
  open(model, test::small_shape(), WeightFormat::kF16);
  ocellus_limits limits = cpu_limits(0, 64);
  const std::unique_ptr<Engine> engine = test::make_engine(model, limits);
  for (TokenId id = 0; id < model.text().vocabulary; ++id) {
    CAPTURE(id);
    CHECK(!engine->tokenizer().piece(id, true).empty());
  }
  CHECK(engine->tokenizer().piece(339, false) == " w339");
}

TEST_CASE("Memory can be planned for every shape" * doctest::test_suite("long")) {
  for (const Published& published : kPublished) {
    CAPTURE(published.name);
    Model model;
    REQUIRE(model.open_shape(published.name, "Q4_K").ok());
    ocellus_plan plan;
    const ocellus_limits limits = cpu_limits(model.has_vision() ? 1 : 0, 512);
    REQUIRE_MESSAGE(plan_memory(model, limits, &plan).ok(), last_failure().sentence);
    const int64_t tensor_bytes = model.text_file().data_bytes() + model.vision_file().data_bytes();
    CHECK(plan.weights_bytes >= tensor_bytes);
    CHECK(plan.weights_bytes < tensor_bytes + (64 << 20));  // and the tokenizer's tables
    const TextConfig& text = model.text();
    CHECK(plan.kv_bytes_per_token == text.global_layers() * int64_t{text.kv_heads} * text.head_dim * 2 * 2);
  }
}

namespace {

void check_weight_sizes(const GgufFile& file, Queue& queue) {
  test::Vector<std::byte> memory(static_cast<size_t>(file.data_bytes()));
  LoadProgress progress;
  REQUIRE_MESSAGE(fill_random_weights(file, kRandomWeightsSeed, {.data = memory.data()}, queue, progress).ok(),
                  last_failure().sentence);
  const auto* base = reinterpret_cast<const uint8_t*>(memory.data());
  for (const GgufTensor& tensor : file.tensors()) {
    CAPTURE(tensor.name);
    std::vector<float> values(static_cast<size_t>(tensor.rows() * tensor.cols()));
    decode_row(tensor.format, base + tensor.offset, tensor.rows() * tensor.cols(), values.data());
    double squares = 0;
    for (const float value : values) squares += double{value} * double{value};
    const double size = std::sqrt(squares / static_cast<double>(values.size()));
    CHECK((size > 0.005 && size < 1.001));
  }
}

}  // namespace

TEST_CASE("Made-up weights fill every tensor with numbers of a sensible size") {
  for (int i = 0; i < kWeightFormatCount; ++i) {
    CAPTURE(format_info(static_cast<WeightFormat>(i)).name);
    for (const ModelShape& shape : {test::small_shape(), test::small_llava_shape()}) {
      Model model;
      open(model, shape, static_cast<WeightFormat>(i));
      test::for_each_backend([&](Queue& queue) {
        for (const GgufFile* file : {&model.text_file(), &model.vision_file()}) check_weight_sizes(*file, queue);
      });
    }
  }
}

TEST_CASE("An engine runs on made-up weights, with text and pictures, and says the same every time") {
  for (const ModelShape& shape :
       {test::small_shape(), test::small_shape("qwen2"), test::small_shape("qwen3"), test::small_shape("qwen3vl"),
        test::small_shape("internlm2"), test::small_llava_shape(), test::small_qwen_shape("Qwen2-VL-2B"),
        test::small_qwen_shape("Qwen2.5-VL-3B"), test::small_qwen_shape("Qwen3-VL-2B"),
        test::small_qwen_shape("Cosmos3-Edge")}) {
    for (const WeightFormat format : kFormats) {
      CAPTURE(format_info(format).name);
      CAPTURE(template_of(shape));
      Model model;
      open(model, shape, format);
      std::string answers[2];
      for (std::string& answer : answers) {
        const std::unique_ptr<Engine> engine = test::make_engine(model, cpu_limits(1, 512));
        Session& session = test::open_session(*engine);
        const Status added = test::add_turn(session, "<image>What is this?", {"images/113.png"});
        REQUIRE_MESSAGE(added.ok(), last_failure().sentence);
        const std::vector<float> logits = test::first_logits(session);
        double squares = 0;
        for (const float logit : logits) squares += double{logit} * double{logit};
        const double size = std::sqrt(squares / static_cast<double>(logits.size()));
        CHECK((size > 0.3 && size < 3.0));  // neither flat nor blown up; NaN fails too
        ocellus_generate_params params = test::default_params(8);
        params.ignore_end = 1;
        const test::Answer said = test::answer_of(session, params);
        REQUIRE_MESSAGE(said.status.ok(), last_failure().sentence);
        CHECK(said.stats.generated_tokens == 8);
        answer = said.text;
      }
      CHECK(answers[0] == answers[1]);
    }
  }
}

namespace {

/// A file in memory that takes at most `room` bytes.
class MemorySink : public ByteSink {
 public:
  explicit MemorySink(size_t room = SIZE_MAX) : room_(room) {}
  Status take(const void* data, int64_t count) override {
    if (bytes.size() + static_cast<size_t>(count) > room_) return OCELLUS_FAIL(Code::kIo, "the memory is full");
    test::append_bytes(bytes, data, static_cast<size_t>(count));
    return {};
  }
  test::Bytes bytes;

 private:
  size_t room_;
};

test::Bytes written(const GgufFile& header, uint64_t seed) {
  MemorySink sink;
  REQUIRE_MESSAGE(write_random_file(header, seed, sink).ok(), last_failure().sentence);
  return sink.bytes;
}

/// The bytes as a file that goes when the object does.
class WrittenFile {
 public:
  explicit WrittenFile(const test::Bytes& bytes) : file_(test::GgufBuilder()) {
    std::ofstream(file_.path(), std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  const char* path() const { return file_.c_str(); }

 private:
  test::TemporaryFile file_;
};

void check_equal_tensors(const GgufFile& made_up, const test::Bytes& file, Queue& queue) {
  GgufFile parsed;
  REQUIRE_MESSAGE(parsed.parse(file.data(), static_cast<int64_t>(file.size())).ok(), last_failure().sentence);
  CHECK(parsed.data_bytes() == made_up.data_bytes());
  CHECK(static_cast<int64_t>(file.size()) % kDefaultGgufAlignment == 0);
  test::Vector<std::byte> memory(static_cast<size_t>(made_up.data_bytes()));
  LoadProgress progress;
  REQUIRE(fill_random_weights(made_up, kRandomWeightsSeed, {.data = memory.data()}, queue, progress).ok());
  REQUIRE(parsed.tensors().size() == made_up.tensors().size());
  for (const GgufTensor& tensor : parsed.tensors()) {
    CAPTURE(tensor.name);
    CHECK(std::memcmp(memory.data() + tensor.offset, file.data() + parsed.data_offset() + tensor.offset,
                      static_cast<size_t>(tensor.bytes)) == 0);
  }
}

}  // namespace

TEST_CASE("A file written with the engine's seed holds the weights that the engine makes up, in every format") {
  for (int i = 0; i < kWeightFormatCount; ++i) {
    CAPTURE(format_info(static_cast<WeightFormat>(i)).name);
    for (const ModelShape& shape : {test::small_shape(), test::small_llava_shape()}) {
      Model model;
      open(model, shape, static_cast<WeightFormat>(i));
      test::for_each_backend([&](Queue& queue) {
        for (const GgufFile* file : {&model.text_file(), &model.vision_file()})
          check_equal_tensors(*file, written(*file, kRandomWeightsSeed), queue);
      });
    }
  }
}

TEST_CASE("A written pair has the facts, the plan and the answer of the made-up model") {
  for (const ModelShape& shape :
       {test::small_shape(), test::small_shape("qwen2"), test::small_shape("qwen3"), test::small_shape("qwen3vl"),
        test::small_shape("internlm2"), test::small_llava_shape(), test::small_qwen_shape("Cosmos3-Edge"),
        test::small_qwen_shape("PaddleOCR-VL-1.5")}) {
    CAPTURE(shape.text.architecture->name);
    Model made_up, opened;
    open(made_up, shape, WeightFormat::kQ8_0);
    const WrittenFile text(written(made_up.text_file(), kRandomWeightsSeed));
    const WrittenFile vision(written(made_up.vision_file(), kRandomWeightsSeed));
    REQUIRE_MESSAGE(opened.open(text.path(), vision.path()).ok(), last_failure().sentence);
    ocellus_model_facts facts[2];
    made_up.describe(&facts[0]);
    opened.describe(&facts[1]);
    CHECK(std::memcmp(&facts[0], &facts[1], sizeof facts[0]) == 0);
    int64_t plan_bytes[2] = {};
    test::Answer answers[2];
    for (int i = 0; i < 2; ++i) {
      const std::unique_ptr<Engine> engine = test::make_engine(i == 0 ? made_up : opened, cpu_limits(1, 512));
      plan_bytes[i] = engine->arena().capacity_bytes();
      Session& session = test::open_session(*engine);
      REQUIRE(test::add_turn(session, "<image>What is this?", {"images/113.png"}).ok());
      ocellus_generate_params params = test::default_params(8);
      params.ignore_end = 1;
      answers[i] = test::answer_of(session, params);
      REQUIRE_MESSAGE(answers[i].status.ok(), last_failure().sentence);
    }
    CHECK(plan_bytes[0] == plan_bytes[1]);
    test::check_equal(answers[0], answers[1]);
  }
}

TEST_CASE("Another seed gives other weights under the same header, and the same bytes every time") {
  Model model;
  open(model, test::small_shape(), WeightFormat::kQ4_K);
  const GgufFile& file = model.text_file();
  const test::Bytes first = written(file, kRandomWeightsSeed);
  for (const uint64_t seed : {uint64_t{0}, uint64_t{2}, uint64_t{1} << 63, ~uint64_t{0}}) {
    CAPTURE(seed);
    const test::Bytes other = written(file, seed);
    CHECK(other == written(file, seed));
    REQUIRE(other.size() == first.size());
    CHECK(std::equal(first.begin(), first.begin() + file.data_offset(), other.begin()));
    const GgufTensor* embedding = file.find_tensor("token_embd.weight");
    const auto begin = file.data_offset() + embedding->offset;
    CHECK(!std::equal(first.begin() + begin, first.begin() + begin + embedding->bytes, other.begin() + begin));
  }
}

TEST_CASE("A file that its sink does not take ends with the sink's sentence") {
  Model model;
  open(model, test::small_shape(), WeightFormat::kF16);
  for (const int64_t room : {int64_t{0}, model.text_file().data_offset(), model.text_file().data_offset() + 70000}) {
    MemorySink sink(static_cast<size_t>(room));
    CHECK(write_random_file(model.text_file(), kRandomWeightsSeed, sink).code() == Code::kIo);
    CHECK(std::string(last_failure().sentence) == "the memory is full");
  }
}

TEST_CASE("A shape can have fewer layers than the public model, and no more") {
  Model one, all, text;
  REQUIRE_MESSAGE(one.open_shape("smolvlm-256m", "Q8_0", 1).ok(), last_failure().sentence);
  REQUIRE(all.open_shape("smolvlm-256m", "Q8_0", 30).ok());
  CHECK(one.text().layer_count == 1);
  CHECK(one.vision().layer_count == 1);
  CHECK(one.text().width == 576);
  CHECK(all.text().layer_count == 30);
  CHECK(all.vision().layer_count == 12);
  REQUIRE(text.open_shape("qwen2.5-0.5b", "F16", 2).ok());
  CHECK(text.text().layer_count == 2);
  CHECK(!text.has_vision());
  for (const int32_t layers : {-1, 31}) {
    CHECK(all.open_shape("smolvlm-256m", "Q8_0", layers).code() == Code::kBadArgument);
    CHECK(std::string(last_failure().sentence) ==
          "SmolVLM-256M cannot have " + std::to_string(layers) + " layers: choose 1 to 30");
  }
}

}  // namespace
}  // namespace ocellus
