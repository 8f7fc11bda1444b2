// The prompt of every family against its published chat template: token ids of conversations with 0 to 3 pictures.
//
// To make the goldens again, or those of a new family (a row of FORMS):
//
//   pip install torch transformers==5.24.0 jinja2 num2words -r tools/convert/requirements.txt
//   cd tools/convert; python3 make_prompt_goldens.py TEMPLATES ../../tests/data/prompts/goldens.json
#include <doctest/doctest.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/family_goldens.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/temporary_file.h"
#include "tests/support/tiled_pictures.h"

namespace ocellus {
namespace {

using nlohmann::json;

json read_goldens() {
  std::ifstream file(test::kSourceDir + "/tests/data/prompts/goldens.json");
  return json::parse(file);
}

/// The tiny model of a family with a template that has these marks; empty: none.
test::TemporaryFile with_template(const std::string& path, const std::string& marks) {
  GgufFile file;
  REQUIRE_MESSAGE(file.open(path.c_str()).ok(), last_failure().sentence);
  test::GgufBuilder changed(file);
  changed.remove("tokenizer.chat_template");
  if (!marks.empty()) changed.add_string("tokenizer.chat_template", marks);
  return test::TemporaryFile(changed);
}

Role role_of(const std::string& name) {
  return name == "system" ? Role::kSystem : name == "user" ? Role::kUser : Role::kAnswer;
}

Status add_part(Session& session, const json& part, bool is_numbered) {
  if (part.is_string()) return session.add_text(part.get<std::string>(), false);
  const test::TestPicture picture(40, 30);
  ocellus_frame shown = {};
  shown.format = OCELLUS_RGB8;
  shown.width = picture.width;
  shown.height = picture.height;
  shown.plane[0] = picture.pixels.data();
  shown.stride_bytes[0] = int64_t{3} * picture.width;
  const ocellus_part one = {.kind = OCELLUS_PART_FRAME,
                            .flags = OCELLUS_IMAGE_OVERVIEW | (is_numbered ? OCELLUS_IMAGE_NUMBERED : 0),
                            .bytes = nullptr,
                            .byte_count = 0,
                            .frame = &shown,
                            .clip = nullptr};
  int32_t failed = 0;
  return session.add_parts(&one, 1, &failed);
}

/// All messages, and the beginning of the answer, unless the last message is one.
Status add_conversation(Session& session, const json& golden, bool numbers_several) {
  for (const json& message : golden["messages"]) {
    const Role role = role_of(message[0]);
    int pictures = 0;
    for (const json& part : message[1]) pictures += part.is_string() ? 0 : 1;
    OCELLUS_TRY(session.prompt().text().begin_message(role));
    for (const json& part : message[1])
      OCELLUS_TRY(add_part(session, part, golden.value("numbered", false) || (numbers_several && pictures > 1)));
    const bool is_last = &message == &golden["messages"].back();
    if (is_last && role == Role::kAnswer) return session.prompt().text().flush();
    OCELLUS_TRY(session.prompt().text().end_message());
  }
  OCELLUS_TRY(session.prompt().text().open_answer());
  return session.prompt().text().flush();
}

/// Ids of the rows that wait, with one -1 for all rows of a picture.
std::vector<int32_t> waiting_ids(Engine& engine) {
  const PromptChunk& chunk = engine.memory().chunk;
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < chunk.row_count; ++i) {
    const int32_t id = chunk.token_ids.host.data[i];
    if (id >= 0 || ids.empty() || ids.back() >= 0) ids.push_back(id < 0 ? -1 : id);
  }
  return ids;
}

}  // namespace

TEST_CASE("prompts of every family have the token ids of its published chat template") {
  const json goldens = read_goldens();
  REQUIRE(goldens["forms"].size() >= 15);
  for (const json& form : goldens["forms"]) {
    const auto name = form["name"].get<std::string>(), family = form["family"].get<std::string>();
    CAPTURE(name);
    CAPTURE(family);
    std::string marks;
    for (const json& mark : form["marks"]) marks += mark.get<std::string>() + " ";
    const test::ModelPair pair = test::family_pair(family);
    const test::TemporaryFile text = with_template(pair.model, marks);
    Model model;
    REQUIRE_MESSAGE(model.open(text.path().c_str(), pair.mmproj.c_str()).ok(), last_failure().sentence);
    const std::unique_ptr<Engine> engine = test::make_engine(model, test::picture_limits(3, 512));
    Session& session = test::open_session(*engine);
    REQUIRE(form["cases"].size() >= 15);
    for (const json& golden : form["cases"]) {
      const auto title = golden["name"].get<std::string>();
      CAPTURE(title);
      session.reset();
      REQUIRE(session.prompt().text().let_think(golden.value("thinks", false)).ok());
      const Status status = add_conversation(session, golden, model.layout().numbers_several);
      if (golden["ids"].is_null()) {
        CHECK(status.code() == Code::kBadArgument);
        continue;
      }
      REQUIRE_MESSAGE(status.ok(), last_failure().sentence);
      CHECK(waiting_ids(*engine) == golden["ids"].get<std::vector<int32_t>>());
      session.reset();  // which keeps what it was told
      REQUIRE(add_conversation(session, golden, model.layout().numbers_several).ok());
      CHECK(waiting_ids(*engine) == golden["ids"].get<std::vector<int32_t>>());
    }
  }
}

}  // namespace ocellus
