#include "runtime/models/qwen_tower.h"

#include <algorithm>

#include "mm/tower/tower_pass.h"

namespace ocellus {
namespace {

/// The width that files of Qwen2-VL give is the language model's, or 0. Old files name the MLP's maps the other way
/// around.
Status read_mlp_width(const GgufFile& file, VisionConfig* c) {
  constexpr const char* kUp = "v.blk.0.ffn_up.weight";
  OCELLUS_TRY(read_vision_rows(file, kUp, &c->mlp_width));
  const GgufTensor& up = *file.find_tensor(kUp);
  if (up.rows() == c->width && up.cols() <= kMaxVisionWidth * 4) c->mlp_width = static_cast<int32_t>(up.cols());
  return {};
}

/// The side in pixels becomes one in joined patches.
Status read_windows(const GgufFile& file, VisionConfig* c) {
  int64_t period = 8, side = 112;
  OCELLUS_TRY(file.read_int("clip.vision.n_wa_pattern", 1, 512, &period));
  OCELLUS_TRY(file.read_int("clip.vision.window_size", 1, 1 << 16, &side));
  c->window_period = static_cast<int32_t>(period);
  c->window = static_cast<int32_t>(side / c->row_side());
  if (c->window > 0) return {};
  return OCELLUS_FAIL(Code::kBadFile, "clip.vision.window_size is %lld pixels, less than the %d of a row",
                      static_cast<long long>(side), c->row_side());
}

/// Tensors tell which layers have a projector; clip.vision.is_deepstack_layers repeats it.
Status read_deepstack(const GgufFile& file, VisionConfig* c) {
  for (int32_t layer = 0; layer < c->layer_count; ++layer) {
    if (file.find_tensor(ShapeText("v.deepstack.%d.fc1.weight", layer)) == nullptr) continue;
    if (c->deepstack_count == kMaxDeepStack)
      return OCELLUS_FAIL(Code::kUnsupported, "more than %d layers have tensors 'v.deepstack.*'", kMaxDeepStack);
    c->deepstack_layers[c->deepstack_count++] = layer;
  }
  return {};
}

constexpr float kRopeBase = 10000.0f;

/// 2 x 2 patches side by side are a row.
void project_qwen(TowerPass& t) {
  const VisionModel& m = t.model();
  t.normalise(m.final_norm);
  t.project(shuffle_pixels, [&](JoinedRows rows) {
    rows.map(m.projector.first, m.config.projector_width, Activation::kGeluErf);
    rows.write(m.projector.second);
  });
}

/// Qwen2-VL: positions are rotations alone.
void encode_qwen2(TowerPass& t) {
  t.embed_patches();
  t.find_angles(RopePairing::kHalves, kRopeBase);
  while (const VisionLayer* w = t.next_layer()) {
    t.attend(
        *w, [](const HeadRows& heads) { heads.rotate(); }, [&](HiddenRows rows) { rows.add(w->attention_output); });
    t.run_mlp([&](HiddenRows rows) {
      rows.map(w->mlp_norm, w->mlp_up, t.config().activation);
      rows.add(w->mlp_down);
    });
  }
  project_qwen(t);
}

/// Qwen2.5-VL: most layers look at windows.
void encode_qwen25(TowerPass& t) {
  t.embed_patches();
  t.find_angles(RopePairing::kHalves, kRopeBase);
  t.find_windows();
  while (const VisionLayer* w = t.next_layer()) {
    const auto rotate = [](const HeadRows& heads) { heads.rotate(); };
    const auto add = [&](HiddenRows rows) { rows.add(w->attention_output); };
    if (t.config().has_windows(t.layer()))
      t.attend_in_windows(*w, rotate, add);
    else
      t.attend(*w, rotate, add);
    t.run_mlp([&](HiddenRows rows) {
      rows.map_gated(w->mlp_norm, w->mlp_gate, w->mlp_up, Activation::kSilu);
      rows.add(w->mlp_down);
    });
  }
  project_qwen(t);
}

/// Qwen3-VL: learned positions, too, and projectors of inner rows (DeepStack), which normalise joined rows.
void encode_qwen3(TowerPass& t) {
  const VisionModel& m = t.model();
  const VisionConfig& c = m.config;
  t.embed_patches();
  t.add_resized_positions();
  t.find_angles(RopePairing::kHalves, kRopeBase);
  while (const VisionLayer* w = t.next_layer()) {
    t.attend(
        *w, [](const HeadRows& heads) { heads.rotate(); }, [&](HiddenRows rows) { rows.add(w->attention_output); });
    t.run_mlp([&](HiddenRows rows) {
      rows.map(w->mlp_norm, w->mlp_up, c.activation);
      rows.add(w->mlp_down);
    });
    for (int32_t i = 0; i < c.deepstack_count; ++i)
      if (c.deepstack_layers[i] == t.layer())
        t.project_inner(i, shuffle_pixels, [&](JoinedRows rows) {
          rows.normalise(m.deepstack[i].joined_norm, c.epsilon);
          rows.map(m.deepstack[i].first, c.joined_width(), Activation::kGeluErf);
          rows.write(m.deepstack[i].second);
        });
  }
  project_qwen(t);
}

Status bind_maps(const TensorBinder& binder, const VisionConfig& c, const char* first, const char* second,
                 int64_t middle, Projector* out) {
  OCELLUS_TRY(binder.matrix(ShapeText("%s.weight", first).text(), middle, c.joined_width(), &out->first.weight));
  OCELLUS_TRY(binder.optional_vector(ShapeText("%s.bias", first).text(), middle, &out->first.bias));
  OCELLUS_TRY(binder.matrix(ShapeText("%s.weight", second).text(), c.output_width, middle, &out->second.weight));
  return binder.optional_vector(ShapeText("%s.bias", second).text(), c.output_width, &out->second.bias);
}

/// The projectors of inner rows normalise them when they are joined, the last one before.
Status bind_deepstack(const TensorBinder& binder, const VisionConfig& c, int32_t layer, Projector* out) {
  const int64_t width = c.joined_width();
  const ShapeText norm("v.deepstack.%d.norm.weight", layer), bias("v.deepstack.%d.norm.bias", layer);
  const ShapeText first("v.deepstack.%d.fc1", layer), second("v.deepstack.%d.fc2", layer);
  OCELLUS_TRY(binder.vector(norm.text(), width, &out->joined_norm.weight));
  OCELLUS_TRY(binder.vector(bias.text(), width, &out->joined_norm.bias));
  return bind_maps(binder, c, first.text(), second.text(), width, out);
}

}  // namespace

const VisionTower kQwen2Tower = {.bind_layer = bind_plain_layer, .encode = encode_qwen2};
const VisionTower kQwen25Tower = {.bind_layer = bind_gated_layer, .encode = encode_qwen25};
const VisionTower kQwen3Tower = {.bind_layer = bind_plain_layer, .encode = encode_qwen3};

Status read_position_side(const GgufFile& file, VisionConfig* c) {
  const GgufTensor* const table = file.find_tensor("v.position_embd.weight");
  if (table == nullptr) return {};
  c->position_side = line_count(static_cast<int32_t>(std::min<int64_t>(table->rows(), 1 << 24)));
  if (int64_t{c->position_side} * c->position_side == table->rows()) return {};
  return OCELLUS_FAIL(Code::kBadFile, "tensor 'v.position_embd.weight' has %lld rows, which form no square",
                      static_cast<long long>(table->rows()));
}

Status read_pixel_limits(const GgufFile& file, VisionConfig* c) {
  constexpr int64_t kMostPixels = int64_t{1} << 31;
  const int64_t area = int64_t{c->row_side()} * c->row_side();
  OCELLUS_TRY(file.read_int("clip.vision.image_min_pixels", 1, kMostPixels, &c->min_pixels));
  OCELLUS_TRY(file.read_int("clip.vision.image_max_pixels", 1, kMostPixels, &c->max_pixels));
  if (c->max_pixels >= area) return {};
  return OCELLUS_FAIL(Code::kBadFile, "clip.vision.image_max_pixels is %lld, less than the %lld of one row",
                      static_cast<long long>(c->max_pixels), static_cast<long long>(area));
}

bool has_qwen_gate(const GgufFile& file) { return file.find_tensor("v.blk.0.ffn_gate.weight") != nullptr; }

Status read_qwen(const GgufFile& file, VisionConfig* c) {
  int64_t merge = 2;
  OCELLUS_TRY(file.read_int("clip.vision.spatial_merge_size", 1, 8, &merge));
  c->scale_factor = static_cast<int32_t>(merge);
  const bool gated = has_qwen_gate(file);
  c->any_size = true;
  c->frame_kernels = 2;
  c->usual_rows = kUsualQwenRows;
  if (gated) c->activation = Activation::kSilu;  // old files set neither use_silu nor use_gelu
  OCELLUS_TRY(read_mlp_width(file, c));
  OCELLUS_TRY(read_position_side(file, c));
  OCELLUS_TRY(read_deepstack(file, c));
  c->min_pixels = (c->position_side > 0 ? 64 : kLeastQwenRows) * c->row_side() * c->row_side();
  c->max_pixels = kMostQwenRows * c->row_side() * c->row_side();
  OCELLUS_TRY(read_pixel_limits(file, c));
  if (gated) OCELLUS_TRY(read_windows(file, c));
  OCELLUS_TRY(read_vision_rows(file, "mm.0.weight", &c->projector_width));
  return read_vision_rows(file, "mm.2.weight", &c->output_width);
}

Status bind_qwen(const TensorBinder& binder, VisionModel* m) {
  const VisionConfig& c = m->config;
  OCELLUS_TRY(binder.vector("v.post_ln.weight", c.width, &m->final_norm.weight));
  OCELLUS_TRY(binder.optional_vector("v.post_ln.bias", c.width, &m->final_norm.bias));
  OCELLUS_TRY(bind_maps(binder, c, "mm.0", "mm.2", c.projector_width, &m->projector));
  for (int32_t i = 0; i < c.deepstack_count; ++i)
    OCELLUS_TRY(bind_deepstack(binder, c, c.deepstack_layers[i], &m->deepstack[i]));
  return {};
}

void describe_qwen(const VisionConfig& c, GgufHeaderWriter* file, ShapeTensors* tensors) {
  file->add_u32("clip.vision.spatial_merge_size", c.scale_factor);
  file->add_u32("clip.vision.image_min_pixels", c.min_pixels);
  file->add_u32("clip.vision.image_max_pixels", c.max_pixels);
  if (c.window > 0) {
    file->add_u32("clip.vision.n_wa_pattern", c.window_period);
    file->add_u32("clip.vision.window_size", c.window * c.row_side());
  }
  if (c.position_side > 0) file->add_tensor("v.patch_embd.bias", WeightFormat::kF32, {c.width});
  tensors->norm("", "v.post_ln", c.width, c.window == 0);
  tensors->matrix("", "mm.0", c.projector_width, c.joined_width(), true);
  tensors->matrix("", "mm.2", c.output_width, c.projector_width, true);
  for (int32_t i = 0; i < c.deepstack_count; ++i) {
    const ShapeText at("v.deepstack.%d.", c.deepstack_layers[i]);
    tensors->norm(at, "norm", c.joined_width(), true);
    tensors->matrix(at, "fc1", c.joined_width(), c.joined_width(), true);
    tensors->matrix(at, "fc2", c.output_width, c.joined_width(), true);
  }
}

void describe_qwen25_layer(const VisionConfig& c, std::string_view at, ShapeTensors* tensors) {
  tensors->norm(at, "ln1", c.width);
  for (const char* part : {"attn_q", "attn_k", "attn_v", "attn_out"}) tensors->matrix(at, part, c.width, c.width, true);
  tensors->norm(at, "ln2", c.width);
  for (const char* part : {"ffn_gate", "ffn_up"}) tensors->matrix(at, part, c.mlp_width, c.width, true);
  tensors->matrix(at, "ffn_down", c.width, c.mlp_width, true);
}

/// Queries, keys and values are one matrix in files of Qwen3-VL.
void describe_qwen3_layer(const VisionConfig& c, std::string_view at, ShapeTensors* tensors) {
  tensors->norm(at, "ln1", c.width, true);
  tensors->matrix(at, "attn_qkv", 3 * int64_t{c.width}, c.width, true);
  tensors->matrix(at, "attn_out", c.width, c.width, true);
  tensors->norm(at, "ln2", c.width, true);
  tensors->matrix(at, "ffn_up", c.mlp_width, c.width, true);
  tensors->matrix(at, "ffn_down", c.width, c.mlp_width, true);
}

}  // namespace ocellus
