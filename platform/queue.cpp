#include "platform/queue.h"

namespace ocellus {

Status StopSignal::check() const {
  if (cancelled()) return OCELLUS_FAIL(Code::kCancelled, "the work was cancelled");
  if (deadline_passed()) return OCELLUS_FAIL(Code::kDeadline, "the deadline passed before the work was done");
  return {};
}

DeviceTraits Queue::traits() const {
  DeviceTraits traits(pool_->thread_count());
  traits.lean = lean_;
  traits.cpu_math = cpu_math_;
  traits.batch_invariant = batch_invariant_;
  if (cuda_ == nullptr) return traits;
  traits.kind = DeviceKind::kCuda;
  traits.shares_memory = shares_memory_;
  return traits;
}

void Queue::copy(void* to, const void* from, int64_t bytes) {
  if (!status_.ok() || bytes == 0 || to == from) return;
  if (cuda_ != nullptr)
    fail(cuda_->copy(to, from, bytes));
  else
    std::memmove(to, from, static_cast<size_t>(bytes));
}

Status Queue::finish() {
  join_transfers();
  if (cuda_ != nullptr) fail(cuda_->finish());
  return status_;
}

void Queue::note_copies() {
  mark(kCopiesMark);
  copies_noted_ = true;
}

void Queue::wait_for_copies() {
  if (copies_noted_) wait(kCopiesMark);
  copies_noted_ = false;
}

void Queue::begin_transfers() {
  if (status_.ok() && cuda_ != nullptr) fail(cuda_->order_beside_after_work(kBesideMark));
}

void Queue::transfer(void* to, const void* from, int64_t bytes) {
  if (cuda_ == nullptr) return copy(to, from, bytes);
  if (status_.ok() && bytes > 0) fail(cuda_->copy_beside(to, from, bytes));
}

/// Also after a failure: some copies may have begun.
void Queue::end_transfers(int ticket) {
  if (cuda_ == nullptr) return;
  fail(cuda_->record_mark_beside(kFirstTicketMark + ticket));
  unjoined_ticket_ = ticket;
}

/// Also after a failure: later ops, and the next users of the memory, must not overlap pending copies. The latest mark
/// comes after all earlier ones.
void Queue::join_transfers() {
  if (cuda_ == nullptr || unjoined_ticket_ < 0) return;
  fail(cuda_->order_work_after_mark(kFirstTicketMark + unjoined_ticket_));
  unjoined_ticket_ = -1;
}

bool Queue::transfers_done(int ticket) const {
  return cuda_ == nullptr || cuda_->mark_reached(kFirstTicketMark + ticket);
}

void Queue::wait_for_transfers(int ticket) {
  if (cuda_ != nullptr) fail(cuda_->wait_for_mark(kFirstTicketMark + ticket));
}

void Queue::start_timer(Timer timer) {
  timer_ns_[static_cast<int>(timer)][0] = now_ns();
  mark(mark_of(timer));
}

void Queue::stop_timer(Timer timer) {
  timer_ns_[static_cast<int>(timer)][1] = now_ns();
  mark(mark_of(timer) + 1);
}

double Queue::timer_ms(Timer timer) {
  const int64_t* ns = timer_ns_[static_cast<int>(timer)];
  if (cuda_ == nullptr) return elapsed_ms(ns[0], ns[1]);
  wait(mark_of(timer) + 1);
  return status_.ok() ? cuda_->elapsed_ms(mark_of(timer), mark_of(timer) + 1) : 0.0;
}

void Queue::clear() {
  join_transfers();
  if (!status_.ok() && cuda_ != nullptr) (void)cuda_->finish();
  status_ = Status();
}

bool Queue::stopped(const StopSignal* signal) {
  if (status_.ok() && cuda_ != nullptr && !cuda_->capturing()) {
    const int mark = static_cast<int>(layers_begun_ % kLayersAhead);
    if (layers_begun_ >= kLayersAhead) fail(cuda_->wait_for_mark(mark));
    fail(cuda_->record_mark(mark));
    ++layers_begun_;
  }
  if (status_.ok() && signal != nullptr) status_ = signal->check();
  return !status_.ok();
}

Status Queue::begin_capture() {
  if (status_.ok()) fail(cuda_->begin_capture());
  return status_;
}

Status Queue::end_capture(CudaGraph* out) {
  fail(cuda_->end_capture(out));
  return status_;
}

void Queue::launch(const CudaGraph& graph) {
  if (status_.ok()) fail(cuda_->launch(graph));
}

}  // namespace ocellus
