// Places of a model's answers, and the file of --draw.
#include "apps/setup/picture_places.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "apps/base/failure.h"
#include "apps/camera/picture_decode.h"
#include "apps/camera/picture_encode.h"
#include "tests/support/exif.h"

namespace ocellus::app {
namespace {

namespace fs = std::filesystem;

struct Folder {
  const fs::path path = fs::temp_directory_path() / ("ocellus_places_" + std::to_string(getpid()));
  Folder() { fs::create_directory(path); }
  ~Folder() { fs::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const char* name) const { return (path / name).string(); }
};

// Returns why the path is refused, with the exit code before it; "" if it is not.
std::string refusal(const std::string& path, const std::vector<std::string>& inputs) {
  try {
    check_drawing(path, inputs);
  } catch (const Failure& failure) {
    return std::to_string(failure.exit_code()) + " " + failure.what();
  }
  return "";
}

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

TEST_CASE("a model without places is told which families have some") {
  CHECK(describe_missing_places("--boxes", {}) ==
        "--boxes needs a model whose answers hold boxes or points: this build reads none.");
  CHECK(contains(describe_missing_places("--boxes", {"A"}), "points: one of the family A; "));
  CHECK(contains(describe_missing_places("--boxes", {"A", "B", "C"}), "points: one of the families A, B and C; "));
  Model model = {};
  CHECK_THROWS_AS(require_places(model, "--boxes"), Failure);
  CHECK(read_places(R"({"bbox_2d": [1, 2, 3, 4]})", model, Engine(), 640, 480).empty());
  model.facts.place_units = OCELLUS_PLACES_THOUSANDTHS;
  CHECK_NOTHROW(require_places(model, "--boxes"));
  const std::vector<Place> places = read_places(R"({"bbox_2d": [0, 500, 1000, 1000]})", model, Engine(), 640, 480);
  REQUIRE(places.size() == 1);
  CHECK((places[0].top == 240 && places[0].right == 640));
}

TEST_CASE("a drawing is refused before the model works for it") {
  const Folder folder;
  const std::string input = folder / "in.png", link = folder / "link.png", other = folder / "other.PNG";
  std::ofstream(input) << "a picture";
  std::ofstream(other) << "some other picture";
  fs::create_symlink(input, link);
  CHECK(refusal(folder / "new.png", {input}) == "");
  CHECK(refusal(folder / "new.jpeg", {input, ""}) == "");
  CHECK(refusal(other, {input}) == "");
  CHECK_FALSE(fs::exists(folder / "new.png"));
  CHECK(fs::file_size(other) == 18);
  for (const std::string& path : {input, link, folder / "./in.png"}) {
    CHECK(contains(refusal(path, {input}), "2 --draw"));
    CHECK(contains(refusal(path, {input}), "would overwrite an input"));
  }
  for (const char* name : {"new.gif", "new", "png", "new.png.webp"}) {
    CHECK(contains(refusal(folder / name, {input}), ": the name must end in .png, .jpg or .jpeg"));
  }
  CHECK(contains(refusal(folder / "none/new.png", {input}), "1 --draw"));
  CHECK(contains(refusal(folder / "none/new.png", {input}), "cannot be written: No such file or directory"));
  fs::create_directory(folder / "folder.png");
  CHECK(contains(refusal(folder / "folder.png", {input}), "cannot be written: Is a directory"));
  REQUIRE(mkfifo((folder / "pipe.png").c_str(), 0600) == 0);
  CHECK(contains(refusal(folder / "pipe.png", {input}), "cannot be written"));
}

TEST_CASE("a drawing is the picture as seen with its places, in the format of its name") {
  const Folder folder;
  const std::vector<uint8_t> pixels(3 * 64 * 48, 90);
  std::vector<uint8_t> bytes;
  REQUIRE(encode_png(pixels.data(), 64, 48, &bytes));
  const std::string input = folder / "in.png";
  std::ofstream(input, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
  const ImageFile image = probe_image(input);
  const Place place = {.label = "", .is_point = false, .left = 10, .top = 10, .right = 60, .bottom = 40};
  for (const char* name : {"out.png", "out.JPG", "out.png"}) {
    write_drawing(folder / name, image, {}, {place});
    Frame frame;
    frame.bytes = read_input_file(folder / name);
    CHECK(is_png(frame.bytes) == (std::string(name) == "out.png"));
    Picture picture;
    REQUIRE(decode_rgb(frame, &picture));
    CHECK((picture.width == 64 && picture.height == 48));
    CHECK(picture.pixels != pixels);
  }
  CHECK(std::distance(fs::directory_iterator(folder.path), {}) == 3);  // nothing temporary is left
}

TEST_CASE("places are in the picture as it is seen, turned by its EXIF") {
  const Folder folder;
  const std::vector<uint8_t> pixels(3 * 64 * 48, 90);
  std::vector<uint8_t> bytes;
  REQUIRE(encode_jpeg(pixels.data(), 64, 48, 90, &bytes));
  bytes = testing::with_exif(bytes, testing::exif(6));
  const std::string input = folder / "in.jpg";
  std::ofstream(input, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
  const ImageFile image = probe_image(input);
  REQUIRE((image.width == 48 && image.height == 64));
  Model model = {};
  model.facts.place_units = OCELLUS_PLACES_THOUSANDTHS;
  const std::vector<Place> places =
      read_places(R"({"bbox_2d": [0, 500, 1000, 1000]})", model, Engine(), image.width, image.height);
  REQUIRE(places.size() == 1);
  CHECK((places[0].right == 48 && places[0].top == 32 && places[0].bottom == 64));
  write_drawing(folder / "out.png", image, {}, places);
  Frame frame;
  frame.bytes = read_input_file(folder / "out.png");
  Picture picture;
  REQUIRE(decode_rgb(frame, &picture));
  REQUIRE((picture.width == 48 && picture.height == 64));
  const auto red = [&](int32_t x, int32_t y) { return picture.pixels[static_cast<size_t>(3 * (48 * y + x))]; };
  CHECK(red(47, 63) > 200);
  CHECK(red(24, 33) > 200);
  CHECK(red(24, 48) == 90);
  CHECK(red(24, 10) == 90);
}

}  // namespace
}  // namespace ocellus::app
