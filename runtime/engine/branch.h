// Branch: a feature that a build may leave out (OCELLUS_BRANCHES of CMake). The trunk, all of runtime/ outside
// branches/, knows of them what stands here: what one adds to an engine, and the interfaces through which it takes part
// in answers.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "kernels/sampling/guess_rows.h"
#include "platform/arena.h"
#include "platform/queue.h"
#include "runtime/engine/picture_links.h"
#include "runtime/engine/row_hooks.h"
#include "runtime/forward/answer_hooks.h"
#include "runtime/ocellus.h"
#include "runtime/policy/method_text.h"
#include "runtime/vocabulary/tokenizer.h"

namespace ocellus {

class Conversation;
class Model;
struct EngineMemory;
struct EngineShape;

/// The form of one session's answer: which tokens may come next where the answer stands.
class AnswerForm {
 public:
  /// Called after the prompt of a new answer was read.
  virtual Status follow(Conversation& conversation) = 0;
  /// Keeps those of the tokens that are guessed to come next that it allows, and puts those it forces in their place,
  /// at most `most`: the first *kept, of which the first *forced are certain.
  virtual Status check_guesses(TokenId* tokens, int32_t guessed, int32_t most, int32_t* kept, int32_t* forced) = 0;
  /// Writes the masks of a step's rows: of the answer's own, and of its guesses, whose tokens are by row. `thought`: a
  /// token that may come besides, with which a thought begins; kNoToken: none.
  virtual Status write_masks(int32_t own, const GuessedRows& guesses, const TokenId* tokens, TokenId thought,
                             HostView<uint32_t> masks) = 0;
  /// Writes the mask of a token of a thought, which is free but may not end the answer.
  virtual void write_thought_mask(uint32_t* mask, int64_t words) const = 0;
  /// Returns a sampled token's text as it is delivered. Called before accept().
  virtual std::string_view text_of(TokenId token) const = 0;
  /// Moves the answer by the token that was sampled.
  virtual Status accept(TokenId token) = 0;
  /// True if nothing may follow the newest token.
  virtual bool is_complete() const = 0;

 protected:
  ~AnswerForm() = default;
};

/// The forms of an engine's answers.
class AnswerForms : public SetUpObject {
 public:
  virtual ~AnswerForms() = default;
  /// Begins the form of a session's answer, or continues that of one that was cut. `stop` ends what takes long in it,
  /// in this call and the following ones. kBadArgument for a constraint of another engine, or another one than the
  /// answer that goes on has.
  virtual Status begin(const ocellus_constraint* constraint, int32_t session, bool goes_on, const StopSignal* stop,
                       AnswerForm** out) = 0;
};

/// Guesses what the answers of one session continue with.
class Guesser {
 public:
  /// Remembers token number `count` of the conversation.
  virtual void remember(int64_t count, TokenId token) = 0;
  /// An answer begins after `prompt`, a hash of its text.
  virtual void begin(ocellus_draft kind, uint64_t prompt) = 0;
  /// The answer so far is tokens begin .. count - 1 of the conversation and then `last`, unless that is kNoToken.
  virtual void keep_answer(int64_t begin, int64_t count, TokenId last) = 0;
  /// Notes the newest token of the answer, which follows token number count - 1 of the conversation.
  virtual void note(int64_t count, TokenId token) = 0;
  /// True if the present answer may have guesses.
  virtual bool is_on() const = 0;
  /// Writes tokens that the answer may continue with, at most `most`: guesses that its form allows, if they are worth
  /// trying, and those that the form forces, which cost nothing but their rows. `rows`: of the step without them;
  /// `form`: null if there is none.
  virtual Status propose(int32_t most, int64_t rows, AnswerForm* form, TokenId* tokens, int32_t* count) = 0;

 protected:
  ~Guesser() = default;
};

/// The guesses of an engine's sessions.
class Guessing : public SetUpObject {
 public:
  virtual ~Guessing() = default;
  /// Begins anew for a session that is opened.
  virtual Guesser* open(int32_t session) = 0;
  /// Notes how long a step of `rows` rows took.
  virtual void note_step(int64_t rows, float ms) = 0;
};

/// Pictures that a session's store had or did not have.
struct StoreStats {
  int32_t hits = 0;
  int32_t memory_hits = 0;  // hits without a file being read
  int32_t misses = 0;
  int64_t bytes = 0;    // read from files
  double saved_ms = 0;  // by pictures on the device, too

  void report(ocellus_generate_stats* out) const {
    out->library_hits = hits;
    out->library_memory_hits = memory_hits;
    out->library_misses = misses;
    out->library_bytes_read = bytes;
    out->library_saved_ms = saved_ms;
  }

  void note_search(bool found) { (found ? hits : misses) += 1; }
  /// `from_files`: bytes; 0: it was in memory.
  void note_hit(int64_t from_files, double saved) {
    memory_hits += from_files == 0 ? 1 : 0;
    bytes += from_files;
    saved_ms += saved;
  }
};

/// Objects that branches made for an engine.
struct BranchMemory {
  std::unique_ptr<AnswerForms> forms;     // null: no answer has one
  std::unique_ptr<Guessing> guessing;     // null: a step has one row for each session
  std::unique_ptr<PictureLinker> linker;  // null: all pictures are read in their prompts
  std::unique_ptr<PictureStores> stores;  // null: pictures are kept on the device alone
  std::unique_ptr<RowChoice> rows;        // null: all rows of pictures are read
  std::unique_ptr<Roller> roller;         // null: no session rolls
  std::unique_ptr<SlotDropper> dropper;   // null: answers drop no slots
  std::unique_ptr<TextPacker> packer;     // null: no text is packed

  /// See PictureLinker.
  LinkJoin* join() const { return linker == nullptr ? nullptr : linker->join(); }
  /// See AnswerForms.
  Status begin_form(const ocellus_constraint* constraint, int32_t session, bool goes_on, const StopSignal* stop,
                    AnswerForm** out) const {
    if (forms != nullptr) return forms->begin(constraint, session, goes_on, stop, out);
    return OCELLUS_FAIL(Code::kBadArgument, "the constraint belongs to another engine");
  }
};

/// A null function does nothing.
struct Branch {
  ocellus_branch facts;
  const MethodTable* methods = nullptr;  // also of a branch that is left out
  /// Refuses limits that are out of range.
  Status (*check)(const ocellus_limits& limits) = nullptr;
  /// Adds to a shape whose device, sessions and policy are known; refuses what does not go together.
  Status (*resolve)(const ocellus_limits& limits, EngineShape* shape) = nullptr;
  /// Adds links to the pictures of a shape, if some are planned.
  Status (*resolve_links)(const Model& model, const ocellus_limits& limits, EngineShape* shape) = nullptr;
  /// Adds to the pictures of a shape, if some are planned; its policy and links are known.
  Status (*resolve_pictures)(const Model& model, const ocellus_limits& limits, EngineShape* shape) = nullptr;
  /// Sizes the parts of a session's cache as the branch fills them, after the trunk.
  Status (*size)(const TextConfig& text, EngineShape* shape) = nullptr;
  /// Takes the rows that live as long as the engine, and makes what works on them.
  Status (*lay_out)(const Model& model, const EngineShape& shape, RowSink& sink, EngineMemory* memory) = nullptr;
  /// The same for linked pictures, if there are any.
  Status (*lay_out_linked)(const Model& model, const EngineShape& shape, RowSink& sink, EngineMemory* memory) = nullptr;
  /// The same after the rows of pictures, if some are planned.
  Status (*lay_out_pictures)(const Model& model, const EngineShape& shape, RowSink& sink,
                             EngineMemory* memory) = nullptr;
};

/// All branches, with those that this build leaves out.
std::span<const Branch* const> all_branches();

/// kBadArgument, with a method's own name, for the first pair of features that limits ask for and one engine cannot
/// have. The shape's policy, pictures and reuse are resolved.
Status check_pairs(const EngineShape& shape);
/// kUnsupported: `what` is not in this build.
Status left_out(const Branch& branch, const char* what);
/// kBadArgument: the session has no picture store; kUnsupported: this build has none.
Status no_store();

}  // namespace ocellus
