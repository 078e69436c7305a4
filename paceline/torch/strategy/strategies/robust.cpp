// Robust aggregation: whole gradients of all ranks, of which some may be anything, and one rule
// (rules/) that makes one gradient of them on every rank.
// Blanchard et al., NeurIPS 2017; Yin et al., ICML 2018; Pillutla et al., 2019; Karimireddy et al.,
// ICML 2021.
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "paceline/core/base/base.h"
#include "paceline/core/base/stopwatch.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/replica/agreement.h"
#include "paceline/torch/strategy/local/flat_model.h"
#include "paceline/torch/strategy/local/local_gradients.h"
#include "paceline/torch/strategy/rules/robust_rule.h"

namespace paceline::strategy::catalogue {
namespace {

const rules::RobustRule& robust_rule_of(const Settings& settings) {
  return rules::robust_rules()[settings.as<std::size_t>("rule")];
}

// Rows are the gradients of ranks that have a batch. Each counts once, whatever its weight, which
// is only what the rank says of itself. Gradients travel from each rank right to each other one, so
// that nobody forwards, and could change, another's.
class RobustAveraging final : public LocalGradients {
 public:
  RobustAveraging(const Settings& settings, const StrategyContext& context)
      : LocalGradients("robust", "sends whole gradients, each rank's in one message", context),
        group_(context.group),
        rule_(robust_rule_of(settings)),
        faulty_(settings.as<int>("faulty")),
        gradient_(context.parts, false, context.group),
        facts_(context.group, context.parts.training),
        received_(gradient_.make_vector(gradient_.elements() * context.group.size())),
        rule_settings_{.radius = settings["radius"], .rounds = settings.as<int>("rounds")} {
    require_dense_numbers(context.parts);
    if (rule_.keeps_state)
      rule_settings_.start = at::zeros({gradient_.elements()}, received_.options());
    exchange_.period = 1;
  }

  void arrived(std::size_t i, bool held_elsewhere) override {
    const replica::Parameter& parameter = parameters()[i];
    if (parameter.tensor.grad().layout() != at::kStrided) refuse_sparse(parameter.name);
    LocalGradients::arrived(i, held_elsewhere);
  }

  void steps_by(const replica::Optimizers& optimizers) override {
    facts_.compare(replica::fingerprint_of_rates(optimizers));
  }

  replica::StepOutcome end_step(replica::PerParameterOptimizers* updates) override {
    const at::NoGradGuard no_grad;
    replica::StepOutcome outcome;
    if (updates != nullptr) steps_by(updates->optimizers());
    const std::string touched = complaint_of_change();
    begin();
    communicating([&] { outcome = agree(); });
    if (outcome.end != replica::StepEnd::over)
      outcome.complaint = touched.empty() ? complaint_of_silence() : touched;
    if (outcome.end == replica::StepEnd::gradients && outcome.complaint.empty() &&
        updates != nullptr) {
      updates->update_all();
      outcome.end = replica::StepEnd::parameters;
    }
    facts_.end();
    end(exchange_);
    return outcome;
  }

  void stepped(const replica::Optimizers&, double) override {}
  bool may_differ() const override { return false; }
  void write_consensus() override {}

  replica::SynchronyState state() override {
    require_between_steps("state");
    return {.own = packed(kept())};
  }
  void restore(const replica::SavedSynchrony& saved) override {
    require_between_steps("restore");
    unpack_own(saved, kept());
  }

 private:
  [[noreturn]] static void refuse_sparse(const std::string& parameter) {
    throw_misuse(c10::str("synchrony \"robust\" compares whole gradients, and that of parameter '",
                          parameter,
                          "' is sparse: make it dense (torch::nn::Embedding with sparse(false)), "
                          "or take synchrony \"synchronous\""));
  }

  void require_dense_numbers(const replica::ModelParts& parts) const {
    if (!parts.sparse.empty()) refuse_sparse(parts.sparse.front().name);
    if (gradient_.type() == at::kFloat || gradient_.type() == at::kDouble) return;
    throw_misuse(c10::str("synchrony \"robust\" measures distances of f32 or f64 gradients, and '",
                          parameters().front().name, "' is ", describe(parameters().front().tensor),
                          ": convert the model by model.to(torch::kFloat) before DataParallel is "
                          "made, or take synchrony \"synchronous\""));
  }

  // Collective: the gradients of all ranks, and the rule's in every grad.
  replica::StepOutcome agree() {
    const StopwatchScope waits(current().waited_seconds);
    facts_.tell_weight(weight());
    const gradient::StepWeights& weights = facts_.weights();
    current().total_weight = weights.total;
    current().shadows = weights.shadows;
    if (weights.total == 0) return {.end = replica::StepEnd::over};
    replica::StepOutcome outcome{.root = weights.root, .share = weights.share(group_.rank())};
    std::vector<bool> used = made();
    if (!has_batch()) used.assign(used.size(), false);
    used = facts_.used_by_any(used);
    outcome.rates_differ = facts_.has_difference();
    current().used = static_cast<int>(std::ranges::count(used, true));

    const rules::GradientRows rows(gather(weights, used), faulty_);
    if (rows.count() == 0) {
      for (const replica::Parameter& parameter : parameters())
        at::Tensor(parameter.tensor).mutable_grad().reset();
      current().overflowed = true;
      outcome.end = replica::StepEnd::skipped;
      return outcome;
    }
    const at::Tensor result = rule_.apply(rows, rule_settings_);
    if (rule_.keeps_state) rule_settings_.start = result;
    exchange_.distance = distance(rows, result);
    hand_out(result, used);
    return outcome;
  }

  // The rows of ranks that have a batch, in the order of the ranks.
  at::Tensor gather(const gradient::StepWeights& weights, const std::vector<bool>& used) {
    const std::int64_t elements = gradient_.elements();
    std::vector<std::size_t> counts;
    std::int64_t rows = 0, own = 0;
    for (std::size_t rank = 0; rank < weights.of_ranks.size(); ++rank) {
      if (static_cast<int>(rank) == group_.rank()) own = rows;
      const bool takes_part = weights.of_ranks[rank] > 0;
      counts.push_back(takes_part ? static_cast<std::size_t>(elements) : 0);
      rows += takes_part ? 1 : 0;
    }
    const at::Tensor all = received_.narrow(0, 0, rows * elements);
    const at::Tensor mine = all.narrow(0, own * elements, has_batch() ? elements : 0);
    if (has_batch()) read_gradient(mine, used);
    if (group_.size() > 1) {
      group_.all_gather(buffer_of(mine), buffer_of(all), {.counts = counts, .algorithm = "direct"})
          .wait();
    }
    ++exchange_.exchanges;
    exchange_.bytes += static_cast<double>(mine.nbytes());
    return all.view({rows, elements});
  }

  // A parameter counts for zeros where it has no gradient here, or where no rank used it.
  void read_gradient(const at::Tensor& into, const std::vector<bool>& used) {
    gradient_.read_gradients(into);
    for (std::size_t i = 0; i < used.size(); ++i)
      if (!used[i]) gradient_.part_of(into, gradient_.pieces()[i]).zero_();
  }

  void hand_out(const at::Tensor& result, const std::vector<bool>& used) {
    for (std::size_t i = 0; i < used.size(); ++i) {
      if (!used[i]) continue;
      at::Tensor tensor = parameters()[i].tensor;
      at::Tensor& grad = tensor.mutable_grad();
      const bool fits =
          grad.defined() && grad.layout() == at::kStrided && grad.sizes() == tensor.sizes();
      if (!fits) grad = at::empty_like(tensor.detach());
      grad.copy_(gradient_.part_of(result, gradient_.pieces()[i]));
    }
  }

  // The root of the rows' mean squared distance from the result.
  static double distance(const rules::GradientRows& rows, const at::Tensor& result) {
    const std::vector<double> squares =
        rows.square_distances([&](const rules::RowBlock& block, std::span<double> into) {
          rules::read_columns(result, block.begin, into);
        });
    return std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0) /
                     static_cast<double>(squares.size()));
  }

  std::vector<at::Tensor> kept() const {
    return rule_.keeps_state ? std::vector{rule_settings_.start} : std::vector<at::Tensor>();
  }

  Communicator& group_;
  const rules::RobustRule& rule_;
  const int faulty_;
  const FlatModel gradient_;  // the places of the parameters in a row
  gradient::StepAgreement facts_;
  const at::Tensor received_;  // a row for each rank
  rules::RuleSettings rule_settings_;
  replica::ExchangeReport exchange_;
};

std::vector<std::string_view> robust_rule_names() {
  std::vector<std::string_view> names;
  for (const rules::RobustRule& rule : rules::robust_rules()) names.push_back(rule.name);
  return names;
}

}  // namespace

Strategy robust() {
  return {.name = "robust",
          .summary = "one gradient of those of all ranks, by a rule that bears faulty ones",
          .reference = "Blanchard et al., NeurIPS 2017; Karimireddy et al., ICML 2021",
          .settings = {{.name = "rule",
                        .meaning = "how one gradient is made of those of all ranks",
                        .whole = true,
                        .words = robust_rule_names()},
                       {.name = "faulty",
                        .standard = 1,
                        .least = 0,
                        .most = 1e6,
                        .meaning = "ranks whose gradients may be anything",
                        .whole = true},
                       {.name = "radius",
                        .standard = 1,
                        .least = 1e-12,
                        .most = 1e12,
                        .meaning = "clipping: distance from the centre beyond which a gradient "
                                   "is shortened"},
                       {.name = "rounds",
                        .standard = 3,
                        .least = 1,
                        .most = 1000,
                        .meaning = "clipping: moves of the centre in a step",
                        .whole = true}},
          .make = [](const Settings& settings,
                     const StrategyContext& context) -> replica::MadeSynchrony {
            return {std::make_unique<RobustAveraging>(settings, context)};
          },
          .traffic = [](const Settings&, const TrafficModel& model) -> std::vector<Traffic> {
            return {{.operation = Operation::all_gather, .elements = model.elements}};
          },
          .check =
              [](const Settings& settings, int ranks) {
                return rules::check(robust_rule_of(settings), ranks, settings.as<int>("faulty"));
              }};
}

}  // namespace paceline::strategy::catalogue
