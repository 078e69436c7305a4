// Layouts that DataParallel is not told of: split layers without their mesh, and a mesh without
// split layers.
#include "paceline/torch/parallel/distributed_optimizer.h"
#include "paceline/torch/parallel/parallel.h"
#include "tests/torch/tensor/small_layers.h"

namespace paceline::tensor_test {
namespace {

using enum ParallelStyle;
using testing::AllOf;
using testing::HasSubstr;

std::string failure_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

const TensorPlan kPlan = {{"up", column}, {"down", row}};

TEST(LostLayouts, SplitLayersWithoutTheirMeshAreRefusedByName) {
  test::run_ranks(2, [](Job& job) {
    DeviceMesh mesh(job, "tp=2");
    auto model = drawn(3, [] { return Mlp<Linear>(); });
    parallelize(model, mesh, kPlan);
    const std::string before = sha256_of(model.parameters());
    const auto is_refusal = AllOf(HasSubstr("'parameter up.weight"), HasSubstr("parallelize()"),
                                  HasSubstr("DataParallel(model, mesh)"));
    EXPECT_THAT(failure_of([&] { DataParallel(model, job); }), is_refusal);
    EXPECT_THAT(failure_of([&] { DataParallel(model, mesh.world()); }), is_refusal);
    torch::optim::SGD sgd(model.parameters(), 0.1);
    EXPECT_THAT(failure_of([&] { DistributedOptimizer(sgd, job); }),
                AllOf(HasSubstr("group 0, parameter 0"), HasSubstr("DataParallel(model, mesh)")));
    EXPECT_EQ(sha256_of(model.parameters()), before) << "nothing was broadcast";
    DataParallel(model, mesh);
  });
}

// Ranks that hold the same parts are replicas of each other.
TEST(LostLayouts, AGroupOfRanksWithTheSamePartsMayHaveSplitLayers) {
  test::run_ranks(4, [](Job& job) {
    DeviceMesh mesh(job, "dp=2,tp=2");
    auto model = drawn(3, [] { return Mlp<Linear>(); });
    parallelize(model, mesh, kPlan);
    DataParallel(model, mesh.group("dp"));
    torch::optim::SGD sgd(model.parameters(), 0.1);
    DistributedOptimizer(sgd, mesh.group("dp"));
    EXPECT_THAT(
        failure_of([&] { DataParallel(model, mesh.group("dp"), {.precision = "o1:dtype=fp16"}); }),
        testing::Not(HasSubstr("nothing was thrown")));
  });
}

TEST(LostLayouts, AMeshWithTpOfAModelOfWhichNothingIsSplitIsRefused) {
  test::run_ranks(2, [](Job& job) {
    DeviceMesh mesh(job, "tp=2");
    auto model = drawn(3, [] { return Mlp<Linear>(); });
    EXPECT_THAT(failure_of([&] { DataParallel(model, mesh); }),
                AllOf(HasSubstr("tp"), HasSubstr("2 ranks"), HasSubstr("parallelize(model, mesh")));
  });
}

}  // namespace
}  // namespace paceline::tensor_test
