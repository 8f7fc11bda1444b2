// PictureLinks: pictures of a session that are seen where they were computed, in place of being read in its prompt.
#pragma once

#include "platform/set_up_memory.h"
#include "runtime/engine/picture_store.h"

namespace ocellus {

class BranchScratch;
class LinkChange;
class LinkJoin;
class Model;
class PictureRows;
class RowSink;
struct EngineMemory;
struct Picture;
struct SharedImage;

/// The pictures of one session. A prompt calls it to add to its chunk rows that are computed in place, and links.
class PictureLinks {
 public:
  /// Removes the store and the owner; pictures are linked again.
  virtual void reset() = 0;
  /// See ocellus_session_set_linking.
  virtual void set_linking(bool links) = 0;
  /// Sets the store of pictures that are added from now on, null: none; and their owner, who may be empty without a
  /// store. The owner's name is sound.
  virtual void set_store(PictureStore* store, const OwnerName& owner) = 0;
  virtual const OwnerName& owner() const = 0;
  /// Null: none.
  virtual PictureStore* store() const = 0;
  /// Facts of a picture that follow from the engine and the numbers of views and rows: all but the content and the
  /// tiles.
  virtual EntryFacts facts_of(int32_t view_count, int64_t row_count) const = 0;

  /// True if the pictures of a prompt that is added as a whole are looked up ahead.
  virtual bool looks_ahead() const = 0;
  virtual Status look_ahead(const Picture& picture, const ViewPlan& plan) = 0;
  virtual void forget_ahead() = 0;

  /// Rows of a picture that are in the chunk at a time.
  virtual int64_t rows_in_chunk(const ViewPlan& plan) const = 0;
  /// True if the waiting rows are to be read before a picture is added.
  virtual bool reads_before(const PromptChunk& chunk) const = 0;

  // Functions that add to a prompt's chunk, which must have room. Blocks of an image that failed half way stay
  // reserved: a prompt releases them when it restores its state.
  /// Adds the rows of a picture, computed in place as the image `ordinal`, or linked.
  virtual Status add(const Picture& picture, const ViewPlan& plan, int32_t ordinal, PromptChunk& chunk) = 0;
  /// Links a picture that the store found by its name: it must still have it.
  virtual Status link_named(const EntryFacts& facts, const ViewPlan& plan, PromptChunk& chunk) = 0;

  /// Lets sessions find an image that the store had, where it is on the device.
  virtual void share(int32_t ordinal, const PictureWish& wish, const SharedImage& image, const PromptChunk& chunk) = 0;
  /// Returns where rows of an image are kept that sessions share; null: it has blocks of its own.
  virtual void* shared_rows(int32_t ordinal) const = 0;

  // Functions that read a prompt's chunk.
  /// Chooses the linked rows that are computed in place, if that depends on the prompt.
  virtual Status choose_rows(PromptChunk& chunk) = 0;
  /// Makes the rows that are computed in place rows of the chunk.
  virtual void fetch_rows(const PromptChunk& chunk) = 0;

 protected:
  ~PictureLinks() = default;
};

/// The links of an engine's sessions.
class PictureLinker : public SetUpObject {
 public:
  virtual ~PictureLinker() = default;
  /// Takes the rows that live as long as the engine.
  virtual Status lay_out(const Model& model, const EngineShape& shape, RowSink& sink, EngineMemory* memory) = 0;
  /// Begins anew for a session that is opened. The arguments must stay valid while it is open.
  virtual PictureLinks* open(Conversation& conversation, PictureRows& pictures) = 0;
  /// The scratch of PictureLinks::choose_rows() beside a prefill's; null: none.
  virtual BranchScratch* choice() = 0;
  /// Stores linked pictures with the prompt; null: they stay where they are.
  virtual LinkJoin* join() = 0;
  /// A prefill's part that changes linked pictures; null: none.
  virtual LinkChange* change() = 0;
};

}  // namespace ocellus
