// "<retrieve: words, n>" and "<retrieve: picture.png, n>" in a prompt: the n best entries of the image library, which
// stand there as pictures would.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/setup/cache_options.h"
#include "apps/setup/prompt.h"
#include "apps/setup/setup.h"
#include "runtime/ocellus.h"

namespace ocellus::app {

// An entry that was taken, and for what.
struct Retrieved {
  std::string query;
  ocellus_library_hit hit;
};

// Cuts the marks out of the text parts. A Failure for one that is not closed, says nothing or asks for less than one
// entry, for a picture that cannot be read, and where the options name no library.
std::vector<PromptPart> place_retrievals(const std::vector<PromptPart>& parts, const CacheOptions& options);

// Searches for the words, which needs no engine, and puts the entries in their places; a search by picture asks for no
// more entries from then on than the owner sees. A Failure where nothing is found.
void retrieve_by_words(ocellus_library* library, const std::string& owner, std::vector<PromptPart>* parts,
                       std::vector<Retrieved>* taken);
// Searches for the pictures.
void retrieve_by_pictures(ocellus_session* session, std::vector<PromptPart>* parts, std::vector<Retrieved>* taken);

// Whether marks wait to be searched for.
bool has_retrievals(const std::vector<PromptPart>& parts);
// Pictures that the parts stand for, those still to be found included.
int64_t count_images(const std::vector<PromptPart>& parts);
// The pictures to search with.
void include_queries(const std::vector<PromptPart>& parts, PictureSize* largest);

// The best `count` entries for a picture in a file.
std::vector<ocellus_library_hit> search_by_picture(ocellus_session* session, const ImageFile& picture, int32_t count);
std::vector<ocellus_library_hit> search_by_words(ocellus_library* library, const std::string& owner,
                                                 const std::string& words, int32_t count);

// Says on stderr what was taken.
void remark_on_retrieved(const std::vector<Retrieved>& taken);
nlohmann::ordered_json retrieved_json(const std::vector<Retrieved>& taken);

}  // namespace ocellus::app
