// Arena: all memory of the runtime, handed out from memory that exists before the first row is taken.
//
//   low end  ->  weights, session state: taken once, kept until the engine is destroyed
//   high end <-  phase scratch: taken inside an ArenaScope, returned when the scope ends
//
// Code that needs memory is written once against RowSink. During planning the sink only records the rows; when
// the engine is created the same code takes them from the arena. Plan and allocation therefore cannot differ.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "platform/round_up.h"
#include "platform/status.h"
#include "platform/views.h"

namespace ocellus {

enum class Lifetime : uint8_t { kWeights = 0, kSession = 1, kScratch = 2, kStaging = 3 };
inline constexpr int kLifetimeCount = 4;
const char* lifetime_name(Lifetime lifetime);

/// A part of the work. Phases share the same scratch bytes: at most one of them runs at a time. Whoever runs one
/// defines it; the name (a string literal) is what tells it from others.
struct Phase {
  const char* name = "-";

  static const Phase kNone;

  bool operator==(const Phase& other) const { return std::strcmp(name, other.name) == 0; }
};
inline constexpr Phase Phase::kNone;

/// Place of a row. On the CPU, and if the device reads the host's memory, both are the same memory.
enum class Place : uint8_t { kDevice = 0, kHost = 1 };
inline constexpr int kPlaceCount = 2;

/// One buffer of the memory plan. `name` must outlive the plan (a string literal).
struct RowSpec {
  const char* name = "";
  Lifetime lifetime = Lifetime::kSession;
  Phase phase = Phase::kNone;
  Place place = Place::kDevice;
  const char* dtype = "u8";  // f32, f16, i32, u8, q8_0, ...
  int64_t shape[4] = {1, 1, 1, 1};
  int64_t bytes = 0;  // before alignment
};

/// Every row starts on this boundary and occupies a multiple of it.
inline constexpr int64_t kRowAlignment = 256;
constexpr int64_t aligned_bytes(int64_t bytes) { return round_up(bytes, kRowAlignment); }

/// Destination of rows: recorded by the planner, taken from the arena by the engine.
class RowSink {
 public:
  virtual Status take(const RowSpec& row, std::byte** out) = 0;
  /// True if the device reads rows in host memory directly, so that nothing is copied.
  virtual bool shares_host_memory() const { return true; }

 protected:
  ~RowSink() = default;
};

/// Takes a matrix [rows, cols] of T. While planning, `out->data` stays null but the shape is set.
template <class T, bool kOnDevice>
Status take_rows(RowSink& sink, const char* name, Lifetime lifetime, Phase phase, int64_t rows, int64_t cols,
                 BasicView<T, kOnDevice>* out) {
  RowSpec row;
  row.name = name;
  row.lifetime = lifetime;
  row.phase = phase;
  row.place = kOnDevice ? Place::kDevice : Place::kHost;
  row.dtype = TypeName<T>::value;
  row.shape[0] = rows;
  row.shape[1] = cols;
  row.bytes = rows * cols * static_cast<int64_t>(sizeof(T));
  std::byte* data = nullptr;
  OCELLUS_TRY(sink.take(row, &data));
  *out = {reinterpret_cast<T*>(data), rows, cols};
  return {};
}

/// Takes activation rows of the given type.
Status take_activations(RowSink& sink, const char* name, Lifetime lifetime, Phase phase, ActivationType type,
                        int64_t rows, int64_t cols, ActivationView* out);

/// Takes rows that the host writes and the device reads: the same memory if the device can read the host's, else one
/// row on each side. Queue::upload updates the device's.
template <class T>
struct StagedRows {
  HostView<T> host;
  DeviceView<T> device;

  Status lay_out(RowSink& sink, const char* name, Lifetime lifetime, Phase phase, int64_t rows, int64_t cols) {
    OCELLUS_TRY(take_rows(sink, name, lifetime, phase, rows, cols, &host));
    device = {host.data, rows, cols};
    return sink.shares_host_memory() ? Status() : take_rows(sink, name, lifetime, phase, rows, cols, &device);
  }
};

/// A piece of memory given to the arena, which never frees it.
struct Extent {
  std::byte* data = nullptr;
  int64_t bytes = 0;
};

class Arena : public RowSink {
 public:
  static constexpr int kMaxExtents = 9;  // eight of a caller, and pinned staging
  static constexpr int kMaxRows = 256;

  /// Adds memory; kBadArgument if it is null, not aligned to kRowAlignment, or one extent too many. Memory added for
  /// one place holds that place's rows only; without a place it holds all.
  Status add_extent(Extent extent) { return add(extent, true, true); }
  Status add_extent(Extent extent, Place place) { return add(extent, place == Place::kDevice, place == Place::kHost); }

  /// Takes a row: scratch from the high end (only inside a scope), everything else from the low end.
  /// Fails with kInternal and the name of the row if no extent has room: the plan should have prevented that.
  Status take(const RowSpec& row, std::byte** out) override;
  /// True by default while no extent belongs to one place only.
  bool shares_host_memory() const override { return shares_host_memory_; }
  void set_shares_host_memory(bool shares) { shares_host_memory_ = shares; }

  int64_t capacity_bytes() const;
  int64_t capacity_bytes(Place place) const;
  /// Bytes of one lifetime in use now, and the maximum so far (aligned row sizes).
  int64_t used_bytes(Lifetime lifetime) const { return used_[index(lifetime)]; }
  int64_t high_water_bytes(Lifetime lifetime) const { return high_water_[index(lifetime)]; }
  /// Long-lived rows in the order they were taken.
  int row_count() const { return row_count_; }
  const RowSpec& row(int i) const { return rows_[i]; }

  /// Reports the bytes in use by a pool inside a row, for meaningful high-water marks.
  void note_session_use(int64_t bytes);
  int64_t session_use_high_water_bytes() const { return session_use_high_water_; }

 private:
  friend class ArenaScope;
  Status add(Extent extent, bool for_device, bool for_host);
  struct Bounds {
    Extent extent;
    bool holds[kPlaceCount] = {};
    int64_t low = 0;   // first free byte
    int64_t high = 0;  // one past the last free byte
  };
  static int index(Lifetime lifetime) { return static_cast<int>(lifetime); }
  /// Rows of host memory that the device does not share count as staging, whatever their lifetime.
  int account(const RowSpec& row) const {
    return index(separate_places_ && row.place == Place::kHost ? Lifetime::kStaging : row.lifetime);
  }

  Bounds bounds_[kMaxExtents];
  int extent_count_ = 0;
  int scope_depth_ = 0;
  bool separate_places_ = false;
  bool shares_host_memory_ = true;
  RowSpec rows_[kMaxRows];
  int row_count_ = 0;
  int64_t used_[kLifetimeCount] = {};
  int64_t high_water_[kLifetimeCount] = {};
  int64_t session_use_high_water_ = 0;
};

/// Returns all scratch taken during its lifetime. Scopes nest.
class ArenaScope {
 public:
  explicit ArenaScope(Arena& arena);
  ~ArenaScope();
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;

 private:
  Arena& arena_;
  int64_t saved_high_[Arena::kMaxExtents];
  int64_t saved_used_[kLifetimeCount];
};

}  // namespace ocellus
