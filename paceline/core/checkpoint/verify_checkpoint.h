// Reads committed checkpoints, finds every byte of them that is not as it was written, and tells
// what is damaged from what cannot be read now.
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

// Whether the committed step in `directory` is whole. The first damage as a line that names file
// and tensors; empty: every byte is as it was written. Only what was read and is wrong is damage: a
// checksum that differs, a file that is cut, malformed or missing. A file or folder that the system
// does not give (EACCES, EIO, ESTALE, EMFILE and so on) says nothing about its bytes: that is a
// failure (io) with its path and the system's reason. Failure (misuse): only a newer Paceline can
// read it. COST: as damages().
Result<std::string> damage_of(Disk& disk, const std::string& directory);

}  // namespace paceline::checkpoint
