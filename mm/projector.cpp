#include "mm/projector.h"

#include "kernels/matmul.h"
#include "kernels/patches.h"

namespace ocellus {

Status project_idefics3(const VisionModel& m, int64_t views, const VisionScratch& s, DeviceView<float> out, Queue& q) {
  const VisionConfig& c = m.config;
  const int64_t joined = int64_t{c.width} * c.scale_factor * c.scale_factor;
  const ActivationView shuffled(s.normed_or_mixed.data, views * c.tokens_per_view(), joined, joined,
                                s.normed_or_mixed.type);
  shuffle_pixels({.input = s.hidden.slice_rows(0, views * c.patch_count()),
                  .views = views,
                  .grid = c.grid(),
                  .scale = c.scale_factor,
                  .output = shuffled},
                 q);
  matmul({.input = shuffled, .weights = {m.projection.weight}, .outputs = {out}, .scratch = s.matmul_scratch}, q);
  return q.status();
}

Status project_views(const VisionModel& m, int64_t views, const VisionScratch& s, DeviceView<float> out, Queue& q) {
  switch (m.config.projector) {
    case ProjectorKind::kIdefics3: return project_idefics3(m, views, s, out, q);
  }
  return OCELLUS_FAIL(Code::kInternal, "no projector of this kind");
}

}  // namespace ocellus
