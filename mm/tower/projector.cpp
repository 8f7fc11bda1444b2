#include "mm/tower/projector.h"

namespace ocellus {

Status project_views(const VisionModel& m, int64_t views, const VisionScratch& s, DeviceView<float> out, Queue& q) {
  switch (m.config.projector) {
    case ProjectorKind::kIdefics3: return project_idefics3(m, views, s, out, q);
    case ProjectorKind::kMlp: return project_mlp(m, views, s, out, q);
  }
  return OCELLUS_FAIL(Code::kInternal, "no projector of this kind");
}

}  // namespace ocellus
