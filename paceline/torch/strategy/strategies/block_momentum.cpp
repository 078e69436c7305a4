// Block-wise model-update filtering: what a block of local steps has changed in the mean of the
// replicas is taken as a gradient, and gets a momentum of its own.
// Chen and Huo, Scalable Training of Deep Learning Machines by Incremental Block Training with
// Intra-Block Parallel Optimization and Blockwise Model-Update Filtering, ICASSP 2016.
#include <torch/torch.h>

#include "paceline/torch/strategy/local/local_steps.h"
#include "paceline/torch/strategy/local/period_setting.h"
#include "paceline/torch/strategy/local/periodic.h"

namespace paceline::strategy::catalogue {
namespace {

class BlockMomentum final : public Periodic {
 public:
  BlockMomentum(LocalReplica& replica, const Settings& settings)
      : Periodic(replica, settings.as<int>("period")),
        momentum_(settings.or_auto("momentum", 1 - 1.0 / replica.group.size())),
        rate_(settings["rate"]),
        nesterov_(settings.on("nesterov")),
        local_(static_cast<Momentum>(settings.as<int>("local"))),
        global_(replica.model.make_vector()),
        update_(replica.model.make_vector(replica.model.parameters())) {
    replica.model.read(global_);
  }

  // The present block begins where the program left the model.
  void written() override {
    Periodic::written();
    replica_.model.read(global_);
  }

  // The state at the end of the last block.
  void write_consensus() override {
    if (any_writes()) {
      replica_.take_plain_mean();
      return;
    }
    replica_.model.write(global_);
    replica_.take_counts();
  }

  MethodState state() override {
    MethodState state = Periodic::state();
    state.tensors = {global_, update_};
    return state;
  }

 private:
  double exchange(const replica::Optimizers& optimizers) override {
    const double share = replica_.ledger.share();
    const double distance = find_mean();
    if (take_writes()) {
      replica_.average_plainly(global_);
      update_.zero_();
    }
    const std::int64_t parameters = replica_.model.parameters(),
                       buffers = replica_.model.elements() - parameters;
    const at::Tensor global = global_.narrow(0, 0, parameters);
    // A block is measured from where it started, not from the model that its end gave.
    const at::Tensor change = mean_.narrow(0, 0, parameters) - start();
    update_.mul_(momentum_).add_(change, rate_);
    global.add_(update_);
    // Momentum would drive running statistics beyond all that was seen, so they take the mean.
    global_.narrow(0, parameters, buffers).copy_(mean_.narrow(0, parameters, buffers));
    mean_.copy_(global_);
    if (nesterov_) mean_.narrow(0, 0, parameters).copy_(start());
    replica_.model.write(mean_);
    apply(local_, optimizers, replica_.group, share);
    return distance;
  }

  // The parameters with which all replicas began the present block.
  at::Tensor start() const {
    const at::Tensor global = global_.narrow(0, 0, replica_.model.parameters());
    return nesterov_ ? global.add(update_, momentum_) : global;
  }

  const double momentum_, rate_;
  const bool nesterov_;
  const Momentum local_;
  const at::Tensor global_;  // the model to evaluate, of the last block's end
  const at::Tensor update_;  // filtered, of the parameters alone
};

}  // namespace

Strategy block_momentum() {
  return {
      .name = "block_momentum",
      .summary = "the mean of all replicas, which moves with a momentum from block to block",
      .reference = "Chen and Huo, ICASSP 2016",
      .settings = {period_setting(8, "steps of a block"),
                   {.name = "momentum",
                    .standard = kAutomatic,
                    .least = 0,
                    .most = 0.9999,
                    .meaning = "momentum of the blocks; auto: 1 - 1 / ranks",
                    .may_be_auto = true},
                   {.name = "rate",
                    .standard = 1,
                    .least = 0,
                    .most = 100,
                    .meaning = "learning rate of the blocks"},
                   {.name = "nesterov",
                    .standard = 1,
                    .meaning = "the next block starts where the momentum leads (NBM)",
                    .whole = true},
                   momentum_setting("local", Momentum::reset)},
      .make =
          [](const Settings& settings, const StrategyContext& context) {
            return local_steps("block_momentum", context, [&](LocalReplica& replica) {
              return std::make_unique<BlockMomentum>(replica, settings);
            });
          },
      .traffic = [](const Settings& settings, const TrafficModel& model) -> std::vector<Traffic> {
        return {{.elements = model.elements, .every = settings["period"]}};
      }};
}

}  // namespace paceline::strategy::catalogue
