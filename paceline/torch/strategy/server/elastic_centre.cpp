#include "paceline/torch/strategy/server/elastic_centre.h"

#include <torch/torch.h>

#include <optional>
#include <string>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/core/base/stopwatch.h"
#include "paceline/core/server/server.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/strategy/server/centre_table.h"
#include "paceline/torch/strategy/server/others_wait.h"
#include "paceline/torch/strategy/server/server_refusals.h"
#include "paceline/torch/strategy/server/table_report.h"

namespace paceline::strategy {
namespace {

// The values are pushed before a step, and the difference that comes back is taken off after it: it
// travels behind the whole step, whose gradient is that of the pushed values. Between steps nothing
// is under way, but where a step was left out.
class ElasticCentre final : public LocalMethod {
 public:
  ElasticCentre(LocalReplica& replica, Job& job, server::ConsistencyChoice choice, int period)
      : replica_(replica),
        job_(job),
        choice_(std::move(choice)),
        alpha_(choice_.settings["alpha"]),
        centre_(replica.model.make_vector()),
        values_(at::zeros_like(centre_)),
        difference_(at::zeros_like(centre_)),
        own_(at::zeros({2}, at::kDouble)) {
    report_.period = period;
  }

  bool is_lockstep() const override { return false; }
  void written() override { was_written_ = true; }

  void begin_step() override {
    if ((table_ || is_given_) && was_written_) refuse_writes_under(choice_, "centre");
    open_table();
    waited_seconds_ = under_way_seconds_ = 0;
    if (has_difference_ || answer_ || steps_ < report_.period) return;
    watch_ = {};
    replica_.model.read(values_);
    table_->push(buffer_of(values_));
    answer_ = table_->pull(buffer_of(difference_));
    waited_seconds_ = watch_.seconds();
  }

  void after_update(const replica::Optimizers&) override {
    wait_for_difference();
    if (std::exchange(has_difference_, false)) {
      replica_.model.add(difference_, -1);
      steps_ = 0;
      note_exchange();
    }
    ++steps_;
  }

  // The centre of the next table is what the program has made of the replicas.
  void write_consensus() override {
    if (replica_.any(was_written_)) {
      wait_for_difference();
      replica_.take_plain_mean();
      replica_.model.read(centre_);
      has_centre_ = is_given_ = true;
      was_written_ = false;
      table_.reset();
      return;
    }
    learn_centre();
    replica_.model.write(centre_);
    replica_.take_counts();
  }

  // The numbers that belong to this rank alone travel as a tensor.
  MethodState state() override {
    learn_centre();
    own_[0] = steps_;
    own_[1] = has_difference_ ? 1 : 0;
    return {.tensors = {centre_, difference_, own_}};
  }
  void restore(const JsonReader::Json&, bool) override {
    answer_.reset();
    table_.reset();
    has_centre_ = true;
    was_written_ = is_given_ = false;
    steps_ = own_[0].item<int>();
    has_difference_ = own_[1].item<double>() != 0;
  }

  replica::ExchangeReport report() const override { return report_; }
  void report_servers(StepReport& report) const override {
    report.servers = report_of(table_->figures());
    report.waited_seconds = waited_seconds_;
    report.under_way_seconds = under_way_seconds_;
  }

 private:
  // Collective, the first time. The model may have been loaded since DataParallel was made.
  void open_table() {
    if (table_) return;
    was_written_ = is_given_ = false;
    table_ = make_centre_table(job_, replica_.model, choice_);
    if (!std::exchange(has_centre_, false)) replica_.model.read(centre_);
    table_->assign(buffer_of(centre_)).wait();
  }

  void wait_for_difference() {
    if (!answer_) return;
    const Stopwatch watch;
    answer_->wait();
    answer_.reset();
    has_difference_ = true;
    waited_seconds_ += watch.seconds();
    under_way_seconds_ = watch_.seconds();
  }

  // Collective: all quiesce, and know the centre. All ranks make the first step, so all have a table or
  // none.
  void learn_centre() {
    wait_for_difference();
    if (table_) table_->quiesce(buffer_of(centre_)).wait();
    else if (!has_centre_) replica_.model.read(centre_);
  }

  void note_exchange() {
    const at::Tensor parameters = difference_.narrow(0, 0, replica_.model.parameters());
    if (alpha_ > 0) report_.distance = parameters.norm(2, at::kDouble).item<double>() / alpha_;
    ++report_.exchanges;
    report_.bytes += static_cast<double>(replica_.bytes_of(replica_.model.elements()));
  }

  LocalReplica& replica_;
  Job& job_;
  const server::ConsistencyChoice choice_;
  const double alpha_;
  const at::Tensor centre_;  // as it was when all were quiet
  const at::Tensor values_, difference_;
  const at::Tensor own_;  // steps_ and has_difference_, in a checkpoint
  std::unique_ptr<server::Table> table_;
  std::optional<server::Answer> answer_;  // to the pull of the difference
  bool has_difference_ = false;           // which is to be taken off after the next update
  bool has_centre_ = false;               // of the next table, in centre_
  bool was_written_ = false;
  bool is_given_ = false;  // the program has told the centre of the next table
  int steps_ = 0;          // since the last exchange
  Stopwatch watch_;        // since the last push
  double waited_seconds_ = 0, under_way_seconds_ = 0;  // in this step
  replica::ExchangeReport report_;
};

}  // namespace

std::unique_ptr<LocalMethod> elastic_centre(LocalReplica& replica, const StrategyContext& context,
                                            const Settings& settings) {
  const double alpha = settings.or_auto("alpha", 0.9 / replica.group.size());
  auto choice = server::parse_consistency("elastic").value();
  for (Settings::Value& one : choice.settings.values)
    if (one.name == "alpha") one.value = alpha;
  Job& job = job_that_serves(choice, context);
  return std::make_unique<ElasticCentre>(replica, job, std::move(choice),
                                         settings.as<int>("period"));
}

}  // namespace paceline::strategy
