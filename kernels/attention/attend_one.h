#pragma once

#include "kernels/base/kv_run.h"
#include "kernels/rows/rope.h"
#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// attend_step on the CPU, once the new key and value are stored: one query row per session over all live slots of that
/// session's runs, its own new slot included: out[b] = softmax(q[b] . k / sqrt(E)) v, per query head; head h reads
/// key/value head h / (H / G).
///
/// Shapes      query [B, H * E] f32 (rows may be strided); session b's runs are runs[run_begin[b] .. run_begin[b + 1]);
///             run_begin [B + 1]; out [B, H * E]
/// Types       keys and values f16 or codes, read as f32; scores, softmax and sums in f32
/// Packed      calibrated on request; a run's position shift rotates the query that reads it: see kv_run.h
/// Work        split over (session, key/value head, piece of at most kAttendSplitSlots slots); the pieces are combined
///             in a fixed order, so the same inputs give the same bits whatever the number of threads
/// Scratch     attend_one_scratch_bytes(...)
/// Divisible   E by 8, E <= 256; H by G
/// Aliasing    out may not overlap query
/// Errors      kInternal in the queue if scratch is too small
/// A session without live slots gets zeros.
struct AttendOneArgs {
  DeviceView<const float> query;
  int32_t query_heads = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  const KvRun* runs = nullptr;
  const int32_t* run_begin = nullptr;
  KvLayer layer = {};
  RopeParams rope = {};  // used with shifted runs
  KvCalibration calibration = {};
  DeviceView<float> output;
  DeviceView<std::byte> scratch;
};

inline constexpr int64_t kAttendSplitSlots = 256;
/// Floats of a piece's row of scores, rounded up to whole vectors.
inline constexpr int64_t kAttendScoreRow = kAttendSplitSlots + 16;

/// Scratch of at most `sessions` sessions of at most `slots` live slots each, in at most `runs` runs in total;
/// calibrated or not.
int64_t attend_one_scratch_bytes(int64_t sessions, int64_t slots, int64_t runs, int32_t query_heads, int32_t head_dim,
                                 bool calibrated);

namespace cpu {
void attend_one(const AttendOneArgs& args, Queue& queue);
}  // namespace cpu

}  // namespace ocellus
