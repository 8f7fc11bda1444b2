// The branch reuse: pictures that are not computed in place. A picture is linked (computed alone, once, and seen at any
// position), or, by prefix caching, linked as it was read in a prompt with the same beginning. Both may be recalled
// from and kept in the session's picture store.
//
//   what an engine plans and makes         reuse_engine.cpp
//   known pictures                         reuse.cpp
//   images that sessions share             shared_links.h
//   reading alone, linking                 reuse_link.cpp
//   choosing rows to compute in place      reuse_blend.cpp
//   changing the others as these changed   carry.cpp
//   storing linked pictures with prompts   join.cpp
#pragma once

#include "runtime/branches/reuse/shared_links.h"
#include "runtime/engine/engine_shape.h"
#include "runtime/engine/picture_links.h"
#include "runtime/forward/prefill_extras.h"
#include "runtime/session/picture_rows.h"

namespace ocellus {

/// Rule that chooses the rows of a linked picture that are computed in place. Its number is part of what is stored.
enum class PickRule : uint8_t { kFirst, kSpread, kFirstOfTiles, kMostChanged };
PickRule pick_rule(const ReuseShape& reuse);
/// Rows of a picture that may be computed in place.
int64_t input_rows_of(const EngineShape& shape, int64_t views, int64_t rows);

/// Memory for choosing rows of linked images that are far from each other: see spread_rows.
struct SpreadMemory {
  StagedRows<int32_t> picks;
  DeviceView<float> least;
  DeviceView<float> mean;
  Status lay_out(int64_t rows, int64_t width, int64_t most_picks, RowSink& sink);
};

/// The choice of the rows to compute in place, among all.
struct BlendScratch final : BranchScratch {
  StagedRows<KvSlot> stored;  // [1, T] storage of each row
  StagedRows<float> changes;  // [1, T] change of values by row
  HostView<int32_t> order;    // [1, T] rows

  Status lay_out(const TextConfig& config, int64_t rows, const DeviceTraits& device, RowSink& sink) override;
};

// Null if there is no memory.
std::unique_ptr<LinkJoin> make_staged_images();
/// Applies the change of a linked image's rows in place to its other slots.
std::unique_ptr<LinkChange> make_carry();

class Reuse final : public PictureLinks, public SetUpObject {
 public:
  void open(Conversation& conversation, PictureRows& pictures, const BlendScratch& blend, const SpreadMemory& spread);

  void reset() override;
  void set_linking(bool links) override { is_linking_ = links; }
  void set_store(PictureStore* store, const OwnerName& owner) override;
  const OwnerName& owner() const override { return owner_; }
  PictureStore* store() const override { return store_; }
  EntryFacts facts_of(int32_t view_count, int64_t row_count) const override;
  bool looks_ahead() const override;
  Status look_ahead(const Picture& picture, const ViewPlan& plan) override;
  void forget_ahead() override;
  int64_t rows_in_chunk(const ViewPlan& plan) const override;
  bool reads_before(const PromptChunk& chunk) const override;
  Status add(const Picture& picture, const ViewPlan& plan, int32_t ordinal, PromptChunk& chunk) override;
  Status link_named(const EntryFacts& facts, const ViewPlan& plan, PromptChunk& chunk) override;
  void share(int32_t ordinal, const PictureWish& wish, const SharedImage& image, const PromptChunk& chunk) override {
    shared_.keep(ordinal, wish, image, false, chunk);
  }
  void* shared_rows(int32_t ordinal) const override { return shared_.rows_of(ordinal); }
  Status choose_rows(PromptChunk& chunk) override;
  void fetch_rows(const PromptChunk& chunk) override;

 private:
  /// Links a picture, known or read alone.
  Status link(const Picture& picture, const ViewPlan& plan, PromptChunk& chunk);
  PictureWish wish_for(const EntryFacts& facts) const { return {store_, owner_, facts}; }
  Status identify(const Picture& picture, const ViewPlan& plan, EntryFacts* facts);
  void keep_image(const EntryFacts& facts, int32_t ordinal, double computed_ms, const PromptChunk& chunk);
  Status link_known(const Picture& picture, const ViewPlan& plan, PromptChunk& chunk, int32_t* ordinal);
  Status find(const PictureWish& wish, const PromptChunk& chunk, int32_t* ordinal, bool* found);
  Status read_alone(const Picture& picture, const ViewPlan& plan, int32_t ordinal, const PromptChunk& chunk);
  Status read_in_context(const Picture& picture, const ViewPlan& plan, int32_t ordinal, PromptChunk& chunk);
  Status pick_rows(const ViewPlan& plan);
  void keep_picked_rows(const PromptChunk& chunk);
  Status prefill_images(const PromptChunk& chunk, int64_t first_position);
  Status add_links(const ViewPlan& plan, int32_t ordinal, PromptChunk& chunk);

  Conversation* conversation_ = nullptr;
  PictureRows* pictures_ = nullptr;
  const BlendScratch* blend_ = nullptr;
  const SpreadMemory* spread_ = nullptr;
  PictureStore* store_ = nullptr;
  OwnerName owner_;
  SharedLinks shared_;
  bool is_linking_ = true;  // pictures that are added now are linked
};

}  // namespace ocellus
