// Random model split with a skeleton network: each rank trains the core of the model and a random
// share of the rest, so that less of it travels.
// Sun et al., Slim-DP: A Multi-Agent System for Communication-Efficient Distributed Deep Learning,
// AAAI 2018, for the choice of the core and its explorers.
#include <torch/torch.h>

#include <cmath>

#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/replica/optimizer_mean.h"
#include "paceline/torch/strategy/local/local_steps.h"
#include "paceline/torch/strategy/local/period_setting.h"
#include "paceline/torch/strategy/local/periodic.h"
#include "paceline/torch/strategy/local/skeleton_split.h"

namespace paceline::strategy::catalogue {
namespace {

// In the first round each rank trains all links, so that the first core is chosen by a gradient of
// all ranks.
class Skeleton final : public Periodic {
 public:
  Skeleton(LocalReplica& replica, const Settings& settings)
      : Periodic(replica, settings.as<int>("period")),
        links_(replica.model.parameters()),
        core_count_(std::llround(settings["core"] * static_cast<double>(links_))),
        held_count_(std::llround(settings["share"] * static_cast<double>(links_))),
        refresh_(settings.as<int>("refresh")),
        keeps_(settings.on("mode")),
        global_(replica.model.make_vector()),
        gradient_(replica.model.make_vector(links_)),
        is_core_(at::ones({links_}, at::kByte)) {
    replica.model.read(global_);
    begin_round();
  }

  // A link that this rank does not hold, and that is as the round left it, was not written: what
  // the others have counts.
  void written() override {
    Periodic::written();
    restarts_round_ = false;
    const at::Tensor model = at::empty_like(global_);
    replica_.model.read(model);
    const at::Tensor links = parameters_of(model);
    counts_ = keeps_ ? at::ones_like(links)
                     : is_held_.logical_or(links.ne(frozen_)).to(links.scalar_type());
    links.copy_(at::where(counts_ > 0, links, parameters_of(global_)));
    global_.copy_(model);
    if (keeps_) frozen_ = links.clone();
  }

  void begin_step() override {
    if (!restarts_round_) return;
    restarts_round_ = false;
    replica_.model.write(start_of_round());
  }

  void before_update() override {
    if (is_last_of_period() && chooses_core()) replica_.model.read_gradients(gradient_);
  }

  void after_update(const replica::Optimizers& optimizers) override {
    // Optimizers move links without a gradient too, by momentum and weight decay.
    if (!holds_all_) replica_.model.set_where_not(is_held_, frozen_);
    Periodic::after_update(optimizers);
  }

  void write_consensus() override {
    follow_writes();
    replica_.model.write(replica_.ledger.is_empty() ? global_ : merged());
    replica_.take_counts();
  }

  MethodState state() override {
    follow_writes();
    MethodState state = Periodic::state();
    state.values["round"] = round_;
    state.tensors = {global_, is_core_};
    return state;
  }
  // Another number of ranks begins the round again.
  void restore(const JsonReader::Json& values, bool is_same_world) override {
    Periodic::restore(values, is_same_world);
    round_ = values.at("round").get<std::int64_t>();
    begin_round();
    restarts_round_ = !is_same_world;
  }

 private:
  bool chooses_core() const { return round_ % refresh_ == 0; }

  // Collective: what the program wrote is part of the merged model, also where no rank trains it.
  void follow_writes() {
    if (!take_writes()) return;
    const at::Tensor counts = replica_.model.make_vector(links_);
    if (counts_.defined()) counts.copy_(std::exchange(counts_, {}));
    else counts.fill_(1);
    at::Tensor links = parameters_of(global_);
    const at::Tensor before = links.clone();
    links.mul_(counts);
    replica_.average_plainly(global_);
    replica_.average_plainly(counts);
    links.copy_(at::where(counts > 0, links / counts, before));
  }

  double exchange(const replica::Optimizers& optimizers) override {
    follow_writes();
    const at::Tensor all = merged();
    const double distance = replica_.distance(replica_.model.square_distance(all));
    global_.copy_(all);
    brought_ = core_.numel() + replica_.model.elements() - links_ + explored_.numel();
    if (chooses_core()) {
      replica_.average(gradient_);
      is_core_.zero_().index_fill_(
          0, skeleton_core(parameters_of(global_), gradient_, always_core(), core_count_), 1);
      brought_ += links_;
    }
    ++round_;
    const at::Tensor was_held = is_held_.clone();
    begin_round();
    reset_states(optimizers, was_held.logical_and_(is_held_.logical_not()));
    replica_.model.write(start_of_round());
    return distance;
  }
  std::int64_t elements_brought() const override { return brought_; }

  void begin_round() {
    core_ = is_core_.nonzero().flatten();
    explored_ = explored_by(replica_.group.rank());
    is_held_ = is_core_.to(at::kBool);
    is_held_.index_fill_(0, explored_, true);
    holds_all_ = core_.numel() + explored_.numel() == links_;
    frozen_ = keeps_ ? parameters_of(global_).clone() : at::zeros({links_}, global_.options());
  }

  at::Tensor explored_by(int rank) const {
    return explored_links(core_, links_, round_, rank,
                          std::max<std::int64_t>(0, held_count_ - core_.numel()));
  }

  at::Tensor start_of_round() const {
    at::Tensor start = global_.clone();
    at::Tensor parameters = parameters_of(start);
    parameters.copy_(at::where(is_held_, parameters, frozen_));
    return start;
  }

  // Core and buffers are the mean of all ranks, an explored link that of the ranks that hold it;
  // the others are as they were.
  at::Tensor merged() {
    const at::Tensor own = at::empty_like(global_);
    replica_.model.read(own);
    const std::int64_t buffers = replica_.model.elements() - links_;
    const at::Tensor common = mean_.narrow(0, 0, core_.numel() + buffers);
    common.copy_(at::cat({own.index_select(0, core_), own.narrow(0, links_, buffers)}));
    replica_.average(common);
    at::Tensor all = global_.clone();
    all.index_copy_(0, core_, common.narrow(0, 0, core_.numel()));
    all.narrow(0, links_, buffers).copy_(common.narrow(0, core_.numel(), buffers));
    if (explored_.numel() > 0) merge_explored(own, all);
    return all;
  }

  void merge_explored(const at::Tensor& own, at::Tensor& all) {
    const std::int64_t count = explored_.numel();
    const int ranks = replica_.group.size();
    const at::Tensor values = at::empty({ranks, count}, own.options());
    values[replica_.group.rank()].copy_(own.index_select(0, explored_));
    const Buffer rows = buffer_of(values);
    const auto row_bytes = replica_.bytes_of(count);
    replica_.group
        .all_gather({rows.data + row_bytes * static_cast<std::size_t>(replica_.group.rank()),
                     static_cast<std::size_t>(count), rows.dtype},
                    rows)
        .wait();
    at::Tensor sums = at::zeros({links_}, at::kDouble), weights = at::zeros({links_}, at::kDouble);
    for (int rank = 0; rank < ranks; ++rank) {
      const double samples = replica_.ledger.samples()[static_cast<std::size_t>(rank)];
      if (samples == 0) continue;
      const at::Tensor links = explored_by(rank);
      sums.index_add_(0, links, values[rank].to(at::kDouble), samples);
      weights.index_add_(0, links, at::full({count}, samples, at::kDouble));
    }
    at::Tensor parameters = parameters_of(all);
    parameters.copy_(at::where(weights > 0, (sums / weights).to(own.scalar_type()), parameters));
  }

  // A link that this rank no longer trains has no momentum when it comes back.
  void reset_states(const replica::Optimizers& optimizers, const at::Tensor& has_left) {
    if (!has_left.any().item<bool>()) return;
    replica::require_known_optimizers(optimizers, "synchrony \"skeleton\"");
    for (const replica::ParameterSlots& one : replica::slots_of(optimizers, false)) {
      const FlatModel::Piece* const piece = replica_.model.piece_of(one.parameter);
      if (piece == nullptr) continue;
      const at::Tensor left = replica_.model.part_of(has_left, *piece);
      for (const optimizers::OptimizerSlot& slot : one.slots.tensors)
        if (slot.tensor->defined()) slot.tensor->masked_fill_(left, 0);
    }
  }

  // Vectors among the parameters: biases and norms, without which nothing works.
  at::Tensor always_core() const {
    at::Tensor is_always = at::zeros({links_}, at::kBool);
    for (std::size_t i = 0; i < replica_.model.trained(); ++i) {
      const FlatModel::Piece& piece = replica_.model.pieces()[i];
      if (piece.tensor.dim() < 2)
        is_always.narrow(0, piece.offset, piece.tensor.numel()).fill_(true);
    }
    return is_always.nonzero().flatten();
  }

  at::Tensor parameters_of(const at::Tensor& vector) const { return vector.narrow(0, 0, links_); }

  const std::int64_t links_, core_count_, held_count_;
  const int refresh_;
  const bool keeps_;         // links that this rank does not hold stay as they are; else they are 0
  const at::Tensor global_;  // the merged model
  const at::Tensor gradient_;   // of this rank's last step of a round that chooses a core
  const at::Tensor is_core_;    // bytes
  at::Tensor core_, explored_;  // indices, ascending
  at::Tensor is_held_, frozen_;
  at::Tensor counts_;  // 1 for each link that the program wrote; undefined: it wrote nothing
  bool holds_all_ = true, restarts_round_ = false;
  std::int64_t round_ = 0, brought_ = 0;
};

}  // namespace

Strategy skeleton() {
  return {
      .name = "skeleton",
      .summary = "each rank trains the core of the model and a random share of the rest",
      .reference = "Sun et al., AAAI 2018",
      .settings = {{.name = "core",
                    .standard = 0.3,
                    .least = 0,
                    .most = 1,
                    .meaning = "share of the parameters that all ranks train"},
                   {.name = "share",
                    .standard = 0.5,
                    .least = 0,
                    .most = 1,
                    .meaning = "share of the parameters that each rank trains, the core included"},
                   period_setting(8, "steps of a round"),
                   {.name = "refresh",
                    .standard = 20,
                    .least = 1,
                    .most = 1e9,
                    .meaning = "rounds after which the core is chosen again",
                    .whole = true},
                   {.name = "mode",
                    .meaning = "parameters that a rank does not train are zero there (drop), or as "
                               "they were (keep)",
                    .whole = true,
                    .words = {"drop", "keep"}}},
      .make =
          [](const Settings& settings, const StrategyContext& context) {
            return local_steps("skeleton", context, [&](LocalReplica& replica) {
              return std::make_unique<Skeleton>(replica, settings);
            });
          },
      .traffic = [](const Settings& settings, const TrafficModel& model) -> std::vector<Traffic> {
        const double period = settings["period"], core = settings["core"];
        return {{.elements = core * model.elements, .every = period},
                {.operation = Operation::all_gather,
                 .elements = (settings["share"] - core) * model.elements,
                 .every = period},
                {.elements = model.elements, .every = period * settings["refresh"]}};
      },
      .check = [](const Settings& settings, int) -> Result<> {
        if (settings["share"] >= settings["core"]) return Done{};
        return Failure{
            Fault::misuse,
            c10::str("share of skeleton is ", settings["share"], " and core ", settings["core"],
                     ": each rank trains the core, so share is at least core"),
            {}};
      }};
}

}  // namespace paceline::strategy::catalogue
