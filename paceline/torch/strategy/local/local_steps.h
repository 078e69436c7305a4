// LocalSteps: the Synchrony of strategies in which each rank steps by its own gradients, and a
// LocalMethod brings the replicas together.
//
// A rank without a batch keeps its replica, and takes part in exchanges.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "paceline/torch/strategy/local/local_gradients.h"
#include "paceline/torch/strategy/local/local_method.h"

namespace paceline::strategy {

using MakeMethod = std::function<std::unique_ptr<LocalMethod>(LocalReplica&)>;

class LocalSteps final : public LocalGradients {
 public:
  // `name`: of the strategy, for messages. THROWS Error (misuse): options that fit only gradients
  // that travel, such as compression; a model that cannot be one vector.
  LocalSteps(std::string name, const StrategyContext& context, const MakeMethod& make);

  void loss(double loss) override;
  replica::StepOutcome end_step(replica::PerParameterOptimizers* updates) override;
  void stepped(const replica::Optimizers& optimizers, double seconds) override;
  bool keeps_gradients() const override { return true; }
  void leave_out_step(replica::PerParameterOptimizers*) override {
    losses_.clear();
    drop_step();
  }
  bool is_lockstep() const override { return method_->is_lockstep(); }
  bool may_differ() const override { return true; }
  void quiesce() override;
  void write_consensus() override;
  replica::SynchronyState state() override;
  void restore(const replica::SavedSynchrony& saved) override;

 private:
  void begin_step() override;
  void follow_writes();

  LocalReplica replica_;
  std::unique_ptr<LocalMethod> method_;
  struct ToldLoss {
    double loss = 0, samples = 0;
  };
  std::vector<ToldLoss> losses_;  // of this step, which may be left out
};

// The Synchrony of a strategy that is a LocalMethod.
inline replica::MadeSynchrony local_steps(std::string name, const StrategyContext& context,
                                          const MakeMethod& make) {
  return {std::make_unique<LocalSteps>(std::move(name), context, make)};
}

}  // namespace paceline::strategy
