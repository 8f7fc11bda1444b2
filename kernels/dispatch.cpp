// Every op's front door: the queue knows where it runs.
#include "kernels/backends.h"
#include "platform/queue.h"

namespace ocellus {

#define OCELLUS_DISPATCH_OP(op, Args)       \
  void op(const Args& args, Queue& queue) { \
    if (queue.on_cuda())                    \
      cuda::op(args, queue);                \
    else                                    \
      cpu::op(args, queue);                 \
  }
OCELLUS_FOR_EACH_OP(OCELLUS_DISPATCH_OP)
#undef OCELLUS_DISPATCH_OP

}  // namespace ocellus
