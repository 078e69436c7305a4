// Elastic averaging: each replica and a common centre pull each other, and no replica is ever
// replaced.
// Zhang, Choromanska, LeCun, Deep Learning with Elastic Averaging SGD, NeurIPS 2015; the collective
// form is that of torch-distlearn. With torch's Nesterov momentum it is EAMSGD. The centre may lie on
// the job's servers: the asynchronous form (server/elastic_centre.h).
#include <torch/torch.h>

#include <utility>

#include "paceline/torch/strategy/local/local_steps.h"
#include "paceline/torch/strategy/local/period_setting.h"
#include "paceline/torch/strategy/server/elastic_centre.h"

namespace paceline::strategy::catalogue {
namespace {

// The pulls of an exchange travel behind the whole next step: they are those of the parameters at
// which its gradient is computed.
class Elastic final : public LocalMethod {
 public:
  Elastic(LocalReplica& replica, const Settings& settings)
      : replica_(replica),
        alpha_(settings.or_auto("alpha", 0.9 / replica.group.size())),
        centre_(replica.model.make_vector()),
        pull_(replica.model.make_vector(replica.model.elements() + kTold)),
        pulls_(replica.model.make_vector(replica.model.elements() + kTold)) {
    report_.period = settings.as<int>("period");
    replica.model.read(centre_);
  }
  // Waits for what is under way: a group must not end before.
  ~Elastic() override {
    try {
      work_.wait();
    } catch (const std::exception&) {  // what ended the communication was told, or will be
    }
  }

  // The centre follows; a pull that is under way is that of values which are gone.
  void written() override {
    drops_pull_ = is_under_way_;
    was_written_ = true;
    replica_.model.read(centre_);
  }

  void begin_step() override { start_if_due(); }

  void after_update(const replica::Optimizers&) override {
    if (is_under_way_) end_exchange();
    ++steps_;
    start_if_due();
  }

  void write_consensus() override {
    if (replica_.any(was_written_)) {
      replica_.take_plain_mean();
      return;
    }
    replica_.model.write(centre_);
    replica_.take_counts();
  }

  // An exchange that is under way belongs to the next step, and is begun again after a restart.
  MethodState state() override {
    return {.values = {{"steps", steps_}, {"written", was_written_}}, .tensors = {centre_}};
  }
  void restore(const JsonReader::Json& values, bool) override {
    if (std::exchange(is_under_way_, false)) work_.wait();
    steps_ = values.at("steps").get<int>();
    was_written_ = values.value("written", false);
    drops_pull_ = false;
  }

  replica::ExchangeReport report() const override { return report_; }

 private:
  void start_if_due() {
    if (is_under_way_ || steps_ < report_.period) return;
    is_under_way_ = true;
    const std::int64_t elements = replica_.model.elements();
    const at::Tensor pull = pull_.narrow(0, 0, elements);
    replica_.model.read(pull);
    pull.sub_(centre_);
    const at::Tensor square = pull.narrow(0, 0, replica_.model.parameters()).square();
    pull_.narrow(0, elements, 1).fill_(square.sum(at::kDouble));
    pull_.narrow(0, elements + 1, 1).fill_(std::exchange(was_written_, false) ? 1 : 0);
    pull.mul_(alpha_);
    if (replica_.alone()) pulls_.copy_(pull_);
    else work_ = replica_.group.all_reduce(buffer_of(pull_), buffer_of(pulls_));
  }

  void end_exchange() {
    is_under_way_ = false;
    work_.wait();
    const std::int64_t elements = replica_.model.elements();
    if (pulls_.narrow(0, elements + 1, 1).item<double>() > 0) replica_.average_plainly(centre_);
    if (!std::exchange(drops_pull_, false)) {
      replica_.model.add(pull_, -1);
      centre_.add_(pulls_.narrow(0, 0, elements));
    }
    report_.distance =
        std::sqrt(pulls_.narrow(0, elements, 1).item<double>() / replica_.group.size());
    ++report_.exchanges;
    report_.bytes += static_cast<double>(replica_.bytes_of(elements));
    replica_.ledger.restart();
    steps_ = 0;
  }

  // Elements of a message behind the pull: the square of the replica's distance from the centre,
  // and 1 if the program wrote into the replica.
  static constexpr std::int64_t kTold = 2;

  LocalReplica& replica_;
  const double alpha_;
  const at::Tensor centre_;
  const at::Tensor pull_, pulls_;  // of this rank, and the sum of all
  Work work_;
  bool is_under_way_ = false;
  bool was_written_ = false, drops_pull_ = false;
  int steps_ = 0;  // since the last exchange
  replica::ExchangeReport report_;
};

bool has_centre_on_server(const Settings& settings) {
  return settings.on("centre");
}

}  // namespace

Strategy elastic() {
  return {
      .name = "elastic",
      .summary = "each replica and a common centre pull each other",
      .reference = "Zhang, Choromanska, LeCun, NeurIPS 2015",
      .settings = {period_setting(4, "steps from one exchange to the next"),
                   {.name = "alpha",
                    .standard = kAutomatic,
                    .least = 0,
                    .most = 2,
                    .meaning = "share of its distance from the centre by which a replica is "
                               "pulled; auto: 0.9 / ranks",
                    .may_be_auto = true},
                   {.name = "centre",
                    .standard = 0,
                    .meaning = "who holds the centre: all ranks, which exchange together, or the "
                               "job's servers, with which each exchanges by itself",
                    .whole = true,
                    .words = {"ranks", "server"}}},
      .make =
          [](const Settings& settings, const StrategyContext& context) {
            return local_steps("elastic", context,
                               [&](LocalReplica& replica) -> std::unique_ptr<LocalMethod> {
                                 if (has_centre_on_server(settings))
                                   return elastic_centre(replica, context, settings);
                                 return std::make_unique<Elastic>(replica, settings);
                               });
          },
      .traffic = [](const Settings& settings, const TrafficModel& model) -> std::vector<Traffic> {
        Traffic one = {.elements = model.elements,
                       .every = settings["period"],
                       .overlap = Traffic::Overlap::step};
        if (!has_centre_on_server(settings)) return {one};
        one.operation = Operation::send;
        one.peers = 1;
        return {one, one};
      },
      .needs_servers = has_centre_on_server};
}

}  // namespace paceline::strategy::catalogue
