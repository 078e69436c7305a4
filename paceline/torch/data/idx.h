// Reads IDX files, the format of MNIST and its relatives: two zero bytes, the element type, the
// number of dimensions, each dimension as a big-endian 32-bit number, the elements. This reader
// takes unsigned bytes in 1 to 4 dimensions.
#pragma once

#include <ATen/core/Tensor.h>

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

// Fashion-MNIST (Xiao, Rasul, Vollgraf 2017): 60,000 + 10,000 grey images of clothes, 28x28, in ten
// classes.
struct LabelledImages {
  at::Tensor images;  // u8 [n, 28, 28]
  at::Tensor labels;  // i64 [n], 0..9
  std::int64_t size() const { return labels.size(0); }
};

// The folder into which Debian's package dataset-fashion-mnist puts the files.
constexpr const char* kFashionMnistFolder = "/usr/share/datasets/fashion-mnist";

enum class Split { train, test };

// Reads the two files of the split, with or without the ending .gz, from `folder`.
// THROWS Error (io): a file is missing or corrupt, or the files do not fit together; the text names
// the file and the remedy.
LabelledImages load_fashion_mnist(Split split, const std::string& folder = kFashionMnistFolder);

// The images `indices` as floating point numbers around 0, [k, 1, 28, 28], and their labels [k].
// `images_as`: the images' type, such as at::kFloat, and the device of both.
struct Batch {
  at::Tensor images, labels;
};
Batch take(const LabelledImages& set, const at::Tensor& indices,
           const at::TensorOptions& images_as);

}  // namespace paceline::data
