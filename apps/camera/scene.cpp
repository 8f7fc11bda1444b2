#include "apps/camera/scene.h"

#include <algorithm>
#include <cmath>

namespace ocellus::app {
namespace {

struct NamedColor {
  const char* name;
  SceneColor color;
};

constexpr NamedColor kColors[] = {
    {"red", {214, 40, 40}},     {"orange", {242, 138, 28}}, {"yellow", {244, 222, 52}}, {"green", {38, 160, 66}},
    {"blue", {42, 82, 214}},    {"purple", {128, 56, 176}}, {"pink", {246, 140, 190}},  {"cyan", {64, 208, 218}},
    {"white", {246, 246, 246}}, {"black", {22, 22, 22}},
};
constexpr NamedColor kBackgrounds[] = {
    {"gray", {128, 128, 128}}, {"cream", {228, 214, 180}}, {"navy", {28, 36, 84}},
    {"teal", {22, 104, 104}},  {"maroon", {96, 26, 40}},
};
constexpr const char* kShapes[] = {"circle", "square", "triangle", "star", "cross", "ring", "diamond", "heart"};
constexpr const char* kPlaces[] = {"at the top left",    "at the top",    "at the top right",
                                   "on the left",        "in the center", "on the right",
                                   "at the bottom left", "at the bottom", "at the bottom right"};
constexpr int32_t kColorCount = std::size(kColors), kBackgroundCount = std::size(kBackgrounds),
                  kShapeCount = std::size(kShapes), kCellCount = std::size(kPlaces);
constexpr size_t kMaxObjects = 4;
constexpr double kCellSide = kBoardSide / 3;
constexpr double kFirstChange_s = 2, kLastChange_s = 5;  // time between changes

std::string phrase(const SceneObject& object) {
  return std::string("a ") + (object.large ? "large " : "small ") + kColors[object.color].name + " " +
         kShapes[static_cast<size_t>(object.shape)] + " " + kPlaces[object.cell];
}

}  // namespace

SceneColor scene_color(int32_t color) { return kColors[color].color; }

Scene::Scene(uint64_t seed) : random_state_(seed) {
  background_ = random_below(kBackgroundCount);
  const int32_t count = 1 + random_below(3);
  for (int32_t i = 0; i < count; ++i) add_object();
  next_change_s_ = random_between(kFirstChange_s, kLastChange_s);
  advance(0);
}

// SplitMix64 (Steele, Lea and Flood 2014): every seed is good.
uint64_t Scene::random() {
  uint64_t z = (random_state_ += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

double Scene::random_between(double low, double high) {
  return low + (high - low) * static_cast<double>(random() >> 11) * 0x1p-53;
}

int32_t Scene::free_cell() {
  for (;;) {
    const int32_t cell = random_below(kCellCount);
    const auto there = [&](const SceneObject& object) { return object.cell == cell; };
    if (std::none_of(objects_.begin(), objects_.end(), there)) return cell;
  }
}

// Chooses size and path of an object that is new in its cell or resized, as far from the cell's edges as in the
// pictures that the model was trained on.
void Scene::settle(SceneObject* object) {
  object->radius = object->large ? random_between(26, 32) : random_between(13, 16.5);
  object->turn = random_between(-0.15, 0.15);
  object->speed = random_between(0.5, 1.5);
  object->phase = random_between(0, 6.28);
  const double slack = 0.7 * (kCellSide / 2 - object->radius - 3);
  object->reach_x = random_between(0.3, 1) * slack;
  object->reach_y = random_between(0.3, 1) * slack;
}

void Scene::add_object() {
  SceneObject object;
  object.cell = free_cell();
  object.shape = static_cast<SceneShape>(random_below(kShapeCount));
  do {  // black on navy is hard to see
    object.color = random_below(kColorCount);
  } while (kBackgrounds[background_].color[0] < 40 && object.color == kColorCount - 1);
  object.large = random_below(2) == 1;
  settle(&object);
  objects_.push_back(object);
}

void Scene::change_something() {
  SceneObject& object = objects_[static_cast<size_t>(random_below(static_cast<int32_t>(objects_.size())))];
  const int32_t kind = random_below(12);
  if (kind < 3 && objects_.size() < kMaxObjects) {
    add_object();
  } else if (kind < 6 && objects_.size() > 1) {
    objects_.erase(objects_.begin() + (&object - objects_.data()));
  } else if (kind < 8) {
    object.color = (object.color + 1 + random_below(kColorCount - 2)) % kColorCount;
  } else if (kind == 8) {
    object.shape =
        static_cast<SceneShape>((static_cast<int32_t>(object.shape) + 1 + random_below(kShapeCount - 1)) % kShapeCount);
  } else if (kind == 9) {
    object.large = !object.large;
    settle(&object);
  } else if (kind == 10 || objects_.size() == kMaxObjects) {
    object.cell = free_cell();
    settle(&object);
  } else {
    background_ = (background_ + 1 + random_below(kBackgroundCount - 1)) % kBackgroundCount;
  }
}

void Scene::advance(double seconds) {
  while (next_change_s_ <= seconds) {
    change_something();
    ++changes_;
    next_change_s_ += random_between(kFirstChange_s, kLastChange_s);
  }
  std::sort(objects_.begin(), objects_.end(),
            [](const SceneObject& a, const SceneObject& b) { return a.cell < b.cell; });
  for (SceneObject& object : objects_) {
    const double angle = object.speed * seconds + object.phase;
    object.x = (object.cell % 3 + 0.5) * kCellSide + object.reach_x * std::cos(angle);
    object.y = (object.cell / 3 + 0.5) * kCellSide + object.reach_y * std::sin(1.3 * angle);
  }
}

SceneColor Scene::background() const { return kBackgrounds[background_].color; }

std::string Scene::caption() const {
  std::string text;
  for (size_t i = 0; i < objects_.size(); ++i) {
    if (i > 0) text += i + 1 == objects_.size() ? " and " : ", ";
    text += phrase(objects_[i]);
  }
  text[0] = 'A';
  return text + ", on a " + kBackgrounds[background_].name + " background.";
}

}  // namespace ocellus::app
