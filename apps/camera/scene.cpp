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
constexpr int32_t kColorCount = std::size(kColors), kShapeCount = std::size(kShapes), kCellCount = std::size(kPlaces);
static_assert(std::size(kBackgrounds) == kBackgroundCount);
constexpr double kCellSide = kBoardSide / 3;
constexpr double kFirstChange_s = 2, kLastChange_s = 5;  // time between changes

}  // namespace

SceneColor scene_color(int32_t color) { return kColors[color].color; }

std::string thing_name(const SceneObject& object) {
  return std::string(kColors[object.color].name) + " " + kShapes[static_cast<size_t>(object.shape)];
}

const char* size_name(const SceneObject& object) { return object.large ? "large" : "small"; }

const char* place_name(const SceneObject& object) { return kPlaces[object.cell]; }

uint64_t SceneRandom::next() {
  uint64_t z = (state_ += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

double SceneRandom::between(double low, double high) {
  return low + (high - low) * static_cast<double>(next() >> 11) * 0x1p-53;
}

SceneColor Board::background_color() const { return kBackgrounds[background].color; }

bool Board::shows(int32_t color) const { return kBackgrounds[background].color[0] >= 40 || color != kColorCount - 1; }

std::string Board::caption() const {
  std::string text;
  for (size_t i = 0; i < objects.size(); ++i) {
    const SceneObject& object = objects[i];
    if (i > 0) text += i + 1 == objects.size() ? " and " : ", ";
    text += std::string("a ") + size_name(object) + " " + thing_name(object) + " " + place_name(object);
  }
  text[0] = 'A';
  return text + ", on a " + kBackgrounds[background].name + " background.";
}

void Board::sort_by_cell() {
  std::sort(objects.begin(), objects.end(), [](const SceneObject& a, const SceneObject& b) { return a.cell < b.cell; });
}

int32_t Board::free_cell(SceneRandom* random) const {
  for (;;) {
    const int32_t cell = random->below(kCellCount);
    const auto there = [&](const SceneObject& object) { return object.cell == cell; };
    if (std::none_of(objects.begin(), objects.end(), there)) return cell;
  }
}

void choose_thing(const Board& board, SceneRandom* random, SceneObject* object) {
  object->shape = static_cast<SceneShape>(random->below(kShapeCount));
  do {
    object->color = random->below(kColorCount);
  } while (!board.shows(object->color));
}

void settle(SceneObject* object, SceneRandom* random) {
  object->radius = object->large ? random->between(26, 32) : random->between(13, 16.5);
  object->turn = random->between(-0.15, 0.15);
  object->speed = random->between(0.5, 1.5);
  object->phase = random->between(0, 6.28);
  const double slack = 0.7 * (kCellSide / 2 - object->radius - 3);
  object->reach_x = random->between(0.3, 1) * slack;
  object->reach_y = random->between(0.3, 1) * slack;
}

void place(SceneObject* object, double angle) {
  object->x = (object->cell % 3 + 0.5) * kCellSide + object->reach_x * std::cos(angle);
  object->y = (object->cell / 3 + 0.5) * kCellSide + object->reach_y * std::sin(1.3 * angle);
}

Scene::Scene(uint64_t seed) : random_(seed) {
  board_.background = random_.below(kBackgroundCount);
  const int32_t count = 1 + random_.below(3);
  for (int32_t i = 0; i < count; ++i) add_object();
  next_change_s_ = random_.between(kFirstChange_s, kLastChange_s);
  advance(0);
}

void Scene::add_object() {
  SceneObject object;
  object.cell = board_.free_cell(&random_);
  choose_thing(board_, &random_, &object);
  object.large = random_.below(2) == 1;
  settle(&object, &random_);
  board_.objects.push_back(object);
}

void Scene::change_something() {
  auto& objects = board_.objects;
  SceneObject& object = objects[static_cast<size_t>(random_.below(static_cast<int32_t>(objects.size())))];
  const int32_t kind = random_.below(12);
  if (kind < 3 && objects.size() < kMaxObjects) {
    add_object();
  } else if (kind < 6 && objects.size() > 1) {
    objects.erase(objects.begin() + (&object - objects.data()));
  } else if (kind < 8) {
    object.color = (object.color + 1 + random_.below(kColorCount - 2)) % kColorCount;
  } else if (kind == 8) {
    object.shape = static_cast<SceneShape>((static_cast<int32_t>(object.shape) + 1 + random_.below(kShapeCount - 1)) %
                                           kShapeCount);
  } else if (kind == 9) {
    object.large = !object.large;
    settle(&object, &random_);
  } else if (kind == 10 || objects.size() == kMaxObjects) {
    object.cell = board_.free_cell(&random_);
    settle(&object, &random_);
  } else {
    board_.background = (board_.background + 1 + random_.below(kBackgroundCount - 1)) % kBackgroundCount;
  }
}

void Scene::advance(double seconds) {
  while (next_change_s_ <= seconds) {
    change_something();
    ++changes_;
    next_change_s_ += random_.between(kFirstChange_s, kLastChange_s);
  }
  board_.sort_by_cell();
  for (SceneObject& object : board_.objects) place(&object, object.speed * seconds + object.phase);
}

}  // namespace ocellus::app
