// AdaComm: local SGD whose period follows the loss: long at first, when rough steps are good
// enough, and shorter as the loss falls.
// Wang and Joshi, Adaptive Communication Strategies to Achieve the Best Error-Runtime Trade-off in
// Local-Update SGD, MLSys 2019.
#include <array>

#include "paceline/core/base/base.h"
#include "paceline/torch/strategy/local/adacomm_rule.h"
#include "paceline/torch/strategy/local/local_steps.h"
#include "paceline/torch/strategy/local/periodic.h"

namespace paceline::strategy::catalogue {
namespace {

class AdaComm final : public Periodic {
 public:
  AdaComm(LocalReplica& replica, const Settings& settings)
      : Periodic(replica, settings.as<int>("start")),
        rule_{.start = settings.as<int>("start")},
        interval_(settings.as<int>("interval")) {}

  void write_consensus() override { replica_.take_mean(); }

  void loss(double loss, double samples) override {
    loss_ += loss * samples;
    samples_ += samples;
  }

  MethodState state() override {
    MethodState state = Periodic::state();
    state.values["period"] = period();
    state.values["steps_of_interval"] = steps_;
    state.values["first_loss"] = rule_.first_loss;
    state.values["first_rate"] = rule_.first_rate;
    state.values["last_rate"] = rule_.last_rate;
    state.tensors = {loss_tensor()};
    return state;
  }
  void restore(const JsonReader::Json& values, bool is_same_world) override {
    Periodic::restore(values, is_same_world);
    change_period(values.at("period").get<int>());
    steps_ = values.at("steps_of_interval").get<int>();
    rule_.first_loss = values.at("first_loss").get<double>();
    rule_.first_rate = values.at("first_rate").get<double>();
    rule_.last_rate = values.at("last_rate").get<double>();
    const auto sums = saved_sums_.accessor<double, 1>();
    loss_ = sums[0];
    samples_ = sums[1];
  }

 private:
  double exchange(const replica::Optimizers&) override {
    const double distance = find_mean();
    replica_.model.write(mean_);
    return distance;
  }

  // The first step gives the loss from which the rule counts; then each interval gives one.
  void step_made(const replica::Optimizers& optimizers) override {
    const bool is_first = rule_.first_loss < 0;
    if (!is_first && ++steps_ < interval_) return;
    const auto [loss, rate] = told_by_all(optimizers);
    if (is_first) rule_.begin(loss, rate);
    else change_period(rule_.next(period(), loss, rate));
    loss_ = samples_ = 0;
    steps_ = 0;
  }

  // The mean loss, and the mean learning rate, so that all ranks find the same period.
  std::pair<double, double> told_by_all(const replica::Optimizers& optimizers) {
    std::array<double, 3> sums = {loss_, samples_, learning_rate_of(optimizers)};
    replica_.group.all_reduce(buffer_of(sums)).wait();
    if (sums[1] == 0) {
      throw_misuse(
          "synchrony \"adacomm\" follows the loss, and no rank has told one: call "
          "parallel.loss(loss.item<double>()) after each backward()");
    }
    return {sums[0] / sums[1], sums[2] / replica_.group.size()};
  }

  static double learning_rate_of(const replica::Optimizers& optimizers) {
    if (optimizers.empty() || optimizers.front()->param_groups().empty()) return 1;
    return optimizers.front()->param_groups().front().options().get_lr();
  }

  at::Tensor loss_tensor() {
    auto sums = saved_sums_.accessor<double, 1>();
    sums[0] = loss_;
    sums[1] = samples_;
    return saved_sums_;
  }

  AdaCommRule rule_;
  const int interval_;
  int steps_ = 0;                  // of the present interval
  double loss_ = 0, samples_ = 0;  // that were told here since its beginning
  const at::Tensor saved_sums_ = at::zeros({2}, at::kDouble);  // of both, in a checkpoint
};

}  // namespace

Strategy adacomm() {
  return {
      .name = "adacomm",
      .summary = "local_sgd whose period falls with the loss",
      .reference = "Wang and Joshi, MLSys 2019",
      .settings = {{.name = "start",
                    .standard = 16,
                    .least = 1,
                    .most = 1e6,
                    .meaning = "the first period",
                    .whole = true},
                   {.name = "interval",
                    .standard = 100,
                    .least = 1,
                    .most = 1e9,
                    .meaning = "steps after which the period is chosen again",
                    .whole = true}},
      .make =
          [](const Settings& settings, const StrategyContext& context) {
            return local_steps("adacomm", context, [&](LocalReplica& replica) {
              return std::make_unique<AdaComm>(replica, settings);
            });
          },
      .traffic = [](const Settings& settings, const TrafficModel& model) -> std::vector<Traffic> {
        return {{.elements = model.elements, .every = settings["start"]}};
      }};
}

}  // namespace paceline::strategy::catalogue
