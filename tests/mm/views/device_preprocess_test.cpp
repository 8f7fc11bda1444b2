#include "mm/views/device_preprocess.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>

#include "mm/views/view_maker.h"
#include "runtime/models/family.h"
#include "tests/support/device.h"
#include "tests/support/guard.h"
#include "tests/support/random_frame.h"
#include "tests/support/rendered_views.h"

namespace ocellus {
namespace {

using test::Guarded;
using test::RandomFrame;

PreprocessConfig make_config(int32_t image_size, int32_t longest_edge, const Family& family = find_family("SmolVLM")) {
  PreprocessConfig config;
  config.rules = family.vision.views;
  config.image_size = image_size;
  config.longest_edge = longest_edge;
  const float mean[3] = {0.48f, 0.5f, 0.41f}, std[3] = {0.27f, 0.5f, 0.28f};
  std::copy_n(mean, 3, config.mean);
  std::copy_n(std, 3, config.std);
  return config;
}

ImageLimits limits_for(int32_t width, int32_t height) {
  ImageLimits limits;
  limits.max_side = std::max(width, height);
  limits.max_pixels = int64_t{width} * height;
  limits.max_aspect = 1000;
  return limits;
}

/// Two separate places, as on a GPU with memory of its own.
struct Staging {
  explicit Staging(int64_t bytes) : host(1, bytes), device(1, bytes) {
    rows.host = {host.data(), 1, bytes};
    rows.device = device.view();
  }
  Guarded<std::byte> host, device;
  StagedRows<std::byte> rows;
};

/// Returns the CPU's views of the frame.
std::vector<float> expected_views(const PreprocessConfig& config, const Frame& frame, const ImageLimits& limits) {
  const testing::GuardedScratch row(3 * frame.width);
  std::vector<uint8_t> rgb;
  RgbImage image;
  REQUIRE(testing::convert_frame(frame, limits, row.extent(), &rgb, &image).ok());
  std::vector<float> pixels;
  for (const testing::Planes& view : testing::render_views(config, image, limits))
    pixels.insert(pixels.end(), view.begin(), view.end());
  return pixels;
}

bool equal_rows(const std::vector<float>& expected, const Guarded<float>& found, int64_t rows, int64_t cols) {
  for (int64_t y = 0; y < rows; ++y)
    if (std::memcmp(expected.data() + y * cols, &found.at(y, 0), static_cast<size_t>(cols) * sizeof(float)) != 0)
      return false;
  return true;
}

/// The frame with its planes in the GPU's memory, one after the other from `memory`.
Frame on_device(const RandomFrame& source, std::byte* memory, Queue& queue) {
  Frame frame = source.frame;
  for (int i = 0; i < kFramePlanes; ++i) {
    if (frame.planes[i] == nullptr) continue;
    const auto bytes = static_cast<int64_t>(source.planes[i].size());
    queue.copy(memory, source.planes[i].data(), bytes);
    frame.planes[i] = reinterpret_cast<const uint8_t*>(memory);
    memory += bytes;
  }
  REQUIRE(queue.finish().ok());
  return frame;
}

/// In staging and scratch of exactly the planned sizes. `memory`: the GPU's, where the frame is to lie; null: the host.
void check_frame_views(const PreprocessConfig& config, PixelFormat format, int32_t width, int32_t height, Queue& queue,
                       std::byte* memory = nullptr) {
  CAPTURE(pixel_format_name(format));
  CAPTURE(width);
  CAPTURE(height);
  CAPTURE(config.image_size);
  CAPTURE(config.longest_edge);
  CAPTURE(config.max_tiles);
  CAPTURE(config.min_tiles);
  const ImageLimits limits = limits_for(width, height);
  std::mt19937 random(static_cast<unsigned>(width * 31 + height));
  const RandomFrame source(format, width, height, random);
  const Frame& frame = source.frame;
  ViewPlan plan;
  REQUIRE(plan_views(config, width, height, &plan).ok());
  Staging staging(frame_upload_bytes(limits));
  Guarded<std::byte> scratch(1, device_picture_scratch_bytes(config, limits));
  const auto [across, down] = plan.view_size();
  const int64_t rows = int64_t{3} * plan.view_count() * down;
  Guarded<float> pixels(rows, across, across + 1);
  DevicePicture picture;
  const Frame given = memory == nullptr ? frame : on_device(source, memory, queue);
  REQUIRE(upload_frame(given, limits, staging.rows, queue, &picture).ok());
  CHECK((memory == nullptr || staging.host.untouched_count() == staging.rows.host.cols));
  const Status status = enqueue_views(config, plan, picture, scratch.view(), pixels.view(), queue);
  INFO(last_failure().sentence);
  REQUIRE(status.ok());
  REQUIRE(queue.finish().ok());
  CHECK(scratch.intact());
  CHECK(staging.host.intact());
  CHECK(staging.device.intact());
  CHECK(pixels.intact());
  CHECK(equal_rows(expected_views(config, frame, limits), pixels, rows, across));
}

TEST_CASE("views made on the device equal the CPU's to the bit") {
  constexpr PixelFormat kFormats[] = {PixelFormat::kRgb8,  PixelFormat::kRgba8, PixelFormat::kGray8,
                                      PixelFormat::kNv12,  PixelFormat::kYuyv,  PixelFormat::kBgr8,
                                      PixelFormat::kBgra8, PixelFormat::kI420,  PixelFormat::kGray16,
                                      PixelFormat::kI422,  PixelFormat::kI444};
  test::for_each_backend([&](Queue& queue) {
    for (const PixelFormat format : kFormats) {
      check_frame_views(make_config(32, 0), format, 50, 38, queue);
      check_frame_views(make_config(32, 128), format, 100, 62, queue);
      check_frame_views(make_config(24, 100), format, 42, 130, queue);
    }
    for (const PixelFormat format : {PixelFormat::kRgb8, PixelFormat::kGray8, PixelFormat::kI420}) {
      check_frame_views(make_config(33, 99), format, 1, 1, queue);
      check_frame_views(make_config(33, 99), format, 151, 3, queue);
      check_frame_views(make_config(17, 85), format, 3, 151, queue);
      check_frame_views(make_config(64, 64), format, 77, 91, queue);
      check_frame_views(make_config(16, 48), format, 48, 32, queue);  // nothing to resize
      check_frame_views(make_config(16, 0), format, 16, 16, queue);
    }
    for (const PixelFormat format : kFormats) {
      const PreprocessConfig llava = make_config(56, 0, find_family("LLaVA-1.5"));
      for (const auto& [width, height] : {std::pair{100, 62}, {62, 100}, {56, 56}, {56, 20}, {2, 2}, {30, 28}})
        check_frame_views(llava, format, width, height, queue);
    }
    for (const auto& [width, height] : {std::pair{100, 62}, {30, 61}, {24, 24}, {48, 48}, {7, 5}, {24, 300}})
      check_frame_views(make_config(24, 0, find_family("InternVL")), PixelFormat::kNv12, width & ~1, height & ~1,
                        queue);
    PreprocessConfig next = make_config(24, 0, find_family("LLaVA-1.6"));
    for (const Size size : {Size{48, 24}, {24, 48}, {48, 48}, {24, 72}, {72, 24}})
      next.tiled_sizes[next.tiled_size_count++] = size;
    for (const auto& [width, height] : {std::pair{100, 62}, {30, 62}, {24, 24}, {48, 48}, {6, 4}, {48, 40}, {24, 300}})
      check_frame_views(next, PixelFormat::kNv12, width, height, queue);
    for (const auto& [width, height] : {std::pair{1, 1}, {151, 3}, {3, 151}, {77, 91}, {56, 55}})
      check_frame_views(make_config(56, 0, find_family("LLaVA-1.5")), PixelFormat::kRgb8, width, height, queue);
  });
}

TEST_CASE("a frame in the GPU's memory has the same views, and never comes to the host") {
  Queue* const queue = test::cuda_queue();
  if (queue == nullptr) return;
  std::byte* memory = nullptr;
  REQUIRE(queue->cuda()->allocate_device(1 << 20, &memory).ok());
  for (int format = 0; format < kPixelFormats; ++format) {
    check_frame_views(make_config(32, 128), static_cast<PixelFormat>(format), 100, 62, *queue, memory);
    check_frame_views(make_config(24, 0), static_cast<PixelFormat>(format), 42, 130, *queue, memory + 3);
  }
  std::mt19937 random(9);
  const RandomFrame source(PixelFormat::kI420, 40, 30, random);
  Frame mixed = on_device(source, memory, *queue);
  mixed.planes[1] = source.frame.planes[1];
  Staging staging(4 * 40 * 30);
  DevicePicture picture;
  CHECK(upload_frame(mixed, limits_for(40, 30), staging.rows, *queue, &picture).code() == Code::kBadArgument);
}

TEST_CASE("the planned device scratch suffices for every shape") {
  std::mt19937 random(17);
  test::for_each_backend([&](Queue& queue) {
    for (int round = 0; round < 60; ++round) {
      const Family* const all[] = {&find_family("LLaVA-1.5"), &find_family("InternVL"), &find_family("SmolVLM"),
                                   &find_family("SmolVLM")};
      const Family& family = *all[round % 4];
      const int size = static_cast<int>(random() % 40) + 1;
      const bool tiled = &family == &find_family("SmolVLM") && random() % 4 > 0;
      const int edge = !tiled ? 0 : static_cast<int>(random() % static_cast<unsigned>(6 * size)) + 1;
      const int longer = static_cast<int>(random() % 500) + 1;
      const int shorter = std::max(1, longer / (static_cast<int>(random() % 200) + 1));
      const bool wide = random() % 2 == 0;
      PreprocessConfig config = make_config(size, edge, family);
      config.max_tiles = static_cast<int>(random() % 17);
      config.min_tiles = static_cast<int>(random() % 8) + 1;
      check_frame_views(config, round % 2 == 0 ? PixelFormat::kRgb8 : PixelFormat::kRgba8, wide ? longer : shorter,
                        wide ? shorter : longer, queue);
    }
  });
}

TEST_CASE("views rendered in batches equal those rendered at once") {
  test::for_each_backend([](Queue& queue) {
    const PreprocessConfig config = make_config(20, 80);
    const ImageLimits limits = limits_for(90, 70);
    std::mt19937 random(5);
    const RandomFrame source(PixelFormat::kNv12, 90, 70, random);
    const Frame& frame = source.frame;
    ViewPlan plan;
    REQUIRE(plan_views(config, 90, 70, &plan).ok());
    REQUIRE(plan.view_count() > 6);
    Staging staging(frame_upload_bytes(limits));
    Guarded<std::byte> scratch(1, device_picture_scratch_bytes(config, limits));
    DevicePicture picture;
    DeviceViews views;
    REQUIRE(upload_frame(frame, limits, staging.rows, queue, &picture).ok());
    REQUIRE(prepare_device_views(config, plan, picture, scratch.view(), queue, &views).ok());
    const std::vector<float> expected = expected_views(config, frame, limits);
    for (int32_t first = 0; first < plan.view_count(); first += 3) {
      const int32_t count = std::min(3, plan.view_count() - first);
      Guarded<float> pixels(count * 60, 20);
      REQUIRE(render_device_views(config, views, first, count, pixels.view(), queue).ok());
      REQUIRE(queue.finish().ok());
      CHECK(pixels.intact());
      const auto begin = expected.begin() + first * 1200;
      CHECK(equal_rows({begin, begin + count * 1200}, pixels, count * 60, 20));
    }
  });
}

TEST_CASE("a decoded picture is uploaded from where it lies") {
  test::for_each_backend([](Queue& queue) {
    const PreprocessConfig config = make_config(32, 64);
    const ImageLimits limits = limits_for(41, 29);
    std::mt19937 random(6);
    const RandomFrame source(PixelFormat::kRgb8, 41, 29, random);
    const Frame& frame = source.frame;
    Staging staging(4 * 41 * 29);
    auto* pixels = reinterpret_cast<uint8_t*>(staging.rows.host.data) + 40;
    const RgbImage image = {pixels, 41, 29, 3 * 41 + 2};
    for (int32_t y = 0; y < 29; ++y)
      std::memcpy(pixels + y * image.stride_bytes, frame.planes[0] + y * frame.stride_bytes[0], 3 * 41);
    ViewPlan plan;
    REQUIRE(plan_views(config, 41, 29, &plan).ok());
    Guarded<std::byte> scratch(1, device_picture_scratch_bytes(config, limits));
    Guarded<float> out(plan.view_count() * 96, 32);
    DevicePicture picture;
    REQUIRE(upload_picture(image, staging.rows, queue, &picture).ok());
    REQUIRE(enqueue_views(config, plan, picture, scratch.view(), out.view(), queue).ok());
    REQUIRE(queue.finish().ok());
    CHECK(equal_rows(expected_views(config, frame, limits), out, plan.view_count() * 96, 32));
    const RgbImage elsewhere = {frame.planes[0], 41, 29, frame.stride_bytes[0]};
    CHECK(upload_picture(elsewhere, staging.rows, queue, &picture).code() == Code::kInternal);
  });
}

/// The host makes what the views are cut from, in staging of the planned size; the device's part has room for no more.
void check_uploaded_views(const PreprocessConfig& config, int32_t width, int32_t height, Queue& queue) {
  CAPTURE(width);
  CAPTURE(height);
  const ImageLimits limits = limits_for(width, height);
  std::mt19937 random(8);
  const test::RandomFrame source(PixelFormat::kRgb8, width, height, random);
  ViewPlan plan;
  REQUIRE(plan_views(config, width, height, &plan).ok());
  const int64_t host_bytes = ViewMaker::scratch_bytes(config, limits),
                device_bytes = ViewMaker::result_bytes(config, limits);
  Guarded<std::byte> host(1, host_bytes), device(1, device_bytes);
  const StagedRows<std::byte> staging = {.host = {host.data(), 1, host_bytes}, .device = device.view()};
  ViewMaker maker;
  PreparedViews prepared;
  REQUIRE(maker.begin(config, plan, {}, {host.data(), host_bytes}).ok());
  for (int32_t y = 0; y < height; ++y) maker.take(source.frame.planes[0] + y * source.frame.stride_bytes[0]);
  REQUIRE(maker.finish(&prepared).ok());
  DeviceViews views;
  REQUIRE(upload_views(prepared, staging, queue, &views).ok());
  const int64_t size = config.image_size;
  Guarded<float> pixels(plan.view_count() * 3 * size, size, size + 1);
  REQUIRE(render_device_views(config, views, 0, plan.view_count(), pixels.view(), queue).ok());
  REQUIRE(queue.finish().ok());
  CHECK(device.intact());
  CHECK(pixels.intact());
  CHECK(equal_rows(expected_views(config, source.frame, limits), pixels, plan.view_count() * 3 * size, size));
  const StagedRows<std::byte> small = {.host = staging.host, .device = {device.data(), 1, 3 * size * size - 1}};
  CHECK(upload_views(prepared, small, queue, &views).code() == Code::kInternal);
}

TEST_CASE("views that the host has resized are uploaded, and equal the CPU's to the bit") {
  test::for_each_backend([](Queue& queue) {
    for (const auto& [width, height] : {std::pair{100, 62}, {62, 100}, {1, 151}, {200, 200}}) {
      check_uploaded_views(make_config(32, 128), width, height, queue);
      check_uploaded_views(make_config(24, 24), width, height, queue);
      check_uploaded_views(make_config(33, 0), width, height, queue);
    }
    check_uploaded_views(make_config(56, 0, find_family("LLaVA-1.5")), 100, 62, queue);
    check_uploaded_views(make_config(24, 0, find_family("InternVL")), 100, 62, queue);
  });
}

TEST_CASE("what does not fit or match is refused") {
  test::TestQueue queue(1);
  const PreprocessConfig config = make_config(32, 96);
  const ImageLimits limits = limits_for(60, 40);
  std::mt19937 random(7);
  const RandomFrame source(PixelFormat::kRgba8, 60, 40, random);
  const Frame& frame = source.frame;
  CHECK(frame_bytes(frame) == 4 * 60 * 40);
  CHECK(frame_bytes(RandomFrame(PixelFormat::kNv12, 60, 40, random).frame) == 60 * 40 * 3 / 2);
  CHECK(frame_bytes(Frame()) == 0);
  ViewPlan plan;
  REQUIRE(plan_views(config, 60, 40, &plan).ok());
  DevicePicture picture;
  Staging small(4 * 60 * 40 - 1), staging(4 * 60 * 40);
  CHECK(upload_frame(frame, limits, small.rows, *queue, &picture).code() == Code::kFull);
  CHECK(upload_frame(frame, limits_for(50, 40), staging.rows, *queue, &picture).code() == Code::kBadImage);
  REQUIRE(upload_frame(frame, limits, staging.rows, *queue, &picture).ok());
  Guarded<std::byte> scratch(1, device_picture_scratch_bytes(config, limits)), short_scratch(1, 3 * 60 * 40);
  DeviceViews views;
  CHECK(prepare_device_views(config, plan, picture, short_scratch.view(), *queue, &views).code() == Code::kFull);
  CHECK(short_scratch.intact());
  REQUIRE(prepare_device_views(config, plan, picture, scratch.view(), *queue, &views).ok());
  Guarded<float> pixels(2 * 96, 32);
  const auto render = [&](int32_t first, int32_t count) {
    return render_device_views(config, views, first, count, pixels.view(), *queue).code();
  };
  CHECK(render(plan.view_count() - 2, 2) == Code::kOk);
  CHECK(render(plan.view_count() - 1, 2) == Code::kInternal);
  CHECK(render(-1, 2) == Code::kInternal);
  CHECK(render(0, 1) == Code::kInternal);
  picture.width = 40;
  picture.height = 60;
  CHECK(prepare_device_views(config, plan, picture, scratch.view(), *queue, &views).code() == Code::kInternal);
}

}  // namespace
}  // namespace ocellus
