// A sink for a conversation's prompt that joins all parts to one text.
#pragma once

#include <string>
#include <string_view>

#include "runtime/models/message_writer.h"

namespace ocellus::test {

struct TextSink final : PromptSink {
  Status write(std::string_view part, bool) override {
    text += part;
    return {};
  }
  Status write_head(std::string_view part) override { return write(part, true); }
  void end_head() override {}
  Status add_seam() override { return {}; }
  std::string text;
};

}  // namespace ocellus::test
