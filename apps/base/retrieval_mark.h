// "<retrieve: words, n>" in a text: a request for the n best entries of the image library.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ocellus::app {

inline constexpr char kRetrievalBegin[] = "<retrieve:";
inline constexpr int32_t kMaxRetrievedEntries = 1000;

struct RetrievalMark {
  std::string query;
  int32_t count = 1;
};

// Text, or a mark in place of it.
struct MarkedText {
  std::string text;
  std::optional<RetrievalMark> mark;
};

// Splits a text at its marks. Throws a Failure for a mark that is not closed, has no query or asks for less than one
// entry.
std::vector<MarkedText> split_at_retrievals(const std::string& text);

}  // namespace ocellus::app
