// EngineShape: the limits resolved against a model. Every count that sizes a buffer is computed here, once.
#pragma once

#include "mm/tower/kept_views.h"
#include "platform/device.h"
#include "runtime/cache/prompt_chunk.h"
#include "runtime/models/model.h"
#include "runtime/policy/cache_policy.h"

namespace ocellus {

/// Maximums of limits: beyond any realistic use, and small enough to keep every product of limits far from overflow.
inline constexpr int32_t kMaxSessions = 1024;
inline constexpr int32_t kMaxImages = 65536;  // per session

/// Contents of one session, and the parts of the cache for them.
struct SessionShape {
  int64_t text_tokens = 0;  // tokens around images included
  int64_t images = 0;       // pictures, or what stands for one
  int64_t pages = 0;
  int64_t blocks = 0;
  int64_t kept_prompts = 0;  // see SessionLimits
  int64_t text_blocks = 0;   // likewise
  int64_t holes = 0;         // likewise

  /// Maximum bytes of one add_text call.
  int64_t text_bytes() const;
};

/// Pictures of a session.
struct PictureShape {
  int32_t per_session = 0;   // frames of clips, or groups of them, included
  int32_t clip_frames = 0;   // frames among them
  int32_t clip_group = 1;    // frames that are one picture
  int32_t views = 0;         // maximum of a picture
  int64_t encoded_rows = 0;  // rows of these views
  int64_t rows = 0;          // rows of them that are read
  int64_t delimiters = 0;    // text tokens around them
  ImageLimits limits;
  ImageLimits device_limits;  // limits of resizing on a GPU; the host makes views of larger ones, by rows
  PreprocessConfig preprocess;
  KeptViewsShape kept_views;
  ViewBatch batch;  // largest number of views that are encoded together; one, the largest, if they have any size
  // Where not all rows are read.
  bool chosen_together = false;       // rows of all pictures of a session wait until those that are read are known
  bool weighs_rows = false;           // rows have weights: see PromptChunk
  const char* frames_only = nullptr;  // names what reads frames of clips alone; null: nothing

  /// Linked ones may be kept in a PictureStore: they fit whatever size is planned, and their rows are f16, so that what
  /// is computed and what comes from there are the same.
  bool are_stored = false;

  bool planned() const { return per_session > 0; }
  /// Maximum of slots of a picture that are read again, as their rows have weights.
  int64_t again_slots() const { return weighs_rows ? encoded_rows - rows : 0; }
  /// CUDA: some are too large to be resized there.
  bool host_resizes_large() const { return is_large(limits.max_pixels, limits.max_side); }
  bool is_large(int64_t pixels, int32_t side) const {
    return pixels > device_limits.max_pixels || side > device_limits.max_side;
  }
};

/// Reuse of pictures. Its counts are for a picture with the most views.
struct ReuseShape {
  ocellus_reuse method = OCELLUS_REUSE_NONE;
  int64_t alone_rows = 0;     // rows of a picture that is read alone, with the start token and the delimiters
  int64_t in_place = 0;       // rows computed once more, in place
  int64_t input_rows = 0;     // rows whose embeddings are kept, since they may be among those
  int64_t shared_images = 0;  // places for pictures that sessions share; 0: each session has its own
  int32_t blend_percent = 0;  // share of all linked rows that is computed in place, if it blends
  /// What stays of linked pictures depends on their prompt: their slots are staged in f16, unpacked, for one prompt at
  /// a time, and stored with its rows as if they had been read there.
  bool staged = false;

  /// Pictures are linked into prompts.
  bool links() const { return method != OCELLUS_REUSE_NONE; }
  /// Prefix caching: they are linked as they were read in a prompt with the same beginning, else as they were read
  /// alone.
  bool in_context() const { return method == OCELLUS_REUSE_PREFIX; }
  /// Only a prompt's last row sees linked pictures.
  bool text_alone() const { return method == OCELLUS_REUSE_FULL; }
  /// The change of the rows in place is applied to the others.
  bool carries() const { return method == OCELLUS_REUSE_CARRY; }
  bool shares() const { return shared_images > 0; }
  /// Sessions change pictures, so that they copy the shared ones.
  bool copies_shared() const { return shares() && carries(); }
  /// The rows in place are chosen, among all, when a prompt is read.
  bool blends() const { return method == OCELLUS_REUSE_BLEND; }
};

struct EngineShape {
  ocellus_limits limits = {};  // as they were given: a branch reads its own
  DeviceTraits device;
  int32_t device_index = 0;
  int64_t other_threads = 0;  // beside the device's
  int32_t sessions = 1;
  int64_t step_rows = 1;      // maximum rows of a decode step
  int64_t answer_rows = 1;    // maximum rows of one session among them, guessed tokens included
  int64_t guessing_rows = 0;  // maximum rows of a step that has guesses; 0: none has
  bool has_masks = false;     // rows of a step may have masks of tokens
  int32_t top_logprobs = 0;   // maximum of most probable tokens that a step lists; 0: it computes no log-probabilities
  int64_t prompt_rows = 0;    // rows of the chunk: they wait to be read, and compete with each other
  int64_t stored_rows = 0;    // maximum of rows stored with a chunk: prompt_rows, or more with staged pictures
  int64_t rows_at_once = 0;   // maximum of rows that a GPU takes through a layer together; at most prompt_rows
  SessionShape session;       // each of them
  PictureShape pictures;
  ReuseShape reuse;
  LinkLimits links;  // links into a chunk, as they follow from all others
  CachePolicy policy;
  KvShape kv;
  KvShape staged_kv;  // staged pictures

  /// Rows that are read together compete for slots if there are images among them. If no images are planned, text alone
  /// competes, from kLeastCompetingText rows on: shorter pieces, such as the suffix after which the model answers, are
  /// kept.
  bool competes(const ChunkFacts& facts) const {
    if (!policy.lists_chunks()) return false;
    return facts.visual_rows > 0 || (text_competes() && facts.rows >= kLeastCompetingText);
  }
  bool text_competes() const { return policy.lists_chunks() && session.images == 0; }
  /// Maximum slots that a step reads.
  int64_t slots_per_session() const {
    return session.pages * kPageSlots + session.blocks * kv.block_slots + pictures.per_session * pictures.again_slots();
  }
  /// Maximum of tiles, of `tile_slots` slots, in which pictures' slots are read again.
  int64_t again_tiles(int64_t tile_slots) const;
  /// Maximum runs that one session's cache is listed as for attention.
  int64_t tiles_per_session() const;
  /// True if a prompt's linked pictures are stored with it, whether it has other rows or not.
  bool stores_links() const { return links.staged || kv.local_slots > 0; }
  /// Storage of linked pictures until their prompt is read.
  const KvShape& linked_kv() const { return links.staged ? staged_kv : kv; }
};

/// Makes the bits of a row independent of the others of its step. kBadArgument, `reason` in its sentence, for more
/// sessions than that is possible for.
Status make_batch_invariant(const char* reason, EngineShape* shape);

/// kBadArgument names the limit that is out of range; kUnsupported if the model's vision part cannot be planned, or a
/// GPU whose memory the limits leave open does not exist.
Status resolve_shape(const Model& model, const ocellus_limits& limits, EngineShape* out);

}  // namespace ocellus
