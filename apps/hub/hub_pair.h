// A model's two files by the name of a repository: out of the hub's cache on this machine, or from the hub.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/hub/hub_cache.h"
#include "apps/hub/hub_name.h"
#include "apps/hub/hub_settings.h"
#include "apps/hub/pair_choice.h"

namespace ocellus::app {

struct HubPair {
  std::string repository, commit;
  std::string model, mmproj;  // paths; of a split model its first part; mmproj empty: text only
  int64_t bytes = 0;          // sum of all its files
  int64_t fetched_bytes = 0;  // came from the hub now
};

struct HubOptions {
  bool offline = false;  // connects to nothing
  bool quiet = false;    // says nothing on stderr
};

// A pair in the cache.
struct CachedPair {
  std::string commit;
  PairChoice choice;
  bool is_main = false;  // else of another commit than refs/main names, where the pair is not complete
};

// Finds a model with its vision part, else, where `text_only`, a model alone.
std::optional<CachedPair> find_cached_pair(const HubCache& cache, const std::string& quant, bool text_only);

HubPair describe_pair(const HubCache& cache, const std::string& repository, const CachedPair& cached);

// Asks the hub for the newest commit and brings the pair to the cache: what is there by its hash is not fetched again.
// Offline it only checks what is there. Throws a Failure with one sentence: 1 where the hub, the network or the disk
// refuses, 4 where the repository has no pair.
HubPair pull_pair(const HubName& name, const HubOptions& options);

// The pair in the cache without a connection; if it is not there, pulls it.
HubPair find_pair(const HubName& name, const HubOptions& options);

}  // namespace ocellus::app
