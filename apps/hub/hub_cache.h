// The hub's cache of models on this machine, in the layout that its own tools read and write:
//   models--OWNER--NAME/blobs/HASH            a file's bytes, by the hash that the hub names it by
//   models--OWNER--NAME/snapshots/COMMIT/FILE a link to its blob; the file itself where a disk has no links
//   models--OWNER--NAME/refs/main             the commit that was newest
//   .locks/models--OWNER--NAME/HASH.lock      held by who writes the blob
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ocellus::app {

class HubCache {
 public:
  // `folder`: of all models.
  HubCache(const std::string& folder, const std::string& repository);

  std::string blob_path(const std::string& hash) const { return root_ + "/blobs/" + hash; }
  std::string lock_path(const std::string& hash) const { return locks_ + "/" + hash + ".lock"; }
  std::string snapshot_path(const std::string& commit, const std::string& file) const {
    return root_ + "/snapshots/" + commit + "/" + file;
  }
  const std::string& root() const { return root_; }

  // The commit in refs/main; empty: none.
  std::string main_commit() const;
  // All commits that have a snapshot, that of refs/main first, then the newest.
  std::vector<std::string> commits() const;
  // Paths of the files in a snapshot whose bytes are there.
  std::vector<std::string> files(const std::string& commit) const;
  // Paths of other snapshots' files of this name that are no links, for disks without links.
  std::vector<std::string> plain_copies(const std::string& file) const;

  // Makes the folder of the blobs and that of the locks. All of these throw a Failure if the disk refuses.
  void make_folders() const;
  // Lets the snapshot's file be the blob: by a link or, where there are none, by moving it.
  void link(const std::string& commit, const std::string& file, const std::string& hash) const;
  // Writes refs/main, at once or not at all.
  void set_main(const std::string& commit) const;

 private:
  std::string root_, locks_;
};

// Held while a blob is written, by flock as the hub's own tools do. Waits for others, once it has said so.
class BlobLock {
 public:
  BlobLock(const std::string& path, bool quiet);
  ~BlobLock();
  BlobLock(const BlobLock&) = delete;
  BlobLock& operator=(const BlobLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace ocellus::app
