#include "paceline/torch/strategy/server/admm_centre.h"

#include <torch/torch.h>

#include <cmath>
#include <optional>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/core/base/stopwatch.h"
#include "paceline/core/server/server.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/strategy/local/consensus_penalty.h"
#include "paceline/torch/strategy/server/centre_table.h"
#include "paceline/torch/strategy/server/others_wait.h"
#include "paceline/torch/strategy/server/server_refusals.h"
#include "paceline/torch/strategy/server/table_report.h"

namespace paceline::strategy {
namespace {

// The dual is the last contribution less the consensus that came of it. When all are quiet they
// have the consensus of the last contributions, as if each had brought its own to it.
//
// Other ranks may wait for what this one contributes. So a rank begins to quiesce before it waits
// for them in anything else. Until its next step, state() or consensus() has waited for the end of
// that, consensus_ and dual_ are those from before it.
class AdmmCentre final : public LocalMethod {
 public:
  AdmmCentre(LocalReplica& replica, Job& job, server::ConsistencyChoice choice,
             const Settings& settings)
      : replica_(replica),
        job_(job),
        choice_(std::move(choice)),
        penalty_(settings["penalty"]),
        consensus_(replica.model.make_vector()),
        contribution_(replica.model.make_vector()),
        dual_(at::zeros_like(consensus_)),
        own_(at::zeros({2}, at::kDouble)),
        others_wait_(job, [this] { begin_quiesce(); }) {
    report_.period = settings.as<int>("period");
  }

  bool is_lockstep() const override { return false; }
  void written() override { was_written_ = true; }
  void quiesce() override { begin_quiesce(); }

  void begin_step() override {
    if ((table_ || is_given_) && was_written_) refuse_writes_under(choice_, "consensus");
    end_quiesce();
    open_table();
    waited_seconds_ = 0;
  }

  void before_update() override {
    add_consensus_penalty(replica_.model, consensus_, dual_, penalty_);
  }

  void after_update(const replica::Optimizers&) override {
    if (++steps_ < report_.period) return;
    steps_ = 0;
    exchange();
  }

  // The consensus of the next table is what the program has made of the replicas.
  void write_consensus() override {
    let_others_go_on(job_);
    if (!replica_.any(was_written_)) {
      learn_consensus();
      replica_.model.write(consensus_);
      replica_.take_counts();
      return;
    }
    end_quiesce();
    replica_.take_plain_mean();
    replica_.model.read(consensus_);
    begin_again();
    was_written_ = false;
    is_given_ = true;
  }

  // The numbers that belong to this rank alone travel as a tensor.
  MethodState state() override {
    learn_consensus();
    own_[0] = steps_;
    own_[1] = has_contributed_ ? 1 : 0;
    return {.tensors = {consensus_, contribution_, own_}};
  }
  // The duals of all ranks add up to zero; those of other ranks would not.
  void restore(const JsonReader::Json&, bool is_same_world) override {
    end_quiesce();
    table_.reset();
    has_consensus_ = true;
    was_written_ = is_given_ = false;
    steps_ = own_[0].item<int>();
    has_contributed_ = own_[1].item<double>() != 0;
    if (is_same_world) set_dual();
    else begin_again();
  }

  replica::ExchangeReport report() const override { return report_; }
  void report_servers(StepReport& report) const override {
    report.servers = report_of(table_->figures());
    report.waited_seconds = waited_seconds_;
    report.under_way_seconds = waited_seconds_;
  }

 private:
  // Every rank has contributed what stands in consensus_, and nothing is known of its gradient.
  void begin_again() {
    contribution_.copy_(consensus_);
    dual_.zero_();
    has_contributed_ = false;
    has_consensus_ = true;
    table_.reset();
  }

  // Buffers have no loss of their own that could pull at them: they take the mean.
  void set_dual() {
    dual_.copy_(contribution_).sub_(consensus_);
    const FlatModel& model = replica_.model;
    dual_.narrow(0, model.parameters(), model.elements() - model.parameters()).zero_();
  }

  // Collective, the first time. The model may have been loaded since DataParallel was made. After a
  // resume each rank brings what it had contributed, so that the consensus is the saved one.
  void open_table() {
    if (table_) return;
    was_written_ = is_given_ = false;
    if (!std::exchange(has_consensus_, false)) {
      replica_.model.read(consensus_);
      contribution_.copy_(consensus_);
    }
    table_ = make_centre_table(job_, replica_.model, choice_);
    table_->assign(buffer_of(consensus_)).wait();
    if (!replica_.any(has_contributed_)) return;
    table_->push(buffer_of(contribution_));
    begin_quiesce();
    end_quiesce();
  }

  void exchange() {
    const Stopwatch watch;
    replica_.model.read(contribution_);
    report_.distance = replica_.model.square_distance(consensus_);
    report_.distance = std::sqrt(report_.distance);
    contribution_.add_(dual_);
    table_->push(buffer_of(contribution_));
    table_->pull(buffer_of(consensus_)).wait();
    has_contributed_ = true;
    set_dual();
    replica_.model.write_buffers(consensus_);
    waited_seconds_ = watch.seconds();
    ++report_.exchanges;
    report_.bytes += static_cast<double>(replica_.bytes_of(replica_.model.elements()));
  }

  // Nobody waits for this rank any more.
  void begin_quiesce() {
    if (table_ && !quiescence_) quiescence_ = table_->quiesce(buffer_of(consensus_));
  }
  // Collective: all are quiet, and know the consensus.
  void end_quiesce() {
    if (!quiescence_) return;
    quiescence_->wait();
    quiescence_.reset();
    set_dual();
  }
  // Collective. All ranks make the first step, so all have a table or none.
  void learn_consensus() {
    begin_quiesce();
    end_quiesce();
    if (table_ || has_consensus_) return;
    replica_.model.read(consensus_);
    contribution_.copy_(consensus_);
  }

  LocalReplica& replica_;
  Job& job_;
  const server::ConsistencyChoice choice_;
  const double penalty_;
  const at::Tensor consensus_;     // z, with which this rank goes on
  const at::Tensor contribution_;  // x + u, as this rank brought it last
  const at::Tensor dual_;          // scaled; zero for buffers
  const at::Tensor own_;           // steps_ and has_contributed_, in a checkpoint
  std::unique_ptr<server::Table> table_;
  std::optional<server::Answer> quiescence_;  // under way
  const OthersWait others_wait_;
  bool has_consensus_ = false;    // of the next table, in consensus_
  bool has_contributed_ = false;  // to this table, or to that which was saved
  bool was_written_ = false;
  bool is_given_ = false;      // the program has told the consensus of the next table
  int steps_ = 0;              // since the last exchange
  double waited_seconds_ = 0;  // in this step
  replica::ExchangeReport report_;
};

}  // namespace

std::unique_ptr<LocalMethod> admm_centre(LocalReplica& replica, const StrategyContext& context,
                                         const Settings& settings) {
  auto choice = server::parse_consistency("admm").value();
  for (Settings::Value& one : choice.settings.values) one.value = settings[one.name];
  Job& job = job_that_serves(choice, context);
  return std::make_unique<AdmmCentre>(replica, job, std::move(choice), settings);
}

}  // namespace paceline::strategy
