// The C API of constraints.
#include "runtime/api/handles.h"
#include "runtime/branches/constrain/constrain.h"

using ocellus::ConstraintSlot;
using ocellus::result;

ocellus_status ocellus_constraint_create(ocellus_engine* engine, const ocellus_constraint_params* params,
                                         ocellus_constraint** out) {
  OCELLUS_REQUIRE(engine);
  OCELLUS_REQUIRE(params);
  OCELLUS_REQUIRE(out);
  *out = nullptr;
  if (params->struct_bytes != sizeof *params || params->text == nullptr || params->text_bytes < 0)
    return result(OCELLUS_FAIL(ocellus::Code::kBadArgument,
                               "the constraint was not set up by ocellus_constraint_params_init, or has no text"));
  auto* const session = reinterpret_cast<ocellus::Session*>(params->session);
  ocellus::StopSignal* const stop = session == nullptr ? nullptr : &session->stop_signal();
  ConstraintSlot* slot = nullptr;
  ocellus::Status status = constraints_of(*engine->engine).open(*params, stop, &slot);
  if (session != nullptr) status = session->acknowledge_cancel(status);
  *out = reinterpret_cast<ocellus_constraint*>(slot);
  return result(status);
}

void ocellus_constraint_destroy(ocellus_constraint* constraint) {
  if (constraint != nullptr) reinterpret_cast<ConstraintSlot*>(constraint)->close();
}
