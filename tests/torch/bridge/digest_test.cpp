#include "paceline/torch/bridge/digest.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace paceline {
namespace {

TEST(Digest, of_nothing_and_of_abc_is_sha256s) {
  EXPECT_EQ(sha256_of({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  const std::vector<at::Tensor> abc = {torch::tensor({97, 98}, at::kByte), at::zeros({0}),
                                       torch::tensor({99}, at::kByte)};
  EXPECT_EQ(sha256_of(abc), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Digest, depends_on_values_and_order_but_not_on_layout) {
  const at::Tensor a = at::rand({2, 3, 4, 5}), b = at::rand({7});
  const auto of = [](std::vector<at::Tensor> tensors) { return sha256_of(tensors); };
  EXPECT_EQ(of({a, b}), of({a.contiguous(at::MemoryFormat::ChannelsLast), b.clone()}));
  EXPECT_NE(of({a, b}), of({b, a}));
  EXPECT_NE(of({a, b}), of({a, b + 1e-6}));
}

}  // namespace
}  // namespace paceline
