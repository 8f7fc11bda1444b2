// A synthetic scene: a board of 3 x 3 cells with coloured shapes, like the pictures that the bundled model was trained
// on, but without signs. Shapes appear and disappear, move inside their cells, jump to others and change over time.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace ocellus::app {

inline constexpr double kBoardSide = 256;  // the unit of positions and sizes on the board

enum class SceneShape { kCircle, kSquare, kTriangle, kStar, kCross, kRing, kDiamond, kHeart };

using SceneColor = std::array<uint8_t, 3>;

struct SceneObject {
  int32_t cell = 0;  // 0..8, row by row
  SceneShape shape = SceneShape::kCircle;
  int32_t color = 0;  // index for scene_color
  bool large = false;
  double radius = 0;                // in board units
  double turn = 0;                  // radians, clockwise
  double x = 0, y = 0;              // current centre on the board
  double speed = 0, phase = 0;      // motion in its cell: radians a second, radians
  double reach_x = 0, reach_y = 0;  // amplitude around the cell's centre
};

SceneColor scene_color(int32_t color);

class Scene {
 public:
  explicit Scene(uint64_t seed);

  // Advances the scene to this time since its beginning; times never decrease. The same seed and times give the same
  // scene.
  void advance(double seconds);
  const std::vector<SceneObject>& objects() const { return objects_; }
  SceneColor background() const;
  // Returns the caption in the words that the bundled model was trained on: "A small red circle at the top left and a
  // large blue star in the center, on a navy background."
  std::string caption() const;
  // Number of changes of the caption since the beginning.
  int64_t changes() const { return changes_; }

 private:
  uint64_t random();
  int32_t random_below(int32_t count) { return static_cast<int32_t>(random() % static_cast<uint64_t>(count)); }
  double random_between(double low, double high);
  int32_t free_cell();
  void settle(SceneObject* object);
  void add_object();
  void change_something();

  uint64_t random_state_;
  double next_change_s_ = 0;
  int64_t changes_ = 0;
  int32_t background_ = 0;
  std::vector<SceneObject> objects_;  // ordered by cell
};

}  // namespace ocellus::app
