// LocalSteps: the Synchrony of strategies in which each rank steps by its own gradients, and a
// LocalMethod brings the replicas together.
//
// Gradients stay where autograd puts them, and accumulate as in one process. A rank without a batch
// keeps its replica, and takes part in exchanges.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "paceline/torch/gradient/gradient.h"
#include "paceline/torch/strategy/local/local_method.h"
#include "paceline/torch/strategy/local/strategy_catalogue.h"

namespace paceline::strategy {

using MakeMethod = std::function<std::unique_ptr<LocalMethod>(LocalReplica&)>;

class LocalSteps final : public parallel::Synchrony {
 public:
  // `name`: of the strategy, for messages. THROWS Error (misuse): options that fit only gradients
  // that travel, such as compression; a model that cannot be one vector.
  LocalSteps(std::string name, const StrategyContext& context, const MakeMethod& make);

  bool arriving(std::size_t i) override;
  void arrived(std::size_t i, bool) override;
  std::shared_ptr<void> birthplace(std::size_t) override { return nullptr; }
  void before_use(std::size_t) override {}
  void weigh(const parallel::RankWeight& weight) override { weight_ = weight; }
  void loss(double loss) override;
  void pause(bool) override {}
  bool in_step() const override { return false; }
  bool has_gradients() const override { return current_.gradients > 0; }
  parallel::StepOutcome end_step(parallel::OwnUpdates* updates) override;
  void stepped(const parallel::Optimizers& optimizers, double seconds) override;
  void drain() override {}
  bool is_under_way() const override { return false; }
  void fail(std::exception_ptr failure) override { failure_ = std::move(failure); }
  std::vector<at::Tensor> leaves() const override;
  bool is_lockstep() const override { return method_->is_lockstep(); }
  bool may_differ() const override { return true; }
  void write_consensus() override;
  parallel::SynchronyState state() override;
  void restore(const parallel::SavedSynchrony& saved) override;
  const StepReport& report() const override { return report_; }
  const std::vector<schedule::Bucket>& buckets() const override { return no_buckets_; }

 private:
  void begin();
  void end();
  void require_between_steps(const char* call) const;
  std::vector<at::Tensor> saved_tensors();
  template <typename Call>
  void communicating(const Call& call);

  const std::string name_;
  const std::vector<parallel::Parameter> parameters_;
  LocalReplica replica_;
  std::unique_ptr<LocalMethod> method_;
  parallel::ParameterWatch watch_;
  const std::vector<schedule::Bucket> no_buckets_;
  parallel::RankWeight weight_;
  bool has_begun_ = false;  // the step
  int backward_ = -1;       // the last that made a gradient
  std::exception_ptr failure_;
  StepReport report_, current_;
};

// The Synchrony of a strategy that is a LocalMethod.
inline parallel::MadeSynchrony local_steps(std::string name, const StrategyContext& context,
                                           const MakeMethod& make) {
  return {std::make_unique<LocalSteps>(std::move(name), context, make)};
}

}  // namespace paceline::strategy
