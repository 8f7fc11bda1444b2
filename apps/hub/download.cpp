#include "apps/hub/download.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/base/failure.h"
#include "apps/base/sizes.h"
#include "apps/base/terminal.h"
#include "apps/hub/digest.h"

namespace ocellus::app {
namespace {

constexpr size_t kPieceBytes = 1 << 20;

// Path of what was fetched of a blob so far. The hash in the name makes it safe to continue, whoever began it.
std::string part_path(const HubCache& cache, const HubFile& file) { return cache.blob_path(file.hash) + ".incomplete"; }

class Descriptor {
 public:
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  ~Descriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

// Reads the file to its end; `count_bytes` is told of each piece. Returns false if it cannot be read.
bool add_file(int descriptor, Digest* digest, const std::function<void(int64_t)>& count_bytes) {
  std::vector<char> piece(kPieceBytes);
  for (;;) {
    const ssize_t count = ::read(descriptor, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return count == 0;
    digest->add(piece.data(), static_cast<size_t>(count));
    count_bytes(count);
  }
}

int64_t size_of(int descriptor) {
  struct stat facts = {};
  return ::fstat(descriptor, &facts) == 0 && S_ISREG(facts.st_mode) ? facts.st_size : -1;
}

// The part of a blob that is being fetched.
class PartFetch {
 public:
  PartFetch(const Transfer& transfer, const HubFile& file)
      : transfer_(transfer),
        file_(file),
        path_(part_path(*transfer.cache, file)),
        descriptor_(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666)),
        digest_(file.kind, file.bytes) {
    if (descriptor_.get() < 0) refuse_to_write(errno);
  }

  int64_t run() {
    take_up_part();
    fetch_rest();
    // Bytes of several requests, or of another's part, may be of two files.
    std::string hash = digest_.finish();
    if (hash != file_.hash && !is_of_one_request_) {
      note("the parts that came are not of one file: it is fetched from its start");
      restart();
      fetch_rest();
      hash = digest_.finish();
    }
    if (hash != file_.hash)
      refuse_bytes("the bytes that came have the hash " + hash + " instead of the hub's " + file_.hash);
    keep();
    return fetched_;
  }

 private:
  void note(const std::string& what) const {
    if (!transfer_.quiet) print_note("ocellus: " + file_.name + ": " + what + ".");
  }

  [[noreturn]] void refuse_to_write(int error) const {
    const bool is_full = error == ENOSPC || error == EDQUOT || error == EFBIG;
    throw Failure(kExitRuntime,
                  path_ + " cannot be written: " + std::strerror(error) +
                      (is_full ? "; the " + format_bytes(bytes_) + " that came stay for the next try." : "."));
  }

  // Removes the part and throws.
  [[noreturn]] void refuse_bytes(const std::string& what) const {
    ::unlink(path_.c_str());
    throw Failure(kExitRuntime, transfer_.repository + ": " + file_.name + ": " + what + "; nothing of it was kept.");
  }

  void take_up_part() {
    const int64_t size = size_of(descriptor_.get());
    const auto skip = [this](int64_t bytes) { transfer_.progress->skip(bytes); };
    if (size < 0 || size > file_.bytes || !add_file(descriptor_.get(), &digest_, skip)) return restart();
    bytes_ = size;
    is_of_one_request_ = size == 0;
    if (size > 0) note("going on at byte " + std::to_string(size) + " of " + std::to_string(file_.bytes));
  }

  void restart() {
    if (::ftruncate(descriptor_.get(), 0) != 0 || ::lseek(descriptor_.get(), 0, SEEK_SET) != 0) refuse_to_write(errno);
    transfer_.progress->skip(-bytes_);
    bytes_ = 0;
    digest_.reset();
  }

  void fetch_rest() {
    const std::string path =
        "/" + transfer_.repository + "/resolve/" + transfer_.commit + "/" + encode_path(file_.name);
    const auto receive = [this](const WebAnswer& head, std::string_view piece) { return take(head, piece); };
    while (bytes_ < file_.bytes) {
      const int64_t before = bytes_;
      is_begun_ = false;
      WebAnswer answer = transfer_.web->get(path, bytes_, receive);
      if (bytes_ == file_.bytes) return;
      if (bytes_ > before) transfer_.patience->reset();
      const bool is_wrong_part = answer.status == 416 || answer.is_stopped;
      if (is_wrong_part) restart();
      if (is_wrong_part || answer.problem.empty()) answer = short_answer(answer, is_wrong_part);
      is_of_one_request_ = bytes_ == 0;
      transfer_.patience->wait(answer);
    }
  }

  // An answer of its own that does not bring the rest, as a failure that may pass. Refusals stay what they are.
  static WebAnswer short_answer(WebAnswer answer, bool is_wrong_part) {
    if (is_wrong_part) answer.status = 206;
    answer.problem = is_wrong_part ? "it answers with another part than was asked for" : "it ended before the file did";
    return answer;
  }

  bool take(const WebAnswer& head, std::string_view piece) {
    if (!std::exchange(is_begun_, true)) {
      if (head.total_bytes >= 0 && head.total_bytes != file_.bytes) refuse_size(std::to_string(head.total_bytes));
      if (head.status == 200 && bytes_ > 0) {  // the whole file, whatever was asked for
        restart();
        is_of_one_request_ = true;
      }
      if (head.status == 206 && head.begin != bytes_) return false;
    }
    if (static_cast<int64_t>(piece.size()) > file_.bytes - bytes_) refuse_size("more");
    write(piece);
    return true;
  }

  [[noreturn]] void refuse_size(const std::string& sent) const {
    refuse_bytes("the hub lists " + std::to_string(file_.bytes) + " bytes, but sends " + sent);
  }

  void write(std::string_view piece) {
    digest_.add(piece.data(), piece.size());
    while (!piece.empty()) {
      const ssize_t written = ::write(descriptor_.get(), piece.data(), piece.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) refuse_to_write(written < 0 ? errno : ENOSPC);
      bytes_ += written;
      fetched_ += written;
      transfer_.progress->add(written);
      piece.remove_prefix(static_cast<size_t>(written));
    }
  }

  void keep() const {
    if (::fsync(descriptor_.get()) != 0) refuse_to_write(errno);
    if (std::rename(path_.c_str(), transfer_.cache->blob_path(file_.hash).c_str()) != 0) refuse_to_write(errno);
  }

  const Transfer& transfer_;
  const HubFile& file_;
  std::string path_;
  Descriptor descriptor_;
  Digest digest_;
  int64_t bytes_ = 0;    // size of the part
  int64_t fetched_ = 0;  // by this object, thrown away or not
  bool is_of_one_request_ = true;
  bool is_begun_ = false;  // a piece of the current answer came
};

}  // namespace

int64_t part_bytes(const HubCache& cache, const HubFile& file) {
  const Descriptor part(::open(part_path(cache, file).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  const int64_t size = part.get() < 0 ? 0 : size_of(part.get());
  return size >= 0 && size <= file.bytes ? size : 0;
}

bool has_bytes_of(const std::string& path, const HubFile& file, ByteProgress* progress) {
  const Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (descriptor.get() < 0 || size_of(descriptor.get()) != file.bytes) return false;
  Digest digest(file.kind, file.bytes);
  const auto add = [progress](int64_t bytes) { progress->add(bytes); };
  return add_file(descriptor.get(), &digest, add) && digest.finish() == file.hash;
}

int64_t fetch_blob(const Transfer& transfer, const HubFile& file) { return PartFetch(transfer, file).run(); }

}  // namespace ocellus::app
