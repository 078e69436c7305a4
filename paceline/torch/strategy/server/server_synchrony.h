// ServerSynchrony: the parameters lie in a table on the job's servers (core/server), to which each
// rank pushes the gradient of its batch, and from which it pulls the parameters of its next step.
// The table's model of consistency says when an update may be seen and a rank goes on.
//
// A push carries the settings that the optimizer has now: the servers step by its rule. With
// update=worker the rank's own optimizer steps its copy, and the push is the difference, times the
// rank's share of all weights.
//
// Under downpour a rank pushes what it has accrued, and pulls, now and then (downpour_replica.h).
// Rank 0 makes a warm start alone; the first step of the other ranks is to quiesce until it is over,
// which it is when rank 0 quiesces, whatever for.
//
// The table is made in the first step, when the optimizer is known; all ranks make it together.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "paceline/core/server/server.h"
#include "paceline/torch/strategy/local/flat_model.h"
#include "paceline/torch/strategy/local/local_gradients.h"
#include "paceline/torch/strategy/server/downpour_replica.h"
#include "paceline/torch/strategy/server/optimizer_rule.h"
#include "paceline/torch/strategy/server/others_wait.h"

namespace paceline::strategy {

class ServerSynchrony final : public LocalGradients {
 public:
  // `accrues`: the choice is downpour, and its settings are a DownpourReplica's. THROWS Error
  // (misuse): the job has no servers, or other workers than the group; parameters, options or
  // settings do not go with servers.
  ServerSynchrony(const server::ConsistencyChoice& choice, const StrategyContext& context,
                  bool accrues);

  void steps_by(const replica::Optimizers& optimizers) override;
  replica::StepOutcome end_step(replica::PerParameterOptimizers* updates) override;
  void stepped(const replica::Optimizers& optimizers, double seconds) override;
  bool keeps_gradients() const override { return true; }
  bool steps_together() const override { return pacing_.lead == 0 && !pacing_.skips_steps(); }
  void leave_out_step(replica::PerParameterOptimizers* updates) override;
  void quiesce() override;
  bool is_lockstep() const override;
  bool may_differ() const override { return true; }
  void write_consensus() override;
  replica::SynchronyState state() override;
  void restore(const replica::SavedSynchrony& saved) override;

 private:
  // They were said in the last step, or before the first one.
  struct Weights {
    double all = 0;  // of all ranks
    double own = 0;  // of this one
  };
  // Tensors over the memory of what goes on from step to step.
  std::vector<at::Tensor> kept_tensors(server::RuleState& rule, Weights& weights) const;
  void begin_step() override;
  void refuse_writes() const;
  server::RuleState take_values();
  void end_warm_start();
  void quiesce_and_follow_writes();
  void require_batch() const;
  void open_table();
  void push_and_pull(double weight, const std::map<std::string, double>& settings);
  OptimizerRule taken_rule();
  void push_gradient(const OptimizerRule& rule, double weight);
  void accrue_gradient(const OptimizerRule& rule, double weight);
  double share() const;
  void end_report();
  // All ranks read the same version in each step.
  bool is_in_step() const {
    return pacing_.by_steps && pacing_.lead == 0 && !pacing_.skips_steps();
  }

  const server::ConsistencyChoice choice_;
  const server::Pacing pacing_;
  Job& job_;
  Communicator& group_;
  const FlatModel model_;
  const at::Tensor vector_;  // the one that is pushed next, or was pulled last
  const at::Tensor begin_;   // update=worker: the parameters before the optimizer steps
  const std::vector<at::Tensor> buffers_;  // that a consensus makes equal
  std::optional<DownpourReplica> downpour_;
  std::optional<OthersWait> warm_start_;  // that this rank makes
  int waits_ = 0;                         // steps in which it waited for another's
  std::unique_ptr<server::Table> table_;  // none before the first step
  std::optional<OptimizerRule> rule_;     // of the step that is about to end
  std::string rule_name_;  // of the table, or of the one that was saved; empty: none yet
  // The servers' state when all were quiet; empty while ranks go on.
  server::RuleState rule_state_;
  bool is_quiet_ = true, has_stepped_ = false;
  Weights weights_;
  replica::ExchangeReport exchange_;
};

}  // namespace paceline::strategy
