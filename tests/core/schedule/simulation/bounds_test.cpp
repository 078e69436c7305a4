#include "paceline/core/schedule/simulation/bounds.h"

#include <gtest/gtest.h>

#include "paceline/core/base/result.h"
#include "paceline/core/schedule/replay/replay_models.h"
#include "tests/core/schedule/example_costs.h"

namespace paceline::schedule {
namespace {

// compute, transfer, crossing and with a barrier at 5 Gbit/s, as an oracle in
// Python (docs/acceptance.md) gave them.
struct Expected {
  const char* model;
  Servers servers;
  double seconds[4];
};
constexpr Expected kExpected[] = {
    {"ResNet-50", Servers::dedicated, {0.2529, 0.1635650048, 0.2529602112, 0.2529602112}},
    {"ResNet-50", Servers::colocated, {0.2529, 0.2453475072, 0.2529903168, 0.330421997126}},
    {"BERT-Base", Servers::dedicated, {0.3008, 0.7047106688, 0.767571976824, 0.855456371199}},
    {"BERT-Base", Servers::colocated, {0.3008, 1.0570660032, 1.11991501682, 1.2077994112}},
    {"BERT-Large", Servers::dedicated, {0.1632, 2.1518864512, 2.16383928691, 2.24036197481}},
    {"BERT-Large", Servers::colocated, {0.1632, 3.2278296768, 3.23976612211, 3.31628881001}},
};

TEST(Bounds, AgreeWithTheExecutedModel) {
  for (const Expected& one : kExpected) {
    const Bounds bounds =
        bounds_of(replay_model(one.model),
                  costs_of({.bytes_per_second = 5 * 1.25e8, .servers = one.servers}));
    EXPECT_NEAR(bounds.compute, one.seconds[0], 1e-9);
    EXPECT_NEAR(bounds.transfer, one.seconds[1], 1e-9);
    EXPECT_NEAR(bounds.crossing, one.seconds[2], 1e-9);
    EXPECT_NEAR(bounds.with_barrier, one.seconds[3], 1e-9);
  }
}

TEST(Bounds, ContainAllComputationAllTransfersAndTheEmbeddingThatNothingHides) {
  for (const Model& model : replay_models()) {
    for (const double rate : {1e7, 1e8, 1e9, 1e10}) {
      const LinkCosts links = costs_of({.bytes_per_second = rate});
      const Bounds bounds = bounds_of(model, links);
      const double first = links.least_per_byte() * static_cast<double>(model.tensors[0].bytes);
      EXPECT_GE(bounds.crossing, bounds.transfer);
      EXPECT_GE(bounds.crossing, (bounds.compute + first) * (1 - 1e-12));
      EXPECT_GE(bounds.with_barrier, bounds.crossing * (1 - 1e-12));
    }
  }
}

TEST(CommunicationRatio, IsOneAtTheRatesThatTheSpecificationTells) {
  const std::pair<const char*, double> expected[] = {
      {"ResNet-50", 4.9}, {"BERT-Base", 17.6}, {"BERT-Large", 99}};
  for (const auto& [name, gigabits] : expected) {
    const LinkCosts links = costs_of({.bytes_per_second = gigabits * 1.25e8});
    EXPECT_NEAR(communication_ratio(replay_model(name), links), 1, .02) << name;
  }
}

TEST(CommunicationRatio, IsSetByScalingTheComputationAlone) {
  for (const Model& model : replay_models()) {
    for (const double rho : {.5, 1.0, 2.0}) {
      const LinkCosts links = costs_of({});
      const Model changed = with_communication_ratio(model, links, rho);
      EXPECT_NEAR(communication_ratio(changed, links), rho, 1e-12);
      EXPECT_EQ(changed.bytes(), model.bytes());
    }
  }
  EXPECT_THROW(with_communication_ratio(resnet_50(), costs_of({}), 0), Error);
}

}  // namespace
}  // namespace paceline::schedule
