#include "paceline/core/plan/partitioner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <compare>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

namespace paceline::plan {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// Sums in another order differ by less than this share.
constexpr double kRounding = 1e-12;
constexpr std::size_t kMostLevels = 3;
constexpr int kMostUnits = 1024;

// The layers first .. last on `units` units of a level; level -1 is within one rank.
struct Part {
  int level, first, last, units;
  auto operator<=>(const Part&) const = default;
};

// How a part is made: of the layers up to `cut` and a replicated rest, or replicated as a whole.
struct Way {
  int stages = 0;  // 0: not within the bound
  double bytes = 0;
  int cut = -1, right = 0;  // -1: there is no cut

  bool is_possible() const { return stages > 0; }
  bool is_better_than(const Way& other) const {
    return is_possible() &&
           (!other.is_possible() || std::tie(stages, bytes) < std::tie(other.stages, other.bytes));
  }
};

// The least seconds come first, by the recurrence; then the fewest stages within these seconds. A
// single pass would take a stage more where it makes something faster that is not the slowest.
class Recurrence {
 public:
  Recurrence(LayerCosts layers, const Machine& machine, const PartitionOptions& options)
      : layers_(layers), machine_(machine), options_(options) {
    seconds_.push_back(0);
    weights_.push_back(0);
    for (const LayerCost& layer : layers) {
      seconds_.push_back(seconds_.back() + layer.seconds());
      weights_.push_back(weights_.back() + layer.weight_bytes);
    }
  }

  PartitionChoice solve() {
    const Part whole{static_cast<int>(machine_.size()) - 1, 0, static_cast<int>(layers_.size()) - 1,
                     machine_.back().units};
    PartitionChoice choice{.partition = {}, .seconds = best(whole)};
    append(whole, choice.seconds * (1 + kRounding), 1, choice.partition.stages);
    return choice;
  }

 private:
  double total(const std::vector<double>& sums, const Part& part) const {
    return sums[static_cast<std::size_t>(part.last) + 1] -
           sums[static_cast<std::size_t>(part.first)];
  }
  double rate(const Part& part) const {
    return machine_[static_cast<std::size_t>(part.level)].bytes_per_second;
  }
  double output(int layer) const { return layers_[static_cast<std::size_t>(layer)].output_bytes; }

  // The seconds to sum the gradients of a replicated stage, those that the units share included.
  double summing(const Part& part) const {
    const double share = options_.model == PartitionModel::paper ? 2 : 4.0 / part.units;
    return share * (part.units - 1) * total(weights_, part) / rate(part);
  }
  double transfer(const Part& part, int cut) const {
    return options_.model == PartitionModel::paper ? 2 * output(cut) / rate(part) : 0;
  }
  // The part that stands on each unit of a replicated one.
  Part inside(const Part& part) const {
    const int level = part.level - 1;
    return {level, part.first, part.last,
            level < 0 ? 1 : machine_[static_cast<std::size_t>(level)].units};
  }
  bool may_replicate(int units) const { return units == 1 || !options_.is_straight; }

  double replicated(const Part& part) {
    if (!may_replicate(part.units)) return kNever;
    const double within = best(inside(part)), sum = summing(part);
    return (options_.model == PartitionModel::paper ? std::max(within, sum) : within + sum) /
           part.units;
  }

  // Calls `made` with each cut: its left part, the part at its right, and its layer.
  template <typename Made>
  void for_each_cut(const Part& part, const Made& made) const {
    const int most = options_.is_straight ? std::min(part.units - 1, 1) : part.units - 1;
    for (int cut = part.first; cut < part.last; ++cut)
      for (int right = 1; right <= most; ++right)
        made(Part{part.level, part.first, cut, part.units - right},
             Part{part.level, cut + 1, part.last, right}, cut);
  }

  double best(const Part& part) {
    if (part.level < 0) return total(seconds_, part);
    if (const auto known = best_.find(part); known != best_.end()) return known->second;
    double least = replicated(part);
    for_each_cut(part, [&](const Part& left, const Part& right, int cut) {
      const double sent = transfer(part, cut);
      if (sent >= least) return;
      const double last = replicated(right);
      if (last < least) least = std::min(least, std::max({best(left), sent, last}));
    });
    return best_[part] = least;
  }

  // The bound within which each unit of a replicated part must stay; below 0: there is none.
  double bound_inside(const Part& part, double bound) const {
    const double all = bound * part.units, sum = summing(part);
    if (options_.model == PartitionModel::code) return all - sum;
    return sum <= all ? all : -1;
  }

  Way replicated_within(const Part& part, double bound) {
    if (!may_replicate(part.units)) return {};
    const double each = bound_inside(part, bound);
    const Part unit = inside(part);
    if (unit.level < 0) return total(seconds_, unit) <= each ? Way{.stages = 1} : Way{};
    const Way way = fewest(unit, each);
    return way.is_possible() ? Way{.stages = way.stages, .bytes = way.bytes} : Way{};
  }

  // The way with the fewest stages, and of these the fewest bytes, that takes at most `bound`.
  Way fewest(const Part& part, double bound) {
    if (best(part) > bound) return {};
    const auto key = std::pair(part, bound);
    if (const auto known = fewest_.find(key); known != fewest_.end()) return known->second;
    Way found = replicated_within(part, bound);
    for_each_cut(part, [&](const Part& left, const Part& right, int cut) {
      if (transfer(part, cut) > bound) return;
      const Way after = replicated_within(right, bound);
      if (!after.is_possible()) return;
      const Way before = fewest(left, bound);
      if (!before.is_possible()) return;
      const Way way{.stages = before.stages + after.stages,
                    .bytes = before.bytes + after.bytes + output(cut),
                    .cut = cut,
                    .right = right.units};
      if (way.is_better_than(found)) found = way;
    });
    return fewest_[key] = found;
  }

  void append_replicated(const Part& part, double bound, int copies, std::vector<Stage>& stages) {
    const Part unit = inside(part);
    if (unit.level < 0) stages.push_back({part.first, part.last, copies * part.units});
    else append(unit, bound_inside(part, bound), copies * part.units, stages);
  }

  void append(const Part& part, double bound, int copies, std::vector<Stage>& stages) {
    const Way way = fewest(part, bound);
    if (way.cut < 0) return append_replicated(part, bound, copies, stages);
    append({part.level, part.first, way.cut, part.units - way.right}, bound, copies, stages);
    append_replicated({part.level, way.cut + 1, part.last, way.right}, bound, copies, stages);
  }

  const LayerCosts layers_;
  const Machine& machine_;
  const PartitionOptions options_;
  std::vector<double> seconds_, weights_;  // of all layers before this one
  std::map<Part, double> best_;
  std::map<std::pair<Part, double>, Way> fewest_;
};

bool is_amount(double value) {
  return std::isfinite(value) && value >= 0;
}

// Says how the input is out of range; empty: it is not.
std::string fault_of(LayerCosts layers, const Machine& machine, const PartitionOptions& options) {
  if (layers.empty()) return "there are no layers: give a model with 1 or more";
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerCost& layer = layers[i];
    if (!is_amount(layer.forward) || !is_amount(layer.backward) || !is_amount(layer.output_bytes) ||
        !is_amount(layer.weight_bytes))
      return fmt::format(
          "layer {} takes {} and {} s, and has {} bytes of output and {} of weights: give numbers "
          "from 0",
          i, layer.forward, layer.backward, layer.output_bytes, layer.weight_bytes);
  }
  if (machine.empty() || machine.size() > kMostLevels)
    return fmt::format("a machine of {} levels: give 1 to {}", machine.size(), kMostLevels);
  double ranks = 1;
  for (const Level& level : machine) {
    if (level.units < 1 || level.units > kMostUnits)
      return fmt::format("a level of {} units: give 1 to {}", level.units, kMostUnits);
    if (!(level.bytes_per_second > 0))
      return fmt::format("links of {} bytes a second: give more than 0", level.bytes_per_second);
    ranks *= level.units;
  }
  if (options.is_straight && ranks > static_cast<double>(layers.size()))
    return fmt::format(
        "{} stages for {} layers: give at most {} ranks, or divide the model into more layers",
        ranks, layers.size(), layers.size());
  return {};
}

}  // namespace

Result<PartitionChoice> best_partition(LayerCosts layers, const Machine& machine,
                                       const PartitionOptions& options) {
  if (std::string fault = fault_of(layers, machine, options); !fault.empty())
    return Failure{Fault::misuse, "partition: " + fault, {}};
  return Recurrence(layers, machine, options).solve();
}

Result<PartitionChoice> balanced_cut(LayerCosts layers, int stages, double bytes_per_second) {
  return best_partition(layers, {{.units = stages, .bytes_per_second = bytes_per_second}},
                        {.is_straight = true});
}

}  // namespace paceline::plan
