#include "apps/setup/questions.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>

#include "apps/base/bounded_json.h"
#include "apps/base/failure.h"
#include "apps/base/sizes.h"
#include "apps/setup/image_file.h"

namespace ocellus::app {
namespace {

using Json = nlohmann::ordered_json;

// One line of the file, before its pictures are read.
struct RawQuestion {
  std::vector<std::string> images;
  std::string prompt;
  std::string answer;
  std::string kind;
  std::vector<std::string> choices;
};

std::string text_field(const Json& object, const char* key, bool required) {
  const auto field = object.find(key);
  if (field == object.end() && !required) return "";
  if (field == object.end()) throw std::runtime_error(std::string("\"") + key + "\" is missing.");
  if (!field->is_string()) throw std::runtime_error(std::string("\"") + key + "\" is not a text.");
  return field->get<std::string>();
}

std::vector<std::string> texts_of(const Json& field, const std::string& refusal) {
  std::vector<std::string> texts;
  if (!field.is_array()) throw std::runtime_error(refusal);
  for (const Json& text : field) {
    if (!text.is_string()) throw std::runtime_error(refusal);
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

RawQuestion parse_question(const std::string& line) {
  std::string problem;
  const Json object = read_json(line, kLocalJson, &problem);
  if (!object.is_object()) {
    throw std::runtime_error("this is not a JSON object" + (problem.empty() ? "" : ": it " + problem) + ".");
  }
  RawQuestion question;
  question.images = texts_of(object.value("images", Json()), "\"images\" is not a list of paths.");
  question.prompt = text_field(object, "prompt", true);
  question.answer = text_field(object, "answer", true);
  question.kind = text_field(object, "kind", false);
  if (!object.contains("choices")) return question;
  const std::string refusal = "\"choices\" is not a list of texts with \"answer\" among them.";
  question.choices = texts_of(object["choices"], refusal);
  const auto end = question.choices.end();
  if (std::find(question.choices.begin(), end, question.answer) == end) throw std::runtime_error(refusal);
  return question;
}

// Questions share pictures, so each is probed once.
class ImageSizes {
 public:
  explicit ImageSizes(const std::string& questions_path)
      : folder_(std::filesystem::path(questions_path).parent_path()) {}

  std::vector<ImageFile> find(const std::vector<std::string>& paths) {
    std::vector<ImageFile> images;
    for (const std::string& path : paths) {
      const auto [known, is_new] = known_.try_emplace(path);
      if (is_new) {
        known->second = probe_image((folder_ / path).string());
        known->second.read = nullptr;  // there may be thousands
      }
      images.push_back(known->second);
    }
    return images;
  }

 private:
  std::filesystem::path folder_;
  std::map<std::string, ImageFile> known_;
};

Question complete_question(const RawQuestion& raw, ImageSizes* sizes, int64_t line, int32_t image_numbers) {
  return {.line = line,
          .kind = raw.kind,
          .answer = raw.answer,
          .parts = place_images(raw.prompt, sizes->find(raw.images), {.form = image_numbers}),
          .image_count = static_cast<int64_t>(raw.images.size()),
          .choices = raw.choices};
}

}  // namespace

std::vector<Question> read_questions(const std::string& path, int64_t images_each, int64_t limit,
                                     int32_t image_numbers) {
  const std::vector<uint8_t> bytes = read_input_file(path);
  std::istringstream lines(std::string(bytes.begin(), bytes.end()));
  ImageSizes sizes(path);
  std::vector<Question> questions;
  int64_t line_number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++line_number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      const RawQuestion raw = parse_question(line);
      const bool wanted = images_each < 0 || static_cast<int64_t>(raw.images.size()) == images_each;
      const bool room = limit == 0 || static_cast<int64_t>(questions.size()) < limit;
      if (wanted && room) questions.push_back(complete_question(raw, &sizes, line_number, image_numbers));
    } catch (const std::runtime_error& error) {
      throw Failure(kExitBadInput, path + ", line " + std::to_string(line_number) + ": " + error.what());
    }
  }
  if (questions.empty()) {
    throw Failure(kExitBadInput, path + ": there is no question" +
                                     (images_each < 0 ? "" : " with " + format_count(images_each, "picture")) + ".");
  }
  return questions;
}

}  // namespace ocellus::app
