#include "runtime/branches/reduce/reduction_rule.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>

#include "kernels/base/hash_term.h"
#include "kernels/choice/row_cosines.h"
#include "kernels/choice/row_products.h"
#include "kernels/rows/merge_similar_rows.h"
#include "runtime/branches/reduce/reduction_methods.h"
#include "runtime/branches/reduce/visionzip_rule.h"

namespace ocellus {
namespace {

constexpr Phase kChoicePhase{"choice"};

/// Chooses by pick_rows.
Status pick(const RowsToChoose& a, PickRowsArgs args, Queue& queue) {
  const ChoiceScratch& s = a.scratch;
  args.products = {s.products.data, a.candidates, a.candidates};
  args.scratch = s.picking.data;
  args.picks = a.picks.device.data;
  args.stands_for = a.stands_for.device.data;
  args.count = a.keep;
  queue.upload(s.list, a.candidates);
  row_products({.rows = a.rows, .list = s.list.device.data, .products = args.products}, queue);
  pick_rows(args, queue);
  const auto fetch = [&](const StagedRows<int32_t>& rows) {
    queue.copy(rows.host.data, rows.device.data, a.keep * static_cast<int64_t>(sizeof(int32_t)));
  };
  fetch(a.picks);
  if (a.stands_for.host.cols > 0) fetch(a.stands_for);
  return queue.status();
}

Status choose_cover(const RowsToChoose& a, const MethodValues& options, Queue& queue) {
  queue.upload(a.scratch.places, a.candidates);
  return pick(a,
              {.by = PickBy::kCover, .places = a.scratch.places.device.data, .place_weight = options.number("place")},
              queue);
}

Status choose_far_angles(const RowsToChoose& a, const MethodValues&, Queue& queue) {
  return pick(a, {.by = PickBy::kAngle}, queue);
}

/// Computes cosines of the candidates, and waits for them.
Status find_cosines(const RowsToChoose& a, RowCosinesArgs args, Queue& queue) {
  const StagedRows<float>& cosines = a.scratch.cosines;
  args.rows = a.rows;
  args.cosines = cosines.device.data;
  row_cosines(args, queue);
  queue.copy(cosines.host.data, cosines.device.data, args.count * static_cast<int64_t>(sizeof(float)));
  return queue.finish();
}

/// The relevance of a row is minus its cosine to the text, scaled to 0 .. 1 over the picture, as in the authors' code.
/// The text is the prompt's tokens, as in OpenVINO GenAI: not every model has a text encoder of its own.
Status choose_conditionally(const RowsToChoose& a, const MethodValues& options, Queue& queue) {
  const ChoiceScratch& s = a.scratch;
  PickRowsArgs args{.by = PickBy::kDeterminant};
  queue.upload(s.list, a.candidates);
  if (a.texts > 0) {
    queue.upload(s.others, a.texts);
    OCELLUS_TRY(find_cosines(a,
                             {.list = s.list.device.data,
                              .count = a.candidates,
                              .texts = s.others.device.data,
                              .text_count = a.texts,
                              .mean = s.mean.data},
                             queue));
    float* const cosines = s.cosines.host.data;
    const auto [least, most] = std::minmax_element(cosines, cosines + a.candidates);
    const float low = *least, high = *most, sign = options.number("sign");
    for (int64_t i = 0; i < a.candidates; ++i) {
      const float above = sign < 0 ? high - cosines[i] : cosines[i] - low;
      cosines[i] = high > low ? (above + 1e-6f) / (high - low) : 1.0f;
    }
    queue.upload(s.cosines, a.candidates);
    args.relevance = s.cosines.device.data;
  }
  return pick(a, args, queue);
}

/// Selection sampling: every candidate is taken with the probability that is due to it (Knuth, volume 2, algorithm S).
Status choose_at_random(const RowsToChoose& a, const MethodValues& options, Queue&) {
  const auto seed = static_cast<uint32_t>(options.number("seed"));
  int64_t taken = 0;
  for (int64_t number = 0; number < a.candidates; ++number) {
    const uint64_t drawn =
        hash_term(seed, static_cast<uint32_t>(hash_term(static_cast<uint32_t>(number), static_cast<uint32_t>(a.seed))));
    const auto left = static_cast<uint64_t>(a.candidates - number);
    if (drawn % left < static_cast<uint64_t>(a.keep - taken)) a.picks.host.data[taken++] = static_cast<int32_t>(number);
  }
  return {};
}

/// The i-th of the kept rows, if they lie evenly.
int64_t even_row(const RowsToChoose& a, int64_t i) { return (2 * i + 1) * a.candidates / (2 * a.keep); }

Status choose_evenly(const RowsToChoose& a, const MethodValues&, Queue&) {
  for (int64_t i = 0; i < a.keep; ++i) a.picks.host.data[i] = static_cast<int32_t>(even_row(a, i));
  return {};
}

/// The first frame stays whole; of the others the rows that changed most since the frame before, over the whole clip. A
/// clip that is too short for that keeps even rows.
Status choose_changed(const RowsToChoose& a, const MethodValues& options, Queue& queue) {
  const ChoiceScratch& s = a.scratch;
  const int64_t of_frame = a.candidates / a.pictures, later = a.candidates - of_frame;
  if (a.keep < of_frame) return choose_evenly(a, options, queue);
  std::copy_n(s.list.host.data, later, s.others.host.data);
  queue.upload(s.list, a.candidates);
  queue.upload(s.others, later);
  if (later > 0)
    OCELLUS_TRY(find_cosines(a, {.list = s.list.device.data + of_frame, .others = s.others.device.data, .count = later},
                             queue));
  const float* const cosines = s.cosines.host.data;
  int32_t* const order = s.order.data;
  std::iota(order, order + later, 0);
  std::sort(order, order + later,
            [&](int32_t x, int32_t y) { return cosines[x] < cosines[y] || (!(cosines[y] < cosines[x]) && x < y); });
  std::iota(a.picks.host.data, a.picks.host.data + of_frame, 0);
  for (int64_t i = of_frame; i < a.keep; ++i)
    a.picks.host.data[i] = static_cast<int32_t>(of_frame) + order[i - of_frame];
  return {};
}

/// A number that is near where places are: view, then the bits of line and column in turn (Z-order: Morton 1966).
uint64_t z_order(const ViewPlace& place) {
  const auto line = static_cast<uint32_t>(place.line * 1024), column = static_cast<uint32_t>(place.column * 1024);
  auto order = static_cast<uint64_t>(place.view) << 20;
  for (int bit = 0; bit < 10; ++bit)
    order |= uint64_t{line >> bit & 1} << (2 * bit + 1) | uint64_t{column >> bit & 1} << (2 * bit);
  return order;
}

/// Neighbours are averaged: pairs side by side for a half, two by two for a quarter.
Status pool_rows(const RowsToChoose& a, const MethodValues&, Queue& queue) {
  const ChoiceScratch& s = a.scratch;
  const ViewPlace* const places = s.places.host.data;
  const int32_t* const rows = s.list.host.data;
  int32_t *const order = s.order.data, *const marks = s.marks.host.data;
  std::iota(order, order + a.candidates, 0);
  std::sort(order, order + a.candidates, [&](int32_t x, int32_t y) {
    const uint64_t of_x = z_order(places[x]), of_y = z_order(places[y]);
    return of_x != of_y ? of_x < of_y : x < y;
  });
  std::fill_n(marks, a.rows.rows, kJoinsNone);
  for (int64_t i = 0; i < a.keep; ++i) {
    const int64_t first = i * a.candidates / a.keep, end = (i + 1) * a.candidates / a.keep;
    a.picks.host.data[i] = order[first];
    s.others.host.data[i] = rows[order[first]];
    for (int64_t j = first + 1; j < end; ++j) marks[rows[order[j]]] = rows[order[first]];
  }
  queue.upload(s.others, a.keep);
  queue.upload(s.marks, a.rows.rows);
  merge_similar_rows({.rows = a.inputs,
                      .keys = a.rows,
                      .targets = s.others.device.data,
                      .count = a.keep,
                      .joined = s.marks.device.data},
                     queue);
  return queue.status();
}

constexpr ReductionRule kRules[] = {
    {kCoverRows, {.products = true, .by = PickBy::kCover, .weighs = true, .places = true}, choose_cover},
    {kDivPrune, {.products = true, .by = PickBy::kAngle}, choose_far_angles},
    {kVisionZip, {.merges = true, .attention = true}, choose_visionzip},
    {kCdPruner, {.products = true, .by = PickBy::kDeterminant, .text = true}, choose_conditionally},
    {kEvs, {.clips = true}, choose_changed},
    {kFastV, {.layers = true}, nullptr},
    {kEvenRows, {}, choose_evenly},
    {kPoolRows, {.places = true, .merges = true}, pool_rows},
    {kRandomRows, {}, choose_at_random}};
static_assert(std::size(kRules) == std::size(kReductionMethods));

const ReductionRule* rule_of(const ocellus_method* method) {
  if (method == nullptr) return nullptr;
  return std::find_if(std::begin(kRules), std::end(kRules),
                      [&](const auto& r) { return r.method.name == std::string_view(method->name); });
}

}  // namespace

Status ChoiceScratch::lay_out(const Reduction& reduction, int64_t encoded, int64_t chunk_rows, int64_t width,
                              RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kScratch;
  const ReductionNeeds& needs = reduction.rule->needs;
  const int64_t rows = needs.shares() ? chunk_rows : encoded;
  OCELLUS_TRY(list.lay_out(sink, "rows to choose from", kLife, kChoicePhase, 1, rows));
  if (needs.places) OCELLUS_TRY(places.lay_out(sink, "places of rows", kLife, kChoicePhase, 1, rows));
  if (needs.text || needs.clips || needs.merges) {
    OCELLUS_TRY(others.lay_out(sink, "rows to compare with", kLife, kChoicePhase, 1, chunk_rows));
    OCELLUS_TRY(cosines.lay_out(sink, "measures of rows", kLife, kChoicePhase, 1, rows));
  }
  if (needs.text) OCELLUS_TRY(take_rows(sink, "mean row of text", kLife, kChoicePhase, 1, width, &mean));
  if (needs.merges) OCELLUS_TRY(marks.lay_out(sink, "marks of rows", kLife, kChoicePhase, 1, chunk_rows));
  if (needs.clips || needs.merges) OCELLUS_TRY(take_rows(sink, "order of rows", kLife, kChoicePhase, 1, rows, &order));
  if (!needs.products) return {};
  OCELLUS_TRY(take_rows(sink, "products of rows", kLife, kChoicePhase, rows, rows, &products));
  return take_rows(sink, "choice of rows", kLife, kChoicePhase, 1,
                   pick_rows_scratch(needs.by, rows, reduction.kept_of(rows)), &picking);
}

Status plan_reduction(const ocellus_limits& limits, Reduction* out) {
  if (!(limits.reduce_keep > 0 && limits.reduce_keep <= 1))
    return OCELLUS_FAIL(
        Code::kBadArgument,
        "the share of a picture's rows that is read (reduce_keep) must be above 0 and at most 1, not %g",
        static_cast<double>(limits.reduce_keep));
  const ocellus_method* method = nullptr;
  OCELLUS_TRY(parse_method(kReductionTable, limits.reduce, &method, &out->options));
  out->rule = rule_of(method);
  if (limits.reduce_keep < 1 && out->rule == nullptr)
    return OCELLUS_FAIL(Code::kBadArgument,
                        "a method chooses the rows of pictures that are read (reduce_keep): name one (reduce)");
  if (!(limits.reduce_ms >= 0))
    return OCELLUS_FAIL(Code::kBadArgument, "the time for reading a prompt (reduce_ms) must not be negative: it is %g",
                        static_cast<double>(limits.reduce_ms));
  if (limits.reduce_ms > 0 && (out->rule == nullptr || out->rule->needs.layers))
    return OCELLUS_FAIL(
        Code::kBadArgument,
        "a time for reading prompts (reduce_ms) needs a method that chooses rows before the first layer "
        "(reduce), not %s",
        out->rule == nullptr ? "none" : out->rule->method.name);
  if (limits.reduce_keep == 1 && limits.reduce_ms == 0) out->rule = nullptr;
  out->keep = limits.reduce_keep;
  out->target_ms = limits.reduce_ms;
  return {};
}

int64_t Reduction::kept_of(int64_t rows, double share) const {
  if (!planned() || rows == 0) return rows;
  const double most = std::min(static_cast<double>(keep), share);
  const auto kept = static_cast<int64_t>(most * static_cast<double>(rows) + 0.5);
  return std::clamp<int64_t>(kept, 1, rows);
}

}  // namespace ocellus
