#include "apps/commands/library_items.h"

#include <ctime>

namespace ocellus::app {

std::string time_text(int64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts = {};
  char text[32];
  if (seconds == 0 || gmtime_r(&time, &parts) == nullptr) return "-";
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts);
  return text;
}

Failure no_entry(const std::string& owner, const std::string& key, bool shared) {
  return Failure(kExitBadInput, (shared ? "the shared part" : owner) + " has no entry " + key + ".");
}

ocellus_library_item describe_item(const Library& library, const std::string& owner, const std::string& key) {
  ocellus_library_item item;
  if (!take(library.describe_entry(owner.c_str(), key.c_str(), item)))
    throw Failure(kExitBadInput, owner + " sees no entry " + key + ".");
  return item;
}

bool has_tag(const ocellus_library_item& item, const std::string& tag) {
  for (int32_t i = 0; i < item.tag_count; ++i)
    if (item.tags[i] == tag) return true;
  return false;
}

std::string joined_tags(const ocellus_library_item& item) {
  std::string text;
  for (int32_t i = 0; i < item.tag_count; ++i) text += (i > 0 ? ", " : "") + std::string(item.tags[i]);
  return text;
}

nlohmann::ordered_json item_json(const ocellus_library_item& item) {
  nlohmann::ordered_json tags = nlohmann::ordered_json::array();
  for (int32_t i = 0; i < item.tag_count; ++i) tags.push_back(item.tags[i]);
  return {{"key", item.key},
          {"shared", item.shared != 0},
          {"bits", item.bits},
          {"tokens", item.tokens},
          {"views", item.views},
          {"layers", item.layers},
          {"input_rows", item.input_rows},
          {"embedding", item.has_embedding != 0},
          {"pinned", item.pinned != 0},
          {"bytes", item.bytes},
          {"created", item.created},
          {"last_used", item.last_used},
          {"expires", item.expires},
          {"tags", tags},
          {"caption", item.caption}};
}

}  // namespace ocellus::app
