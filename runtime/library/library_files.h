// What the image library asks of the operating system: files and the time. Tests put their own in place of these, to
// fill disks, stop at any operation and move clocks.
#pragma once

#include <cstdint>

namespace ocellus {

/// A path of limited length; joining what does not fit gives a path that is not sound, and no file has that.
class LibraryPath {
 public:
  static constexpr int kCapacity = 1024;

  LibraryPath() = default;
  explicit LibraryPath(const char* text) { append(text); }
  LibraryPath operator/(const char* name) const;
  const char* c_str() const { return is_sound_ ? text_ : ""; }
  bool is_sound() const { return is_sound_; }

 private:
  void append(const char* text);

  char text_[kCapacity] = {};
  int length_ = 0;
  bool is_sound_ = true;
};

/// Which file it is and in what state: another one after the file was replaced or written to.
struct FileStamp {
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t size = 0;
  int64_t written_ns = 0;  // the last change of the contents, and of anything at all
  int64_t changed_ns = 0;
  friend constexpr bool operator==(const FileStamp&, const FileStamp&) = default;
};

/// File operations. What fails returns -errno, as system calls do inside the kernel.
class LibraryFiles {
 public:
  using VisitName = void (*)(void* user, const char* name);

  virtual ~LibraryFiles() = default;
  /// A descriptor. `flags` as open(2) has them.
  virtual int open(const char* path, int flags, int mode) = 0;
  virtual int close(int descriptor) = 0;
  /// Bytes read or written, perhaps fewer than asked for.
  virtual int64_t read_at(int descriptor, int64_t offset, void* out, int64_t count) = 0;
  virtual int64_t write_at(int descriptor, int64_t offset, const void* from, int64_t count) = 0;
  /// Returns when contents (of a directory: its names) are on the disk.
  virtual int sync(int descriptor) = 0;
  virtual int64_t size(int descriptor) = 0;
  virtual int rename(const char* from, const char* to) = 0;
  virtual int remove(const char* path) = 0;
  /// 0 also where the directory exists.
  virtual int make_directory(const char* path, int mode) = 0;
  /// Every name in a directory but "." and "..".
  virtual int list(const char* path, VisitName visit, void* user) = 0;
  /// Takes a file for this descriptor until it is closed, also by the death of the process. -EWOULDBLOCK if another
  /// descriptor has it, -ESTALE if the file has lost its name.
  virtual int lock(int descriptor) = 0;
  /// The same, but waits for the other.
  virtual int wait_for_lock(int descriptor) = 0;
  /// Whether a path leads to the file that is open.
  virtual bool is_same_file(int descriptor, const char* path) = 0;
  /// The system's word on a file. False where there is no such one. Neither allocates.
  static bool stamp_open(int descriptor, FileStamp* out);
  static bool stamp_named(const char* path, FileStamp* out);

  static LibraryFiles& system();
};

/// All of [offset, offset + count), or -errno; -EIO where the file ends before.
int read_fully(LibraryFiles& files, int descriptor, int64_t offset, void* out, int64_t count);
/// All of it, or -errno.
int write_fully(LibraryFiles& files, int descriptor, int64_t offset, const void* from, int64_t count);
/// Makes names in a directory last.
int sync_directory(LibraryFiles& files, const char* path);

/// The time of day in seconds since 1970, as far as this machine knows it.
class LibraryClock {
 public:
  virtual ~LibraryClock() = default;
  virtual int64_t unix_seconds() = 0;
  static LibraryClock& system();
};

/// Closes a descriptor at the end of a scope.
class ScopedFile {
 public:
  ScopedFile(LibraryFiles& files, int descriptor) : files_(files), descriptor_(descriptor) {}
  ~ScopedFile() { close(); }
  ScopedFile(const ScopedFile&) = delete;
  ScopedFile& operator=(const ScopedFile&) = delete;

  /// Below 0: -errno of the open.
  int descriptor() const { return descriptor_; }
  int close();
  int release();

 private:
  LibraryFiles& files_;
  int descriptor_;
};

}  // namespace ocellus
