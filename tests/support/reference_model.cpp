#include "tests/support/reference_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "quant/block_codes.h"
#include "tests/support/reference.h"

namespace ocellus::test {
namespace {

Matrix columns(const Matrix& x, int64_t first, int64_t count) {
  Matrix out(x.rows, count);
  for (int64_t t = 0; t < x.rows; ++t) std::copy_n(x.row(t) + first, count, out.row(t));
  return out;
}

void add(Matrix& x, const Matrix& addend) {
  for (size_t i = 0; i < x.values.size(); ++i) x.values[i] += addend.values[i];
}

void round_to_half(Matrix& x) {
  for (double& value : x.values) value = static_cast<double>(half_to_float(float_to_half(static_cast<float>(value))));
}

/// To codes -127..127 and one scale per 32 values.
void round_to_codes(Matrix& x) {
  constexpr int64_t kGroup = 32;
  for (size_t first = 0; first < x.values.size(); first += kGroup) {
    double* group = x.values.data() + first;
    double largest = 0;
    for (int64_t i = 0; i < kGroup; ++i) largest = std::max(largest, std::abs(group[i]));
    if (largest == 0) continue;
    for (int64_t i = 0; i < kGroup; ++i) group[i] = std::nearbyint(group[i] * 127 / largest) * largest / 127;
  }
}

}  // namespace

double relative_error(const float* got, const double* expected, int64_t count) {
  double difference = 0;
  double norm = 0;
  for (int64_t i = 0; i < count; ++i) {
    difference += (double{got[i]} - expected[i]) * (double{got[i]} - expected[i]);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(difference / norm);
}

double ReferenceWeights::number(const std::string& key, double otherwise) const {
  const GgufEntry* entry = file_.find(key);
  if (entry == nullptr) return otherwise;
  if (entry->type == GgufType::kF32) {
    float value = 0;
    if (file_.read_float(key, &value).ok()) return static_cast<double>(value);
  }
  if (entry->type == GgufType::kBool) {
    bool value = false;
    if (file_.read_bool(key, &value).ok()) return value ? 1 : 0;
  }
  int64_t value = 0;
  if (!file_.read_int(key, INT32_MIN, INT32_MAX, &value).ok()) throw std::runtime_error("no number: " + key);
  return static_cast<double>(value);
}

std::string ReferenceWeights::text(const std::string& key) const {
  std::string_view value;
  if (!file_.require_string(key, &value).ok()) throw std::runtime_error("no text: " + key);
  return std::string(value);
}

std::vector<int32_t> ReferenceWeights::integers(const std::string& key) const {
  const GgufEntry* entry = nullptr;
  if (!file_.read_array(key, GgufType::kI32, &entry).ok()) throw std::runtime_error("no integers: " + key);
  std::vector<int32_t> values(entry == nullptr ? 0 : entry->count);
  if (!values.empty()) std::memcpy(values.data(), entry->payload, values.size() * sizeof values[0]);
  return values;
}

const Matrix& ReferenceWeights::tensor(const std::string& name) const {
  const auto known = decoded_.find(name);
  if (known != decoded_.end()) return known->second;
  const GgufTensor* tensor = file_.find_tensor(name);
  if (tensor == nullptr) throw std::runtime_error("no tensor: " + name);
  const bool convolution = tensor->dimension_count == 4;
  const int64_t rows = convolution ? tensor->ne[3] : tensor->rows();
  const int64_t cols = tensor->rows() * tensor->cols() / rows;
  Matrix out(rows, cols);
  std::vector<float> row(static_cast<size_t>(cols));
  std::vector<uint8_t> stored(static_cast<size_t>(row_bytes(tensor->format, cols)));
  const auto stored_bytes = static_cast<int64_t>(stored.size());
  for (int64_t i = 0; i < rows; ++i) {
    if (!file_.read_data(tensor->offset + i * stored_bytes, stored.data(), stored_bytes).ok())
      throw std::runtime_error(last_failure().sentence);
    decode_row(tensor->format, stored.data(), cols, row.data());
    std::copy(row.begin(), row.end(), out.row(i));
  }
  return decoded_.emplace(name, std::move(out)).first->second;
}

Matrix ReferenceWeights::linear(const Matrix& input, const std::string& name) const {
  const Matrix& weight = tensor(name + ".weight");
  Matrix x = input;
  if (rounding_.inputs && is_block_format(file_.find_tensor(name + ".weight")->format)) round_to_codes(x);
  const double* bias = has(name + ".bias") ? tensor(name + ".bias").row(0) : nullptr;
  Matrix out(x.rows, weight.rows);
  for (int64_t t = 0; t < x.rows; ++t) {
    for (int64_t n = 0; n < weight.rows; ++n) {
      double sum = bias == nullptr ? 0 : bias[n];
      for (int64_t k = 0; k < weight.cols; ++k) sum += weight.row(n)[k] * x.row(t)[k];
      out.row(t)[n] = sum;
    }
  }
  return out;
}

Matrix ReferenceWeights::rms_norm(const Matrix& x, const std::string& name, double epsilon) const {
  const Matrix& weight = tensor(name + ".weight");
  Matrix out = x;
  for (double* piece = out.row(0); piece != out.row(x.rows); piece += weight.cols) {
    double squares = 0;
    for (int64_t i = 0; i < weight.cols; ++i) squares += piece[i] * piece[i];
    const double scale = 1 / std::sqrt(squares / static_cast<double>(weight.cols) + epsilon);
    for (int64_t i = 0; i < weight.cols; ++i) piece[i] *= scale * weight.row(0)[i];
  }
  return out;
}

Matrix ReferenceWeights::layer_norm(const Matrix& x, const std::string& name, double epsilon) const {
  const double* weight = tensor(name + ".weight").row(0);
  const double* bias = tensor(name + ".bias").row(0);
  const auto width = static_cast<double>(x.cols);
  Matrix out = x;
  for (int64_t t = 0; t < x.rows; ++t) {
    double mean = 0;
    double variance = 0;
    for (int64_t i = 0; i < x.cols; ++i) mean += x.row(t)[i] / width;
    for (int64_t i = 0; i < x.cols; ++i) variance += (x.row(t)[i] - mean) * (x.row(t)[i] - mean) / width;
    for (int64_t i = 0; i < x.cols; ++i)
      out.row(t)[i] = (x.row(t)[i] - mean) / std::sqrt(variance + epsilon) * weight[i] + bias[i];
  }
  return out;
}

Matrix ReferenceWeights::attend(const Matrix& query, Matrix key, Matrix value, int64_t heads, int64_t kv_heads,
                                const std::vector<RowsSeen>& seen, const std::vector<int32_t>& counts,
                                std::vector<double>* of_last) const {
  if (of_last != nullptr) of_last->assign(static_cast<size_t>(key.rows), 0);
  if (rounding_.kv) {
    round_to_half(key);
    round_to_half(value);
  }
  const int64_t dim = query.cols / heads;
  Matrix out(query.rows, query.cols);
  for (int64_t h = 0; h < heads; ++h) {
    const int64_t from = h / (heads / kv_heads) * dim;
    for (int64_t t = 0; t < query.rows; ++t) {
      const RowsSeen rows = seen.empty() ? RowsSeen{0, key.rows} : seen[static_cast<size_t>(t)];
      std::vector<double> shares(static_cast<size_t>(rows.end), -INFINITY);
      for (int64_t s = rows.first; s < rows.end; ++s) {
        double score = 0;
        for (int64_t e = 0; e < dim; ++e) score += query.row(t)[h * dim + e] * key.row(s)[from + e];
        shares[static_cast<size_t>(s)] = score / std::sqrt(static_cast<double>(dim));
        if (!counts.empty()) shares[static_cast<size_t>(s)] += std::log(counts[static_cast<size_t>(s)]);
      }
      const double largest = *std::max_element(shares.begin(), shares.end());
      double sum = 0;
      for (double& share : shares) sum += share = std::exp(share - largest);
      for (int64_t s = 0; s < rows.end; ++s)
        for (int64_t e = 0; e < dim; ++e)
          out.row(t)[h * dim + e] += shares[static_cast<size_t>(s)] / sum * value.row(s)[from + e];
      for (size_t s = 0; of_last != nullptr && t + 1 == query.rows && s < shares.size(); ++s)
        (*of_last)[s] += shares[s] / sum / static_cast<double>(heads);
    }
  }
  return out;
}

ReferenceText::ReferenceText(const GgufFile& file, Rounding rounding) : weights_(file, rounding) {
  const std::string architecture = weights_.text("general.architecture");
  is_gemma_ = architecture == "gemma3";
  adjacent_pairs_ = architecture == "llama" || architecture == "internlm2";
  const auto number = [&](const char* name, double otherwise) {
    return weights_.number(architecture + "." + name, otherwise);
  };
  const auto count = [&](const char* name, int64_t otherwise) {
    return static_cast<int64_t>(number(name, static_cast<double>(otherwise)));
  };
  layers_ = count("block_count", 0);
  width_ = count("embedding_length", 0);
  heads_ = count("attention.head_count", 0);
  kv_heads_ = count("attention.head_count_kv", heads_);
  head_dim_ = count("attention.key_length", width_ / heads_);
  rotated_ = count("rope.dimension_count", head_dim_);
  epsilon_ = number("attention.layer_norm_rms_epsilon", 0);
  base_ = number("rope.freq_base", 10000);
  position_scale_ = 1 / number("rope.scaling.factor", 1);
  coordinates_.resize(static_cast<size_t>(rotated_ / 2));
  const std::vector<int32_t> sections = weights_.integers(architecture + ".rope.dimension_sections");
  for (size_t axis = 1; axis < 3 && !sections.empty(); ++axis)
    for (int32_t i = 0; i < sections[axis]; ++i) coordinates_.at(3 * static_cast<size_t>(i) + axis) = axis;
  if (!is_gemma_) return;
  window_ = count("attention.sliding_window", 0);
  window_period_ = count("attention.sliding_window_pattern", 6);
  local_base_ = number("rope.freq_base_swa", 10000);
}

Matrix ReferenceText::embed(const std::vector<int32_t>& ids) const {
  const Matrix& table = weights_.tensor("token_embd.weight");
  Matrix out(static_cast<int64_t>(ids.size()), table.cols);
  for (size_t t = 0; t < ids.size(); ++t) std::copy_n(table.row(ids[t]), table.cols, out.row(static_cast<int64_t>(t)));
  if (!is_gemma_) return out;
  for (double& value : out.values) value *= std::sqrt(static_cast<double>(width_));
  return out;
}

namespace {

std::string layer_name(int64_t layer) { return "blk." + std::to_string(layer) + "."; }

}  // namespace

/// Row t stands at position t if no positions are given. Pairs are neighbours in files of llama and internlm2 and half
/// the rotated part apart in the others. Layers with a window have a base of their own, and no scaling.
void ReferenceText::rotate(Matrix& x, const std::vector<int64_t>& positions, int64_t layer) const {
  const double base = is_local(layer) ? local_base_ : base_, scale = is_local(layer) ? 1 : position_scale_;
  const double* factors = weights_.has("rope_freqs.weight") ? weights_.tensor("rope_freqs.weight").row(0) : nullptr;
  const bool has_three = std::ssize(positions) == 3 * x.rows;
  for (int64_t t = 0; t < x.rows; ++t) {
    for (int64_t head = 0; head < x.cols; head += head_dim_) {
      for (int64_t i = 0; i < rotated_ / 2; ++i) {
        const int64_t place = has_three ? 3 * t + coordinates_[static_cast<size_t>(i)] : t;
        const int64_t position = positions.empty() ? t : positions[static_cast<size_t>(place)];
        double angle = static_cast<double>(position) * scale *
                       std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(rotated_));
        if (factors != nullptr) angle /= factors[i];
        double& a = x.row(t)[head + (adjacent_pairs_ ? 2 * i : i)];
        double& b = x.row(t)[head + (adjacent_pairs_ ? 2 * i + 1 : i + rotated_ / 2)];
        const double turned = a * std::cos(angle) - b * std::sin(angle);
        b = a * std::sin(angle) + b * std::cos(angle);
        a = turned;
      }
    }
  }
}

namespace {

void link_rows(const LinkedRows& linked, const Matrix& source, Matrix* rows) {
  for (int64_t i = 0; i < rows->cols; ++i) {
    double change = 0;
    for (const LinkedRows::Pair& row : linked.carried)
      change += (rows->row(row.to)[i] - source.row(row.from)[i]) / static_cast<double>(linked.carried.size());
    for (const LinkedRows::Pair& row : linked.rows) rows->row(row.to)[i] = source.row(row.from)[i] + change;
  }
}

}  // namespace

/// A row sees those before it, those of a window in some layers, and its view.
std::vector<RowsSeen> ReferenceText::seen_by(int64_t rows, int64_t layer, const std::vector<int64_t>& ends) const {
  std::vector<RowsSeen> seen;
  for (int64_t t = 0; t < rows; ++t)
    seen.push_back({is_local(layer) ? std::max<int64_t>(0, t + 1 - window_) : 0,
                    ends.empty() ? t + 1 : ends[static_cast<size_t>(t)]});
  return seen;
}

Matrix ReferenceText::mix(const Matrix& x, const std::vector<int64_t>& positions, int64_t number,
                          const LinkedRows& linked, KeysAndValues* taken) const {
  const std::string layer = layer_name(number);
  Matrix query, key, value;
  if (weights_.has(layer + "attn_qkv.weight")) {
    const Matrix all = weights_.linear(x, layer + "attn_qkv");
    query = columns(all, 0, heads_ * head_dim_);
    key = columns(all, heads_ * head_dim_, kv_heads_ * head_dim_);
    value = columns(all, (heads_ + kv_heads_) * head_dim_, kv_heads_ * head_dim_);
  } else {
    query = weights_.linear(x, layer + "attn_q");
    key = weights_.linear(x, layer + "attn_k");
    value = weights_.linear(x, layer + "attn_v");
  }
  if (weights_.has(layer + "attn_q_norm.weight")) {
    query = weights_.rms_norm(query, layer + "attn_q_norm", epsilon_);
    key = weights_.rms_norm(key, layer + "attn_k_norm", epsilon_);
  }
  if (!linked.rows.empty()) {
    link_rows(linked, linked.source.keys[static_cast<size_t>(number)], &key);
    link_rows(linked, linked.source.values[static_cast<size_t>(number)], &value);
  }
  if (taken != nullptr) taken->keys.push_back(key);
  if (taken != nullptr) taken->values.push_back(value);
  std::vector<double>* const of_last = taken == nullptr ? nullptr : &taken->last_attention.emplace_back();
  rotate(query, positions, number);
  rotate(key, positions, number);
  const Matrix mixed = weights_.attend(query, key, value, heads_, kv_heads_, seen_by(query.rows, number, linked.ends),
                                       linked.counts, of_last);
  const Matrix out = weights_.linear(mixed, layer + "attn_output");
  return is_gemma_ ? weights_.rms_norm(out, layer + "post_attention_norm", epsilon_) : out;
}

Matrix ReferenceText::read(Matrix x, const std::vector<int64_t>& positions, const LinkedRows& linked,
                           KeysAndValues* taken, LayerRange range) const {
  for (int64_t i = range.first; i < std::min(layers_, range.end); ++i) {
    const std::string layer = layer_name(i);
    add(x, mix(weights_.rms_norm(x, layer + "attn_norm", epsilon_), positions, i, linked, taken));
    const Matrix normed = weights_.rms_norm(x, layer + "ffn_norm", epsilon_);
    Matrix up = weights_.linear(normed, layer + "ffn_up");
    if (weights_.has(layer + "ffn_gate.weight")) {
      const Matrix gate = weights_.linear(normed, layer + "ffn_gate");
      for (size_t k = 0; k < gate.values.size(); ++k)
        up.values[k] *= is_gemma_ ? gelu_tanh(gate.values[k]) : silu(gate.values[k]);
    } else {
      for (double& value : up.values) value = squared_relu(value);
    }
    const Matrix out = weights_.linear(up, layer + "ffn_down");
    add(x, is_gemma_ ? weights_.rms_norm(out, layer + "post_ffw_norm", epsilon_) : out);
  }
  return x;
}

Matrix ReferenceText::logits(const Matrix& rows) const {
  const Matrix normed = weights_.rms_norm(rows, "output_norm", epsilon_);
  return weights_.linear(normed, weights_.has("output.weight") ? "output" : "token_embd");
}

ReferenceVision::ReferenceVision(const GgufFile& file, Rounding rounding) : weights_(file, rounding) {
  const auto count = [&](const char* name) {
    return static_cast<int64_t>(weights_.number(std::string("clip.vision.") + name, 1));
  };
  side_ = count("image_size");
  patch_ = count("patch_size");
  grid_ = side_ / patch_;
  layers_ = count("block_count");
  const GgufEntry* feature_layer = nullptr;
  if (file.read_array("clip.vision.feature_layer", GgufType::kI32, &feature_layer).ok() && feature_layer != nullptr)
    layers_ = *feature_layer->payload;  // a small one
  heads_ = count("attention.head_count");
  scale_ = count("projector.scale_factor");
  epsilon_ = weights_.number("clip.vision.attention.layer_norm_epsilon", 0);
}

/// A convolution whose stride is its size; what does not fill a patch is left out.
Matrix ReferenceVision::embed_patches(const float* pixels) const {
  Matrix patches(grid_ * grid_, 3 * patch_ * patch_);
  for (int64_t y = 0; y < grid_ * patch_; ++y)
    for (int64_t x = 0; x < grid_ * patch_; ++x)
      for (int64_t c = 0; c < 3; ++c)
        patches.row(y / patch_ * grid_ + x / patch_)[(c * patch_ + y % patch_) * patch_ + x % patch_] =
            static_cast<double>(pixels[(c * side_ + y) * side_ + x]);
  Matrix out = weights_.linear(patches, "v.patch_embd");
  if (weights_.has("v.class_embd")) out = add_class_row(out);
  add(out, weights_.tensor("v.position_embd.weight"));
  return weights_.has("v.pre_ln.weight") ? norm(out, "v.pre_ln") : out;
}

/// Comes first.
Matrix ReferenceVision::add_class_row(const Matrix& patches) const {
  Matrix out(patches.rows + 1, patches.cols);
  std::copy_n(weights_.tensor("v.class_embd").row(0), patches.cols, out.row(0));
  std::copy(patches.values.begin(), patches.values.end(), out.row(1));
  return out;
}

double ReferenceVision::activate(double x) const {
  if (weights_.number("clip.use_gelu", 0) != 0) return gelu_tanh(x);
  return weights_.number("clip.use_silu", 0) != 0 ? silu(x) : quick_gelu(x);
}

/// Joins scale x scale neighbouring rows, those of one line first.
Matrix ReferenceVision::shuffle(const Matrix& x) const {
  const int64_t side = grid_ / scale_;
  Matrix out(side * side, scale_ * scale_ * x.cols);
  for (int64_t y = 0; y < grid_; ++y)
    for (int64_t col = 0; col < grid_; ++col) {
      const int64_t place = y % scale_ * scale_ + col % scale_;
      std::copy_n(x.row(y * grid_ + col), x.cols, out.row(y / scale_ * side + col / scale_) + place * x.cols);
    }
  return out;
}

/// RMS norm if there is no bias.
Matrix ReferenceVision::norm(const Matrix& x, const std::string& name) const {
  return weights_.has(name + ".bias") ? weights_.layer_norm(x, name, epsilon_) : weights_.rms_norm(x, name, epsilon_);
}

/// It comes first.
Matrix ReferenceVision::drop_class_row(const Matrix& x) const {
  Matrix patches(x.rows - 1, x.cols);
  std::copy_n(x.row(1), patches.values.size(), patches.row(0));
  return patches;
}

Matrix ReferenceVision::project(const Matrix& joined) const {
  if (weights_.has("mm.model.fc.weight")) return weights_.linear(joined, "mm.model.fc");
  const bool is_internvl = weights_.has("mm.model.mlp.0.weight");
  Matrix wide = is_internvl ? weights_.linear(weights_.layer_norm(joined, "mm.model.mlp.0", 1e-5), "mm.model.mlp.1")
                            : weights_.linear(joined, "mm.0");
  for (double& value : wide.values) value = gelu_erf(value);
  return weights_.linear(wide, is_internvl ? "mm.model.mlp.3" : "mm.2");
}

Matrix ReferenceVision::encode(const float* pixels) const {
  Matrix x = run_layers(embed_patches(pixels));
  if (weights_.has("v.class_embd")) x = drop_class_row(x);
  if (weights_.has("mm.model.fc.weight")) x = norm(x, "v.post_ln");
  return project(shuffle(x));
}

/// x += scale * branch, where there is a scale.
void ReferenceVision::add_branch(Matrix& x, Matrix branch, const std::string& scale) const {
  if (weights_.has(scale)) {
    const Matrix& factors = weights_.tensor(scale);
    for (int64_t t = 0; t < branch.rows; ++t)
      for (int64_t i = 0; i < branch.cols; ++i) branch.row(t)[i] *= factors.values[static_cast<size_t>(i)];
  }
  add(x, branch);
}

Matrix ReferenceVision::head_rows(const Matrix& normed, const std::string& name) const {
  const Matrix rows = weights_.linear(normed, name);
  return weights_.has(name + "_norm.weight") ? norm(rows, name + "_norm") : rows;
}

Matrix ReferenceVision::notes(const Matrix& x, int64_t layer) const {
  const std::string name = "v.blk." + std::to_string(layer) + ".";
  const Matrix normed = norm(x, name + "ln1");
  const Matrix query = head_rows(normed, name + "attn_q"), key = head_rows(normed, name + "attn_k");
  const int64_t dim = x.cols / heads_, lead = x.rows - grid_ * grid_, asking = lead > 0 ? 1 : x.rows;
  const auto heads = static_cast<double>(heads_);
  Matrix patches(x.rows, 1 + dim);
  for (int64_t t = 0; t < x.rows; ++t)
    for (int64_t i = 0; i < x.cols; ++i) patches.row(t)[1 + i % dim] += key.row(t)[i] / heads;
  for (int64_t i = 0; i < heads_ * asking; ++i) {
    const int64_t head = i / asking * dim;
    std::vector<double> shares;
    for (int64_t s = 0; s < x.rows; ++s) {
      double score = 0;
      for (int64_t e = head; e < head + dim; ++e) score += query.row(i % asking)[e] * key.row(s)[e];
      shares.push_back(score / std::sqrt(static_cast<double>(dim)));
    }
    const double largest = *std::max_element(shares.begin(), shares.end());
    double sum = 0;
    for (double& share : shares) sum += share = std::exp(share - largest);
    for (int64_t s = 0; s < x.rows; ++s)
      patches.row(s)[0] += shares[static_cast<size_t>(s)] / sum / heads / static_cast<double>(asking);
  }
  const Matrix joined = shuffle(lead > 0 ? drop_class_row(patches) : patches);
  Matrix out(joined.rows, 1 + dim);
  for (int64_t t = 0; t < out.rows; ++t)
    for (int64_t i = 0; i < joined.cols; ++i)
      out.row(t)[i % out.cols] += joined.row(t)[i] / static_cast<double>(scale_ * scale_);
  return out;
}

Matrix ReferenceVision::run_layers(Matrix x) const {
  for (int64_t i = 0; i < layers_; ++i) {
    const std::string layer = "v.blk." + std::to_string(i) + ".";
    const Matrix normed = norm(x, layer + "ln1");
    const Matrix mixed = weights_.attend(head_rows(normed, layer + "attn_q"), head_rows(normed, layer + "attn_k"),
                                         weights_.linear(normed, layer + "attn_v"), heads_, heads_);
    add_branch(x, weights_.linear(mixed, layer + "attn_out"), layer + "ls1.weight");
    // In old files the names of the two matrices are swapped; the first one is the one that reads the tower's rows.
    const bool swapped = weights_.tensor(layer + "ffn_up.weight").cols != x.cols;
    Matrix wide = weights_.linear(norm(x, layer + "ln2"), layer + (swapped ? "ffn_down" : "ffn_up"));
    for (double& value : wide.values) value = activate(value);
    add_branch(x, weights_.linear(wide, layer + (swapped ? "ffn_up" : "ffn_down")), layer + "ls2.weight");
  }
  return x;
}

}  // namespace ocellus::test
