// The image library's record of an owner, and the small file that preserves it when the catalogue is lost.
#pragma once

#include <cstdint>

#include "platform/status.h"
#include "runtime/branches/library/library_entry.h"
#include "runtime/branches/library/library_files.h"

namespace ocellus {

struct OwnerRecord {
  int64_t id = 0;  // in the catalogue; not stored in the file
  OwnerName name = {};
  OwnerSecret secret = {};
  OwnerName administrator = {};  // administrator of the shared part; empty for owners
  int64_t quota_bytes = 0;       // 0: the library's configured quota
};

/// The file's name, derived from a hash of the owner's name, so that no name leads outside the folder.
KeyText owner_file_name(std::string_view owner);
inline constexpr char kOwnerSuffix[] = ".owner";

/// Draws a secret. kIo if the system has no random numbers.
Status draw_secret(OwnerSecret* out);

/// Writes the record's file in `folder`, readable by the user only, replacing an existing one. kIo.
Status write_owner(LibraryFiles& files, const LibraryPath& folder, const OwnerRecord& record);

/// Reads one file. Returns false if it is missing, damaged or has another owner's name.
bool read_owner(LibraryFiles& files, const LibraryPath& folder, const char* file_name, OwnerRecord* out);

}  // namespace ocellus
