// Layers that the converter replaces, and layers that it refuses.
#include "paceline/torch/norm/convert_sync_batch_norm.h"

#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

struct Features : nn::Module {
  Features() {
    layers = register_module(
        "layers", nn::Sequential(nn::Conv2d(nn::Conv2dOptions(3, 4, 1)), nn::BatchNorm2d(4)));
  }
  at::Tensor forward(const at::Tensor& x) { return layers->forward(x); }
  nn::Sequential layers{nullptr};
};

TEST(ConvertSyncBatchNorm, ReachesIntoNestedSequentialsAndKeepsTheParameters) {
  nn::Sequential net(std::make_shared<Features>(), nn::Flatten(), nn::Linear(16, 2),
                     nn::BatchNorm1d(2), nn::BatchNorm1d(nn::BatchNormOptions(2).affine(false)));
  const at::Tensor x = at::randn({5, 3, 2, 2});
  net->forward(x);  // so that the running statistics are not the initial ones
  const auto parameters = net->parameters();
  const auto buffers = sha256_of(net->buffers());
  const at::Tensor expected = net->forward(x);
  EXPECT_EQ(convert_sync_batch_norm(*net), 3U);
  EXPECT_EQ(sync_batch_norms_in(*net).size(), 3U);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    EXPECT_TRUE(net->parameters()[i].is_same(parameters[i]));
  EXPECT_NE(sha256_of(net->buffers()), buffers);
  EXPECT_LE(difference(net->forward(x), expected), 1e-5)
      << "without ranks it is the plain norm, and forward() goes through it";
  net->eval();
  EXPECT_FALSE(net[1]->is_training());
  EXPECT_EQ(convert_sync_batch_norm(*net), 0U) << "nothing is left";
}

TEST(ConvertSyncBatchNorm, NamesWhatItCannotReplaceAndChangesNothing) {
  struct Block : nn::Module {
    Block() {
      norm = register_module("norm", nn::BatchNorm1d(3));
      rest = register_module("rest", nn::Sequential(nn::BatchNorm1d(3)));
    }
    nn::BatchNorm1d norm{nullptr};
    nn::Sequential rest{nullptr};
  };
  auto block = std::make_shared<Block>();
  EXPECT_THAT(misuse_of([&] { convert_sync_batch_norm(*block); }),
              AllOf(HasSubstr("'norm'"), HasSubstr("paceline::SyncBatchNorm")));
  EXPECT_TRUE(sync_batch_norms_in(*block).empty());
  nn::BatchNorm2d alone(3);
  EXPECT_THAT(misuse_of([&] { convert_sync_batch_norm(*alone); }), HasSubstr("the model itself"));
}

}  // namespace
}  // namespace paceline
