#include "apps/plot/plot_file.h"

#include <filesystem>
#include <fstream>

#include "apps/base/output_file.h"

namespace ocellus::app {
namespace {

constexpr char kPlotFlag[] = "--plot";

// Like a trace, a plot replaces its own kind only: the file may be anything else of the user's.
void check_own_kind(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored) || std::filesystem::file_size(path, ignored) == 0) return;
  std::string begin(128, '\0');
  std::ifstream(path, std::ios::binary).read(begin.data(), std::ssize(begin));
  if (!is_plot(begin))
    throw Failure(kExitUsage, kPlotFlag + (" " + path) + " exists and is no plot of this program: give another name.");
}

}  // namespace

void check_plot(const std::string& path) {
  if (path.empty()) return;
  if (!to_lower(path).ends_with(".svg"))
    throw Failure(kExitUsage, kPlotFlag + (" " + path) + ": the name must end in .svg, which is the format.");
  check_own_kind(path);
  check_output(kPlotFlag, path);
}

void write_plot(const std::string& path, const Plot& plot) {
  if (path.empty()) return;
  check_own_kind(path);
  write_output(kPlotFlag, path, draw_svg(plot));
}

}  // namespace ocellus::app
