#include "apps/setup/prompt.h"

#include "apps/base/failure.h"
#include "apps/base/sizes.h"

namespace ocellus::app {
namespace {

constexpr size_t kMarkBytes = sizeof kImageMark - 1;

void append_text(std::vector<PromptPart>* parts, const std::string& text) {
  if (text.empty()) return;
  if (parts->empty() || parts->back().is_image) parts->emplace_back();
  parts->back().text += text;
}

void append_image(std::vector<PromptPart>* parts, const ImageFile& image) {
  parts->push_back({.text = "", .is_image = true, .image = image});
}

}  // namespace

int64_t count_image_marks(const std::string& text) {
  int64_t count = 0;
  for (size_t at = text.find(kImageMark); at != std::string::npos; at = text.find(kImageMark, at + kMarkBytes)) ++count;
  return count;
}

std::vector<PromptPart> place_images(const std::string& text, const std::vector<ImageFile>& images,
                                     int64_t earlier_images) {
  const size_t marks = static_cast<size_t>(count_image_marks(text));
  if (marks > images.size()) {
    throw Failure(kExitUsage, "the prompt has " + format_count(static_cast<int64_t>(marks), "<image> mark") + " for " +
                                  format_count(static_cast<int64_t>(images.size()), "picture") + ".");
  }
  std::vector<PromptPart> parts;
  size_t next = 0;
  const bool numbered = static_cast<int64_t>(images.size()) + earlier_images > 1;
  for (; next < images.size() - marks; ++next) {
    if (numbered) append_text(&parts, "Image " + std::to_string(earlier_images + static_cast<int64_t>(next) + 1) + ":");
    append_image(&parts, images[next]);
    if (numbered) append_text(&parts, "\n");
  }
  size_t at = 0;
  for (; next < images.size(); ++next) {
    const size_t mark = text.find(kImageMark, at);
    append_text(&parts, text.substr(at, mark - at));
    append_image(&parts, images[next]);
    at = mark + kMarkBytes;
  }
  append_text(&parts, text.substr(at));
  return parts;
}

int64_t count_text_tokens(ocellus_model* model, const std::vector<PromptPart>& parts) {
  int32_t around = 0;
  check(ocellus_model_template_tokens(model, &around));
  int64_t total = around;
  for (const PromptPart& part : parts) {
    if (part.is_image) continue;
    int32_t count = 0;
    check(ocellus_model_count_tokens(model, part.text.data(), static_cast<int64_t>(part.text.size()), 0, &count));
    total += count;
  }
  return total;
}

}  // namespace ocellus::app
