// Image libraries for tests: on folders of their own, with clocks that stand still and disks that fail on demand.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "runtime/branches/library/image_library.h"
#include "runtime/branches/library/library_files.h"
#include "tools/library_walk.h"

namespace ocellus::test {

using walk::Contents;
using walk::facts_of;
using walk::Folder;
using walk::SetClock;

/// The system's files with faults.
class FaultyFiles : public LibraryFiles {
 public:
  enum class Fault { kNone, kOnce, kFromThenOn, kExit };
  static constexpr int kExitCode = 23;

  /// The operation with this number (from 0 on) goes wrong in this way.
  void plan(Fault fault, int64_t at, int error = EIO) {
    fault_ = fault;
    fault_at_ = at;
    error_ = error;
    calls = 0;
  }
  int64_t calls = 0;
  int64_t room = INT64_MAX;        // bytes that the disk still takes
  int64_t most_bytes = INT64_MAX;  // maximum of one read or write
  bool is_read_only = false;
  std::vector<std::string> log;  // changes of the disk, in order

  int open(const char* path, int flags, int mode) override {
    const bool writes = (flags & (O_CREAT | O_WRONLY | O_RDWR)) != 0;
    if (const int error = next()) return error;
    if (writes && is_read_only) return -EROFS;
    return real_.open(path, flags, mode);
  }
  int close(int descriptor) override { return real_.close(descriptor); }
  int64_t read_at(int descriptor, int64_t offset, void* out, int64_t count) override {
    if (const int error = next()) return error;
    return real_.read_at(descriptor, offset, out, std::min(count, most_bytes));
  }
  int64_t write_at(int descriptor, int64_t offset, const void* from, int64_t count) override {
    // Half of what is asked for is written before anything happens.
    if (is_due() && fault_ == Fault::kExit) (void)real_.write_at(descriptor, offset, from, count / 2);
    if (const int error = next()) return error;
    if (room <= 0 && count > 0) return -ENOSPC;
    const int64_t written = real_.write_at(descriptor, offset, from, std::min({count, most_bytes, room}));
    room -= std::max<int64_t>(written, 0);
    log.push_back("write");
    return written;
  }
  int sync(int descriptor) override {
    if (const int error = next()) return error;
    log.push_back(real_.size(descriptor) >= 0 ? "sync file" : "sync folder");
    return real_.sync(descriptor);
  }
  int64_t size(int descriptor) override { return real_.size(descriptor); }
  int rename(const char* from, const char* to) override {
    if (const int error = next()) return error;
    if (is_read_only) return -EROFS;
    log.push_back("rename");
    return real_.rename(from, to);
  }
  int remove(const char* path) override {
    if (const int error = next()) return error;
    if (is_read_only) return -EROFS;
    log.push_back("remove");
    return real_.remove(path);
  }
  int make_directory(const char* path, int mode) override {
    if (const int error = next()) return error;
    return is_read_only && !std::filesystem::exists(path) ? -EROFS : real_.make_directory(path, mode);
  }
  int list(const char* path, VisitName visit, void* user) override {
    if (const int error = next()) return error;
    return real_.list(path, visit, user);
  }
  int lock(int descriptor) override {
    if (const int error = next()) return error;
    return real_.lock(descriptor);
  }
  int wait_for_lock(int descriptor) override { return real_.wait_for_lock(descriptor); }
  bool is_same_file(int descriptor, const char* path) override { return real_.is_same_file(descriptor, path); }

 private:
  bool is_due() const { return fault_ == Fault::kFromThenOn ? calls >= fault_at_ : calls == fault_at_; }
  int next() {
    const bool due = fault_ != Fault::kNone && is_due();
    ++calls;
    if (due && fault_ == Fault::kExit) ::_exit(kExitCode);
    return due ? -error_ : 0;
  }

  LibraryFiles& real_ = LibraryFiles::system();
  Fault fault_ = Fault::kNone;
  int64_t fault_at_ = -1;
  int error_ = EIO;
};

/// A library on a folder of its own.
struct TestLibrary {
  TestLibrary() { reopen(); }
  void reopen() {
    library.close();
    config.path = folder.c_str();
    config.files = &files;
    config.clock = &clock;
    REQUIRE_MESSAGE(library.open(config).ok(), last_failure().sentence);
  }
  LibraryKey put(const std::string& owner, uint64_t picture, uint64_t version = 1,
                 LibraryPart part = LibraryPart::kOwn) {
    return put(owner, Contents(picture, version), part);
  }
  LibraryKey put(const std::string& owner, const Contents& contents, LibraryPart part = LibraryPart::kOwn) {
    LibraryKey key;
    REQUIRE_MESSAGE(library.put(owner, part, contents.entry(), &key).ok(), last_failure().sentence);
    return key;
  }
  /// The version that is served whole, or 0.
  uint64_t version_of(const std::string& owner, uint64_t picture, ImageLibrary* other = nullptr) {
    LibraryEntry entry;
    bool found = false;
    uint64_t version = 0;
    const Status status = (other != nullptr ? *other : library).find(owner, facts_of(picture), &entry, &found);
    REQUIRE_MESSAGE(status.ok(), last_failure().sentence);
    if (!found) return 0;
    const std::string wrong = walk::check_entry(entry, picture, &version, &found);
    CHECK_MESSAGE(wrong.empty(), wrong);
    return found ? version : 0;
  }
  std::string path_of(const LibraryKey& key) const {
    return folder / ("entries/" + std::string(key_text(key).text) + ".entry");
  }
  size_t aside_count() const { return folder.names("set-aside").size(); }
  size_t unfinished_count() const { return folder.names("entries", true).size() - folder.names("entries").size(); }
  LibraryUse use() {
    LibraryUse use;
    REQUIRE_MESSAGE(library.describe_all(&use).ok(), last_failure().sentence);
    return use;
  }

  Folder folder;
  FaultyFiles files;
  SetClock clock;
  LibraryConfig config;
  ImageLibrary library;
};

inline void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  REQUIRE(file.flush());
}

/// Runs body() in a process of its own; its exit status, or -1 if a signal ended it.
inline int run_in_process(const std::function<void()>& body) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    body();
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace ocellus::test
