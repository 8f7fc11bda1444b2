// Files of the image library: atomic creation, and reading of entries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "platform/buffer.h"
#include "platform/status.h"
#include "runtime/branches/library/library_files.h"
#include "runtime/branches/library/library_format.h"

namespace ocellus {

/// Prefix of files that are still being written.
inline constexpr char kNewFilePrefix[] = ".new-";

/// A file that is invisible until it is complete and durable. Removed with its object unless it was placed.
class NewFile {
 public:
  NewFile(LibraryFiles& files, const LibraryPath& folder) : files_(files), folder_(folder) {}
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  /// Creates it under a temporary name, locked so that others see that its writer is alive. kIo.
  Status create();
  Status append(const void* bytes, int64_t count);
  /// Appends zeros to the next multiple of kBlockAlignment.
  Status pad();
  /// Waits for the disk.
  Status sync();
  /// Renames the file within the same folder, replacing a file of that name, and waits for the disk.
  Status place(const char* name);
  /// True once the file has its name, durable or not.
  bool is_placed() const { return is_placed_; }

 private:
  Status fail(const char* what, int64_t error) const;

  LibraryFiles& files_;
  const LibraryPath folder_;
  LibraryPath path_;
  int descriptor_ = -1;
  int64_t size_ = 0;
  bool exists_ = false;
  bool is_placed_ = false;
};

enum class FileState : uint8_t {
  kSound,
  kMissing,
  kDamaged,     // wrong bytes, or a read error of the disk
  kUnreadable,  // could not be opened, which tells nothing about its bytes
  kOutdated,    // written by an earlier version
};

/// Result of reading; `detail` completes "the entry has ...".
struct FileOutcome {
  FileState state = FileState::kSound;
  const char* detail = "";
  bool is_sound() const { return state == FileState::kSound; }
};

/// An entry's open file, with its head read and checked. Replacing or removing the file does not disturb it.
class EntryFile {
 public:
  EntryFile() = default;
  ~EntryFile() { close(); }
  EntryFile(EntryFile&& other) noexcept;
  EntryFile& operator=(EntryFile&& other) noexcept;
  EntryFile(const EntryFile&) = delete;
  EntryFile& operator=(const EntryFile&) = delete;

  FileOutcome open(LibraryFiles& files, const LibraryPath& path);
  void close();
  bool is_open() const { return descriptor_ >= 0; }

  const EntryHeader& header() const { return header_; }
  int descriptor() const { return descriptor_; }
  /// Reads one block into memory of at least its size and checks it.
  FileOutcome read_block(int32_t block, std::byte* to) const;
  /// Checks bytes of a block that were read by other means.
  FileOutcome check_block(int32_t block, const std::byte* bytes) const;
  /// Reads every block piece by piece and checks it. With `copy` every piece is also appended there.
  Status scan_blocks(NewFile* copy, FileOutcome* outcome) const;

 private:
  FileOutcome read_header();

  LibraryFiles* files_ = nullptr;
  int descriptor_ = -1;
  EntryHeader header_;
};

/// Sets the checksums, and writes the head and the blocks. The file is then on the disk, without its name.
Status write_entry(EntryHeader* header, std::span<const std::span<const std::byte>> blocks, NewFile* file);

}  // namespace ocellus
