#include "platform/file_map.h"

#include <doctest/doctest.h>
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
    for (const char* name : {"file", "pipe"}) ::unlink((path_ + "/" + name).c_str());
    ::rmdir(path_.c_str());
  }
  std::string path() const { return path_; }
  std::string write(const std::string& text) const {
    const std::string name = path_ + "/file";
    std::FILE* file = std::fopen(name.c_str(), "wb");
    REQUIRE(file != nullptr);
    REQUIRE(std::fwrite(text.data(), 1, text.size(), file) == text.size());
    REQUIRE(std::fclose(file) == 0);
    return name;
  }

 private:
  std::string path_ = "/tmp/ocellus_file_map_XXXXXX";
};

void check_refused(const std::string& path, const char* reason) {
  FileMap file;
  CHECK(file.open(path.c_str()).code() == Code::kBadFile);
  CHECK(std::strstr(last_failure().sentence, path.c_str()) != nullptr);
  CHECK(std::strstr(last_failure().sentence, reason) != nullptr);
  CHECK(file.data() == nullptr);
  CHECK(file.size() == 0);
}

TEST_CASE("a file is mapped whole, can be read in parts and moved") {
  Folder folder;
  FileMap file;
  REQUIRE(file.open(folder.write("0123456789").c_str()).ok());
  REQUIRE(file.size() == 10);
  CHECK(std::memcmp(file.data(), "0123456789", 10) == 0);
  char part[4] = {};
  REQUIRE(file.read_at(6, part, 4).ok());
  CHECK(std::memcmp(part, "6789", 4) == 0);
  CHECK(file.read_at(7, part, 4).code() == Code::kIo);  // one byte past the end

  FileMap moved(std::move(file));
  CHECK(file.data() == nullptr);
  REQUIRE(moved.size() == 10);
  FileMap assigned;
  assigned = std::move(moved);
  CHECK(assigned.data()[9] == '9');
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
  FileMap file;
  REQUIRE(file.open(folder.write("abc").c_str()).ok());
  CHECK_FALSE(file.open((folder.path() + "/missing").c_str()).ok());
  CHECK(file.data() == nullptr);
}

}  // namespace
}  // namespace ocellus
