#include "runtime/branches/library/library_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <utility>

namespace ocellus {
namespace {

template <class Result>
Result or_error(Result result) {
  return result < 0 ? static_cast<Result>(-errno) : result;
}

int take_lock(int descriptor, int operation) {
  int result = 0;
  do {
    result = or_error(::flock(descriptor, operation));
  } while (result == -EINTR);
  if (result < 0) return result;
  struct stat facts {};
  if (::fstat(descriptor, &facts) != 0) return -errno;
  return facts.st_nlink == 0 ? -ESTALE : 0;
}

class SystemFiles : public LibraryFiles {
 public:
  int open(const char* path, int flags, int mode) override { return or_error(::open(path, flags | O_CLOEXEC, mode)); }

  int close(int descriptor) override { return or_error(::close(descriptor)); }

  int64_t read_at(int descriptor, int64_t offset, void* out, int64_t count) override {
    return or_error(int64_t{::pread(descriptor, out, static_cast<size_t>(count), offset)});
  }

  int64_t write_at(int descriptor, int64_t offset, const void* from, int64_t count) override {
    return or_error(int64_t{::pwrite(descriptor, from, static_cast<size_t>(count), offset)});
  }

  int sync(int descriptor) override { return or_error(::fsync(descriptor)); }

  int64_t size(int descriptor) override {
    struct stat facts {};
    if (::fstat(descriptor, &facts) != 0) return -errno;
    return S_ISREG(facts.st_mode) ? facts.st_size : -EINVAL;
  }

  int rename(const char* from, const char* to) override { return or_error(::rename(from, to)); }

  int remove(const char* path) override { return or_error(::unlink(path)); }

  int make_directory(const char* path, int mode) override {
    if (::mkdir(path, static_cast<mode_t>(mode)) == 0) return 0;
    const int error = errno;
    struct stat facts {};
    return ::stat(path, &facts) == 0 && S_ISDIR(facts.st_mode) ? 0 : -error;
  }

  int list(const char* path, VisitName visit, void* user) override {
    DIR* directory = ::opendir(path);
    if (directory == nullptr) return -errno;
    errno = 0;
    while (const dirent* entry = ::readdir(directory)) {
      if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0) visit(user, entry->d_name);
      errno = 0;
    }
    const int error = errno;
    ::closedir(directory);
    return -error;
  }

  int lock(int descriptor) override { return take_lock(descriptor, LOCK_EX | LOCK_NB); }

  int wait_for_lock(int descriptor) override { return take_lock(descriptor, LOCK_EX); }

  bool is_same_file(int descriptor, const char* path) override {
    struct stat opened {};
    struct stat named {};
    return ::fstat(descriptor, &opened) == 0 && ::stat(path, &named) == 0 && opened.st_dev == named.st_dev &&
           opened.st_ino == named.st_ino;
  }
};

int64_t nanoseconds(const timespec& time) { return int64_t{time.tv_sec} * 1000000000 + time.tv_nsec; }

FileStamp stamp_of(const struct stat& found) {
  return {found.st_dev, found.st_ino, found.st_size, nanoseconds(found.st_mtim), nanoseconds(found.st_ctim)};
}

class SystemClock : public LibraryClock {
 public:
  int64_t unix_seconds() override {
    timespec time{};
    clock_gettime(CLOCK_REALTIME, &time);
    return time.tv_sec;
  }
};

}  // namespace

bool LibraryFiles::stamp_open(int descriptor, FileStamp* out) {
  struct stat found {};
  if (::fstat(descriptor, &found) != 0) return false;
  *out = stamp_of(found);
  return true;
}

bool LibraryFiles::stamp_named(const char* path, FileStamp* out) {
  struct stat found {};
  if (::lstat(path, &found) != 0) return false;
  *out = stamp_of(found);
  return true;
}

void LibraryPath::append(const char* text) {
  const size_t added = std::strlen(text);
  if (!is_sound_ || added >= static_cast<size_t>(kCapacity - length_)) {
    is_sound_ = false;
    return;
  }
  std::memcpy(text_ + length_, text, added + 1);
  length_ += static_cast<int>(added);
}

LibraryPath LibraryPath::operator/(const char* name) const {
  LibraryPath joined = *this;
  joined.append("/");
  joined.append(name);
  return joined;
}

LibraryFiles& LibraryFiles::system() {
  static SystemFiles files;
  return files;
}

int read_fully(LibraryFiles& files, int descriptor, int64_t offset, void* out, int64_t count) {
  constexpr int64_t kPiece = int64_t{64} << 20;
  char* to = static_cast<char*>(out);
  while (count > 0) {
    const int64_t got = files.read_at(descriptor, offset, to, std::min(count, kPiece));
    if (got == -EINTR) continue;
    if (got <= 0) return got == 0 ? -EIO : static_cast<int>(got);
    offset += got;
    to += got;
    count -= got;
  }
  return 0;
}

int write_fully(LibraryFiles& files, int descriptor, int64_t offset, const void* from, int64_t count) {
  constexpr int64_t kPiece = int64_t{64} << 20;
  const char* at = static_cast<const char*>(from);
  while (count > 0) {
    const int64_t written = files.write_at(descriptor, offset, at, std::min(count, kPiece));
    if (written == -EINTR) continue;
    if (written <= 0) return written == 0 ? -EIO : static_cast<int>(written);
    offset += written;
    at += written;
    count -= written;
  }
  return 0;
}

int sync_directory(LibraryFiles& files, const char* path) {
  ScopedFile directory(files, files.open(path, O_RDONLY | O_DIRECTORY, 0));
  return directory.descriptor() < 0 ? directory.descriptor() : files.sync(directory.descriptor());
}

LibraryClock& LibraryClock::system() {
  static SystemClock clock;
  return clock;
}

int ScopedFile::close() {
  const int descriptor = release();
  return descriptor < 0 ? 0 : files_.close(descriptor);
}

int ScopedFile::release() { return std::exchange(descriptor_, -1); }

}  // namespace ocellus
