#include "runtime/branches/library/library_entry_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace ocellus {
namespace {

FileOutcome damaged(const char* detail) { return {FileState::kDamaged, detail}; }

}  // namespace

NewFile::~NewFile() {
  if (exists_) files_.remove(path_.c_str());
  if (descriptor_ >= 0) files_.close(descriptor_);
}

Status NewFile::fail(const char* what, int64_t error) const {
  return OCELLUS_FAIL(Code::kIo, "cannot %s %s: %s", what, path_.c_str(), std::strerror(static_cast<int>(-error)));
}

Status NewFile::create() {
  static std::atomic<uint32_t> count{0};
  constexpr int kMaxTries = 64;
  int error = 0;
  for (int i = 0; i < kMaxTries; ++i) {
    char name[48];
    std::snprintf(name, sizeof name, "%s%d-%u", kNewFilePrefix, static_cast<int>(::getpid()), count++);
    path_ = folder_ / name;
    descriptor_ = files_.open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
    if (descriptor_ == -EEXIST) continue;  // left by a process with the same process number
    if (descriptor_ < 0) return fail("create", descriptor_);
    exists_ = true;
    // A cleaner may have removed the file in between.
    error = files_.lock(descriptor_);
    if (error == 0) return {};
    files_.close(std::exchange(descriptor_, -1));
    if (error != -EWOULDBLOCK && error != -ESTALE) return fail("lock", error);
    exists_ = false;
  }
  return fail("create", error < 0 ? error : -EEXIST);
}

Status NewFile::append(const void* bytes, int64_t count) {
  const int error = write_fully(files_, descriptor_, size_, bytes, count);
  if (error < 0) return fail("write", error);
  size_ += count;
  return {};
}

Status NewFile::pad() {
  static constexpr std::byte kZeros[kBlockAlignment] = {};
  return append(kZeros, padded_block_bytes(size_) - size_);
}

Status NewFile::sync() {
  const int error = files_.sync(descriptor_);
  return error < 0 ? fail("write", error) : Status();
}

Status NewFile::place(const char* name) {
  const int error = files_.rename(path_.c_str(), (folder_ / name).c_str());
  if (error < 0) return fail("rename", error);
  exists_ = false;
  is_placed_ = true;
  const int sync_error = sync_directory(files_, folder_.c_str());
  return sync_error < 0 ? fail("keep the name of", sync_error) : Status();
}

EntryFile::EntryFile(EntryFile&& other) noexcept
    : files_(other.files_), descriptor_(std::exchange(other.descriptor_, -1)), header_(std::move(other.header_)) {}

EntryFile& EntryFile::operator=(EntryFile&& other) noexcept {
  if (this != &other) {
    close();
    files_ = other.files_;
    descriptor_ = std::exchange(other.descriptor_, -1);
    header_ = std::move(other.header_);
  }
  return *this;
}

void EntryFile::close() {
  if (descriptor_ >= 0) files_->close(descriptor_);
  descriptor_ = -1;
}

FileOutcome EntryFile::open(LibraryFiles& files, const LibraryPath& path) {
  close();
  files_ = &files;
  // O_NONBLOCK: a named pipe in an entry's place must not block.
  const int descriptor = path.is_sound() ? files.open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW, 0) : -ENOENT;
  if (descriptor == -ENOENT) return {FileState::kMissing, "no file"};
  if (descriptor == -ELOOP) return damaged("a link in its file's place");
  if (descriptor < 0) return {FileState::kUnreadable, "a file that cannot be opened"};
  descriptor_ = descriptor;
  const FileOutcome outcome = read_header();
  if (!outcome.is_sound()) close();
  return outcome;
}

FileOutcome EntryFile::read_header() {
  std::byte preamble[kPreambleBytes];
  if (read_fully(*files_, descriptor_, 0, preamble, kPreambleBytes) < 0) return damaged("a head that cannot be read");
  if (is_outdated(preamble)) return {FileState::kOutdated, "the format of an earlier version"};
  const int64_t count = header_bytes_of(preamble);
  if (count == 0) return damaged("an unknown file format");
  const int64_t size = files_->size(descriptor_);
  if (size < count) return damaged("a head that ends early");
  Buffer<std::byte> bytes;
  if (!bytes.resize(count).ok()) return {FileState::kUnreadable, "a head that does not fit the system's memory"};
  if (read_fully(*files_, descriptor_, 0, bytes.data(), count) < 0) return damaged("a head that cannot be read");
  header_ = {};
  if (const char* fault = decode_header(bytes.data(), count, &header_)) return damaged(fault);
  return size == header_.file_bytes ? FileOutcome() : damaged("a file of another length than its head says");
}

FileOutcome EntryFile::read_block(int32_t block, std::byte* to) const {
  const BlockPlace& place = header_.blocks[block];
  if (read_fully(*files_, descriptor_, place.offset, to, place.bytes) < 0)
    return damaged("a block that cannot be read");
  return check_block(block, to);
}

FileOutcome EntryFile::check_block(int32_t block, const std::byte* bytes) const {
  const BlockPlace& place = header_.blocks[block];
  return hash64(bytes, place.bytes) == place.checksum ? FileOutcome() : damaged("a block with a wrong checksum");
}

Status EntryFile::scan_blocks(NewFile* copy, FileOutcome* outcome) const {
  constexpr int64_t kPiece = int64_t{1} << 20;
  Buffer<std::byte> piece;
  OCELLUS_TRY(piece.resize(kPiece));
  for (const BlockPlace& block : header_.blocks) {
    XXH3_state_t state;
    XXH3_INITSTATE(&state);
    XXH3_64bits_reset(&state);
    for (int64_t done = 0; done < block.bytes; done += kPiece) {
      const int64_t count = std::min(kPiece, block.bytes - done);
      if (read_fully(*files_, descriptor_, block.offset + done, piece.data(), count) < 0) {
        *outcome = damaged("a block that cannot be read");
        return {};
      }
      XXH3_64bits_update(&state, piece.data(), static_cast<size_t>(count));
      if (copy != nullptr) OCELLUS_TRY(copy->append(piece.data(), count));
    }
    if (XXH3_64bits_digest(&state) != block.checksum) {
      *outcome = damaged("a block with a wrong checksum");
      return {};
    }
    if (copy != nullptr) OCELLUS_TRY(copy->pad());
  }
  *outcome = {};
  return {};
}

Status write_entry(EntryHeader* header, std::span<const std::span<const std::byte>> blocks, NewFile* file) {
  OCELLUS_TRY(header->blocks.resize(static_cast<int64_t>(blocks.size())));
  for (size_t i = 0; i < blocks.size(); ++i) {
    const auto bytes = static_cast<int64_t>(blocks[i].size());
    header->blocks[static_cast<int64_t>(i)] = {0, bytes, hash64(blocks[i].data(), bytes)};
  }
  lay_out_entry(header);
  Buffer<std::byte> head;
  OCELLUS_TRY(encode_header(*header, &head));
  OCELLUS_TRY(file->create());
  OCELLUS_TRY(file->append(head.data(), head.size()));
  for (const std::span<const std::byte> block : blocks) {
    OCELLUS_TRY(file->append(block.data(), static_cast<int64_t>(block.size())));
    OCELLUS_TRY(file->pad());
  }
  return file->sync();
}

}  // namespace ocellus
