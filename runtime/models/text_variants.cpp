// Keys that single architectures have: the functions of text_architecture.h that read them.
#include <algorithm>
#include <cmath>

#include "runtime/models/text_keys.h"

namespace ocellus {
namespace {

/// Interleaved, every third pair belongs to the lines, and so to the columns: there must be as many.
Status check_sections(const RopeSections& sections, int32_t pairs) {
  const int32_t* const counts = sections.counts;
  for (int32_t i = 0; i < 3; ++i)
    if (counts[i] < 0 || counts[i] > pairs)
      return OCELLUS_FAIL(Code::kBadFile, "rope.dimension_sections holds the value %d", counts[i]);
  if (counts[0] + counts[1] + counts[2] != pairs)
    return OCELLUS_FAIL(Code::kBadFile, "rope.dimension_sections %d, %d, %d do not add up to the %d pairs of a head",
                        counts[0], counts[1], counts[2], pairs);
  if (sections.interleaved && (3 * counts[1] - 2 >= pairs || 3 * counts[2] - 1 >= pairs))
    return OCELLUS_FAIL(Code::kUnsupported,
                        "rope.dimension_sections %d, %d, %d cannot be interleaved among the %d pairs of a head",
                        counts[0], counts[1], counts[2], pairs);
  return {};
}

}  // namespace

Status read_sections(TextKeys& keys, TextConfig* c) {
  int32_t counts[4] = {};
  OCELLUS_TRY(keys.require_list("rope.dimension_sections", 3, 4, counts));
  if (counts[3] != 0)
    return OCELLUS_FAIL(Code::kUnsupported,
                        "rope.dimension_sections holds %d for a fourth coordinate: this build runs three", counts[3]);
  std::copy_n(counts, 3, c->rope.sections.counts);
  return check_sections(c->rope.sections, c->rope.rotated / 2);
}

Status read_interleaved_sections(TextKeys& keys, TextConfig* c) {
  c->rope.sections.interleaved = true;
  return read_sections(keys, c);
}

Status read_convolutions(TextKeys& keys, TextConfig* c) {
  const int32_t convolutions = c->local.convolutions.before(c->layer_count);
  if (convolutions == 0) return {};
  if (convolutions == c->layer_count)
    return OCELLUS_FAIL(Code::kUnsupported, "%s is 0 in all layers: this build runs models of which some attend",
                        keys.key("attention.head_count_kv"));
  OCELLUS_TRY(keys.require("shortconv.l_cache", kMaxWidth, &c->local.window));
  if (c->local.window != kConvolutionTaps)
    return OCELLUS_FAIL(Code::kUnsupported, "%s is %d: this build runs convolutions over %d rows",
                        keys.key("shortconv.l_cache"), c->local.window, kConvolutionTaps);
  c->local.head_dim = c->head_dim;
  return {};
}

Status read_temperature(TextKeys& keys, TextConfig* c) {
  QueryTemperature& t = c->temperature;
  OCELLUS_TRY(keys.read("attention.temperature_scale", &t.beta));
  if (t.beta == 0) return {};
  t.length = c->yarn.length;
  if (t.beta > 0 && std::isfinite(t.beta) && t.length > 0) return {};
  return OCELLUS_FAIL(Code::kBadFile, "%s is %g, which needs to be positive and a rope.scaling.original_context_length",
                      keys.key("attention.temperature_scale"), static_cast<double>(t.beta));
}

/// Without inputs of their layers, models of this kind have other pictures, too.
Status read_layer_inputs(TextKeys& keys, TextConfig* c) {
  OCELLUS_TRY(keys.read("embedding_length_per_layer_input", kMaxWidth, &c->layer_input_width));
  if (c->layer_input_width == 0)
    return OCELLUS_FAIL(Code::kUnsupported,
                        "%s is 0 or missing: this build runs the small models of %s (E2B, E4B), whose layers have "
                        "embeddings",
                        keys.key("embedding_length_per_layer_input"), c->architecture->name);
  if (c->layer_input_width <= c->mlp_width) return {};
  return OCELLUS_FAIL(Code::kUnsupported, "%s is %d, wider than the layers' %d",
                      keys.key("embedding_length_per_layer_input"), c->layer_input_width, c->mlp_width);
}

}  // namespace ocellus
