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

void append_image(std::vector<PromptPart>* parts, const ImageFile& image, bool is_numbered) {
  parts->push_back({.text = "", .is_image = true, .is_numbered = is_numbered, .image = image});
}

}  // namespace

int64_t count_image_marks(const std::string& text) {
  int64_t count = 0;
  for (size_t at = text.find(kImageMark); at != std::string::npos; at = text.find(kImageMark, at + kMarkBytes)) ++count;
  return count;
}

std::vector<PromptPart> place_images(const std::string& text, const std::vector<ImageFile>& images,
                                     const ImageNumbers& numbers) {
  const size_t marks = static_cast<size_t>(count_image_marks(text));
  if (marks > images.size()) {
    throw Failure(kExitUsage, "the prompt has " + format_count(static_cast<int64_t>(marks), "<image> mark") + " for " +
                                  format_count(static_cast<int64_t>(images.size()), "picture") + ".");
  }
  std::vector<PromptPart> parts;
  size_t next = 0;
  const bool is_plain = numbers.form == OCELLUS_NUMBERS_PLAIN;
  const bool has_labels = is_plain && (numbers.all || std::ssize(images) + numbers.earlier > 1);
  const bool is_numbered = !is_plain && (numbers.all || (numbers.form == OCELLUS_NUMBERS_SEVERAL && images.size() > 1));
  for (; next < images.size() - marks; ++next) {
    if (has_labels)
      append_text(&parts, "Image " + std::to_string(numbers.earlier + static_cast<int64_t>(next) + 1) + ":");
    append_image(&parts, images[next], is_numbered);
    if (has_labels) append_text(&parts, "\n");
  }
  size_t at = 0;
  for (; next < images.size(); ++next) {
    const size_t mark = text.find(kImageMark, at);
    append_text(&parts, text.substr(at, mark - at));
    append_image(&parts, images[next], is_numbered);
    at = mark + kMarkBytes;
  }
  append_text(&parts, text.substr(at));
  return parts;
}

int64_t count_text_tokens(const ocellus::Model& model, const std::vector<PromptPart>& parts) {
  std::vector<ocellus_part> shown;
  for (const PromptPart& part : parts) {
    const ocellus_part_kind kind = part.clip != nullptr             ? OCELLUS_PART_CLIP
                                   : part.is_image || part.retrieve ? OCELLUS_PART_IMAGE
                                                                    : OCELLUS_PART_TEXT;
    shown.push_back(make_part(kind, part.text, part.is_numbered ? OCELLUS_IMAGE_NUMBERED : 0));
  }
  return take(model.count_turn(shown));
}

}  // namespace ocellus::app
