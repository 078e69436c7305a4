// A file of tensors in the format of safetensors
// (https://github.com/huggingface/safetensors): 8 bytes of length, JSON, then the tensors' bytes
// one after the other, little-endian and contiguous.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/core/base/disk.h"
#include "paceline/core/base/result.h"
#include "paceline/core/checkpoint/manifest.h"
#include "paceline/core/checkpoint/shape.h"

namespace paceline::checkpoint {

struct StoredTensor {
  std::string name;
  Dtype dtype = Dtype::f32;
  Extents shape;
  std::uint64_t begin = 0, end = 0;  // bytes, counted from where the data begin
  bool operator==(const StoredTensor&) const = default;
};

struct TensorFileHeader {
  std::vector<StoredTensor> tensors;
  std::map<std::string, std::string> metadata;
  std::uint64_t data_begin = 0;  // in the file
};

inline constexpr std::size_t kHeaderLengthBytes = 8;
inline constexpr std::uint64_t kLongestHeader = 100'000'000;  // as safetensors' own reader

// "F32" and so on; the element types that both sides know. Nothing for another name.
std::string_view safetensors_name(Dtype dtype);
std::optional<Dtype> dtype_of_safetensors(std::string_view name);

// The file's first bytes, header length included, padded with spaces so that data begin at a
// multiple of 8. REQUIRES: the tensors lie one after the other from 0 on, and each name is there
// once.
std::string encode_header(const std::vector<StoredTensor>& tensors,
                          const std::map<std::string, std::string>& metadata);

// The length of the JSON, from a file's first 8 bytes. `what` names the file in failures (io).
Result<std::uint64_t> header_length(const std::string& what, Bytes first,
                                    std::uint64_t file_length);

// Refuses names that occur twice, unknown element types, shapes whose bytes are not those of their
// place, and places that overlap, leave a gap or do not end where the file does.
Result<TensorFileHeader> parse_header(const std::string& what, std::string_view json,
                                      std::uint64_t file_length);

// CRC-32C of each MiB of a file: small enough to name the damaged part, large enough to be few.
inline constexpr std::size_t kChecksumBlock = 1 << 20;

class BlockChecksums {
 public:
  // The file's next bytes, in pieces of any length.
  void add(Bytes bytes);
  std::uint64_t length() const { return length_; }
  // One for each block; the last block may be shorter. An empty file has none.
  const std::vector<std::uint32_t>& blocks() const { return blocks_; }

 private:
  std::uint64_t length_ = 0;
  std::vector<std::uint32_t> blocks_;
};

// The failure of a file that is not as it was written.
inline Failure damaged(const std::string& path, std::string_view found) {
  return {Fault::io, fmt::format("{} is damaged: {}", path, found), {}};
}

// A piece of a tensor in memory, contiguous. The memory is only read, and only during the call that
// gets it.
struct TensorBytes {
  std::string key;
  Dtype dtype = Dtype::f32;
  Extents shape;
  Bytes bytes;  // REQUIRES: as long as shape and dtype tell
};

// Makes `<directory>/<name>`, which must not exist, and its bytes durable; the directory is the
// caller's to sync. Room for the whole file is reserved first. After a failure (io) the file may be
// there in part.
Result<StoredFile> write_tensor_file(Disk& disk, const std::string& directory,
                                     const std::string& name, std::span<const TensorBytes> tensors,
                                     const std::map<std::string, std::string>& metadata);

}  // namespace paceline::checkpoint
