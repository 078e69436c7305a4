// Replicas train apart, and exchange nothing; their consensus is their mean.
#include "paceline/torch/strategy/local/local_steps.h"
#include "paceline/torch/strategy/local/strategy_catalogue.h"

namespace paceline::strategy::catalogue {
namespace {

class Apart final : public LocalMethod {
 public:
  explicit Apart(LocalReplica& replica) : replica_(replica) {}

  void after_update(const replica::Optimizers&) override {}
  void write_consensus() override { replica_.take_mean(); }
  replica::ExchangeReport report() const override { return {}; }

 private:
  LocalReplica& replica_;
};

}  // namespace

Strategy none() {
  return {.name = "none",
          .summary = "replicas train apart; their mean is asked for by consensus() alone",
          .reference = "Zinkevich et al., Parallelized Stochastic Gradient Descent, NeurIPS 2010",
          .make =
              [](const Settings&, const StrategyContext& context) {
                return local_steps("none", context, [](LocalReplica& replica) {
                  return std::make_unique<Apart>(replica);
                });
              },
          .traffic = [](const Settings&, const TrafficModel&) { return std::vector<Traffic>(); }};
}

}  // namespace paceline::strategy::catalogue
