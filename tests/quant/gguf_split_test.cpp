// Models split into several files: they read as the whole one does, and what does not belong together is refused.
#include <doctest/doctest.h>

#include <filesystem>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "quant/gguf.h"
#include "tests/support/small_gguf.h"
#include "tests/support/split_model.h"
#include "tests/support/temporary_file.h"

using namespace ocellus;
using namespace ocellus::test;

namespace {

/// Six tensors of different sizes and formats, no two bytes alike nearby, most of them followed by padding.
GgufBuilder whole_model() {
  GgufBuilder file = small_gguf();
  file.add_tensor("blk.0.a", {5}, {1, 2, 3, 4, 5});
  file.add_tensor("blk.0.b", {3, 7}, std::vector<float>(21, 0.5f));
  file.add_tensor("blk.1.a", WeightFormat::kQ4_0, {64, 3});
  file.add_tensor("blk.1.b", {1}, {42});
  uint8_t next = 1;
  for (GgufBuilder::Tensor& tensor : file.tensors)
    for (uint8_t& byte : tensor.data) byte = next = static_cast<uint8_t>(next * 5 + 1);
  return file;
}

/// Tensors in parts of 2, 1 and 3.
std::vector<GgufBuilder> three_parts() { return split_parts(whole_model(), {2, 1, 3}); }

/// All bytes of the tensor section, `step` at a time.
Bytes read_all(const GgufFile& file, int64_t step) {
  Bytes all(static_cast<size_t>(file.data_bytes()), 0xEE);
  for (int64_t at = 0; at < file.data_bytes(); at += step)
    REQUIRE_MESSAGE(file.read_data(at, all.data() + at, std::min(step, file.data_bytes() - at)).ok(),
                    last_failure().sentence);
  return all;
}

void check_equal(const GgufFile& file, const GgufFile& expected) {
  REQUIRE(file.tensors().size() == expected.tensors().size());
  CHECK(file.data_bytes() == expected.data_bytes());
  for (int64_t i = 0; i < file.tensors().size(); ++i) {
    const GgufTensor &tensor = file.tensors()[i], &other = expected.tensors()[i];
    CHECK(tensor.name == other.name);
    CHECK(tensor.offset == other.offset);
    CHECK(tensor.bytes == other.bytes);
    CHECK(file.find_tensor(other.name) == &tensor);
  }
  walk(file);
  for (const int64_t step : {int64_t{1}, int64_t{7}, int64_t{100}, file.data_bytes()})
    CHECK(read_all(file, step) == read_all(expected, file.data_bytes()));
}

using Parts = std::vector<GgufBuilder>;

/// Changes the parts of a sound model and says what its opening must fail with.
void check_refused(const std::function<void(Parts&)>& change, const std::string& sentence, size_t part,
                   Code code = Code::kBadFile) {
  CAPTURE(sentence);
  Parts parts = three_parts();
  change(parts);
  const SplitModel model(parts, 3);
  GgufFile file;
  CHECK(file.open(model.path().c_str()).code() == code);
  const std::string said = last_failure().sentence;
  CHECK_MESSAGE(said.find(sentence) != std::string::npos, said);
  CHECK_MESSAGE(said.find(model.name(part)) != std::string::npos, said);
  CHECK(!file.file().is_open());
  CHECK(file.tensors().empty());
  CHECK(file.part_count() == 1);
}

void set_u16(GgufBuilder& file, const char* key, uint16_t value) {
  file.remove(key);
  file.add_u16(key, value);
}

}  // namespace

TEST_CASE("a split model reads as the whole one, wherever the tensors are cut apart") {
  const TemporaryFile whole(whole_model());
  GgufFile expected;
  REQUIRE(expected.open(whole.c_str()).ok());
  using Counts = std::vector<size_t>;
  for (const Counts& counts : {Counts{6}, Counts{2, 1, 3}, Counts{0, 6}, Counts{6, 0}, Counts{1, 1, 1, 1, 1, 1},
                               Counts{0, 3, 0, 0, 2, 1, 0}}) {
    CAPTURE(counts.size());
    const SplitModel model(split_parts(whole_model(), counts));
    GgufFile opened;
    REQUIRE_MESSAGE(opened.open(model.path().c_str()).ok(), last_failure().sentence);
    CHECK(opened.part_count() == static_cast<int32_t>(counts.size()));
    CHECK(opened.path() == model.path());
    int64_t layers = 0;
    CHECK((opened.require_int("llama.block_count", 1, 9, &layers).ok() && layers == 2));
    check_equal(opened, expected);
    const GgufFile moved = std::move(opened);
    check_equal(moved, expected);
    for (int32_t i = 0; i < moved.part_count(); ++i) {
      CHECK(moved.part(i).path() == model.path(static_cast<size_t>(i)));
      CHECK(moved.part(i).file().is_open());
    }
  }
}

TEST_CASE("every part starts at its own alignment and the first one's") {
  GgufBuilder whole;
  whole.add_alignment(128);
  for (const char* name : {"a", "b", "c"}) whole.add_tensor(name, {1}, {7});
  Parts parts = split_parts(whole, {1, 1, 1});
  parts[2].add_alignment(512);
  const SplitModel model(parts);
  GgufFile file;
  REQUIRE_MESSAGE(file.open(model.path().c_str()).ok(), last_failure().sentence);
  CHECK(file.find_tensor("b")->offset == 128);  // its part has no alignment of its own but the usual one
  CHECK(file.find_tensor("c")->offset == 512);
  CHECK(file.data_bytes() == 516);
  const Bytes all = read_all(file, 516);
  CHECK(std::accumulate(all.begin() + 4, all.begin() + 128, 0) == 0);  // padding reads as zeros
}

TEST_CASE("a file that names itself the only part, or that was joined from parts, is whole") {
  for (const uint16_t count : {0, 1}) {
    GgufBuilder builder = small_gguf();
    builder.add_u16("split.no", 0);
    builder.add_u16("split.count", count);
    const TemporaryFile file(builder);
    GgufFile opened;
    CHECK_MESSAGE(opened.open(file.c_str()).ok(), last_failure().sentence);
  }
}

TEST_CASE("a part that is missing, cut short or no GGUF file is named") {
  for (const size_t lost : {1u, 2u}) {
    const SplitModel model(three_parts());
    std::filesystem::remove(model.path(lost));
    GgufFile file;
    CHECK(file.open(model.path().c_str()).code() == Code::kBadFile);
    CHECK(last_failure().sentence == "cannot open " + model.path(lost) + ": No such file or directory: it is part " +
                                         std::to_string(lost + 1) + " of the 3 of this model (split.count)");
    CHECK(file.tensors().empty());
  }
  for (const size_t part : {0u, 1u, 2u}) {
    const SplitModel model(three_parts());
    std::filesystem::resize_file(model.path(part), std::filesystem::file_size(model.path(part)) - 33);
    GgufFile file;
    CHECK(file.open(model.path().c_str()).code() == Code::kBadFile);
    const std::string said = last_failure().sentence;
    CHECK_MESSAGE(said.find(model.path(part) + ": tensor '") == 0, said);
    CHECK_MESSAGE(said.find("cut short") != std::string::npos, said);
  }
  check_refused([](Parts& parts) { parts[1].magic = "PNG!"; }, "this is not a GGUF file", 1);
}

TEST_CASE("another part than the first is told which one to name") {
  const SplitModel model(three_parts());
  GgufFile file;
  CHECK(file.open(model.path(1).c_str()).code() == Code::kBadFile);
  CHECK(last_failure().sentence == model.path(1) +
                                       ": this is part 2 of 3 of a model (split.no, split.count): name the first part, "
                                       "m-00001-of-00003.gguf");
  const std::string renamed = model.path() + ".second";
  std::filesystem::rename(model.path(1), renamed);
  CHECK(file.open(renamed.c_str()).code() == Code::kBadFile);
  CHECK(last_failure().sentence == renamed +
                                       ": this is part 2 of 3 of a model (split.no, split.count): name the first part, "
                                       "whose name ends in -00001-of-00003.gguf");
}

TEST_CASE("a first part whose name does not fit its keys is refused") {
  const SplitModel model(three_parts(), 4);
  GgufFile file;
  CHECK(file.open(model.path().c_str()).code() == Code::kBadFile);
  CHECK(last_failure().sentence == model.path() +
                                       ": this is the first of 3 parts of a model (split.count), but its name does not "
                                       "end in -00001-of-00003.gguf as it must for the others to be found");
}

TEST_CASE("parts whose keys do not belong together are refused") {
  check_refused([](Parts& p) { set_u16(p[1], "split.count", 4); }, "'split.count' is 4, but it must be 3 in part 2", 1);
  check_refused([](Parts& p) { set_u16(p[2], "split.no", 1); },
                "'split.no' is 1, but it must be 2 in part 3 of this model: the file is another of its parts, or", 2);
  check_refused([](Parts& p) { p[1].remove("split.no"); }, "'split.no' is missing", 1);
  check_refused([](Parts& p) { p[2].remove("split.count"); }, "'split.count' is missing", 2);
  check_refused([](Parts& p) { p[0].remove("split.tensors.count"); }, "'split.tensors.count' is missing", 0);
  check_refused([](Parts& p) { p[0].remove("split.no"); }, "'split.no' is missing", 0);
  check_refused(
      [](Parts& p) {
        p[1].remove("split.tensors.count");
        p[1].add_i32("split.tensors.count", 9);
      },
      "'split.tensors.count' is 9, but it must be 6 in part 2", 1);
  check_refused([](Parts& p) { p[1].add_string("general.architecture", "qwen2"); },
                "'general.architecture' is 'qwen2', but the first part of the model has 'llama'", 1);
  check_refused([](Parts& p) { p[2].remove_tensor("blk.1.b"); },
                "'split.tensors.count' is 6, but the 3 parts hold 5 tensors", 0);
  check_refused([](Parts& p) { p[2].tensors.back().name = "token_embd.weight"; },
                "'token_embd.weight' appears twice in the 3 parts, in part 3 the second time", 0);
}

TEST_CASE("counts of parts that cannot be are refused before another file is opened") {
  const auto set_both = [](uint16_t number, uint16_t count) {
    return [=](Parts& p) {
      set_u16(p[0], "split.no", number);
      set_u16(p[0], "split.count", count);
    };
  };
  check_refused(set_both(0, 65535), "'split.count' is 65535, but 0 to 256 are possible", 0);
  check_refused(set_both(3, 3), "'split.no' is 3, but the model has 3 parts (split.count), counted from 0", 0);
  check_refused(set_both(1, 1), "'split.no' is 1, but the model has 1 part (split.count), counted from 0", 0);
  check_refused(set_both(2, 0), "'split.no' is 2, but the model has 1 part (split.count), counted from 0", 0);
  check_refused(
      [](Parts& p) {
        p[0].remove("split.count");
        p[0].add_i32("split.count", -3);
      },
      "'split.count' is -3, but 0 to 256 are possible", 0);
}

TEST_CASE("a part that changes after it was opened gives a sentence that names it") {
  const SplitModel model(three_parts());
  GgufFile file;
  REQUIRE(file.open(model.path().c_str()).ok());
  std::filesystem::resize_file(model.path(2), 10);
  Bytes bytes(static_cast<size_t>(file.data_bytes()));
  CHECK(file.read_data(0, bytes.data(), file.find_tensor("blk.0.b")->offset).ok());  // the other parts
  CHECK(file.read_data(0, bytes.data(), file.data_bytes()).code() == Code::kBadFile);
  const std::string said = last_failure().sentence;
  CHECK_MESSAGE(said.find(model.path(2) + ": the file changed") == 0, said);
}
