#include "tests/stress/race_library.h"

#include <array>
#include <ctime>
#include <iterator>
#include <memory>
#include <thread>

#include "tests/stress/race_tasks.h"
#include "tests/support/random.h"

namespace ocellus::test {
namespace {

constexpr const char* kOwners[] = {"ann", "bob", "cy"};

const char* draw_owner(Random& random) { return kOwners[random.integer(0, std::ssize(kOwners) - 1)]; }

/// `allowed`: another status that may be the right one.
void check(Status status, const char* what, Tally* tally, ocellus_status allowed = OCELLUS_OK) {
  ++tally->done[what];
  if (!status && status.code() != allowed) tally->fail(std::string(what) + ": " + Status::sentence());
}

/// Keys of the entries that an owner sees.
std::vector<std::string> list(const Library& library, const char* owner, Tally* tally) {
  std::vector<std::string> keys;
  const auto take = [&](const ocellus_library_item& item) {
    keys.emplace_back(item.key);
    return true;
  };
  check(library.list(owner, take), "library: list", tally);
  return keys;
}

ocellus_library_keep draw_keep(Random& random) {
  static constexpr const char* kTags[] = {"red", "green"};
  ocellus_library_keep keep = library_keep();
  keep.tags = kTags;
  keep.tag_count = static_cast<int32_t>(random.integer(0, 2));
  keep.caption = "a large cyan star on the left";
  keep.pinned = static_cast<int32_t>(random.integer(0, 1));
  if (random.integer(0, 3) == 0) keep.expires = std::time(nullptr) + random.integer(1, 3);
  return keep;
}

void change_entry(const Library& library, const char* owner, const char* key, Random& random, Tally* tally) {
  ocellus_library_item item = {};
  check(library.describe_entry(owner, key, item).status(), "library: describe", tally);
  // Shared entries are not the owner's own, so that these change nothing.
  switch (random.integer(0, 3)) {
    case 0: return check(library.set_pinned(owner, key, random.integer(0, 1) == 0).status(), "library: pin", tally);
    case 1: return check(library.relabel(owner, key, draw_keep(random)).status(), "library: relabel", tally);
    default: return check(library.remove(owner, key).status(), "library: remove", tally);
  }
}

/// Nothing damages files here, so that nothing may be found damaged.
void check_report(const Result<ocellus_library_report>& report, const char* what, Tally* tally) {
  check(report.status(), what, tally);
  if (report && (*report).set_aside != 0) tally->fail(std::string(what) + ": an intact entry was set aside");
}

void keep_once(const Library& library, Random& random, Tally* tally) {
  const char* const owner = draw_owner(random);
  switch (random.integer(0, 9)) {
    case 0: return check_report(library.verify(), "library: verify", tally);
    case 1: return check_report(library.collect_garbage(), "library: collect garbage", tally);
    case 2: return check(library.set_owner_quota(owner, random.integer(0, 1) << 20), "library: quota", tally);
    case 3: return check(library.create_shared("ann"), "library: create shared part", tally);
    case 4:
      return check(library.describe_use(random.integer(0, 1) == 0 ? owner : nullptr).status(), "library: use", tally);
    case 5: {
      ocellus_library_hit hits[4] = {};
      return check(library.search_text(owner, "cyan red", hits).status(), "library: search text", tally);
    }
    default: break;
  }
  const std::vector<std::string> keys = list(library, owner, tally);
  if (keys.empty()) return;
  const auto index = static_cast<size_t>(random.integer(0, std::ssize(keys) - 1));
  change_entry(library, owner, keys[index].c_str(), random, tally);
}

void decode(Random& random, Tally* tally) {
  const Bytes picture = picture_bytes(static_cast<int32_t>(random.integer(0, picture_count() - 1)));
  const Result<ocellus_image_facts> facts = probe_image(picture);
  check(facts.status(), "probe picture", tally);
  if (!facts) return;
  const auto words = static_cast<size_t>((*facts).decode_bytes / 16 + 1);
  const auto memory = std::make_unique<std::array<uint64_t, 2>[]>(words);
  const Span<uint8_t> bytes(reinterpret_cast<uint8_t*>(memory.get()), words * 16);
  check(decode_image(picture, bytes), "decode picture", tally);
}

/// A thread reads its own mistakes, whatever others do meanwhile.
void err(const Model& model, Random& random, Tally* tally) {
  const auto token = static_cast<int32_t>(-random.integer(1, 1'000'000));
  char text[8];
  const Result<int32_t> found = model.token_text(token, text);
  ++tally->done["last error"];
  if (found || std::string(Status::sentence()).find(std::to_string(token)) == std::string::npos)
    tally->fail(std::string("the error of token ") + std::to_string(token) + " reads: " + Status::sentence());
}

void question_once(const Model& model, Random& random, Tally* tally) {
  ocellus_limits limits = ocellus::limits();
  limits.device = OCELLUS_DEVICE_CPU;
  limits.max_images = static_cast<int32_t>(random.integer(0, 3));
  int32_t tokens[16] = {};
  switch (random.integer(0, 6)) {
    case 0: return check(Plan::make(model, limits).status(), "plan memory", tally);
    case 1: return check(Plan::work(model, limits).status(), "plan work", tally);
    case 2: return check(model.tokenize("What is on the left? <|im_end|>", tokens).status(), "tokenize", tally);
    case 3:
      limits.max_images = 1;
      return check(model.count_image_rows(limits, {320, 200}).status(), "count rows", tally);
    case 4: return err(model, random, tally);
    case 5: return decode(random, tally);
    default: return check(Model::open_shape("SmolVLM-256M", "Q8_0", 2).status(), "open shape", tally);
  }
}

/// Leaves most of the processor to the engines.
void pause(Random& random) { std::this_thread::sleep_for(std::chrono::milliseconds(random.integer(0, 20))); }

}  // namespace

void keep_library(const Library& library, uint64_t seed, Clock::time_point end, Tally* tally) {
  Random random(seed);
  for (; Clock::now() < end; pause(random)) keep_once(library, random, tally);
}

void question_models(const std::vector<const Model*>& models, uint64_t seed, Clock::time_point end, Tally* tally) {
  Random random(seed);
  for (; Clock::now() < end; pause(random))
    question_once(*models[static_cast<size_t>(random.integer(0, std::ssize(models) - 1))], random, tally);
}

}  // namespace ocellus::test
