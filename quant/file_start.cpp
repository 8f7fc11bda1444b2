#include "quant/file_start.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstring>
#include <utility>

#include "platform/round_up.h"

namespace ocellus {
namespace {

constexpr int64_t kPieceBytes = int64_t{256} << 10;
constexpr int64_t kLargestPageBytes = int64_t{64} << 10;

}  // namespace

FileStart::FileStart(FileStart&& other) noexcept { *this = std::move(other); }

FileStart& FileStart::operator=(FileStart&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(reserved_, other.reserved_);
  std::swap(failure_, other.failure_);
  return *this;
}

Status FileStart::begin(const InputFile& file, int64_t most) {
  release();
  const int64_t bytes = round_up(std::min(file.size(), most), kLargestPageBytes);
  // A mapping, not the heap: a page that was never written costs nothing, and the unused rest can be unmapped.
  void* memory = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return OCELLUS_FAIL(Code::kIo, "the system has no memory for a header of up to %" PRId64 " bytes: %s", bytes,
                        std::strerror(errno));
  file_ = &file;
  data_ = static_cast<uint8_t*>(memory);
  reserved_ = bytes;
  failure_ = {};
  return {};
}

uint64_t FileStart::provide(uint64_t count) {
  const auto wanted = static_cast<int64_t>(std::min(count, uint64_t{INT64_MAX}));
  if (wanted <= size_ || failure_.code != Code::kOk) return static_cast<uint64_t>(size_);
  Status status;
  if (wanted > reserved_) {
    status = OCELLUS_FAIL(Code::kBadFile, "the header takes more than %" PRId64 " bytes, the maximum of a header",
                          reserved_);
  } else {
    const int64_t end = std::min({round_up(wanted, kPieceBytes), reserved_, file_->size()});
    status = file_->read_at(size_, data_ + size_, end - size_);
    if (status.ok()) size_ = end;
  }
  if (!status.ok()) failure_ = last_failure();
  return static_cast<uint64_t>(size_);
}

Status FileStart::check() const {
  if (failure_.code == Code::kOk) return {};
  return OCELLUS_FAIL(failure_.code, "%s", failure_.sentence);
}

void FileStart::finish(int64_t count) {
  file_ = nullptr;
  size_ = std::min(size_, count);
  const int64_t kept = round_up(size_, kLargestPageBytes);
  if (kept < reserved_) ::munmap(data_ + kept, static_cast<size_t>(reserved_ - kept));
  reserved_ = kept;
  if (kept == 0) data_ = nullptr;
}

void FileStart::release() {
  if (reserved_ > 0) ::munmap(data_, static_cast<size_t>(reserved_));
  file_ = nullptr;
  data_ = nullptr;
  size_ = reserved_ = 0;
}

}  // namespace ocellus
