// Local SGD: ranks train apart for some steps, and then take the mean of all replicas.
// Stich, Local SGD Converges Fast and Communicates Little, ICLR 2019; Lin et al., Don't Use Large
// Mini-Batches, Use Local SGD, ICLR 2020 (post-local SGD, the policies for momenta).
#include "paceline/torch/gradient/gradient.h"
#include "paceline/torch/strategy/local/local_steps.h"
#include "paceline/torch/strategy/local/period_setting.h"
#include "paceline/torch/strategy/local/periodic.h"

namespace paceline::strategy::catalogue {

Strategy local_sgd();

namespace {

class LocalSgd final : public Periodic {
 public:
  LocalSgd(LocalReplica& replica, const Settings& settings)
      : Periodic(replica, settings.as<int>("period")),
        momentum_(static_cast<Momentum>(settings.as<int>("momentum"))) {}

  void write_consensus() override { replica_.take_mean(); }

 private:
  double exchange(const replica::Optimizers& optimizers) override {
    const double share = replica_.ledger.share();
    const double distance = find_mean();
    replica_.model.write(mean_);
    apply(momentum_, optimizers, replica_.group, share);
    return distance;
  }

  const Momentum momentum_;
};

replica::MadeSynchrony local_or_post_local(const Settings& settings,
                                           const StrategyContext& context) {
  if (const auto after = settings.as<std::int64_t>("after"); after > 0) {
    StrategyChoice then{local_sgd(), settings};
    for (Settings::Value& value : then.settings.values)
      if (value.name == "after") value.value = 0;
    return {gradient::make_gradient_averaging(context.parts, context.group, context.job,
                                              context.options),
            after, then.text()};
  }
  return local_steps("local_sgd", context, [&](LocalReplica& replica) {
    return std::make_unique<LocalSgd>(replica, settings);
  });
}

}  // namespace

Strategy local_sgd() {
  return {
      .name = "local_sgd",
      .summary = "the mean of all replicas after each so many steps of their own",
      .reference = "Stich, ICLR 2019; Lin et al., ICLR 2020",
      .settings = {period_setting(8, "steps from one exchange to the next"),
                   momentum_setting("momentum", Momentum::keep),
                   {.name = "after",
                    .standard = 0,
                    .least = 0,
                    .most = 1e15,
                    .meaning = "steps of \"synchronous\" before the first local one "
                               "(post-local SGD)",
                    .whole = true}},
      .make = local_or_post_local,
      .traffic = [](const Settings& settings, const TrafficModel& model) -> std::vector<Traffic> {
        return {{.elements = model.elements, .every = settings["period"]}};
      }};
}

}  // namespace paceline::strategy::catalogue
