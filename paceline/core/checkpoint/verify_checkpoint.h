// Reads committed checkpoints and finds every byte of them that is not as it was written.
#pragma once

#include <string>
#include <vector>

#include "paceline/core/base/disk.h"
#include "paceline/core/checkpoint/manifest.h"
#include "paceline/core/checkpoint/tensor_file.h"

namespace paceline::checkpoint {

// Reads and checks the manifest of the committed step in `directory` (.../step-00000400): its
// SHA-256, its content, and that it is of the step that the directory's name tells. Failures: io
// where it is damaged, misuse where only a newer Paceline can read it.
Result<Manifest> read_manifest(Disk& disk, const std::string& directory);

// Reads the header of a file of tensors.
Result<TensorFileHeader> read_header(Disk::Source& file, const std::string& path);

struct Damage {
  std::string file;     // of the manifest's
  std::string tensors;  // those in the damaged part, "fc.weight, fc.bias"; empty: none, or unknown
  std::string what;     // "its 3rd MiB differs from its checksum"
};

// Reads every byte of the manifest's files. Empty: all are as they were written, and their headers
// name the manifest's pieces and no others. COST: one pass over the files, 1 MiB of memory.
std::vector<Damage> damages(Disk& disk, const std::string& directory, const Manifest& manifest);

}  // namespace paceline::checkpoint
