// The manifest of a checkpoint: what it holds, in which files, and the checksums of their bytes.
// docs/checkpoint_format.md gives its bytes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/base/json_reader.h"
#include "paceline/core/checkpoint/shape.h"

namespace paceline::checkpoint {

inline constexpr int kFormatVersion = 1;

struct StoredPiece {
  std::string file;  // of the manifest's
  std::string key;   // of the tensor in that file
  Box box;
  bool operator==(const StoredPiece&) const = default;
};

struct LogicalTensor {
  std::string name;
  Dtype dtype = Dtype::f32;
  Extents shape;
  int rank = -1;  // a tensor that each rank has for itself: whose it is; -1: all ranks' alike
  std::vector<StoredPiece> pieces;
  bool operator==(const LogicalTensor&) const = default;
};

// One thing that a program saves under a name: a model, an optimizer, its own values.
struct Item {
  std::string name;
  JsonReader::Json values = JsonReader::Json::object();
  std::vector<LogicalTensor> tensors;
  bool operator==(const Item&) const = default;
};

struct StoredFile {
  std::string name;
  std::uint64_t length = 0;
  std::vector<std::uint32_t> checksums;  // tensor_file.h
  bool operator==(const StoredFile&) const = default;
};

struct Manifest {
  std::uint64_t step = 0;
  std::string job;
  std::uint64_t generation = 0;
  int world_size = 0;
  std::vector<Item> items;
  std::vector<StoredFile> files;
  bool operator==(const Manifest&) const = default;
};

// A file's name may come from outside: it has letters, digits, '.', '_' and '-' alone, does not
// begin with a '.', and is of 1 to 200 bytes.
bool is_plain_name(std::string_view name);

std::string to_json(const Manifest& manifest);

// Refuses everything that to_json() does not write: unknown keys, names that are not plain or occur
// twice, pieces that do not tile their tensor or lie in no listed file, checksums that do not fit
// the length of their file. `what` names the manifest in failures (io). A newer version is told as
// such (misuse).
Result<Manifest> parse_manifest(const std::string& what, std::string_view text);

// The same of one rank's share, whose pieces may leave out what other ranks have.
Result<Manifest> parse_share(const std::string& what, std::string_view text);
// The whole that the ranks' shares make; values are those of the first. A failure (io) names a
// tensor that they do not make up. REQUIRES: shares of one step, at least one.
Result<Manifest> merged(std::vector<Manifest> shares);

}  // namespace paceline::checkpoint
