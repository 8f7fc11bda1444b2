// Files of the image library: how they come into being all at once or not at all, and how entries are read back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "platform/buffer.h"
#include "platform/status.h"
#include "runtime/library/library_files.h"
#include "runtime/library/library_format.h"

namespace ocellus {

/// Names of files that are still being written begin with this.
inline constexpr char kNewFilePrefix[] = ".new-";

/// A file that nobody sees until it is complete and on the disk. Goes away with its object unless it was placed.
class NewFile {
 public:
  NewFile(LibraryFiles& files, const LibraryPath& folder) : files_(files), folder_(folder) {}
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  /// Makes it under a name of its own, locked so that others see that its writer lives. kIo.
  Status create();
  Status append(const void* bytes, int64_t count);
  /// Zeros to the next multiple of kBlockAlignment.
  Status pad();
  /// Waits for the disk.
  Status sync();
  /// Gives the file its name in the same folder, in place of what had it before, and waits for the disk.
  Status place(const char* name);
  /// Whether the name is given, be it on the disk or not.
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
  kDamaged,     // wrong bytes, or the disk could not read them
  kUnreadable,  // could not be opened, which says nothing about its bytes
  kOutdated,    // written by an earlier version
};

/// How reading went; `detail` completes "the entry has ...".
struct FileOutcome {
  FileState state = FileState::kSound;
  const char* detail = "";
  bool is_sound() const { return state == FileState::kSound; }
};

/// An entry's file, open, with its head read and checked. Replacing or removing the file does not disturb it.
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
  /// Reads every block, a piece at a time, and checks it. With `copy` every piece is appended there too.
  Status scan_blocks(NewFile* copy, FileOutcome* outcome) const;

 private:
  FileOutcome read_header();

  LibraryFiles* files_ = nullptr;
  int descriptor_ = -1;
  EntryHeader header_;
};

/// Writes the head and the blocks; sets their checksums first. The file is then on the disk, without its name.
Status write_entry(EntryHeader* header, std::span<const std::span<const std::byte>> blocks, NewFile* file);

}  // namespace ocellus
