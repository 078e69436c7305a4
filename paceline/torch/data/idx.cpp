#include "paceline/torch/data/idx.h"

#include <torch/torch.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "paceline/core/base/result.h"

namespace paceline::data {
namespace {

class File {
 public:
  File(const std::string& path, const std::string& remedy) : path_(path), remedy_(remedy) {
    errno = 0;
    file_ = gzopen(path.c_str(), "rb");
    if (file_ == nullptr)
      fail(std::string("cannot be opened: ") + std::strerror(errno == 0 ? ENOMEM : errno));
    gzbuffer(file_, 1u << 17);
  }
  ~File() { gzclose(file_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // Reads `size` bytes; fewer only at the end of the file.
  std::size_t read(std::uint8_t* into, std::size_t size) {
    std::size_t got = 0;
    while (got < size) {
      const auto part = static_cast<unsigned>(std::min<std::size_t>(size - got, 1u << 24));
      const int n = gzread(file_, into + got, part);
      int code = Z_OK;
      // An early end of the compressed stream shows here only.
      const char* text = gzerror(file_, &code);
      if (n < 0 || (code != Z_OK && code != Z_STREAM_END)) {
        fail(code == Z_ERRNO
                 ? std::string("cannot be read: ") + std::strerror(errno)
                 : "is corrupt: " + std::string(code == Z_BUF_ERROR
                                                    ? "its compressed data end too early"
                                                    : text));
      }
      if (n == 0) break;
      got += static_cast<std::size_t>(n);
    }
    return got;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error({Fault::io, path_ + " " + what + (remedy_.empty() ? "" : ". " + remedy_), {}});
  }

 private:
  std::string path_, remedy_;
  gzFile file_;
};

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

IdxArray read_idx(const std::string& path, const std::string& remedy) {
  File file(path, remedy);
  std::array<std::uint8_t, 4> word{};
  if (file.read(word.data(), 4) != 4) file.fail("is corrupt: it ends inside its header");
  if (word[0] != 0 || word[1] != 0)
    file.fail("is no IDX file: it does not begin with two zero bytes");
  if (word[2] != 0x08)
    file.fail("holds elements of IDX type " + std::to_string(word[2]) +
              "; only unsigned bytes (8) are read");
  if (word[3] < 1 || word[3] > 4)
    file.fail("is corrupt: it tells of " + std::to_string(word[3]) + " dimensions, not 1 to 4");

  IdxArray array;
  std::size_t count = 1;
  for (int dimension = word[3]; dimension > 0; --dimension) {
    std::array<std::uint8_t, 4> size{};
    if (file.read(size.data(), 4) != 4) file.fail("is corrupt: it ends inside its header");
    const auto n = (std::size_t{size[0]} << 24) | (std::size_t{size[1]} << 16) |
                   (std::size_t{size[2]} << 8) | size[3];
    if (n != 0 && count > kLargestIdx / n)
      file.fail("is corrupt: its header tells of more than " + std::to_string(kLargestIdx) +
                " elements");
    count *= n;
    array.shape.push_back(static_cast<std::int64_t>(n));
  }
  array.values.resize(count);
  const std::size_t got = file.read(array.values.data(), count);
  if (got != count) {
    file.fail("is corrupt: it ends after " + std::to_string(got) + " of " + std::to_string(count) +
              " elements");
  }
  std::uint8_t extra = 0;
  if (file.read(&extra, 1) != 0)
    file.fail("is corrupt: it goes on after its " + std::to_string(count) + " elements");
  return array;
}

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

Batch take(const LabelledImages& set, const at::Tensor& indices,
           const at::TensorOptions& images_as) {
  constexpr double kMean = 0.2860 * 255, kDeviation = 0.3530 * 255;  // of the training images
  const at::Tensor images =
      set.images.index_select(0, indices).to(images_as).sub_(kMean).div_(kDeviation);
  return {images.unsqueeze(1), set.labels.index_select(0, indices).to(images_as.device())};
}

}  // namespace paceline::data
