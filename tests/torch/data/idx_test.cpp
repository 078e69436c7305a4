#include "paceline/torch/data/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>

#include "paceline/core/base/result.h"
#include "tests/support/temporary_folder.h"

namespace paceline::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class IdxFiles : public testing::Test {
 protected:
  std::string plain(const std::string& bytes, const std::string& name = "file") {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }
  std::string zipped(const std::string& bytes, const std::string& name = "file.gz") {
    const std::string path = folder_ / name;
    gzFile file = gzopen(path.c_str(), "wb");
    EXPECT_EQ(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())),
              static_cast<int>(bytes.size()));
    gzclose(file);
    return path;
  }
  static std::string bytes_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static std::string failure_of(const std::string& path) {
    try {
      read_idx(path, "Fetch it again");
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::io);
      EXPECT_THAT(error.what(), AllOf(HasSubstr(path), HasSubstr("Fetch it again")));
      return error.what();
    }
    return "";
  }

  const test::TemporaryFolder temporary_;
  const std::filesystem::path& folder_ = temporary_.path();
};

std::string idx(std::vector<int> shape, std::size_t elements, char type = 8) {
  std::string bytes{0, 0, type, static_cast<char>(shape.size())};
  for (int n : shape) {
    for (int shift : {24, 16, 8, 0}) bytes += static_cast<char>(n >> shift);
  }
  for (std::size_t i = 0; i < elements; ++i) bytes += static_cast<char>(i);
  return bytes;
}

TEST_F(IdxFiles, AreReadPlainAndZipped) {
  for (const std::string& path : {plain(idx({2, 3, 4}, 24)), zipped(idx({2, 3, 4}, 24))}) {
    const IdxArray array = read_idx(path);
    EXPECT_EQ(array.shape, (std::vector<std::int64_t>{2, 3, 4}));
    ASSERT_EQ(array.values.size(), 24u);
    EXPECT_EQ(array.values[23], 23);
  }
}

TEST_F(IdxFiles, AMissingFileIsNamed) {
  EXPECT_THAT(failure_of(folder_ / "none"), HasSubstr("No such file"));
}

TEST_F(IdxFiles, EveryKindOfDamageIsTold) {
  EXPECT_THAT(failure_of(plain("")), HasSubstr("inside its header"));
  EXPECT_THAT(failure_of(plain("no idx file")), HasSubstr("no IDX file"));
  EXPECT_THAT(failure_of(plain(idx({3}, 3, 13))), HasSubstr("type 13"));
  EXPECT_THAT(failure_of(plain(idx({1, 1, 1, 1, 1}, 1))), HasSubstr("5 dimensions"));
  EXPECT_THAT(failure_of(plain(idx({3, 3}, 8))), HasSubstr("after 8 of 9"));
  EXPECT_THAT(failure_of(plain(idx({3, 3}, 10))), HasSubstr("goes on after its 9"));
  EXPECT_THAT(failure_of(plain(idx({1 << 30, 1 << 30}, 0))), HasSubstr("more than"));
}

TEST_F(IdxFiles, AZippedFileCutOrChangedAnywhereIsRefused) {
  const std::string whole = bytes_of(zipped(idx({10, 20, 30}, 6000)));
  for (std::size_t length = 3; length < whole.size(); length += 7) {
    EXPECT_NE(failure_of(plain(whole.substr(0, length), "cut.gz")), "") << length;
  }
  std::string changed = whole;
  changed[changed.size() - 6] ^= 1;  // in the checksum
  EXPECT_THAT(failure_of(plain(changed, "changed.gz")), HasSubstr("corrupt"));
}

TEST_F(IdxFiles, FashionMnistTellsHowToGetIt) {
  try {
    load_fashion_mnist(Split::train, folder_);
    FAIL() << "loaded";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("train-images-idx3-ubyte.gz"),
                      HasSubstr("apt-get install dataset-fashion-mnist"), HasSubstr("--data")));
  }
}

TEST_F(IdxFiles, FashionMnistChecksThatItsFilesFitTogether) {
  zipped(idx({2, 28, 28}, 2 * 784), "t10k-images-idx3-ubyte.gz");
  plain(idx({2}, 2), "t10k-labels-idx1-ubyte");  // unpacked files do as well
  const LabelledImages set = load_fashion_mnist(Split::test, folder_);
  EXPECT_EQ(set.size(), 2);
  const Batch batch = take(set, set.labels, at::kDouble);
  EXPECT_EQ(batch.images.sizes(), (std::vector<std::int64_t>{2, 1, 28, 28}));
  plain(idx({3}, 3), "t10k-labels-idx1-ubyte");
  EXPECT_THROW(load_fashion_mnist(Split::test, folder_), Error);
  plain(idx({2}, 0) + "\x01\x0a", "t10k-labels-idx1-ubyte");
  EXPECT_THROW(load_fashion_mnist(Split::test, folder_), Error);
}

}  // namespace
}  // namespace paceline::data
