// The image library's interface to the operating system: files and time. Tests substitute their own, to fill disks,
// stop at any operation and move clocks.
#pragma once

#include <cstdint>

namespace ocellus {

/// A path of limited length; joining too much gives an invalid path, for which all operations fail.
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

/// Identity and state of a file: changes when the file is replaced or written to.
struct FileStamp {
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t size = 0;
  int64_t written_ns = 0;  // last change of the contents, and of contents or attributes
  int64_t changed_ns = 0;
  friend constexpr bool operator==(const FileStamp&, const FileStamp&) = default;
};

/// File operations. They return -errno on failure, as system calls do inside the kernel.
class LibraryFiles {
 public:
  using VisitName = void (*)(void* user, const char* name);

  virtual ~LibraryFiles() = default;
  /// Returns a descriptor. `flags` as in open(2).
  virtual int open(const char* path, int flags, int mode) = 0;
  virtual int close(int descriptor) = 0;
  /// Returns the bytes read or written, perhaps fewer than requested.
  virtual int64_t read_at(int descriptor, int64_t offset, void* out, int64_t count) = 0;
  virtual int64_t write_at(int descriptor, int64_t offset, const void* from, int64_t count) = 0;
  /// Returns when the contents (of a directory: its names) are on the disk.
  virtual int sync(int descriptor) = 0;
  virtual int64_t size(int descriptor) = 0;
  virtual int rename(const char* from, const char* to) = 0;
  virtual int remove(const char* path) = 0;
  /// Returns 0 also if the directory exists.
  virtual int make_directory(const char* path, int mode) = 0;
  /// Visits every name in a directory except "." and "..".
  virtual int list(const char* path, VisitName visit, void* user) = 0;
  /// Locks a file for this descriptor until it is closed, also by the end of the process. -EWOULDBLOCK if another
  /// descriptor has the lock, -ESTALE if the file has lost its name.
  virtual int lock(int descriptor) = 0;
  /// Like lock(), but waits.
  virtual int wait_for_lock(int descriptor) = 0;
  /// True if a path leads to the open file.
  virtual bool is_same_file(int descriptor, const char* path) = 0;
  /// Reads the stamp of a file; false if there is none. Neither allocates.
  static bool stamp_open(int descriptor, FileStamp* out);
  static bool stamp_named(const char* path, FileStamp* out);

  static LibraryFiles& system();
};

/// Reads all of [offset, offset + count), or returns -errno; -EIO if the file ends before.
int read_fully(LibraryFiles& files, int descriptor, int64_t offset, void* out, int64_t count);
/// Writes everything, or returns -errno.
int write_fully(LibraryFiles& files, int descriptor, int64_t offset, const void* from, int64_t count);
/// Makes names in a directory durable.
int sync_directory(LibraryFiles& files, const char* path);

/// Seconds since 1970 by this machine's clock.
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

  /// Negative: -errno of the open.
  int descriptor() const { return descriptor_; }
  int close();
  int release();

 private:
  LibraryFiles& files_;
  int descriptor_;
};

}  // namespace ocellus
