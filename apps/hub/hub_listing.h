// A repository as the hub lists it: the newest commit, and its files with their sizes and hashes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "apps/hub/digest.h"

namespace ocellus::app {

struct HubFile {
  std::string name;
  int64_t bytes = 0;
  std::string hash;  // and the blob's name
  DigestKind kind = DigestKind::kSha256;
};

struct HubListing {
  std::string commit;
  std::vector<HubFile> files;

  // nullptr if there is none.
  const HubFile* find(const std::string& name) const;
};

// Throws a Failure (bad input) unless the text is the hub's JSON of a model, and each of its file names is a path
// inside the repository. A GGUF file needs a size and a hash.
HubListing read_listing(std::string_view json, const std::string& repository);

}  // namespace ocellus::app
