#include "paceline/torch/data/fashion_mnist.h"

#include <torch/torch.h>

#include <cstring>
#include <filesystem>

#include "paceline/core/base/result.h"
#include "paceline/torch/data/idx.h"

namespace paceline::data {
namespace {

constexpr const char* kRemedy =
    "Install the data set with `apt-get install dataset-fashion-mnist`, or name the folder of its "
    "four files with --data";

std::string path_of(const std::string& folder, const std::string& name) {
  const std::string plain = folder + "/" + name, zipped = plain + ".gz";
  std::error_code ignored;
  return !std::filesystem::exists(zipped, ignored) && std::filesystem::exists(plain, ignored)
             ? plain
             : zipped;
}

at::Tensor tensor_of(const IdxArray& array) {
  at::Tensor tensor = at::empty(array.shape, at::kByte);
  if (!array.values.empty())
    std::memcpy(tensor.data_ptr(), array.values.data(), array.values.size());
  return tensor;
}

}  // namespace

LabelledImages load_fashion_mnist(Split split, const std::string& folder) {
  const std::string prefix = split == Split::train ? "train" : "t10k";
  const std::string image_path = path_of(folder, prefix + "-images-idx3-ubyte");
  const std::string label_path = path_of(folder, prefix + "-labels-idx1-ubyte");
  const IdxArray images = read_idx(image_path, kRemedy), labels = read_idx(label_path, kRemedy);
  const auto fail = [](const std::string& what) {
    throw Error({Fault::io, what + ". " + kRemedy, {}});
  };
  if (images.shape.size() != 3 || images.shape[1] != 28 || images.shape[2] != 28) {
    fail(c10::str(image_path, " holds an array ", images.shape, ", not images of 28x28"));
  }
  if (labels.shape.size() != 1 || labels.shape[0] != images.shape[0] || labels.shape[0] == 0) {
    fail(c10::str(label_path, " holds an array ", labels.shape, ", not one label for each of the ",
                  images.shape[0], " images of ", image_path));
  }
  LabelledImages set{tensor_of(images), tensor_of(labels).to(at::kLong)};
  if (set.labels.max().item<std::int64_t>() > 9) fail(label_path + " holds labels above 9");
  return set;
}

Batch take(const LabelledImages& set, const at::Tensor& indices, at::ScalarType type) {
  constexpr double kMean = 0.2860 * 255, kDeviation = 0.3530 * 255;  // of the training images
  const at::Tensor images =
      set.images.index_select(0, indices).to(type).sub_(kMean).div_(kDeviation);
  return {images.unsqueeze(1), set.labels.index_select(0, indices)};
}

}  // namespace paceline::data
