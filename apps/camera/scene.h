// A synthetic scene: a board of 3 x 3 cells with coloured shapes, like the pictures that the bundled model was trained
// on, but without signs. In a Scene shapes appear and disappear, move inside their cells, jump to others and change
// over time.
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

// SplitMix64 (Steele, Lea and Flood 2014): every seed is good.
class SceneRandom {
 public:
  explicit SceneRandom(uint64_t seed) : state_(seed) {}
  uint64_t next();
  int32_t below(int32_t count) { return static_cast<int32_t>(next() % static_cast<uint64_t>(count)); }
  double between(double low, double high);

 private:
  uint64_t state_;
};

// A board with its objects, as a picture shows it.
struct Board {
  int32_t background = 0;            // index, below kBackgroundCount
  std::vector<SceneObject> objects;  // ordered by cell

  SceneColor background_color() const;
  // False for black on navy, which is hard to see.
  bool shows(int32_t color) const;
  // Returns the caption in the words that the bundled model was trained on: "A small red circle at the top left and a
  // large blue star in the center, on a navy background."
  std::string caption() const;
  void sort_by_cell();
  int32_t free_cell(SceneRandom* random) const;
};

inline constexpr int32_t kBackgroundCount = 5;
inline constexpr size_t kMaxObjects = 4;

SceneColor scene_color(int32_t color);
std::string thing_name(const SceneObject& object);  // "red circle"
const char* size_name(const SceneObject& object);   // "large"
const char* place_name(const SceneObject& object);  // "at the top left"

// Chooses the shape of an object and a color that the board shows.
void choose_thing(const Board& board, SceneRandom* random, SceneObject* object);
// Chooses size and path of an object that is new in its cell or resized, as far from the cell's edges as in the
// pictures that the model was trained on.
void settle(SceneObject* object, SceneRandom* random);
// Puts an object at this angle of its path.
void place(SceneObject* object, double angle);

class Scene {
 public:
  explicit Scene(uint64_t seed);

  // Advances the scene to this time since its beginning; times never decrease. The same seed and times give the same
  // scene.
  void advance(double seconds);
  const Board& board() const { return board_; }
  const std::vector<SceneObject>& objects() const { return board_.objects; }
  SceneColor background() const { return board_.background_color(); }
  std::string caption() const { return board_.caption(); }
  // Number of changes of the caption since the beginning.
  int64_t changes() const { return changes_; }

 private:
  void add_object();
  void change_something();

  SceneRandom random_;
  double next_change_s_ = 0;
  int64_t changes_ = 0;
  Board board_;
};

}  // namespace ocellus::app
