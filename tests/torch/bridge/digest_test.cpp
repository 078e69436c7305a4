#include "paceline/torch/bridge/digest.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace paceline {
namespace {

TEST(Digest, OfNothingAndOfAbcIsSha256s) {
  EXPECT_EQ(sha256_of({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  const std::vector<at::Tensor> abc = {torch::tensor({97, 98}, at::kByte), at::zeros({0}),
                                       torch::tensor({99}, at::kByte)};
  EXPECT_EQ(sha256_of(abc), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Digest, DependsOnValuesAndOrderButNotOnLayout) {
  const at::Tensor a = at::rand({2, 3, 4, 5}), b = at::rand({7});
  const auto of = [](std::vector<at::Tensor> tensors) { return sha256_of(tensors); };
  EXPECT_EQ(of({a, b}), of({a.contiguous(at::MemoryFormat::ChannelsLast), b.clone()}));
  EXPECT_NE(of({a, b}), of({b, a}));
  EXPECT_NE(of({a, b}), of({a, b + 1e-6}));
}

TEST(Digest, AFingerprintTellsEveryFlippedBitAndIgnoresTheLayout) {
  for (const std::int64_t count : {0, 1, 3, 8, 37}) {
    at::Tensor tensor = at::arange(count, at::TensorOptions().dtype(at::kFloat));
    const std::uint64_t before = fingerprint_of(tensor);
    EXPECT_EQ(fingerprint_of(tensor.clone()), before);
    auto* bytes = static_cast<unsigned char*>(count == 0 ? nullptr : tensor.mutable_data_ptr());
    for (std::size_t bit = 0; bit < 8 * tensor.nbytes(); ++bit) {
      bytes[bit / 8] ^= 1 << (bit % 8);
      EXPECT_NE(fingerprint_of(tensor), before) << "bit " << bit << " of " << count << " elements";
      bytes[bit / 8] ^= 1 << (bit % 8);
    }
  }
  const at::Tensor matrix = at::rand({5, 7});
  EXPECT_EQ(fingerprint_of(matrix.t()), fingerprint_of(matrix.t().contiguous()));
  EXPECT_NE(fingerprint_of(matrix.t()), fingerprint_of(matrix));
}

}  // namespace
}  // namespace paceline
