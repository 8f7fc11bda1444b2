#include "runtime/branches/library/library_owners.h"

#include <fcntl.h>
#include <sys/random.h>

#include <cerrno>
#include <cstring>

#include "runtime/branches/library/library_entry_file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace ocellus {
namespace {

constexpr uint64_t kOwnersMagic = 0x0031'5245'4E57'4F4Full;  // "OOWNER1" and a zero
constexpr int64_t kRecordBytes = 256;
constexpr int64_t kChecked = kRecordBytes - 8;  // then the checksum

void walk_record(FieldWalk& walk, uint64_t& magic, OwnerRecord& record) {
  walk.number(magic);
  walk.text(record.name);
  walk.bytes(record.secret.bytes, sizeof record.secret.bytes);
  walk.text(record.administrator);
  walk.number(record.quota_bytes);
}

struct OwnerFileName {
  char text[sizeof(KeyText) + sizeof kOwnerSuffix] = {};
  explicit OwnerFileName(std::string_view owner) {
    std::memcpy(text, owner_file_name(owner).text, 32);
    std::memcpy(text + 32, kOwnerSuffix, sizeof kOwnerSuffix);
  }
};

}  // namespace

KeyText owner_file_name(std::string_view owner) {
  const XXH128_hash_t hash = XXH3_128bits(owner.data(), owner.size());
  return key_text({hash.high64, hash.low64});
}

Status draw_secret(OwnerSecret* out) {
  size_t done = 0;
  while (done < sizeof out->bytes) {
    const ssize_t got = ::getrandom(out->bytes + done, sizeof out->bytes - done, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return OCELLUS_FAIL(Code::kIo, "the system gives no random numbers: %s", std::strerror(errno));
    done += static_cast<size_t>(got);
  }
  return {};
}

Status write_owner(LibraryFiles& files, const LibraryPath& folder, const OwnerRecord& record) {
  std::byte bytes[kRecordBytes] = {};
  OwnerRecord copy = record;
  uint64_t magic = kOwnersMagic;
  FieldWalk walk = FieldWalk::writing(bytes, kChecked);
  walk_record(walk, magic, copy);
  uint64_t checksum = hash64(bytes, kChecked);
  FieldWalk end = FieldWalk::writing(bytes + kChecked, sizeof checksum);
  end.number(checksum);
  NewFile file(files, folder);
  OCELLUS_TRY(file.create());
  OCELLUS_TRY(file.append(bytes, kRecordBytes));
  OCELLUS_TRY(file.sync());
  return file.place(OwnerFileName(record.name.view()).text);
}

bool read_owner(LibraryFiles& files, const LibraryPath& folder, const char* file_name, OwnerRecord* out) {
  ScopedFile file(files, files.open((folder / file_name).c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW, 0));
  std::byte bytes[kRecordBytes];
  if (file.descriptor() < 0 || files.size(file.descriptor()) != kRecordBytes) return false;
  if (read_fully(files, file.descriptor(), 0, bytes, kRecordBytes) < 0) return false;
  uint64_t checksum = 0, magic = 0;
  FieldWalk end = FieldWalk::reading(bytes + kChecked, sizeof checksum);
  end.number(checksum);
  FieldWalk walk = FieldWalk::reading(bytes, kChecked);
  walk_record(walk, magic, *out);
  const bool is_named = is_owner_name(out->name.view()) || out->name.view() == kSharedName;
  return walk.is_sound() && magic == kOwnersMagic && checksum == hash64(bytes, kChecked) && is_named &&
         std::strcmp(file_name, OwnerFileName(out->name.view()).text) == 0;
}

}  // namespace ocellus
