#include "platform/input_file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

namespace ocellus {
namespace {

/// A folder of its own, removed at the end together with the files made in it.
class Folder {
 public:
  Folder() { REQUIRE(::mkdtemp(path_.data()) != nullptr); }
  ~Folder() {
    for (const char* name : {"file", "other", "pipe"}) ::unlink((path_ + "/" + name).c_str());
    ::rmdir(path_.c_str());
  }
  std::string path() const { return path_; }
  std::string write(const std::string& text) const { return write_to("file", text); }
  std::string write_other(const std::string& text) const { return write_to("other", text); }

 private:
  std::string write_to(const char* as, const std::string& text) const {
    const std::string name = path_ + "/" + as;
    std::FILE* file = std::fopen(name.c_str(), "wb");
    REQUIRE(file != nullptr);
    REQUIRE(std::fwrite(text.data(), 1, text.size(), file) == text.size());
    REQUIRE(std::fclose(file) == 0);
    return name;
  }

  std::string path_ = "/tmp/ocellus_input_file_XXXXXX";
};

/// Gives the file a time of change in the past, so that the next change shows however soon it comes.
void make_old(const std::string& path) {
  const timespec times[2] = {{.tv_sec = 1000000000, .tv_nsec = 0}, {.tv_sec = 1000000000, .tv_nsec = 0}};
  REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
}

void check_refused(const std::string& path, const char* reason) {
  InputFile file;
  CHECK(file.open(path.c_str()).code() == Code::kBadFile);
  CHECK(std::strstr(last_failure().sentence, path.c_str()) != nullptr);
  CHECK(std::strstr(last_failure().sentence, reason) != nullptr);
  CHECK(!file.is_open());
  CHECK(file.size() == 0);
}

TEST_CASE("a file can be read in parts and moved") {
  Folder folder;
  InputFile file;
  REQUIRE(file.open(folder.write("0123456789").c_str()).ok());
  REQUIRE(file.size() == 10);
  char part[4] = {};
  REQUIRE(file.read_at(6, part, 4).ok());
  CHECK(std::memcmp(part, "6789", 4) == 0);
  CHECK(file.read_at(7, part, 4).code() == Code::kBadFile);  // one byte past the end

  InputFile moved(std::move(file));
  CHECK(!file.is_open());
  REQUIRE(moved.size() == 10);
  InputFile assigned;
  assigned = std::move(moved);
  REQUIRE(assigned.read_at(9, part, 1).ok());
  CHECK(part[0] == '9');
  assigned.close();
  CHECK(assigned.size() == 0);
}

TEST_CASE("what is no regular file with content is refused with its name and the reason") {
  Folder folder;
  check_refused(folder.path() + "/missing", "cannot open");
  check_refused(folder.path(), "directory");
  check_refused(folder.write(""), "empty");
  check_refused("/dev/null", "not a regular file");
}

TEST_CASE("a named pipe nobody writes to is refused without waiting") {
  Folder folder;
  const std::string pipe = folder.path() + "/pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  check_refused(pipe, "not a regular file");
}

TEST_CASE("a failed open closes the file that was open before") {
  Folder folder;
  InputFile file;
  REQUIRE(file.open(folder.write("abc").c_str()).ok());
  CHECK_FALSE(file.open((folder.path() + "/missing").c_str()).ok());
  CHECK(!file.is_open());
}

TEST_CASE("a file that is another one than was opened is refused, whatever was done to it") {
  Folder folder;
  const std::string path = folder.write("0123456789");
  const auto check_changed = [&](const auto& change) {
    folder.write("0123456789");
    make_old(path);
    InputFile file;
    REQUIRE(file.open(path.c_str()).ok());
    char part[4] = {};
    REQUIRE(file.read_at(0, part, 4).ok());
    change();
    CHECK(file.read_at(0, part, 4).code() == Code::kBadFile);
    CHECK(std::strstr(last_failure().sentence, "the file changed while it was in use") != nullptr);
    CHECK(file.check_unchanged().code() == Code::kBadFile);
  };
  check_changed([&] { REQUIRE(::truncate(path.c_str(), 5) == 0); });
  check_changed([&] { REQUIRE(::truncate(path.c_str(), 0) == 0); });
  check_changed([&] { REQUIRE(::truncate(path.c_str(), 11) == 0); });
  check_changed([&] { folder.write("9876543210"); });
  check_changed([&] { folder.write("another"); });
}

TEST_CASE("a file that is removed or renamed over stays readable") {
  Folder folder;
  const std::string path = folder.write("0123456789");
  InputFile first, second;
  char part[4] = {};
  REQUIRE(first.open(path.c_str()).ok());
  REQUIRE(::rename(folder.write_other("abc").c_str(), path.c_str()) == 0);
  CHECK(first.read_at(0, part, 4).ok());
  CHECK(std::memcmp(part, "0123", 4) == 0);
  REQUIRE(second.open(path.c_str()).ok());
  REQUIRE(::unlink(path.c_str()) == 0);
  CHECK(second.read_at(0, part, 3).ok());
  CHECK(std::memcmp(part, "abc", 3) == 0);
}

TEST_CASE("where the system has no descriptors left it is the system that refuses, not the file that is wrong") {
  Folder folder;
  const std::string path = folder.write("abc");
  struct rlimit before = {};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const struct rlimit none = {0, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  InputFile file;
  const Status status = file.open(path.c_str());
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(status.code() == Code::kIo);
  CHECK(std::strstr(last_failure().sentence, "open files") != nullptr);
}

}  // namespace
}  // namespace ocellus
