// One file from the hub into the cache, begun again where it was cut, and checked by its hash.
#pragma once

#include <cstdint>
#include <string>

#include "apps/hub/byte_progress.h"
#include "apps/hub/hub_cache.h"
#include "apps/hub/hub_listing.h"
#include "apps/hub/hub_requests.h"
#include "apps/hub/web.h"

namespace ocellus::app {

// Bytes that were fetched before of a blob that is not whole; 0: none.
int64_t part_bytes(const HubCache& cache, const HubFile& file);

// True if the file has these bytes, by length and hash. Adds each of them to the progress.
bool has_bytes_of(const std::string& path, const HubFile& file, ByteProgress* progress);

struct Transfer {
  Web* web;
  const HubCache* cache;
  std::string repository, commit;
  ByteProgress* progress;
  Patience* patience;
  bool quiet;
};

// Fetches the blob, whose lock the caller holds, and returns how many bytes came. Throws a Failure if the hub, the
// network or the disk refuses: what came before stays for the next time. Bytes that are not the file's do not stay.
int64_t fetch_blob(const Transfer& transfer, const HubFile& file);

}  // namespace ocellus::app
