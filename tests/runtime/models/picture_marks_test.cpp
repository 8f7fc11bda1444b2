// Pairs whose vocabulary lacks a token that the family writes around pictures: they are refused when they are opened.
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "runtime/models/model.h"
#include "tests/support/family_goldens.h"
#include "tests/support/temporary_file.h"

namespace ocellus {
namespace {

/// Another letter in a token of a vocabulary.
void rename_token(const std::string& path, const std::string& token) {
  std::ifstream in(path, std::ios::binary);
  const std::string file{std::istreambuf_iterator<char>(in), {}};
  test::Bytes stored;
  test::append_string(stored, token);
  const size_t at = file.find(std::string(stored.begin(), stored.end()));
  REQUIRE(at != std::string::npos);
  std::fstream out(path, std::ios::binary | std::ios::in | std::ios::out);
  out.seekp(static_cast<std::streamoff>(at + stored.size() - 2));
  out.put('~');
}

struct Mark {
  const char* folder;
  const char* family;
  const char* token;
};

}  // namespace

TEST_CASE("a vocabulary without a token that stands around the family's pictures is refused with both their names") {
  for (const auto& [folder, family, token] : {Mark{"smolvlm", "SmolVLM", "<fake_token_around_image>"},
                                              {"smolvlm", "SmolVLM", "<global-img>"},
                                              {"smolvlm", "SmolVLM", "<row_1_col_1>"},
                                              {"smolvlm", "SmolVLM", "<row_3_col_2>"},
                                              {"internvl3", "InternVL", "<img>"},
                                              {"internvl3", "InternVL", "</img>"},
                                              {"internvl2.5", "InternVL", "</img>"}}) {
    const test::ModelPair pair = test::family_pair(folder);
    const test::TemporaryFile text(pair.model);
    rename_token(text.path(), token);
    ocellus_model* model = nullptr;
    CHECK(ocellus_model_open(text.c_str(), pair.mmproj.c_str(), &model) == OCELLUS_BAD_FILE);
    CHECK(model == nullptr);
    const std::string expected = text.path() + ": tokenizer.ggml.tokens has no '" + token + "', which " + family +
                                 " writes around pictures: the two files are not a pair";
    CHECK(ocellus_last_error()->sentence == expected);
    CHECK(ocellus_model_open(text.c_str(), nullptr, &model) == OCELLUS_OK);  // it is a good language model
    ocellus_model_close(model);
  }
}

TEST_CASE("the halves of pairs of different families are refused where their widths agree") {
  const test::ModelPair smolvlm = test::family_pair("smolvlm");
  const test::ModelPair internvl = test::family_pair("internvl3");
  const test::ModelPair llava = test::family_pair("llava-1.5");
  Model model;
  CHECK(model.open(internvl.model.c_str(), smolvlm.mmproj.c_str()).code() == Code::kBadFile);
  CHECK(!model.has_vision());
  Model other;
  CHECK(other.open(smolvlm.model.c_str(), internvl.mmproj.c_str()).code() == Code::kBadFile);
  // LLaVA writes nothing around pictures, so that any language model can be its other half.
  Model plain;
  CHECK_MESSAGE(plain.open(internvl.model.c_str(), llava.mmproj.c_str()).ok(), last_failure().sentence);
}

TEST_CASE("pairs whose vocabulary has the tokens around their family's pictures open") {
  for (const char* folder : {"smolvlm", "smolvlm2-video", "llava-1.5", "llava-1.6-vicuna", "llava-1.6-mistral",
                             "internvl2.5", "internvl3", "internvl3.5", "internvl-6b"}) {
    CAPTURE(folder);
    const test::ModelPair pair = test::family_pair(folder);
    Model model;
    CHECK_MESSAGE(model.open(pair.model.c_str(), pair.mmproj.c_str()).ok(), last_failure().sentence);
  }
  Model bundled;
  const test::ModelPair& pair = test::bundled_pair();
  CHECK_MESSAGE(bundled.open(pair.model.c_str(), pair.mmproj.c_str()).ok(), last_failure().sentence);
}

}  // namespace ocellus
