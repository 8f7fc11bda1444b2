// The branch library: pictures are kept in files, across sessions and restarts.
#include <algorithm>
#include <cstdio>
#include <new>

#include "runtime/branches/all.h"
#include "runtime/branches/library/library_session.h"
#include "runtime/engine/check_limits.h"
#include "runtime/engine/engine.h"
#include "runtime/models/random_weights.h"
#include "runtime/session/session.h"

namespace ocellus {
namespace {

constexpr int64_t kMaxTierBytes = int64_t{1} << 48;

/// Threads that help to read one entry: some cores are left to the work that goes on beside it.
int reading_threads(const EngineShape& shape) {
  return std::clamp(shape.device.thread_count / 2 - 1, 0, BlockReaders::kMaxThreads);
}

Status check(const ocellus_limits& limits) {
  OCELLUS_TRY(check_range("the image library", limits.library, 0, 1));
  OCELLUS_TRY(
      check_range("the bytes of the image library's memory tier", limits.library_cache_bytes, 0, kMaxTierBytes));
  if (limits.library_cache_bytes > 0 && limits.library == 0)
    return OCELLUS_FAIL(Code::kBadArgument, "the image library's memory tier needs a library: plan one");
  if (limits.library != 0 && limits.reuse == OCELLUS_REUSE_NONE)
    return OCELLUS_FAIL(Code::kBadArgument, "an image library needs linked images: plan reuse");
  return {};
}

Status resolve(const ocellus_limits& limits, EngineShape* shape) {
  shape->pictures.are_stored = limits.library != 0 && (limits.max_images > 0 || limits.max_clip_frames > 0);
  if (shape->pictures.are_stored) shape->other_threads = 2 + reading_threads(*shape);
  return {};
}

Status lay_out(const Model& model, const EngineShape& shape, RowSink& sink, EngineMemory* memory) {
  if (!shape.pictures.are_stored) return {};
  std::unique_ptr<LibraryStores> made(new (std::nothrow) LibraryStores);
  if (made == nullptr) return OCELLUS_FAIL(Code::kIo, "the system has no memory for an image library");
  OCELLUS_TRY(made->lay_out(shape, model.text().input_width(), sink));
  memory->branches.stores = std::move(made);
  return {};
}

/// Hashes all bytes piecewise, each piece with the hash of those before it; the initial value is *hash.
Status hash_file(const InputFile& file, uint64_t* hash) {
  struct {
    uint64_t before;
    std::byte bytes[32768];
  } piece = {.before = *hash, .bytes = {}};
  for (int64_t done = 0; done < file.size();) {
    const int64_t count = std::min<int64_t>(file.size() - done, sizeof piece.bytes);
    OCELLUS_TRY(file.read_at(done, piece.bytes, count));
    piece.before = hash64(&piece, int64_t{sizeof piece.before} + count);
    done += count;
  }
  *hash = piece.before;
  return {};
}

/// Hashes all files of a model.
Status hash_files(const GgufFile& model, uint64_t* hash) {
  for (int32_t i = 0; i < model.part_count(); ++i)
    OCELLUS_TRY(prefix_failure(hash_file(model.part(i).file(), hash), model.part(i).path()));
  return {};
}

LibraryStores* stores_of(Engine& engine) { return static_cast<LibraryStores*>(engine.memory().branches.stores.get()); }

}  // namespace

const Branch kLibraryBranch = {
    .facts = {.name = "library", .is_built = 1}, .check = check, .resolve = resolve, .lay_out_linked = lay_out};

Status LibraryShape::of(const EngineShape& shape, int64_t width, LibraryShape* out) {
  // Records are searched linearly: more would take longer than reading a file.
  constexpr int64_t kMaxEntries = 65536;
  const int64_t tier_bytes = shape.limits.library_cache_bytes;
  const int64_t input_bytes = shape.reuse.input_rows * (width * int64_t{sizeof(Half)} + int64_t{sizeof(int32_t)});
  out->entry_bytes = aligned_bytes(shape.linked_kv().image_bytes() + input_bytes);
  const int64_t each = out->entry_bytes + int64_t{sizeof(CachedEntry)};
  const int64_t padding = tier_bytes > 0 ? kRowAlignment : 0;  // the records are aligned
  out->cached_entries = std::min(std::max<int64_t>(tier_bytes - padding, 0) / each, kMaxEntries);
  if (tier_bytes == 0 || out->cached_entries > 0) return {};
  return OCELLUS_FAIL(Code::kBadArgument,
                      "the image library's memory tier of %lld bytes does not hold one image, which takes %lld",
                      static_cast<long long>(tier_bytes), static_cast<long long>(each + padding));
}

Status LibraryMemory::lay_out(const EngineShape& shape, int64_t width, RowSink& sink) {
  const auto take = [&](const char* name, int64_t rows, int64_t bytes, HostView<std::byte>* out) {
    return take_rows(sink, name, Lifetime::kSession, Phase::kNone, rows, bytes, out);
  };
  const auto take_mean = [&](const char* name, HostView<float>* out) {
    return take_rows(sink, name, Lifetime::kSession, Phase::kNone, 1, width, out);
  };
  LibraryShape sizes;
  OCELLUS_TRY(LibraryShape::of(shape, width, &sizes));
  const int64_t entry = sizes.entry_bytes, cached = sizes.cached_entries;
  const int64_t rows_bytes = shape.reuse.alone_rows * width * int64_t{sizeof(float)};
  OCELLUS_TRY(take("library staging", 1, std::max(shape.linked_kv().block_bytes(), rows_bytes), &staging));
  OCELLUS_TRY(take_mean("library embedding", &embedding));
  OCELLUS_TRY(take("library loads", LibraryTraffic::kLoads, entry, &traffic.loads));
  OCELLUS_TRY(take("library store", 1, entry, &traffic.store));
  OCELLUS_TRY(take_mean("library store embedding", &traffic.embedding));
  OCELLUS_TRY(take("pictures ahead", shape.pictures.per_session, sizeof(EntryFacts), &ahead));
  if (cached == 0) return {};
  OCELLUS_TRY(take("library cache", cached, entry, &traffic.cache));
  return take("library cache records", cached, sizeof(CachedEntry), &traffic.cache_records);
}

Status LibraryStores::lay_out(const EngineShape& shape, int64_t width, RowSink& sink) {
  OCELLUS_TRY(memory_.lay_out(shape, width, sink));
  sessions_.reset(new (std::nothrow) LibrarySession[static_cast<size_t>(shape.sessions)]);
  return sessions_ != nullptr ? Status() : OCELLUS_FAIL(Code::kIo, "the system has no memory for an image library");
}

Status LibraryStores::start(const EngineShape& shape, const ThreadSettings& settings, const TraceSink& trace,
                            const LogSink& log) {
  ahead_.attach(memory_.ahead);
  return traffic_.start(shape.linked_kv(), memory_.traffic, shape.sessions, reading_threads(shape), settings, trace,
                        log);
}

void LibraryStores::describe(ocellus_engine_stats* out) const {
  const TrafficTotals totals = traffic_.totals();
  out->library_unstored = totals.unstored;
  out->library_read_bytes = totals.read_bytes;
  out->library_read_ms = totals.read_ms;
  out->library_written_bytes = totals.written_bytes;
  out->library_write_ms = totals.write_ms;
}

Status fingerprint_model(Engine& engine) {
  const Model& model = engine.model();
  if (engine.model_fingerprint() != Hash128()) return {};
  Hash128 found;
  if (model.is_made_up()) {
    ocellus_model_facts facts = {};
    model.describe(&facts);
    char text[128] = {};
    std::snprintf(text, sizeof text, "%s %s %d", facts.name, facts.weight_format, facts.layer_count);
    found = {hash64(text, sizeof text), kRandomWeightsSeed};
  } else {
    OCELLUS_TRY(hash_files(model.text_file(), &found.high));
    if (model.has_vision()) OCELLUS_TRY(hash_files(model.vision_file(), &found.low));
  }
  engine.set_model_fingerprint(found);
  return {};
}

LibraryTraffic& library_traffic(Engine& engine) { return stores_of(engine)->traffic(); }

LibrarySession* library_of(Session& session) { return static_cast<LibrarySession*>(session.store()); }

Status set_library(Session& session, ImageLibrary* library, std::string_view owner) {
  if (library == nullptr) return session.set_store(nullptr, owner);
  LibraryStores* const stores = stores_of(session.engine());
  if (stores == nullptr) return OCELLUS_FAIL(Code::kBadArgument, "no image library was planned: plan one");
  OCELLUS_TRY(fingerprint_model(session.engine()));
  LibrarySession& own = stores->session(session.index());
  OCELLUS_TRY(session.set_store(&own, owner));
  own.open(*stores, session.index(), library);
  return {};
}

Status set_library_keep(Session& session, const EntryLabels& labels, LibraryPart part, bool only_there) {
  LibrarySession* const own = library_of(session);
  if (own == nullptr) return no_store();
  // Fails now rather than after a picture has been computed.
  OCELLUS_TRY(own->library().check_writer(session.owner().view(), part));
  SessionKeep& keep = own->keep_settings();
  keep.labels = labels;
  keep.part = part;
  keep.only_there = only_there;
  return {};
}

}  // namespace ocellus
