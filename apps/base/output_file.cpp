#include "apps/base/output_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "apps/base/partial_file.h"

namespace ocellus::app {
namespace {

// Throws unless nothing, or a file that may be replaced, has the name.
void check_replaceable(const std::string& option, const std::string& path) {
  struct stat facts;
  if (::stat(path.c_str(), &facts) != 0) return;
  if (!S_ISREG(facts.st_mode)) throw output_failure(option, path, S_ISDIR(facts.st_mode) ? EISDIR : EEXIST);
  if (::access(path.c_str(), W_OK) != 0) throw output_failure(option, path, errno);
}

}  // namespace

Failure output_failure(const std::string& option, const std::string& path, int error) {
  return Failure(kExitRuntime,
                 option + " " + path + " cannot be written: " + std::strerror(error) + "; give another place.");
}

void check_output(const std::string& option, const std::string& path) {
  check_replaceable(option, path);
  if (const PartialFile file(path); file.error() != 0) throw output_failure(option, path, file.error());
}

void write_output(const std::string& option, const std::string& path, std::string_view bytes) {
  check_replaceable(option, path);
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is reported like a full disk
  PartialFile file(path);
  if (file.error() == 0) file.append(bytes.data(), std::ssize(bytes));
  if (file.error() != 0) throw output_failure(option, path, file.error());
  if (std::rename(file.temporary().c_str(), path.c_str()) != 0) throw output_failure(option, path, errno);
}

}  // namespace ocellus::app
