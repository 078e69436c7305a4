// Reads the tensors of a committed checkpoint, whatever pieces they lie in.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "paceline/core/base/disk.h"
#include "paceline/core/checkpoint/manifest.h"
#include "paceline/core/checkpoint/tensor_file.h"

namespace paceline::checkpoint {

class CheckpointReader {
 public:
  // `directory`: of the step. `disk` must outlive this.
  CheckpointReader(Disk& disk, std::string directory)
      : disk_(disk), directory_(std::move(directory)) {}

  // Reads the whole tensor, contiguous. REQUIRES: the tensor is of the directory's manifest, and
  // `into` is as long as its dtype and shape tell. Bytes are not compared with their checksums
  // again: call damages() (verify_checkpoint.h) first.
  Result<> read(const LogicalTensor& tensor, MutableBytes into);
  // The same of a part of the tensor, which becomes contiguous. REQUIRES: the box lies inside.
  Result<> read(const LogicalTensor& tensor, const Box& box, MutableBytes into);
  // Makes room for it only once its files are known to hold that many bytes.
  Result<std::vector<std::byte>> read(const LogicalTensor& tensor);

 private:
  struct OpenFile {
    std::unique_ptr<Disk::Source> source;
    TensorFileHeader header;
    std::map<std::string, std::size_t> tensors;  // index in the header, by key
  };
  Result<OpenFile*> file(const std::string& name);
  struct Place {
    Disk::Source* source;
    std::uint64_t begin, bytes;
  };
  static Result<> read(const Place& at, const Box& piece, const Box& common, const Box& box,
                       MutableBytes into);
  Result<Place> place_of(const LogicalTensor& tensor, const StoredPiece& piece);

  Disk& disk_;
  const std::string directory_;
  std::map<std::string, OpenFile> files_;
};

}  // namespace paceline::checkpoint
