// ocellus make-model --shape NAME
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "apps/base/failure.h"
#include "apps/base/number_validator.h"
#include "apps/base/partial_file.h"
#include "apps/base/progress.h"
#include "apps/base/sizes.h"
#include "apps/base/stop_request.h"
#include "apps/base/terminal.h"
#include "apps/commands/commands.h"
#include "apps/setup/answer.h"
#include "apps/setup/setup.h"

namespace ocellus::app {
namespace {

namespace fs = std::filesystem;

struct MakeModelOptions {
  std::string shape;
  std::string format = "Q8_0";
  int32_t layers = 0;  // 0: all
  uint64_t seed = OCELLUS_SHAPE_SEED;
  std::string folder = ".";
  bool replaces = false;
  bool json = false;
  bool quiet = false;
};

Failure write_failure(const std::string& path, const std::string& reason) {
  return Failure(kExitRuntime, path + " cannot be written: " + reason + "; --output names another folder.");
}

Failure exists_failure(const std::string& path) {
  return Failure(kExitUsage, path + " exists: choose another folder with --output, or replace it with --force.");
}

// Throws if the path cannot be examined, is a folder, or is a file that must not be replaced.
void check_path(const std::string& path, bool replaces) {
  std::error_code error;
  const fs::file_type type = fs::symlink_status(path, error).type();
  if (type == fs::file_type::not_found) return;
  if (type == fs::file_type::none) throw write_failure(path, error.message());
  if (!replaces) throw exists_failure(path);
  if (type == fs::file_type::directory)
    throw Failure(kExitUsage, path + " is a folder: choose another folder for the files with --output.");
}

// The folders of a path that do not exist yet. Those that are empty are removed with this object unless keep() is
// called.
class NewFolders {
 public:
  explicit NewFolders(const std::string& folder) : folder_(folder) {
    std::error_code ignored;
    for (fs::path path = fs::path(folder).lexically_normal(); !path.empty() && !fs::exists(path, ignored);
         path = path.parent_path())
      missing_.push_back(path.string());
  }
  ~NewFolders() {
    for (const std::string& path : missing_) (void)::rmdir(path.c_str());
  }
  NewFolders(const NewFolders&) = delete;
  NewFolders& operator=(const NewFolders&) = delete;

  void make() {
    std::error_code error;
    fs::create_directories(folder_, error);
    if (error) throw Failure(kExitRuntime, "--output " + folder_ + " cannot be made: " + error.message() + ".");
  }
  void keep() { missing_.clear(); }

 private:
  std::string folder_;
  std::vector<std::string> missing_;  // the innermost first
};

// A file that gets its name when it is complete.
class NewFile {
 public:
  explicit NewFile(const std::string& path) : file_(path) {
    if (has_failed()) throw failure(file_.error());
  }

  // Returns false if the system refused; finish() then returns why.
  bool append(const void* bytes, int64_t count) { return file_.append(bytes, count); }
  void finish() {
    file_.finish();
    if (has_failed()) throw failure(file_.error());
  }
  // Gives the file its name. A file that it replaces has the other name then, and is removed with this object.
  void publish(bool replaces) {
    if (rename(file_.temporary(), path(), RENAME_NOREPLACE)) {
      withdrawal_ = RENAME_NOREPLACE;
    } else if (errno == EEXIST && replaces && rename(file_.temporary(), path(), RENAME_EXCHANGE)) {
      withdrawal_ = RENAME_EXCHANGE;
    } else if (errno == EINVAL) {  // the file system knows neither
      check_path(path(), replaces);
      if (std::rename(file_.temporary().c_str(), path().c_str()) != 0) throw failure(errno);
    } else {
      throw errno == EEXIST ? exists_failure(path()) : failure(errno);
    }
  }
  // Undoes publish().
  void withdraw() {
    if (withdrawal_ == RENAME_NOREPLACE) rename(path(), file_.temporary(), RENAME_NOREPLACE);
    if (withdrawal_ == RENAME_EXCHANGE) rename(file_.temporary(), path(), RENAME_EXCHANGE);
  }

  bool has_failed() const { return file_.error() != 0; }
  const std::string& path() const { return file_.path(); }
  int64_t bytes() const { return file_.bytes(); }

 private:
  Failure failure(int error) const { return write_failure(path(), std::strerror(error)); }
  static bool rename(const std::string& from, const std::string& to, unsigned flags) {
    return ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) == 0;
  }

  PartialFile file_;
  unsigned withdrawal_ = 0;  // flag with which renameat2 undoes publish(); 0: it cannot be undone
};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// Returns the model's path and, if it has a vision part, that of its mmproj file.
std::vector<std::string> choose_paths(const Model& model, const MakeModelOptions& options) {
  std::string name = lower(options.shape);
  if (options.layers > 0) name += "-" + std::to_string(options.layers) + (options.layers == 1 ? "-layer" : "-layers");
  name += "-" + lower(options.format) + ".gguf";
  std::vector<std::string> paths = {(fs::path(options.folder) / name).lexically_normal().string()};
  if (model.facts.has_vision)
    paths.push_back((fs::path(options.folder) / ("mmproj-" + name)).lexically_normal().string());
  for (const std::string& path : paths) check_path(path, options.replaces);
  return paths;
}

void print_files(const std::vector<std::unique_ptr<NewFile>>& files, const MakeModelOptions& options) {
  if (!options.json) {
    for (const auto& file : files) print(file->path() + ": " + format_bytes(file->bytes()) + "\n");
    return;
  }
  nlohmann::ordered_json object = {{"command", "make-model"}, {"model", files[0]->path()}};
  object["mmproj"] = files.size() > 1 ? nlohmann::ordered_json(files[1]->path()) : nullptr;
  object["seed"] = options.seed;
  int64_t bytes = 0;
  for (const auto& file : files) bytes += file->bytes();
  object["bytes"] = bytes;
  print(json_line(object));
}

// Both files get their names, or none does.
void publish(const std::vector<std::unique_ptr<NewFile>>& files, bool replaces) {
  size_t count = 0;
  try {
    for (; count < files.size(); ++count) files[count]->publish(replaces);
  } catch (const Failure&) {
    while (count > 0) files[--count]->withdraw();
    throw;
  }
}

int run_make_model(const MakeModelOptions& options) {
  const Model model = open_shape(options.shape, options.format, options.layers);
  const std::vector<std::string> paths = choose_paths(model, options);
  watch_for_stop({SIGINT, SIGTERM, SIGHUP, SIGQUIT});
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is reported like a full disk
  NewFolders folders(options.folder);
  folders.make();
  Progress progress(options.quiet, "writing the model");
  int64_t bytes_before = 0, total_bytes = model.facts.text_weight_bytes + model.facts.vision_weight_bytes;
  std::vector<std::unique_ptr<NewFile>> files;
  for (size_t i = 0; i < paths.size(); ++i) {
    NewFile& file = *files.emplace_back(std::make_unique<NewFile>(paths[i]));
    const auto append = [&](const void* bytes, int64_t count) {
      if (file.bytes() == 0) total_bytes += count;  // the header
      if (stop_requested() || !file.append(bytes, count)) return false;
      progress.set(bytes_before + file.bytes(), total_bytes, paths[i]);
      return true;
    };
    const ocellus_model_file kind = i == 0 ? OCELLUS_TEXT_FILE : OCELLUS_MMPROJ_FILE;
    const ocellus_status status = model.write(kind, options.seed, append).code();
    if (status == OCELLUS_CANCELLED && !file.has_failed()) return stop_exit_code();
    if (status != OCELLUS_CANCELLED) check(status, paths[i]);
    file.finish();
    bytes_before += file.bytes();
  }
  publish(files, options.replaces);
  folders.keep();
  progress.set(bytes_before, bytes_before);
  progress.stop();
  std::signal(SIGPIPE, SIG_DFL);
  print_files(files, options);
  return kExitOk;
}

}  // namespace

void add_make_model_command(CLI::App* program, Action* action) {
  const auto options = std::make_shared<MakeModelOptions>();
  CLI::App* command = program->add_subcommand("make-model", "Write a pair of files with random weights");
  command
      ->add_option("--shape", options->shape,
                   "Shape of a public model, as SmolVLM-256M. An unknown name lists all; the files are named after it")
      ->required()
      ->option_text("NAME");
  command
      ->add_option(
          "--format", options->format,
          "Weight format (default: Q8_0). F16, Q4_K_M and others, mixed as llama.cpp mixes them; an unknown name lists "
          "all")
      ->option_text("NAME");
  command->add_option("--layers", options->layers, "Fewer layers in both parts. The names of the files say so")
      ->option_text("N")
      ->check(number_between(1, 1000));
  command
      ->add_option(
          "--seed", options->seed,
          "Seed of the weights (default: 1). With 1 the files are what --shape makes up without files, bit for "
          "bit")
      ->option_text("N")
      ->check(whole_number());
  command->add_option("--output", options->folder, "Folder for the files (default: this one). Created if missing")
      ->option_text("DIR");
  command->add_flag("--force", options->replaces, "Replace files of the same name");
  command->add_flag("--json", options->json, "One JSON object on stdout");
  command->add_flag("--quiet", options->quiet, "No progress on stderr");
  command->callback([=] { *action = [=] { return run_make_model(*options); }; });
}

}  // namespace ocellus::app
