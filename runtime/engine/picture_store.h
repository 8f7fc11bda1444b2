// PictureStore: where linked pictures are kept beyond the engine, so that they need not be computed again.
#pragma once

#include "platform/log.h"
#include "platform/set_up_memory.h"
#include "platform/thread.h"
#include "platform/trace.h"
#include "runtime/engine/picture_identity.h"
#include "runtime/ocellus.h"

namespace ocellus {

class Conversation;
class Engine;
class PictureStore;
class Queue;
struct EngineShape;
struct PromptChunk;
struct ViewPlan;

/// A picture that is looked for, or to be kept.
struct PictureWish {
  PictureStore* store = nullptr;  // null: pictures are kept on the device alone
  OwnerName owner;
  EntryFacts facts;
  bool by_name = false;  // the store was asked for it by its name
};

/// A store's own note of a picture that it has.
struct StoreMark {
  uint64_t words[9] = {};
};

/// A session's store. A failing one is no failure of the session: the picture is computed.
class PictureStore {
 public:
  /// A number that no other store has in this process.
  virtual uint64_t serial() const = 0;
  /// True if pictures are to be found there and not on the device.
  virtual bool is_apart() const = 0;
  /// True if the store still has this picture as it is on the device.
  virtual bool is_current(const StoreMark& mark) const = 0;

  // The pictures of a prompt that is added as a whole: they are read while those before them are computed.
  virtual bool looks_ahead() const = 0;
  virtual void look_ahead(Engine& engine, const PictureWish& wish) = 0;
  /// Goes on to the prompt's next picture; false if it is not known ahead.
  virtual bool next_ahead(EntryFacts* facts) = 0;
  virtual void forget_ahead() = 0;

  /// Finds a picture by its name in the store, and its views. kBadArgument if it does not have it.
  virtual Status find(Conversation& conversation, const OwnerName& owner, std::string_view name, EntryFacts* facts,
                      ViewPlan* plan) = 0;
  /// Fills image number `ordinal`, the chunk's next linked rows and their numbers, or else clears the image to be kept.
  virtual Status recall(Conversation& conversation, const PictureWish& wish, int32_t ordinal, const PromptChunk& chunk,
                        bool* found) = 0;
  /// The picture was found on the device instead. `is_due`: the last such note is a minute old.
  virtual void note_found(Engine& engine, const PictureWish& wish, const StoreMark& mark, bool is_due) = 0;
  /// Notes what was encoded: the image rows of a chunk, before they are read.
  virtual Status note_rows(const PromptChunk& chunk, Queue& queue) = 0;
  /// Keeps a picture that was computed instead of recalled. Returns the number under which it will be settled; 0: it is
  /// not kept.
  virtual int64_t keep(Conversation& conversation, const PictureWish& wish, int32_t ordinal, double computed_ms,
                       const PromptChunk& chunk) = 0;
  /// Waits until pictures are kept, and gives those on the device their marks. kCancelled, kDeadline.
  virtual Status settle(Conversation& conversation) = 0;

 protected:
  ~PictureStore() = default;
};

/// The stores of an engine's sessions, and the threads that serve them.
class PictureStores : public SetUpObject {
 public:
  virtual ~PictureStores() = default;
  /// Starts the threads. The arguments must stay valid.
  virtual Status start(const EngineShape& shape, const ThreadSettings& settings, const TraceSink& trace,
                       const LogSink& log) = 0;
  virtual void describe(ocellus_engine_stats* out) const = 0;
};

}  // namespace ocellus
