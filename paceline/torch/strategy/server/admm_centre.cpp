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
#include "paceline/torch/strategy/server/centre_names.h"
#include "paceline/torch/strategy/server/others_wait.h"
#include "paceline/torch/strategy/server/server_refusals.h"
#include "paceline/torch/strategy/server/table_report.h"

namespace paceline::strategy {
namespace {

// The dual is the last contribution less the consensus that came of it. At a rest all have the
// consensus of the last contributions, as if each had brought its own to it.
//
// Other ranks may wait for what this one contributes. So a rank begins to rest before it waits for
// them in anything else. Until its next step, state() or consensus() has waited for the end of that
// rest, consensus_ and dual_ are those from before it.
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
        others_wait_(job, [this] { begin_rest(); }) {
    report_.period = settings.as<int>("period");
  }

  bool is_lockstep() const override { return false; }
  void written() override { was_written_ = true; }
  void quiesce() override { begin_rest(); }

  void begin_step() override {
    if ((table_ || is_given_) && was_written_) refuse_writes();
    end_rest();
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
      rest();
      replica_.model.write(consensus_);
      replica_.take_counts();
      return;
    }
    end_rest();
    replica_.take_plain_mean();
    replica_.model.read(consensus_);
    begin_again();
    was_written_ = false;
    is_given_ = true;
  }

  // The numbers that belong to this rank alone travel as a tensor.
  MethodState state() override {
    rest();
    own_[0] = steps_;
    own_[1] = has_contributed_ ? 1 : 0;
    return {.tensors = {consensus_, contribution_, own_}};
  }
  // The duals of all ranks add up to zero; those of other ranks would not.
  void restore(const JsonReader::Json&, bool is_same_world) override {
    end_rest();
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
  [[noreturn]] static void refuse_writes() {
    throw_misuse(
        "the model was written between two steps, and under synchrony 'admm:centre=server' the "
        "servers hold a consensus that would draw it back: write on all ranks alike, then call "
        "consensus() before the next step; from there on the consensus is what was written");
  }

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
    let_others_go_on(job_);  // all ranks make the table together
    table_ = std::make_unique<server::Table>(
        job_, server::TableSpec{.name = CentreNames::next(job_),
                                .elements = static_cast<std::size_t>(replica_.model.elements()),
                                .dtype = *dtype_of(replica_.model.type()),
                                .synchrony = choice_.text(),
                                .rule = "add"});
    table_->assign(buffer_of(consensus_)).wait();
    if (!replica_.any(has_contributed_)) return;
    table_->push(buffer_of(contribution_));
    begin_rest();
    end_rest();
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
  void begin_rest() {
    if (table_ && !rest_) rest_ = table_->quiesce(buffer_of(consensus_));
  }
  // Collective: all rest, and know the consensus.
  void end_rest() {
    if (!rest_) return;
    rest_->wait();
    rest_.reset();
    set_dual();
  }
  // Collective. All ranks make the first step, so all have a table or none.
  void rest() {
    begin_rest();
    end_rest();
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
  std::optional<server::Answer> rest_;  // under way
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
