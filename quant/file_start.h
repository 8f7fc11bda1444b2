// The first bytes of a file, copied to memory as they are needed. No byte is read twice, so what was checked stays true
// even if the file changes.
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

  /// Reserves addresses for at most `most` bytes of the file, which must stay open until finish(). Memory is used as
  /// bytes are read. kIo if the system has no room.
  Status begin(const InputFile& file, int64_t most);
  uint64_t provide(uint64_t count) override;
  /// Returns why provide() delivered fewer bytes than requested; ok if it never did.
  Status check() const;
  /// Keeps the first `count` bytes that were read and releases the rest.
  void finish(int64_t count);

  const uint8_t* data() const { return data_; }
  int64_t size() const { return size_; }

 private:
  void release();

  const InputFile* file_ = nullptr;
  uint8_t* data_ = nullptr;
  int64_t size_ = 0;      // bytes read so far
  int64_t reserved_ = 0;  // bytes of address space
  Failure failure_;
};

}  // namespace ocellus
