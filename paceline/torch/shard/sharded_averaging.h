// ShardedAveraging: synchronous data parallelism in which each rank keeps a part of the state.
// DataParallelOptions::zero_stage tells which: 1 the optimizer's state, 2 gradients too, 3
// parameters too. It makes the bits of stage 0.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/gradient/gradient.h"
#include "paceline/torch/shard/gradient_pieces.h"
#include "paceline/torch/shard/own_step_window.h"
#include "paceline/torch/shard/unit_gathers.h"
#include "paceline/torch/shard/unit_memory.h"
#include "paceline/torch/shard/units.h"

namespace paceline::shard {

class ShardedAveraging final : public replica::Synchrony {
 public:
  // REQUIRES: a group of several ranks, and options that fit (make_sharded_averaging checks them).
  ShardedAveraging(const replica::ModelParts& parts, Communicator& group, Job* job,
                   const DataParallelOptions& options);
  // Gives the parameters memory of their own. Collective where they are not whole; after a failure
  // they stay without.
  ~ShardedAveraging() override;
  ShardedAveraging(const ShardedAveraging&) = delete;
  ShardedAveraging& operator=(const ShardedAveraging&) = delete;

  bool arriving(std::size_t i) override;
  void arrived(std::size_t i, bool held_elsewhere) override;
  std::shared_ptr<void> gradient_memory(std::size_t i) override {
    return averaging_->gradient_memory(i);
  }
  void before_use(std::size_t) override {}
  void weigh(const replica::RankWeight& weight) override { averaging_->weigh(weight); }
  void follow(replica::ParameterWrites& writes) override { averaging_->follow(writes); }
  void pause(bool paused) override { averaging_->pause(paused); }
  bool in_step() const override { return averaging_->in_step(); }
  bool has_gradients() const override { return averaging_->has_gradients(); }
  void steps_by(const replica::Optimizers& optimizers) override {
    averaging_->steps_by(optimizers);
  }
  replica::StepOutcome end_step(replica::PerParameterOptimizers* updates) override;
  void await_own_step() override;
  void stepped(const replica::Optimizers& optimizers, double seconds) override;
  void drain() override;
  bool is_under_way() const override { return false; }
  void fail(std::exception_ptr failure) override;
  std::vector<at::Tensor> leaves() const override;
  const replica::ParameterPieces* pieces() const override { return &leaf_pieces_; }
  void leaves_changed() override;
  std::string complaint_about(const torch::optim::Optimizer& optimizer) const override;
  std::shared_ptr<void> gathered() override;
  bool holds_parameters() const override { return stage_ < 3; }
  bool is_lockstep() const override { return true; }
  bool may_differ() const override { return false; }
  void write_consensus() override {}
  replica::SynchronyState state() override;
  void restore(const replica::SavedSynchrony& saved) override;
  replica::WaitWatch* watch() override { return watch_.get(); }
  const StepReport& report() const override { return report_; }
  const std::vector<schedule::Bucket>& buckets() const override { return averaging_->buckets(); }

  // --- for tests ---
  const Units& units() const { return units_; }
  const UnitGathers& gathers() const { return gathers_; }
  Traffic traffic() const;  // of pieces of gradients and parameters

 private:
  void used(const std::vector<std::size_t>& units);
  void begin_use(const std::vector<std::size_t>& units, bool in_training, bool in_backward);
  void leaf_written(std::size_t leaf);
  void open_window();
  void settle_own_step(OwnStepWindow::Use use);
  void make_all_whole();
  std::string complaint_about_late_write() const;
  void compare_writes();
  std::string complaint_about_memory() const;
  void gradient_made(std::size_t i);
  GatherFacts facts();
  template <typename Call>
  void communicating(const Call& call);
  template <typename Call>
  decltype(auto) explaining(const Call& call);

  const int stage_;
  const std::vector<replica::Parameter> parameters_;
  std::unique_ptr<Communicator> lane_, gather_lane_;
  std::unique_ptr<replica::WaitWatch> watch_;  // none: parameters are whole between steps
  const Units units_;
  UnitMemory memory_;
  const replica::WatchedLane lane_of_gathers_;
  UnitGathers gathers_;
  GradientPieces pieces_;
  const replica::ParameterPieces leaf_pieces_;
  std::unique_ptr<gradient::GradientAveraging> averaging_;
  bool has_failed_ = false;
  bool is_in_backward_ = false;    // at the last use
  int backward_ = -1;              // whose gradients are counted
  std::vector<std::size_t> left_;  // by unit: gradients that have not come in it
  OwnStepWindow window_;
  int late_leaf_ = -1;  // that was written past any step; -1: none was
  std::unique_ptr<StorageUses> uses_;
  std::unique_ptr<TensorWrites> leaf_writes_;
  StepReport report_;
};

// The synchrony of options.zero_stage above 0. THROWS Error (misuse), by name: options that do not
// go with it, or parameters.
std::unique_ptr<replica::Synchrony> make_sharded_averaging(const replica::ModelParts& parts,
                                                           Communicator& group, Job* job,
                                                           const DataParallelOptions& options);

}  // namespace paceline::shard
