// Reads IDX files, the format of MNIST and its relatives: two zero bytes, the element type, the
// number of dimensions, each dimension as a big-endian 32-bit number, the elements. This reader
// takes unsigned bytes in 1 to 4 dimensions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace paceline::data {

struct IdxArray {
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> values;  // row-major
};

constexpr std::size_t kLargestIdx = std::size_t{1}
                                    << 30;  // bytes of elements that a header may make us allocate

// Reads a plain or gzip file and checks all of it: header, length, checksum, nothing after the end.
// THROWS Error (io) that names the file, its defect, and `remedy`.
IdxArray read_idx(const std::string& path, const std::string& remedy = {});

}  // namespace paceline::data
