#include "apps/commands/retrieve.h"

#include <algorithm>
#include <string_view>

#include "apps/base/failure.h"
#include "apps/base/plain_text.h"
#include "apps/base/retrieval_mark.h"
#include "apps/base/sizes.h"
#include "apps/base/terminal.h"
#include "apps/camera/picture_decode.h"

namespace ocellus::app {
namespace {

bool names_picture(const std::string& text) {
  const std::string name = to_lower(text);
  const auto ends = [&](std::string_view end) {
    return name.size() > end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0;
  };
  return std::any_of(std::begin(kPictureEndings), std::end(kPictureEndings), ends);
}

void split_text(const std::string& text, std::vector<PromptPart>* parts) {
  for (const MarkedText& piece : split_at_retrievals(text)) {
    PromptPart& part = parts->emplace_back();
    part.text = piece.text;
    part.is_image = piece.mark.has_value();
    if (!piece.mark) continue;
    RetrieveMark& mark = part.retrieve.emplace();
    mark.query = piece.mark->query;
    mark.count = piece.mark->count;
    mark.is_picture = names_picture(mark.query);
    if (mark.is_picture) mark.picture = probe_image(mark.query);
  }
}

// Replaces part `index` by the entries; `index` is then that of the part after them.
void replace_mark(std::vector<PromptPart>* parts, size_t* index, const std::vector<ocellus_library_hit>& hits,
                  std::vector<Retrieved>* taken) {
  const std::string query = (*parts)[*index].retrieve->query;
  if (hits.empty()) throw Failure(kExitRuntime, "the library has no entry for <retrieve: " + query + ">.");
  std::vector<PromptPart> entries;
  for (const ocellus_library_hit& hit : hits) {
    PromptPart& entry = entries.emplace_back();
    entry.is_image = true;
    entry.key = hit.item.key;
    taken->push_back({query, hit});
  }
  const auto place = parts->erase(parts->begin() + static_cast<std::ptrdiff_t>(*index));
  parts->insert(place, entries.begin(), entries.end());
  *index += entries.size();
}

int32_t count_entries(const Library& library, const std::string& owner) {
  int32_t count = 0;
  const auto add = [&](const ocellus_library_item&) { return ++count < kMaxRetrievedEntries; };
  check(library.list(owner.c_str(), add));
  return count;
}

}  // namespace

std::vector<PromptPart> place_retrievals(const std::vector<PromptPart>& parts, const LibraryOptions& library) {
  std::vector<PromptPart> placed;
  for (const PromptPart& part : parts) {
    if (part.is_image)
      placed.push_back(part);
    else
      split_text(part.text, &placed);
  }
  if (has_retrievals(placed) && library.path.empty())
    throw Failure(kExitUsage, "<retrieve: ...> takes pictures from a library: add --library and --owner.");
  return placed;
}

bool has_retrievals(const std::vector<PromptPart>& parts) {
  return std::any_of(parts.begin(), parts.end(), [](const PromptPart& part) { return part.retrieve.has_value(); });
}

int64_t count_images(const std::vector<PromptPart>& parts) {
  int64_t count = 0;
  for (const PromptPart& part : parts) count += part.retrieve ? part.retrieve->count : part.is_image ? 1 : 0;
  return count;
}

void include_queries(const std::vector<PromptPart>& parts, PictureSize* largest) {
  for (const PromptPart& part : parts)
    if (part.retrieve && part.retrieve->is_picture) largest->include(part.retrieve->picture);
}

std::vector<ocellus_library_hit> search_by_words(const Library& library, const std::string& owner,
                                                 const std::string& words, int32_t count) {
  std::vector<ocellus_library_hit> hits(static_cast<size_t>(count));
  hits.resize(static_cast<size_t>(take(library.search_text(owner.c_str(), words, hits))));
  return hits;
}

std::vector<ocellus_library_hit> search_by_picture(Session* session, const ImageFile& picture, int32_t count) {
  const std::shared_ptr<Frame> file = read_image(picture);
  std::vector<ocellus_library_hit> hits(static_cast<size_t>(count));
  hits.resize(static_cast<size_t>(take(session->search_library(file->bytes, hits), picture.path)));
  return hits;
}

void retrieve_by_words(const Library& library, const std::string& owner, std::vector<PromptPart>* parts,
                       std::vector<Retrieved>* taken) {
  for (size_t i = 0; i < parts->size();) {
    std::optional<RetrieveMark>& mark = (*parts)[i].retrieve;
    if (mark && !mark->is_picture) {
      replace_mark(parts, &i, search_by_words(library, owner, mark->query, mark->count), taken);
      continue;
    }
    if (mark) mark->count = std::min(mark->count, count_entries(library, owner));
    if (mark && mark->count == 0) replace_mark(parts, &i, {}, taken);
    ++i;
  }
}

void retrieve_by_pictures(Session* session, std::vector<PromptPart>* parts, std::vector<Retrieved>* taken) {
  for (size_t i = 0; i < parts->size();) {
    const std::optional<RetrieveMark>& mark = (*parts)[i].retrieve;
    if (mark)
      replace_mark(parts, &i, search_by_picture(session, mark->picture, mark->count), taken);
    else
      ++i;
  }
}

void remark_on_retrieved(const std::vector<Retrieved>& taken) {
  for (const Retrieved& one : taken) {
    const std::string caption = one.hit.item.caption;
    print_note("<retrieve: " + one.query + "> takes " + one.hit.item.key + " (score " +
               format_number(one.hit.score, 2) + ")" + (caption.empty() ? "" : ": " + caption));
  }
}

nlohmann::ordered_json retrieved_json(const std::vector<Retrieved>& taken) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Retrieved& one : taken)
    list.push_back({{"query", one.query},
                    {"key", one.hit.item.key},
                    {"score", one.hit.score},
                    {"shared", one.hit.item.shared != 0},
                    {"caption", one.hit.item.caption}});
  return list;
}

}  // namespace ocellus::app
