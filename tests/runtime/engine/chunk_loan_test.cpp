// The prompt chunk and its one holder at a time.
#include "runtime/engine/chunk_loan.h"

#include <doctest/doctest.h>

#include "platform/threads.h"

namespace ocellus {
namespace {

/// Gives the chunk back as a prompt does: with its rows read.
struct Holder : ChunkHolder {
  explicit Holder(ChunkLoan& l, Queue& q) : loan(l), queue(q) {}
  void yield_chunk() override {
    ++yields;
    loan.give_back(*this, queue);
  }
  ChunkLoan& loan;
  Queue& queue;
  int yields = 0;
};

}  // namespace

TEST_CASE("a prompt chunk is lent to one prompt at a time, which keeps it until another needs it") {
  ThreadPool pool;
  Queue queue(pool);
  PromptChunk chunk;
  WaitingViews views;
  ChunkLoan loan(chunk, views);
  Holder first(loan, queue), second(loan, queue);
  CHECK(!loan.is_with(first));

  loan.lend(first);
  chunk.row_count = 3;
  loan.lend(first);
  CHECK(loan.is_with(first));
  CHECK(chunk.row_count == 3);
  CHECK(first.yields == 0);

  loan.give_back(second, queue);  // which does not have it
  CHECK(loan.is_with(first));
  CHECK(chunk.row_count == 3);

  loan.lend(second);
  CHECK(first.yields == 1);
  CHECK(loan.is_with(second));
  CHECK(chunk.row_count == 0);

  chunk.row_count = 2;
  loan.give_back(second, queue);
  CHECK(!loan.is_with(second));
  CHECK(chunk.row_count == 0);
  loan.lend(first);
  CHECK(second.yields == 0);
}

}  // namespace ocellus
