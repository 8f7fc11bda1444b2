#include <algorithm>

#include "kernels/backends.h"
#include "kernels/base/row_pieces.h"
#include "kernels/vision/resample_math.h"

namespace ocellus {

using namespace picture;

namespace {

// Computed from the luma weights of red and blue, which define Rec. 601 and Rec. 709.
constexpr YuvConversion make_conversion(double red, double blue, bool full_range) {
  const double y_scale = full_range ? 1.0 : 255.0 / 219.0;
  const double c_scale = full_range ? 1.0 : 255.0 / 224.0;
  const double green = 1.0 - red - blue;
  const auto fixed = [](double value) { return static_cast<int32_t>(value * 65536.0 + (value < 0 ? -0.5 : 0.5)); };
  return {full_range ? 0 : 16,
          fixed(y_scale),
          fixed(2.0 * (1.0 - red) * c_scale),
          fixed(-2.0 * (1.0 - blue) * blue / green * c_scale),
          fixed(-2.0 * (1.0 - red) * red / green * c_scale),
          fixed(2.0 * (1.0 - blue) * c_scale)};
}

constexpr YuvConversion kConversions[2][2] = {
    {make_conversion(0.299, 0.114, false), make_conversion(0.299, 0.114, true)},
    {make_conversion(0.2126, 0.0722, false), make_conversion(0.2126, 0.0722, true)},
};

constexpr int64_t kPieceBytes = 65536;

void write_planes(const Normalisation& normalisation, const DeviceView<float>& pixels, int32_t height, int64_t view,
                  int32_t x, int32_t y, const uint8_t* rgb) {
  for (int c = 0; c < 3; ++c)
    pixels.row((view * 3 + c) * height + y)[x] = normalise(rgb[c], normalisation.mean[c], normalisation.std[c]);
}

// Scratch holds a span for every output row or column, then the weights [capacity, output length].
struct ResampleTables {
  ResampleTables(const DeviceView<std::byte>& scratch, int64_t output_length)
      : spans(reinterpret_cast<ResampleSpan*>(scratch.data)),
        weights(reinterpret_cast<int32_t*>(spans + output_length)) {}
  ResampleSpan* spans;
  int32_t* weights;
};

void make_tables(const ResampleAxis& axis, const ResampleTables& tables) {
  for (int32_t at = 0; at < axis.output; ++at) {
    const ResampleWindow window = resample_window(filter_radius(axis.filter), axis.length, axis.output, at);
    ResampleSpan span = span_inside(axis, window);
    double sum = 0;
    for (int32_t i = 0; i < window.count; ++i) sum += filter_value(axis.filter, window.position(i));
    for (int32_t i = 0; i < window.count; ++i) {
      const int32_t weight = fixed_weight(filter_value(axis.filter, window.position(i)), sum);
      const int32_t place = window.first + i - axis.before - span.first;
      if (place >= 0 && place < span.count)
        tables.weights[int64_t{place} * axis.output + at] = weight;
      else
        span.outside += weight;
    }
    tables.spans[at] = span;
  }
}

}  // namespace

const YuvConversion& picture::yuv_conversion(ColorMatrix matrix, bool full_range) {
  return kConversions[static_cast<int>(matrix)][full_range ? 1 : 0];
}

ResampleAxis picture::resample_axis(const ResamplePictureArgs& args) {
  const auto length_of = [&](int64_t rows, int64_t cols) {
    return static_cast<int32_t>(args.columns ? cols / 3 : rows);
  };
  const int32_t source = length_of(args.source.rows, args.source.cols);
  return {.filter = args.filter,
          .source = source,
          .before = static_cast<int32_t>(args.margins.before),
          .length = args.margins.length > 0 ? static_cast<int32_t>(args.margins.length) : source,
          .output = length_of(args.output.rows, args.output.cols)};
}

int64_t resample_scratch_bytes(int64_t source_length, int64_t output_length, Filter filter) {
  const int64_t capacity =
      window_capacity(filter_radius(filter), static_cast<int32_t>(source_length), static_cast<int32_t>(output_length));
  return output_length * static_cast<int64_t>(sizeof(ResampleSpan) + sizeof(int32_t) * static_cast<size_t>(capacity));
}

void cpu::convert_pixels(const ConvertPixelsArgs& args, Queue& queue) {
  const PixelMeaning meaning = {yuv_conversion(args.matrix, args.full_range), args.depth};
  const auto width = static_cast<int32_t>(args.output.cols / 3);
  queue.parallel(args.output.rows, rows_per_piece(args.output.cols, kPieceBytes), [&](int64_t begin, int64_t end, int) {
    for (int64_t y = begin; y < end; ++y) {
      const uint8_t* chroma[2];
      const int64_t half = chroma_row(args.format, y);
      for (int i = 0; i < 2; ++i) chroma[i] = args.planes[i + 1].rows > 0 ? args.planes[i + 1].row(half) : nullptr;
      for (int32_t x = 0; x < width; ++x)
        convert_pixel(args.format, meaning, args.planes[0].row(y), chroma[0], chroma[1], x,
                      args.output.row(y) + int64_t{3} * x);
    }
  });
}

void cpu::resample_picture(const ResamplePictureArgs& args, Queue& queue) {
  const ResampleAxis axis = resample_axis(args);
  const ResampleTables tables(args.scratch, axis.output);
  make_tables(axis, tables);
  queue.parallel(args.output.rows, rows_per_piece(args.output.cols, kPieceBytes), [&](int64_t begin, int64_t end, int) {
    for (int64_t y = begin; y < end; ++y) {
      for (int64_t j = 0; j < args.output.cols; ++j) {
        const int64_t at = args.columns ? j / 3 : y;
        const ResampleSpan span = tables.spans[at];
        int32_t sum = kWeightHalf + span.outside * args.margins.colour[j % 3];
        for (int64_t i = 0; i < span.count; ++i) {
          const uint8_t value = args.columns ? args.source.row(y)[3 * (span.first + i) + j % 3]  //
                                             : args.source.row(span.first + i)[j];
          sum += value * tables.weights[i * axis.output + at];
        }
        args.output.row(y)[j] = round_sum(sum);
      }
    }
  });
}

void cpu::normalise_tiles(const NormaliseTilesArgs& args, Queue& queue) {
  constexpr uint8_t kBlack[3] = {};
  const int64_t height = args.height, width = args.pixels.cols, tiles = args.pixels.rows / (3 * height);
  const int64_t image_width = args.image.cols / 3;
  queue.parallel(tiles * height, rows_per_piece(3 * width, kPieceBytes), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t tile = args.first_tile + row / height;
      const int64_t u = tile % args.tile_cols * width - args.left,
                    v = tile / args.tile_cols * height + row % height - args.top;
      const bool is_inside = v >= 0 && v < args.image.rows;
      for (int32_t x = 0; x < width; ++x) {
        const bool shows = is_inside && u + x >= 0 && u + x < image_width;
        write_planes(args.normalisation, args.pixels, args.height, row / height, x, static_cast<int32_t>(row % height),
                     shows ? args.image.row(v) + 3 * (u + x) : kBlack);
      }
    }
  });
}

}  // namespace ocellus
