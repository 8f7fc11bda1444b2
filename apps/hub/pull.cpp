// The order of a pull: the hub's list, which fixes the commit; what is there already, by its hash; the room on the
// disk; the files; their names in the snapshot, together; and the commit in refs/main, last.
#include <sys/statvfs.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <system_error>
#include <utility>

#include "apps/base/failure.h"
#include "apps/base/sizes.h"
#include "apps/base/terminal.h"
#include "apps/hub/download.h"
#include "apps/hub/hub_pair.h"

namespace ocellus::app {
namespace {

namespace fs = std::filesystem;

// A file of the pair, and where its bytes are.
struct Wanted {
  HubFile file;
  bool is_there = false;  // as a blob
  bool is_plain = false;  // as the snapshot's own file: the disk has no links
};

class Pull {
 public:
  Pull(const HubName& name, const HubSettings& settings, bool quiet)
      : name_(name),
        settings_(settings),
        quiet_(quiet),
        cache_(settings.cache, name.repository),
        web_(settings),
        patience_(name.repository, settings, quiet) {}

  HubPair run() {
    note_open_token();
    const HubListing listing = fetch_listing(&web_, name_.repository, &patience_);
    const PairChoice choice = choose(listing);
    cache_.make_folders();
    find_what_is_there(listing.commit);
    check_room();
    const int64_t fetched = fetch_missing(listing.commit);
    for (const Wanted& one : wanted_)
      if (!one.is_plain) cache_.link(listing.commit, one.file.name, one.file.hash);
    cache_.set_main(listing.commit);
    HubPair pair =
        describe_pair(cache_, name_.repository, {.commit = listing.commit, .choice = choice, .is_main = true});
    pair.fetched_bytes = fetched;
    return pair;
  }

 private:
  void note(const std::string& what) const {
    if (!quiet_) print_note("ocellus: " + what + ".");
  }

  void note_open_token() const {
    const std::string& hub = settings_.endpoint;
    const bool is_here = hub.find("://127.0.0.1") != hub.npos || hub.find("://localhost") != hub.npos;
    if (!settings_.token.empty() && hub.starts_with("http://") && !is_here)
      note("the token goes to " + hub + " unencrypted");
  }

  PairChoice choose(const HubListing& listing) {
    std::vector<std::string> names;
    for (const HubFile& file : listing.files) names.push_back(file.name);
    const PairChoice choice = choose_pair(names, name_.quant);
    if (choice.model.empty()) throw Failure(kExitBadInput, name_.repository + ": " + choice.problem + ".");
    if (choice.mmproj.empty()) note(name_.repository + " has no vision part (mmproj): the model reads text only");
    for (const std::string& name : choice.files()) {
      const HubFile& file = *listing.find(name);
      if (file.bytes == 0 || file.hash.empty())
        throw Failure(kExitBadInput, name_.repository + ": the hub lists " + name + " without its size or its hash.");
      wanted_.push_back({.file = file});
    }
    return choice;
  }

  void find_what_is_there(const std::string& commit) {
    int64_t bytes = 0;
    std::error_code ignored;
    for (const Wanted& one : wanted_)
      if (fs::exists(cache_.blob_path(one.file.hash), ignored)) bytes += one.file.bytes;
    ByteProgress progress(quiet_, "checking what the cache has", bytes);
    for (Wanted& one : wanted_) find_file(commit, &one, &progress);
  }

  void find_file(const std::string& commit, Wanted* one, ByteProgress* progress) const {
    const std::string blob = cache_.blob_path(one->file.hash);
    std::error_code error;
    if (has_bytes_of(blob, one->file, progress)) {
      one->is_there = true;
      return;
    }
    if (fs::exists(blob, error))
      note("the cache's " + one->file.name + " (" + format_count(file_bytes(blob), "byte") +
           ") is not what its hash says: it is fetched again");
    for (const std::string& path : cache_.plain_copies(one->file.name)) {
      if (!has_bytes_of(path, one->file, progress)) continue;
      one->is_plain = path == cache_.snapshot_path(commit, one->file.name);
      if (one->is_plain || take_copy(path, blob)) {
        one->is_there = true;
        return;
      }
    }
  }

  static int64_t file_bytes(const std::string& path) {
    std::error_code error;
    const auto bytes = fs::file_size(path, error);
    return error ? 0 : static_cast<int64_t>(bytes);
  }

  // Makes a blob of another snapshot's file.
  static bool take_copy(const std::string& path, const std::string& blob) {
    std::error_code error;
    fs::remove(blob, error);
    fs::create_hard_link(path, blob, error);
    if (error) fs::copy_file(path, blob, error);
    return !error;
  }

  int64_t missing_bytes() const {
    int64_t bytes = 0;
    for (const Wanted& one : wanted_) {
      const int64_t more = one.is_there ? 0 : one.file.bytes - part_bytes(cache_, one.file);
      bytes = more > INT64_MAX - bytes ? INT64_MAX : bytes + more;
    }
    return bytes;
  }

  void check_room() const {
    struct statvfs disk = {};
    if (::statvfs(cache_.root().c_str(), &disk) != 0) return;
    const auto free = static_cast<int64_t>(disk.f_bavail) * static_cast<int64_t>(disk.f_frsize);
    const int64_t needed = missing_bytes();
    if (needed <= free) return;
    throw Failure(kExitRuntime, name_.text() + " needs " + format_bytes(needed) + " more, but the disk of " +
                                    settings_.cache + " has " + format_bytes(free) +
                                    " free: free some, or name another folder with HF_HOME.");
  }

  int64_t fetch_missing(const std::string& commit) {
    const int64_t missing = missing_bytes();
    if (missing > 0) note(name_.repository + ": fetching " + format_bytes(missing) + " to " + settings_.cache);
    int64_t whole = 0, fetched = 0;
    for (const Wanted& one : wanted_) whole += one.is_there ? 0 : one.file.bytes;
    ByteProgress progress(quiet_, "fetching", whole);
    const Transfer transfer = {&web_, &cache_, name_.repository, commit, &progress, &patience_, quiet_};
    for (const Wanted& one : wanted_) {
      if (one.is_there) continue;
      const BlobLock lock(cache_.lock_path(one.file.hash), quiet_);
      // The lock may have been waited for while another program fetched it.
      if (has_bytes_of(cache_.blob_path(one.file.hash), one.file, &progress)) continue;
      fetched += fetch_blob(transfer, one.file);
    }
    return fetched;
  }

  const HubName& name_;
  const HubSettings& settings_;
  bool quiet_;
  HubCache cache_;
  Web web_;
  Patience patience_;
  std::vector<Wanted> wanted_;
};

// Checks a cached pair by the names of its blobs. A file that is no link has no such name.
void check_blobs(const HubCache& cache, const CachedPair& pair, bool quiet) {
  int64_t bytes = 0;
  std::vector<std::pair<std::string, HubFile>> files;
  for (const std::string& name : pair.choice.files()) {
    const std::string path = cache.snapshot_path(pair.commit, name);
    std::error_code error;
    const std::string hash = fs::read_symlink(path, error).filename().string();
    const bool is_git = is_hex(hash, kSha1Digits);
    if (!is_git && !is_hex(hash, kSha256Digits)) continue;
    HubFile file{.name = name, .hash = hash, .kind = is_git ? DigestKind::kGitBlob : DigestKind::kSha256};
    file.bytes = static_cast<int64_t>(fs::file_size(path, error));
    bytes += file.bytes;
    files.emplace_back(path, file);
  }
  ByteProgress progress(quiet, "checking what the cache has", bytes);
  for (const auto& [path, file] : files)
    if (!has_bytes_of(path, file, &progress))
      throw Failure(kExitRuntime, path + " is not what its hash says: pull it again with a connection.");
  if (files.size() < pair.choice.files().size() && !quiet)
    print_note("Note: the cache has files that are no links, whose names tell no hash: they were not checked.");
}

}  // namespace

HubPair pull_pair(const HubName& name, const HubOptions& options) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is reported like a full disk
  const HubSettings settings = read_hub_settings();
  if (!options.offline && !settings.offline) return Pull(name, settings, options.quiet).run();
  HubOptions offline = options;
  offline.offline = true;
  const HubPair pair = find_pair(name, offline);
  const HubCache cache(settings.cache, name.repository);
  const std::optional<CachedPair> cached = find_cached_pair(cache, name.quant, pair.mmproj.empty());
  if (cached) check_blobs(cache, *cached, options.quiet);
  return pair;
}

}  // namespace ocellus::app
