#include "paceline/core/checkpoint/write_tensor_file.h"

#include <algorithm>
#include <vector>

#include "paceline/core/base/check.h"
#include "paceline/core/checkpoint/block_checksums.h"
#include "paceline/core/checkpoint/tensor_file.h"

namespace paceline::checkpoint {
namespace {

// A piece is written as soon as its checksum is known, while it is still in the cache.
constexpr std::size_t kPiece = 1 << 20;

}  // namespace

Result<StoredFile> write_tensor_file(Disk& disk, const std::string& directory,
                                     const std::string& name, std::span<const TensorBytes> tensors,
                                     const std::map<std::string, std::string>& metadata) {
  std::vector<StoredTensor> places;
  std::uint64_t at = 0;
  for (const TensorBytes& tensor : tensors) {
    PACELINE_CHECK(byte_length(tensor.shape, tensor.dtype) == tensor.bytes.size(),
                   "checkpoint: tensor {} has {} bytes, which its shape does not tell", tensor.key,
                   tensor.bytes.size());
    places.push_back({tensor.key, tensor.dtype, tensor.shape, at, at + tensor.bytes.size()});
    at += tensor.bytes.size();
  }
  const std::string header = encode_header(places, metadata);
  auto file = disk.create(directory + "/" + name);
  if (!file) return file.error();
  if (auto room = file.value()->reserve(header.size() + at); !room) return room.error();

  BlockChecksums checksums;
  const auto append = [&](Bytes bytes) -> Result<> {
    for (std::size_t done = 0; done < bytes.size(); done += kPiece) {
      const Bytes piece = bytes.subspan(done, std::min(kPiece, bytes.size() - done));
      checksums.add(piece);
      if (auto written = file.value()->append(piece); !written) return written;
    }
    return Done{};
  };
  if (auto written = append(std::as_bytes(std::span(header))); !written) return written.error();
  for (const TensorBytes& tensor : tensors)
    if (auto written = append(tensor.bytes); !written) return written.error();
  if (auto synced = file.value()->sync(); !synced) return synced.error();
  return StoredFile{name, checksums.length(), checksums.blocks()};
}

}  // namespace paceline::checkpoint
