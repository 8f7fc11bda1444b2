#include "tests/support/tiny_families.h"

namespace ocellus::test {

std::unique_ptr<Model> open_tiny_family(const std::string& name) {
  const ModelPair pair = family_pair(name);
  auto model = std::make_unique<Model>();
  REQUIRE_MESSAGE(model->open(pair.model.c_str(), pair.mmproj.c_str()).ok(), last_failure().sentence);
  return model;
}

bool can_pack(const Model& model) { return cuda_device_count() == 0 || model.text().head_dim % 32 == 0; }

const TestPicture& wide_picture() {
  static const TestPicture picture(100, 41);
  return picture;
}

const TestPicture& tall_picture() {
  static const TestPicture picture(41, 100);
  return picture;
}

ocellus_limits family_limits(int32_t images, int32_t text_tokens) {
  ocellus_limits limits = picture_limits(images, text_tokens);
  limits.max_image_pixels = 640 * 480;
  return limits;
}

ocellus_limits linking_limits(ocellus_reuse reuse, int32_t rows) {
  ocellus_limits limits = family_limits();
  limits.reuse = reuse;
  limits.reuse_rows = rows;
  return limits;
}

void add_picture(Session& session, const TestPicture& picture) {
  REQUIRE_MESSAGE(session.add_frame(picture.frame()).ok(), last_failure().sentence);
}

void add_words(Session& session, const char* words) {
  REQUIRE_MESSAGE(session.add_text(words, false).ok(), last_failure().sentence);
}

void add_two_pictures(Session& session) {
  add_words(session, "Compare ");
  add_picture(session, wide_picture());
  add_words(session, " with");
  add_picture(session, tall_picture());
  add_words(session, "Which is wider?");
}

double error_of(const std::vector<float>& got, const std::vector<float>& expected) {
  return relative_error(got.data(), expected);
}

}  // namespace ocellus::test
