// What the image library keeps of an owner, and the small file in which that outlives the catalogue.
#pragma once

#include <cstdint>

#include "platform/status.h"
#include "runtime/library/library_entry.h"
#include "runtime/library/library_files.h"

namespace ocellus {

struct OwnerRecord {
  int64_t id = 0;  // in the catalogue; not kept in the file
  OwnerName name = {};
  OwnerSecret secret = {};
  OwnerName administrator = {};  // of the shared part; empty for owners
  int64_t quota_bytes = 0;       // 0: as the library is configured
};

/// The file's name: drawn from a hash of the owner's, so that no name leads to another place.
KeyText owner_file_name(std::string_view owner);
inline constexpr char kOwnerSuffix[] = ".owner";

/// Draws a secret. kIo where the system has no random numbers.
Status draw_secret(OwnerSecret* out);

/// Writes the record's file in `folder`, readable by the user alone, in place of one that may be there. kIo.
Status write_owner(LibraryFiles& files, const LibraryPath& folder, const OwnerRecord& record);

/// Reads one file. False where it is missing, damaged or under a name that is not its own.
bool read_owner(LibraryFiles& files, const LibraryPath& folder, const char* file_name, OwnerRecord* out);

}  // namespace ocellus
