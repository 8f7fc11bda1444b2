// The first bytes of a file, copied to memory as far as somebody reads. What was read once is never read again, so what
// was checked stays true whatever becomes of the file.
#pragma once

#include <cstdint>

#include "platform/input_file.h"
#include "platform/status.h"
#include "quant/byte_reader.h"

namespace ocellus {

class FileStart : public ByteSource {
 public:
  FileStart() = default;
  ~FileStart() { release(); }
  FileStart(FileStart&& other) noexcept;
  FileStart& operator=(FileStart&& other) noexcept;
  FileStart(const FileStart&) = delete;
  FileStart& operator=(const FileStart&) = delete;

  /// Reserves addresses for at most `most` bytes of the file, which stays open until finish(). Memory is taken as bytes
  /// are read. kIo if the system has no room.
  Status begin(const InputFile& file, int64_t most);
  uint64_t provide(uint64_t count) override;
  /// Why provide() gave fewer bytes than it was asked for; ok if it never did.
  Status check() const;
  /// Keeps the first `count` bytes that were read and gives the rest back.
  void finish(int64_t count);

  const uint8_t* data() const { return data_; }
  int64_t size() const { return size_; }

 private:
  void release();

  const InputFile* file_ = nullptr;
  uint8_t* data_ = nullptr;
  int64_t size_ = 0;      // read so far
  int64_t reserved_ = 0;  // addresses
  Failure failure_;
};

}  // namespace ocellus
