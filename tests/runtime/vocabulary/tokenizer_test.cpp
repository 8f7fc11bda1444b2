#include <doctest/doctest.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/gguf_builder.h"
#include "tests/support/random.h"
#include "tests/support/tokenizer_loader.h"

namespace ocellus {
namespace {

using test::LoadedTokenizer;
using Ids = std::vector<TokenId>;

const std::string kData = OCELLUS_SOURCE_DIR "/tests/data/";
const std::string kBundledModel = OCELLUS_SOURCE_DIR "/apps/models/shapeboard-34m-q8_0.gguf";

nlohmann::json read_json(const std::string& path) {
  std::ifstream in(path);
  REQUIRE_MESSAGE(in.good(), path);
  return nlohmann::json::parse(in);
}

std::string vocabulary_path(const std::string& name) {
  return name == "shapeboard" ? kBundledModel : kData + "tokenizers/" + name + ".gguf";
}

void open_vocabulary(const std::string& name, LoadedTokenizer* out) {
  const Status status = out->open(vocabulary_path(name));
  REQUIRE_MESSAGE(status.ok(), name, ": ", last_failure().sentence);
}

const std::string kVocabularies[] = {"shapeboard", "gpt-2",  "smollm", "qwen2",
                                     "llama-bpe",  "tekken", "llama",  "gemma4"};

TEST_CASE("ids equal those of the reference libraries") {
  for (const std::string& name : kVocabularies) {
    CAPTURE(name);
    LoadedTokenizer loaded;
    open_vocabulary(name, &loaded);
    const auto cases = read_json(kData + "tokenizers/" + name + ".json");
    REQUIRE(cases.size() > 100);
    for (const auto& expected : cases) {
      const auto text = expected[0].get<std::string>();
      CAPTURE(text);
      CHECK(loaded.encode(text, true) == expected[1].get<Ids>());
      CHECK(loaded.encode(text, false) == expected.back().get<Ids>());
    }
  }
}

// As the prompt of the bundled model is put together: each text on its own, contents without specials.
Ids encode_prompt(const LoadedTokenizer& loaded, const std::string& prompt, int64_t rows_per_image) {
  Ids ids = loaded.encode("<|im_start|>User: ", true);
  const auto add = [&](const Ids& more) { ids.insert(ids.end(), more.begin(), more.end()); };
  for (size_t at = 0;;) {
    const size_t image = prompt.find("<image>", at);
    add(loaded.encode(prompt.substr(at, image - at), false));
    if (image == std::string::npos) break;
    add(loaded.encode("\n\n<fake_token_around_image><global-img>", true));
    add(Ids(static_cast<size_t>(rows_per_image), loaded.tokenizer.find("<image>")));
    add(loaded.encode("<fake_token_around_image>", true));
    at = image + 7;
  }
  add(loaded.encode("<end_of_utterance>\nAssistant:", true));
  return ids;
}

TEST_CASE("prompts of the bundled model equal the recorded ones") {
  LoadedTokenizer loaded;
  open_vocabulary("shapeboard", &loaded);
  const auto goldens = read_json(kData + "shapeboard/goldens.json");
  REQUIRE(goldens.size() == 14);
  for (const auto& golden : goldens) {
    CHECK(encode_prompt(loaded, golden["prompt"].get<std::string>(), 64) == golden["prompt_ids"].get<Ids>());
    const auto generated = golden["generated_ids"].get<Ids>();
    CHECK(loaded.decode(generated, false) == ' ' + golden["text"].get<std::string>());
    CHECK(loaded.tokenizer.is_end_of_generation(generated.back()));
  }
}

TEST_CASE("the plan is what gets built, row by row") {
  for (const std::string& name : kVocabularies) {
    CAPTURE(name);
    LoadedTokenizer loaded;
    open_vocabulary(name, &loaded);
    REQUIRE(loaded.plan.rows.size() == loaded.memory.rows.size());
    CHECK(loaded.plan.rows.size() >= 7);
    for (size_t i = 0; i < loaded.plan.rows.size(); ++i) {
      CHECK(std::string(loaded.plan.rows[i].name) == loaded.memory.rows[i].name);
      CHECK(loaded.plan.rows[i].bytes == loaded.memory.rows[i].bytes);
      CHECK(loaded.plan.rows[i].lifetime == Lifetime::kWeights);
    }
  }
}

TEST_CASE("facts and single tokens of the bundled vocabulary") {
  LoadedTokenizer loaded;
  open_vocabulary("shapeboard", &loaded);
  const Tokenizer& tokenizer = loaded.tokenizer;
  CHECK(tokenizer.facts().pre_tokenizer == PreTokenizer::kSmollm);
  CHECK(tokenizer.token_count() == 1024);
  CHECK(tokenizer.facts().merge_count == 284);
  CHECK(tokenizer.facts().bos == 1);
  CHECK(tokenizer.facts().eos == 6);
  CHECK(tokenizer.facts().padding == 2);
  CHECK(tokenizer.facts().unknown == kNoToken);
  CHECK_FALSE(tokenizer.facts().add_bos);
  CHECK(tokenizer.find("<image>") == 3);
  CHECK(tokenizer.find("\n\n") == 283);
  CHECK(tokenizer.find("no such token") == kNoToken);
  CHECK(tokenizer.piece(3, false).empty());
  CHECK(tokenizer.piece(3, true) == "<image>");
  CHECK(tokenizer.piece(297, false) == " A");
  CHECK(tokenizer.piece(-1, true).empty());
  CHECK(tokenizer.piece(1024, true).empty());
  CHECK(tokenizer.is_end_of_generation(0));  // <|endoftext|>
  CHECK(tokenizer.is_end_of_generation(2));  // <|im_end|>
  CHECK(tokenizer.is_end_of_generation(6));  // <end_of_utterance>
  CHECK_FALSE(tokenizer.is_end_of_generation(3));
  CHECK_FALSE(tokenizer.is_end_of_generation(-1));
  CHECK_FALSE(tokenizer.is_end_of_generation(1024));
}

void parse(const test::GgufBuilder& file, LoadedTokenizer* out) {
  test::ExactBytes bytes(file.build());
  const Status status = out->parse(bytes.data(), bytes.size());
  REQUIRE_MESSAGE(status.ok(), last_failure().sentence);
}

TEST_CASE("without a space prefix none is added, neither at the start of a text nor after a special token") {
  GgufFile good;
  REQUIRE(good.open(vocabulary_path("llama").c_str()).ok());
  test::GgufBuilder file(good);
  file.add_bool("tokenizer.ggml.add_space_prefix", false);
  LoadedTokenizer spaced, plain;
  open_vocabulary("llama", &spaced);
  parse(file, &plain);
  for (const std::string text : {"hello", " hello", "over the lazy dog", "\xe6\x95\x8f"}) {
    CAPTURE(text);
    const Ids alone = spaced.encode(text, true, true);
    REQUIRE(spaced.encode(text, true) != alone);
    CHECK(plain.encode(text, true) == alone);
    CHECK(plain.encode(text, true, true) == alone);
    Ids between = alone;
    between.insert(between.begin(), plain.tokenizer.find("<|im_end|>"));
    between.push_back(plain.tokenizer.find("<image>"));
    CHECK(plain.encode("<|im_end|>" + text + "<image>", true) == between);
    CHECK(plain.decode(between, true) == "<|im_end|>" + text + "<image>");
  }
}

TEST_CASE("what internlm2 files spell as a dragon is the byte 0, and answers end where the key says") {
  const std::string dragon = "\xf0\x9f\x90\x89", nul(1, '\0');
  for (const std::string architecture : {"internlm2", "llama"}) {
    CAPTURE(architecture);
    test::GgufBuilder file;
    file.add_string("general.architecture", architecture);
    file.add_string("tokenizer.ggml.model", "llama");
    file.add_string("tokenizer.ggml.pre", "default");
    file.add_string_array("tokenizer.ggml.tokens",
                          {"<unk>", "<s>", "</s>", dragon, "a", "<|im_end|>", "[UNUSED_TOKEN_6]", "<img>"});
    file.add_i32_array("tokenizer.ggml.token_type", {2, 3, 3, 1, 1, 3, 5, 4});
    file.add_f32_array("tokenizer.ggml.scores", {0, 0, 0, -1, -2, 0, 0, 0});
    file.add_bool("tokenizer.ggml.add_space_prefix", false);
    file.add_u32("tokenizer.ggml.eos_token_id", 5);
    LoadedTokenizer loaded;
    parse(file, &loaded);
    const bool is_nul = architecture == "internlm2";
    CHECK(loaded.tokenizer.piece(3, false) == (is_nul ? nul : dragon));
    CHECK(loaded.encode("a" + nul + "a", true) == Ids{4, is_nul ? 3 : 0, 4});
    CHECK(loaded.encode("a" + dragon + "a", true) == Ids{4, is_nul ? 0 : 3, 4});
    CHECK(loaded.encode("<s>a<img>a<|im_end|>", true) == Ids{1, 4, 7, 4, 5});
    CHECK(loaded.tokenizer.facts().eos == 5);
    CHECK(loaded.tokenizer.facts().start_token() == 1);
    CHECK(loaded.tokenizer.is_end_of_generation(5));
    CHECK(loaded.tokenizer.piece(6, false).empty());
  }
}

TEST_CASE("marks around Gemma 4's tools are text, whatever their kind, and the one before a result ends an answer") {
  for (const int32_t kind : {3, 4}) {  // control, and user-defined as llama.cpp's converter has it
    test::GgufBuilder file;
    file.add_string("tokenizer.ggml.model", "gemma4");
    file.add_string_array("tokenizer.ggml.tokens", {"a", "b", "<|tool>", "<|tool_call>", "<|\"|>", "<|tool_response>",
                                                    "<|turn>", "<turn|>", "ab"});
    file.add_i32_array("tokenizer.ggml.token_type", {1, 1, kind, kind, kind, kind, 3, 3, 1});
    file.add_string_array("tokenizer.ggml.merges", {"a b"});
    LoadedTokenizer loaded;
    parse(file, &loaded);
    const std::string text = "<|tool>a<|tool_call><|\"|>b<|\"|>";
    CHECK(loaded.encode(text, false) == Ids{2, 0, 3, 4, 1, 4});
    CHECK(loaded.decode({2, 0, 3, 4, 1, 4, 6}, false) == text);
    CHECK(loaded.tokenizer.is_end_of_generation(5));
    CHECK(loaded.tokenizer.is_end_of_generation(7));
    CHECK_FALSE(loaded.tokenizer.is_end_of_generation(3));
  }
}

TEST_CASE("a text that is any bytes comes back unchanged") {
  test::Random random(7);
  for (const std::string& name : kVocabularies) {
    CAPTURE(name);
    LoadedTokenizer loaded;
    open_vocabulary(name, &loaded);
    const bool spaced = loaded.tokenizer.facts().add_space_prefix;
    for (int i = 0; i < 300; ++i) {
      const auto bytes = random.bytes(random.integer(1, 60));
      std::string text(bytes.begin(), bytes.end());
      if (i % 3 == 0) text += "\xe4\xb8";  // an incomplete character at the end
      const std::string expected = spaced ? " " + text : text;
      CHECK(loaded.decode(loaded.encode(text, false), false) == expected);
      CHECK(loaded.decode(loaded.encode(text, false, true), false) == text);
    }
  }
}

TEST_CASE("long runs take time in proportion") {
  for (const std::string& name : kVocabularies) {
    LoadedTokenizer loaded;
    open_vocabulary(name, &loaded);
    for (const std::string unit : {"a", " ", "\n", "!", "1", "<", "'", "@", "\xc3\xa9", "\xff", " \n", "an", "<tool"}) {
      CAPTURE(name);
      CAPTURE(unit);
      std::string text;
      while (text.size() < 100000) text += unit;
      const auto start = std::chrono::steady_clock::now();
      const Ids ids = loaded.encode(text, true);
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
      const std::string shown = loaded.decode(ids, true);
      const bool same = shown == text || (loaded.tokenizer.facts().add_space_prefix && shown == " " + text);
      CHECK(same);
      CHECK(taken.count() < 5.0);  // a quadratic loop takes minutes
    }
  }
}

TEST_CASE("encode stays inside what it is given") {
  LoadedTokenizer loaded;
  open_vocabulary("llama", &loaded);
  const std::string text = "A large green star<|im_end|> at the top";
  const auto text_bytes = static_cast<int64_t>(text.size());
  const int64_t needed = Tokenizer::workspace_bytes(text_bytes);
  const Ids all = loaded.encode(text, true);
  REQUIRE(all.size() > 5);
  for (int64_t offset = 0; offset < 8; ++offset) {  // any alignment, exactly the promised size
    std::vector<std::byte> block(static_cast<size_t>(needed + offset));
    Ids ids(all.size());
    int64_t count = 0;
    CHECK(loaded.tokenizer
              .encode(text, true, block.data() + offset, needed, ids.data(), static_cast<int64_t>(ids.size()), &count)
              .ok());
    CHECK(ids == all);
    CHECK(
        loaded.tokenizer
            .encode(text, true, block.data() + offset, needed - 1, ids.data(), static_cast<int64_t>(ids.size()), &count)
            .code() == Code::kFull);
  }
  std::vector<std::byte> workspace(static_cast<size_t>(needed));
  for (size_t capacity = 0; capacity < all.size(); ++capacity) {
    Ids ids(capacity + 1, -7);
    int64_t count = -1;
    CHECK(loaded.tokenizer
              .encode(text, true, workspace.data(), needed, ids.data(), static_cast<int64_t>(capacity), &count)
              .code() == Code::kFull);
    CHECK(count == static_cast<int64_t>(capacity));
    CHECK(ids.back() == -7);
  }
  int64_t count = -1;
  CHECK(loaded.tokenizer.encode({}, true, nullptr, Tokenizer::workspace_bytes(0), nullptr, 0, &count).ok());
  CHECK(count == 0);
}

TEST_CASE("pieces of a stream join to whole characters") {
  const std::string text = "A\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80z";
  for (size_t step = 1; step <= text.size(); ++step) {
    Utf8Stream stream;
    std::string joined;
    for (size_t at = 0; at < text.size(); at += step) {
      const std::string shown(stream.push(std::string_view(text).substr(at, step)));
      CHECK(nlohmann::json(shown).dump().size() >= 2);  // throws unless it is valid UTF-8
      joined += shown;
    }
    CHECK(joined == text);
    CHECK(stream.finish().empty());
  }
  const std::string mark = "\xef\xbf\xbd";
  Utf8Stream stream;
  CHECK(stream.push("a\xff"
                    "b") == "a" + mark + "b");
  CHECK(stream.push("\xe4\xb8") == "");
  CHECK(stream.push("x") == mark + "x");
  CHECK(stream.push("\xed\xa0\x80") == mark + mark + mark);  // a surrogate
  CHECK(stream.push("\xf0\x9f") == "");
  CHECK(stream.finish() == mark);
  CHECK(stream.finish() == "");
  CHECK(stream.push(std::string(5000, '\xff')).size() == 3 * static_cast<size_t>(kMaxTokenBytes));
}

}  // namespace
}  // namespace ocellus
