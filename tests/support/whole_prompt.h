// Pictures and a question that are added to a session in one call.
#pragma once

#include <iterator>
#include <string>
#include <vector>

#include "tests/support/packed_sessions.h"

namespace ocellus::test {

/// A question about pictures, added as a whole.
struct WholePrompt {
  explicit WholePrompt(const std::vector<std::string>& images) {
    for (const std::string& image : images) pictures.push_back(board_bytes(image));
    for (size_t i = 0; i < pictures.size(); ++i) {
      texts.push_back("Image " + std::to_string(i + 1) + ":");
      parts.push_back(part(OCELLUS_PART_TEXT, nullptr, 0));
      parts.push_back(part(OCELLUS_PART_IMAGE, pictures[i].data(), std::ssize(pictures[i])));
    }
    for (size_t i = 0; i < pictures.size(); ++i)
      parts[2 * i] = part(OCELLUS_PART_TEXT, texts[i].data(), std::ssize(texts[i]));
    parts.push_back(part(OCELLUS_PART_TEXT, kQuestion, sizeof kQuestion - 1));
  }
  static ocellus_part part(int32_t kind, const void* bytes, int64_t count) {
    return {.kind = kind, .flags = 0, .bytes = bytes, .byte_count = count, .frame = nullptr, .clip = nullptr};
  }
  int32_t count() const { return static_cast<int32_t>(parts.size()); }

  static constexpr char kQuestion[] = "What is on the left?";
  std::vector<std::vector<uint8_t>> pictures;
  std::vector<std::string> texts;
  std::vector<ocellus_part> parts;
};

/// Adds it as a turn of a new conversation; *failed is the part that was refused, or -1.
inline Status add_whole(Session& session, const WholePrompt& prompt, int32_t* failed) {
  session.reset();
  OCELLUS_TRY(session.begin_turn());
  OCELLUS_TRY(session.add_parts(prompt.parts.data(), prompt.count(), failed));
  return session.end_turn();
}

}  // namespace ocellus::test
