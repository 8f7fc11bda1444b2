// Files that the program reads: questions, and a calibration beside its model.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "apps/base/failure.h"
#include "apps/setup/calibration_file.h"
#include "apps/setup/questions.h"
#include "tests/fuzz/apps/json_changes.h"

namespace ocellus::fuzz {
namespace {

// A folder of this process, which goes with it.
class Folder {
 public:
  Folder() : path_(temporary_path("files")) {
    std::filesystem::create_directory(path_);
    std::filesystem::copy_file(std::string(OCELLUS_SOURCE_DIR) + "/tests/data/images/gray_2.png", path_ + "/a.png",
                               std::filesystem::copy_options::overwrite_existing);
    write("model.gguf", reinterpret_cast<const uint8_t*>("a model"), 7);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string write(const char* name, const uint8_t* data, size_t size) const {
    const std::string path = path_ + "/" + name;
    std::FILE* file = std::fopen(path.c_str(), "wb");
    require(file != nullptr, "a file can be made");
    require(std::fwrite(data, 1, size, file) == size && std::fclose(file) == 0, "a file can be written");
    return path;
  }
  std::string path(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

const Folder& folder() {
  static const Folder one;
  return one;
}

bool is_bad_input(const app::Failure& failure) {
  return failure.exit_code() == app::kExitBadInput && failure.what()[0] != '\0';
}

std::vector<Bytes> make_question_seeds() {
  const std::string one = R"({"images":["a.png"],"prompt":"What is it?","answer":"A ring.","kind":"object"})";
  const std::string two = R"({"images":["a.png","a.png"],"prompt":"<image> or <image>?","answer":"No"})";
  return {bytes_of(one + "\n" + two + "\n\n" + one + "\r\n"), bytes_of(two + "\n"),
          bytes_of(R"({"images":[],"prompt":"2 + 2?","answer":"4"})")};
}

bool run_questions(const uint8_t* data, size_t size) {
  try {
    const std::string path = folder().write("questions.jsonl", data, size);
    for (const app::Question& question : app::read_questions(path, -1, 0)) {
      int64_t images = 0;
      for (const app::PromptPart& part : question.parts) images += part.is_image ? 1 : 0;
      require(images == question.image_count && question.line > 0, "every picture of a question is in its prompt");
    }
    return true;
  } catch (const app::Failure& failure) {
    require(is_bad_input(failure), "a bad question is a bad input file, with a sentence");
    return false;
  }
}

// The name of the model that a calibration is for holds a hash, which is learnt from one that is written.
std::vector<Bytes> make_calibration_seeds() {
  const std::string model = folder().path("model.gguf");
  std::filesystem::remove(folder().path("model.calib.json"));
  app::write_calibration(model, {"per-image", 2}, {0.5f, 1.5f}, 0.97, 300);
  app::write_calibration(model, {"calibquant", 1}, {0, 100}, 0.5, 10);
  std::ifstream file(app::calibration_path(model));
  return {Bytes{std::istreambuf_iterator<char>(file), {}}};
}

bool run_calibration(const uint8_t* data, size_t size) {
  folder().write("model.calib.json", data, size);
  const std::string model = folder().path("model.gguf");
  try {
    bool is_found = false;
    for (const char* const scheme : {"per-image", "calibquant"}) {
      for (const int32_t bits : {8, 4, 2, 1}) {
        const std::optional<app::TauPair> taus = app::read_calibration(model, {scheme, bits});
        if (!taus) continue;
        is_found = true;
        require(taus->low >= 0 && taus->low <= 100 && taus->high >= 0 && taus->high <= 100, "taus are in their range");
      }
    }
    app::write_calibration(model, {"per-image", 4}, {1, 2}, 1, 1);
    require(app::read_calibration(model, {"per-image", 4}).has_value(),
            "what is added to a sound calibration is found there");
    return is_found;
  } catch (const app::Failure& failure) {
    require(is_bad_input(failure), "a bad calibration is a bad input file, with a sentence");
    return false;
  }
}

const Registration kQuestions({.name = "questions",
                               .make_seeds = make_question_seeds,
                               .mutate = change_json_lines,
                               .run = run_questions,
                               .most_heap_bytes = int64_t{16} << 20});
const Registration kCalibration({.name = "calibration",
                                 .make_seeds = make_calibration_seeds,
                                 .mutate = change_json,
                                 .run = run_calibration,
                                 .most_heap_bytes = int64_t{16} << 20});

}  // namespace
}  // namespace ocellus::fuzz
