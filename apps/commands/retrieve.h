// "<retrieve: words, n>" and "<retrieve: picture.png, n>" in a prompt: replaced by the n best entries of the image
// library, as if they were pictures.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/setup/options.h"
#include "apps/setup/prompt.h"
#include "apps/setup/setup.h"
#include "runtime/ocellus.h"

namespace ocellus::app {

// A retrieved entry and its query.
struct Retrieved {
  std::string query;
  ocellus_library_hit hit;
};

// Splits the text parts at the marks. Throws a Failure for a mark that is not closed, is empty or asks for less than
// one entry, for a picture that cannot be read, and if the options name no library.
std::vector<PromptPart> place_retrievals(const std::vector<PromptPart>& parts, const LibraryOptions& library);

// Searches for the words, which needs no engine, and inserts the entries; limits searches by picture to the number of
// entries that the owner sees. Throws a Failure if nothing is found.
void retrieve_by_words(const Library& library, const std::string& owner, std::vector<PromptPart>* parts,
                       std::vector<Retrieved>* taken);
// Searches for the pictures.
void retrieve_by_pictures(Session* session, std::vector<PromptPart>* parts, std::vector<Retrieved>* taken);

// True if marks are still to be searched for.
bool has_retrievals(const std::vector<PromptPart>& parts);
// Number of pictures in the parts, including those still to be found.
int64_t count_images(const std::vector<PromptPart>& parts);
// Enlarges `largest` to cover the pictures to search with.
void include_queries(const std::vector<PromptPart>& parts, PictureSize* largest);

// Returns the best `count` entries for a picture in a file.
std::vector<ocellus_library_hit> search_by_picture(Session* session, const ImageFile& picture, int32_t count);
std::vector<ocellus_library_hit> search_by_words(const Library& library, const std::string& owner,
                                                 const std::string& words, int32_t count);

// Reports the retrieved entries on stderr.
void remark_on_retrieved(const std::vector<Retrieved>& taken);
nlohmann::ordered_json retrieved_json(const std::vector<Retrieved>& taken);

}  // namespace ocellus::app
