// The tiny random pairs of all families, and a conversation about two pictures that a family cuts as it cuts any.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/engine/memory_plan.h"
#include "tests/support/family_goldens.h"
#include "tests/support/tiled_pictures.h"

namespace ocellus::test {

inline constexpr const char* kTinyFamilies[] = {"smolvlm",     "llava-1.5",   "llava-1.6-mistral", "internvl3",
                                                "internvl3.5", "internvl-6b", "qwen2-vl",          "qwen2.5-vl",
                                                "qwen3-vl",    "gemma3"};

inline std::unique_ptr<Model> open_tiny_family(const std::string& name) {
  const ModelPair pair = family_pair(name, read_family(name));
  auto model = std::make_unique<Model>();
  REQUIRE_MESSAGE(model->open(pair.model.c_str(), pair.mmproj.c_str()).ok(), last_failure().sentence);
  return model;
}

/// Calls check(model) for every family, in which a failure names it.
template <class Check>
void for_each_tiny_family(Check check) {
  for (const std::string name : kTinyFamilies) {
    CAPTURE(name);
    check(*open_tiny_family(name));
  }
}

/// Packed caches on a GPU need heads of 32 values by 32.
inline bool can_pack(const Model& model) { return cuda_device_count() == 0 || model.text().head_dim % 32 == 0; }

/// Linked images have no place in layers with a window.
inline bool can_link(const Model& model) { return model.text().local.window == 0; }

/// LLaVA-1.6 leaves padding out of these, and all but LLaVA-1.5 make tiles.
inline const TestPicture& wide_picture() {
  static const TestPicture picture(100, 41);
  return picture;
}
inline const TestPicture& tall_picture() {
  static const TestPicture picture(41, 100);
  return picture;
}

inline ocellus_limits family_limits(int32_t images = 2, int32_t text_tokens = 160) {
  ocellus_limits limits = picture_limits(images, text_tokens);
  limits.max_image_pixels = 640 * 480;
  return limits;
}
inline ocellus_limits linking_limits(ocellus_reuse reuse, int32_t rows) {
  ocellus_limits limits = family_limits();
  limits.reuse = reuse;
  limits.reuse_rows = rows;
  return limits;
}

inline void add_picture(Session& session, const TestPicture& picture) {
  REQUIRE_MESSAGE(session.add_frame(picture.frame()).ok(), last_failure().sentence);
}
inline void add_words(Session& session, const char* words) {
  REQUIRE_MESSAGE(session.add_text(words, false).ok(), last_failure().sentence);
}
inline void add_two_pictures(Session& session) {
  add_words(session, "Compare ");
  add_picture(session, wide_picture());
  add_words(session, " with");
  add_picture(session, tall_picture());
  add_words(session, "Which is wider?");
}

inline double error_of(const std::vector<float>& got, const std::vector<float>& expected) {
  return relative_error(got.data(), expected);
}

}  // namespace ocellus::test
