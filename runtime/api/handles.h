// The handles of the C API, and how its sources turn failures into statuses.
#pragma once

#include <memory>

#include "platform/set_up_memory.h"
#include "runtime/engine/engine.h"
#include "runtime/ocellus.h"
#include "runtime/session/session.h"

struct ocellus_model : ocellus::SetUpObject {
  ocellus::Model model;
};
struct ocellus_engine : ocellus::SetUpObject {
  std::unique_ptr<ocellus::Engine> engine;
  std::unique_ptr<ocellus::Session[]> sessions;  // as many as are planned
};

#define OCELLUS_REQUIRE(argument) \
  if ((argument) == nullptr) return ocellus::null_argument(__func__, #argument)

namespace ocellus {

inline ocellus_status result(Status status) { return static_cast<ocellus_status>(status.code()); }

inline ocellus_status null_argument(const char* function, const char* name) {
  return result(OCELLUS_FAIL(Code::kBadArgument, "%s: %s is null", function, name));
}

// A session handle is the session itself.
inline Session* unwrap(ocellus_session* session) { return reinterpret_cast<Session*>(session); }

/// Checks made by every call on a session.
inline Status check_session(const ocellus_session* session, const char* function) {
  if (session == nullptr) return OCELLUS_FAIL(Code::kBadArgument, "%s: the session is null", function);
  if (!reinterpret_cast<const Session*>(session)->is_open())
    return OCELLUS_FAIL(Code::kBadArgument, "%s: the session is closed", function);
  return {};
}

template <class Call>
ocellus_status on_session(ocellus_session* session, const char* function, Call&& call) {
  Status status = check_session(session, function);
  if (status.ok()) {
    unwrap(session)->engine().queue().enter();
    status = unwrap(session)->acknowledge_cancel(call(*unwrap(session)));
  }
  return result(status);
}

/// Null: no hooks.
inline Status read_allocator(const ocellus_allocator* allocator, Allocator* out) {
  if (allocator == nullptr) return {};
  if (allocator->struct_bytes != sizeof *allocator || allocator->allocate == nullptr ||
      allocator->deallocate == nullptr)
    return OCELLUS_FAIL(Code::kBadArgument,
                        "the allocator was not set up by ocellus_allocator_init, or lacks a function");
  *out = {allocator->allocate, allocator->deallocate, allocator->user};
  return {};
}

}  // namespace ocellus
