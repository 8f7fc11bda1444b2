#include "apps/hub/hub_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "apps/base/failure.h"
#include "apps/base/partial_file.h"
#include "apps/base/terminal.h"
#include "apps/hub/hub_name.h"

namespace ocellus::app {
namespace {

namespace fs = std::filesystem;

std::string folder_name(const std::string& repository) {
  std::string name = "models--" + repository;
  return name.replace(name.find('/'), 1, "--");
}

[[noreturn]] void refuse(const std::string& path, int error) {
  throw Failure(kExitRuntime, path + " cannot be written: " + std::strerror(error) + ".");
}

void make_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) refuse(path, error.value());
}

// "../../blobs/HASH", with one step up for each folder of the file's path.
std::string link_target(const std::string& file, const std::string& hash) {
  std::string target = "../../";
  for (const char c : file) target += c == '/' ? "../" : "";
  return target + "blobs/" + hash;
}

}  // namespace

HubCache::HubCache(const std::string& folder, const std::string& repository)
    : root_(folder + "/" + folder_name(repository)), locks_(folder + "/.locks/" + folder_name(repository)) {}

std::string HubCache::main_commit() const {
  std::ifstream file(root_ + "/refs/main");
  std::string commit;
  file >> commit;
  return is_hex(commit, kSha1Digits) ? commit : "";
}

std::vector<std::string> HubCache::commits() const {
  std::error_code ignored;
  std::vector<std::pair<fs::file_time_type, std::string>> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(root_ + "/snapshots", ignored)) {
    const std::string name = entry.path().filename().string();
    if (is_hex(name, kSha1Digits)) found.emplace_back(entry.last_write_time(ignored), name);
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<std::string> commits;
  for (auto& [time, name] : found) commits.push_back(std::move(name));
  const std::string main = main_commit();
  std::stable_partition(commits.begin(), commits.end(), [&main](const std::string& one) { return one == main; });
  return commits;
}

std::vector<std::string> HubCache::files(const std::string& commit) const {
  std::error_code ignored;
  const fs::path folder = snapshot_path(commit, "");
  std::vector<std::string> names;
  fs::recursive_directory_iterator at(folder, ignored);
  for (; at != fs::recursive_directory_iterator(); at.increment(ignored)) {
    const bool has_bytes = fs::is_regular_file(at->path(), ignored) && fs::file_size(at->path(), ignored) > 0;
    if (has_bytes) names.push_back(at->path().lexically_relative(folder).string());
    if (ignored) break;
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> HubCache::plain_copies(const std::string& file) const {
  std::error_code ignored;
  std::vector<std::string> paths;
  for (const std::string& commit : commits()) {
    const std::string path = snapshot_path(commit, file);
    if (fs::symlink_status(path, ignored).type() == fs::file_type::regular) paths.push_back(path);
  }
  return paths;
}

void HubCache::make_folders() const {
  make_folder(root_ + "/blobs");
  make_folder(locks_);
}

void HubCache::link(const std::string& commit, const std::string& file, const std::string& hash) const {
  const std::string path = snapshot_path(commit, file), target = link_target(file, hash), blob = blob_path(hash);
  std::error_code error;
  if (fs::read_symlink(path, error) == target) return;
  make_folder(fs::path(path).parent_path().string());
  const std::string temporary = path + "." + std::to_string(::getpid()) + ".link";
  fs::remove(temporary, error);
  fs::create_symlink(target, temporary, error);
  if (error) {  // no links on this disk: the file itself, as the hub's own tools have it there
    fs::create_hard_link(blob, temporary, error);
    if (error) {
      fs::rename(blob, path, error);
      if (error) refuse(path, error.value());
      return;
    }
  }
  if (!error) fs::rename(temporary, path, error);
  if (!error) return;
  std::error_code ignored;
  fs::remove(temporary, ignored);
  refuse(path, error.value());
}

void HubCache::set_main(const std::string& commit) const {
  if (main_commit() == commit) return;
  make_folder(root_ + "/refs");
  PartialFile file(root_ + "/refs/main");
  if (file.error() == 0) file.append(commit.data(), static_cast<int64_t>(commit.size()));
  file.finish();
  if (file.error() == 0 && std::rename(file.temporary().c_str(), file.path().c_str()) == 0) return;
  refuse(file.path(), file.error() != 0 ? file.error() : errno);
}

BlobLock::BlobLock(const std::string& path, bool quiet)
    : descriptor_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0664)) {
  if (descriptor_ < 0) refuse(path, errno);
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  if (errno == EWOULDBLOCK) {
    if (!quiet) print_note("ocellus: another program is fetching this file; waiting for it.");
    while (::flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }  // A disk without locks: two that fetch the same write one part file, and its hash will tell.
}

BlobLock::~BlobLock() { ::close(descriptor_); }

}  // namespace ocellus::app
