// Random operations on the image library and on a plain model of it, compared.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <tuple>

#include "tools/library_walk.h"

namespace ocellus::walk {
namespace {

constexpr int32_t kOwners = 20;
constexpr int64_t kPictures = 12;
constexpr int64_t kOwnerQuota = 120'000;
constexpr int64_t kQuota = 1'200'000;
constexpr int32_t kShared = -1;

struct PlainEntry {
  uint64_t version = 0;
  LibraryKey key;
  int64_t bytes = 0, created = 0, expires = 0, order = 0;
  bool pinned = false, damaged = false;
};

/// Entries by owner and picture.
using Name = std::pair<int32_t, uint64_t>;

class PlainLibrary {
 public:
  std::map<Name, PlainEntry> entries;
  int64_t now = 0;

  bool is_gone(const PlainEntry& entry) const { return entry.expires != 0 && entry.expires <= now; }
  void touch(PlainEntry& entry) { entry.order = ++order_; }
  /// Makes room for an entry under this name; returns false if there is none.
  bool make_room(const Name& name, int64_t bytes) {
    return make_room_among(name, bytes, kOwnerQuota, true) && make_room_among(name, bytes, kQuota, false);
  }
  void remove_expired() {
    std::erase_if(entries, [&](const auto& entry) { return is_gone(entry.second); });
  }
  /// Forgets the times of use, as a new catalogue does.
  void forget_uses() {
    std::vector<PlainEntry*> all;
    for (auto& [name, entry] : entries) all.push_back(&entry);
    std::sort(all.begin(), all.end(), [](const PlainEntry* a, const PlainEntry* b) {
      return std::tie(a->created, a->key.high, a->key.low) < std::tie(b->created, b->key.high, b->key.low);
    });
    for (PlainEntry* entry : all) touch(*entry);
  }

 private:
  bool make_room_among(const Name& name, int64_t bytes, int64_t quota, bool own) {
    const auto counts = [&](const auto& entry) { return !own || entry.first.first == name.first; };
    std::erase_if(entries, [&](const auto& entry) { return counts(entry) && is_gone(entry.second); });
    int64_t sum = bytes, pinned = bytes;
    for (const auto& entry : entries) {
      if (!counts(entry) || entry.first == name) continue;
      sum += entry.second.bytes;
      pinned += entry.second.pinned ? entry.second.bytes : 0;
    }
    if (pinned > quota) return false;
    while (sum > quota) {
      auto oldest = entries.end();
      for (auto at = entries.begin(); at != entries.end(); ++at) {
        if (!counts(*at) || at->first == name || at->second.pinned) continue;
        if (oldest == entries.end() || at->second.order < oldest->second.order) oldest = at;
      }
      sum -= oldest->second.bytes;
      entries.erase(oldest);
    }
    return true;
  }
  int64_t order_ = 0;
};

class Walk {
 public:
  explicit Walk(uint64_t seed) : random_(seed) {
    for (int i = 0; i < 2; ++i) reopen(i);
    require(libraries_[0].create_shared(name_of(0)));
  }
  void step() {
    library_ = &libraries_[random_.integer(0, 1)];
    owner_ = static_cast<int32_t>(random_.integer(0, kOwners - 1));
    picture_ = static_cast<uint64_t>(random_.integer(1, kPictures));
    shared_ = random_.integer(0, 7) == 0;
    at_ = {shared_ ? kShared : owner_, picture_};
    const int64_t choice = random_.integer(0, 999);
    if (choice >= 930 && choice < 960) return damage();
    if (choice >= 960 && choice < 985) return move_clock();
    if (choice >= 995) return reopen_something();
    see_time();
    if (choice < 330) return put();
    if (choice < 730) return find();
    if (choice < 790) return remove();
    if (choice < 850) return pin();
    if (choice < 900) return list();
    if (choice < 930) return search();
    collect();
  }
  Outcome outcome;

 private:
  /// The library reads the clock when it is called, and never goes back.
  void see_time() { plain_.now = std::max(plain_.now, clock_.seconds); }
  static std::string name_of(int32_t owner) { return "owner-" + std::to_string(owner); }
  std::string owner() const { return name_of(owner_); }
  LibraryPart part() const { return shared_ ? LibraryPart::kShared : LibraryPart::kOwn; }
  bool may_write() const { return !shared_ || owner_ == 0; }
  void require(Status status) {
    if (!status.ok()) outcome.note_wrong(last_failure().sentence);
  }
  void require(bool truth, const char* what) {
    if (!truth) outcome.note_wrong(what + (" in operation " + std::to_string(outcome.done)));
  }
  void reopen(int which) {
    LibraryConfig config;
    config.path = folder_.c_str();
    config.quota_bytes = kQuota;
    config.owner_quota_bytes = kOwnerQuota;
    config.clock = &clock_;
    libraries_[which].close();
    require(libraries_[which].open(config));
  }

  void put() {
    Contents contents(picture_, random_.bits() >> 1);
    const int64_t lasts = random_.integer(0, 3) == 0 ? random_.integer(-5, 300) : 0;
    contents.expires = lasts == 0 ? 0 : plain_.now + lasts;
    contents.pinned = random_.integer(0, 9) == 0;
    LibraryKey key;
    const Status status = library_->put(owner(), part(), contents.entry(), &key);
    if (!may_write()) return require(status.code() == Code::kBadArgument, "a stranger wrote the shared part");
    const bool has_room = plain_.make_room(at_, contents.file_bytes());
    require(status.code() == (has_room ? Code::kOk : Code::kFull), "room differs");
    if (!has_room) return;
    PlainEntry entry;
    std::memcpy(&entry.version, contents.blocks[0].data(), sizeof entry.version);
    entry.key = key;
    entry.bytes = contents.file_bytes();
    entry.created = plain_.now;
    entry.expires = contents.expires;
    entry.pinned = contents.pinned;
    plain_.touch(entry);
    plain_.entries[at_] = entry;
  }

  /// Returns the expected result of find(): the owner's entry, else the shared one.
  std::map<Name, PlainEntry>::iterator expected() {
    for (const int32_t whose : {owner_, kShared}) {
      const auto found = plain_.entries.find({whose, picture_});
      if (found != plain_.entries.end() && !plain_.is_gone(found->second)) return found;
    }
    return plain_.entries.end();
  }

  void find() {
    LibraryEntry entry;
    bool found = false;
    const auto should = expected();
    const bool is_there = should != plain_.entries.end();
    if (is_there && random_.integer(0, 3) == 0)
      require(library_->find_key(owner(), should->second.key, &entry, &found));
    else
      require(library_->find(owner(), facts_of(picture_), &entry, &found));
    require(found == is_there, "found differs");
    ++(found ? outcome.served : outcome.refused);
    if (!found || !is_there) return;
    plain_.touch(should->second);
    uint64_t version = 0;
    const std::string wrong = check_entry(entry, picture_, &version, &found);
    if (!wrong.empty()) outcome.note_wrong(wrong);
    require(found != should->second.damaged, "damage differs");
    if (!found) return void(plain_.entries.erase(should));
    require(version == should->second.version, "an older version was served");
    // Other owners must not see it by its key.
    LibraryEntry stolen;
    if (should->first.first == kShared) return;
    require(library_->find_key(name_of((owner_ + 1) % kOwners), should->second.key, &stolen, &found));
    require(!found, "a stranger found an entry");
  }

  /// Returns the key of the entry, existing or not.
  LibraryKey key() {
    const auto found = plain_.entries.find(at_);
    return found == plain_.entries.end() ? LibraryKey{random_.bits(), random_.bits()} : found->second.key;
  }

  void remove() {
    bool found = false;
    const Status status = library_->remove(owner(), part(), key(), &found);
    if (!may_write()) return require(status.code() == Code::kBadArgument, "a stranger removed from the shared part");
    require(status);
    const auto should = plain_.entries.find(at_);
    require(found == (should != plain_.entries.end() && !plain_.is_gone(should->second)), "removed differs");
    if (should != plain_.entries.end()) plain_.entries.erase(should);
  }

  void pin() {
    bool found = false;
    const bool pinned = random_.integer(0, 2) == 0;
    const Status status = library_->set_pinned(owner(), part(), key(), pinned, &found);
    if (!may_write()) return require(status.code() == Code::kBadArgument, "a stranger pinned in the shared part");
    require(status);
    const auto should = plain_.entries.find(at_);
    const bool is_there = should != plain_.entries.end() && !plain_.is_gone(should->second);
    const bool changes = is_there && should->second.pinned != pinned;
    require(found == (is_there && !(changes && should->second.damaged)), "pinned differs");
    if (!changes) return;
    if (should->second.damaged) return void(plain_.entries.erase(should));
    plain_.make_room(at_, should->second.bytes);
    should->second.pinned = pinned;
    plain_.touch(should->second);
  }

  void list() {
    std::map<std::pair<uint64_t, uint64_t>, LibraryItem> items;
    require(library_->list(
        owner(),
        [](void* user, const LibraryItem& item) {
          auto& to = *static_cast<decltype(items)*>(user);
          return to.emplace(std::pair(item.key.high, item.key.low), item).second;
        },
        &items));
    size_t count = 0;
    for (const auto& [name, entry] : plain_.entries) {
      if ((name.first != owner_ && name.first != kShared) || plain_.is_gone(entry)) continue;
      ++count;
      const auto item = items.find({entry.key.high, entry.key.low});
      require(item != items.end() && item->second.bytes == entry.bytes && item->second.labels.pinned == entry.pinned &&
                  item->second.labels.expires == entry.expires && item->second.facts == facts_of(name.second) &&
                  item->second.created == entry.created && item->second.labels.tags.count == 2 &&
                  item->second.labels.caption.view() == Contents(name.second, entry.version).caption,
              "a listed entry differs");
    }
    require(items.size() == count, "the list has another length");
    LibraryUse use;
    require(library_->describe_all(&use));
    int64_t bytes = 0, pinned = 0;
    for (const auto& [name, entry] : plain_.entries) {
      bytes += entry.bytes;
      pinned += entry.pinned ? entry.bytes : 0;
    }
    require(use.bytes == bytes && use.pinned_bytes == pinned, "sums differ");
    require(use.bytes <= kQuota, "the quota is exceeded");
  }

  static double similarity(uint64_t a, uint64_t b) {
    const Contents first(a, 0), second(b, 0);
    double product = 0, length = 0, other = 0;
    for (size_t i = 0; i < first.embedding.size(); ++i) {
      product += double{first.embedding[i]} * double{second.embedding[i]};
      length += double{first.embedding[i]} * double{first.embedding[i]};
      other += double{second.embedding[i]} * double{second.embedding[i]};
    }
    return product / std::sqrt(length * other);
  }

  /// Searches pictures by a word of their captions.
  void search_text() {
    Buffer<FoundText> found;
    require(library_->search_text(owner(), std::string("p").append(std::to_string(picture_)), 100, &found));
    std::vector<LibraryKey> expected;
    for (const int32_t whose : {owner_, kShared}) {
      const auto entry = plain_.entries.find({whose, picture_});
      if (entry != plain_.entries.end() && !plain_.is_gone(entry->second)) expected.push_back(entry->second.key);
    }
    require(found.size() == std::ssize(expected), "as many captions are not found");
    for (const FoundText& one : found)
      require(std::find(expected.begin(), expected.end(), one.key) != expected.end(), "another's caption is found");
  }

  void search() {
    if (random_.integer(0, 1) == 0) return search_text();
    constexpr int32_t kCount = 5;
    Buffer<NearEntry> near;
    require(library_->nearest(owner(), facts_of(1).model, Contents(picture_, 0).embedding, kCount, &near));
    std::vector<double> best;
    for (const auto& [name, entry] : plain_.entries)
      if ((name.first == owner_ || name.first == kShared) && !plain_.is_gone(entry))
        best.push_back(similarity(picture_, name.second));
    std::sort(best.rbegin(), best.rend());
    const auto count = std::min<size_t>(best.size(), kCount);
    require(near.size() == static_cast<int64_t>(count), "as many are not near");
    for (int64_t i = 0; i < std::min(near.size(), static_cast<int64_t>(count)); ++i)
      require(std::fabs(double{near[i].similarity} - best[static_cast<size_t>(i)]) < 1e-5, "another one is near");
  }

  void damage() {
    const auto found = plain_.entries.find(at_);
    if (found == plain_.entries.end() || found->second.damaged) return;
    const std::string path = folder_ / ("entries/" + std::string(key_text(found->second.key).text) + ".entry");
    const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    const int64_t place = kHeadBytes + random_.integer(0, 599);  // in the first block
    uint8_t byte = 0;
    require(::pread(file, &byte, 1, place) == 1, "a file is missing");
    byte ^= 1u << random_.integer(0, 7);
    require(::pwrite(file, &byte, 1, place) == 1, "a file cannot be written");
    ::close(file);
    found->second.damaged = true;
  }

  void move_clock() {
    clock_.seconds += random_.integer(0, 3) == 0 ? -random_.integer(0, 100'000) : random_.integer(0, 60);
    if (random_.integer(0, 20) == 0) clock_.seconds = plain_.now;
  }

  void collect() {
    LibraryReport report;
    require(library_->collect_garbage(&report));
    require(report.adopted == 0 && report.dropped == 0 && report.set_aside == 0, "there was something to put right");
    plain_.remove_expired();
  }

  void reopen_something() {
    const int64_t choice = random_.integer(0, 2);
    if (choice < 2) return reopen(static_cast<int>(choice));
    // Makes both see the latest time before their catalogue is removed.
    see_time();
    LibraryUse use;
    for (ImageLibrary& library : libraries_) require(library.describe_all(&use));
    std::filesystem::remove(folder_ / "catalogue.sqlite");
    for (ImageLibrary& library : libraries_) require(library.describe_all(&use));
    plain_.forget_uses();
  }

  const Folder folder_;
  SetClock clock_;
  Random random_;
  ImageLibrary libraries_[2];
  PlainLibrary plain_;
  ImageLibrary* library_ = nullptr;
  int32_t owner_ = 0;
  uint64_t picture_ = 0;
  bool shared_ = false;
  Name at_;
};

}  // namespace

Outcome run_operations(uint64_t seed, int64_t count) {
  Walk walk(seed);
  for (; walk.outcome.done < count; ++walk.outcome.done) walk.step();
  return walk.outcome;
}

}  // namespace ocellus::walk
