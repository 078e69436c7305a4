// Writes one rank's tensors of one item into a file that the manifest can name.
#pragma once

#include <map>
#include <span>
#include <string>

#include "paceline/core/base/disk.h"
#include "paceline/core/checkpoint/manifest.h"

namespace paceline::checkpoint {

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
