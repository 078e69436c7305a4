// The fastest plan that a search in the simulator finds: it fuses, splits, orders and encodes.
// docs/schedules/general.md
#include <algorithm>
#include <array>
#include <limits>

#include "paceline/core/base/check.h"
#include "paceline/core/base/seed.h"
#include "paceline/core/schedule/policies/policies.h"
#include "paceline/core/schedule/policies/policy_catalogue.h"
#include "paceline/core/schedule/policies/starting_plans.h"
#include "paceline/core/schedule/simulation/bounds.h"
#include "paceline/core/schedule/simulation/simulate.h"

namespace paceline::schedule {
namespace {

constexpr int kMostMessages = 4000;  // more would cost the simulator more than they gain
// A simulation of a plan of at most this many messages counts as one, of a larger plan as more.
constexpr int kMessagesOfASimulation = 1000;
constexpr double kGain = 1e-6;            // a smaller relative gain is no improvement
constexpr double kAtTheBound = 1 + 1e-4;  // so near the bound a further search does not pay
constexpr std::size_t kLeastWindow = 65536;

int messages_of(const Model& model, const MessagePlan& plan) {
  int messages = 0;
  for (const MessageGroup& group : plan.groups) messages += parts_of(model, group);
  return messages;
}

// Changes plans at random, one thing at a time.
class Mutation {
 public:
  Mutation(const Model& model, const Costs& costs, const GeneralSettings& settings)
      : model_(model), costs_(costs), settings_(settings), numbers_(settings.seed) {}

  // Returns false if the random move changes nothing.
  bool apply(MessagePlan& plan) {
    const std::size_t at = numbers_.below(plan.groups.size());
    switch (numbers_.below(8)) {
      case 0: return merge(plan, at);
      case 1: return split(plan, at);
      case 2: return shift(plan, at);
      case 3: return recode(plan.groups[at]);
      case 4: return reroute(plan.groups[at]);
      case 5: return reorder(plan.groups[at]);
      case 6: return resize_parts(plan, at);
      default: return resize_window(plan);
    }
  }

 private:
  template <typename T, std::size_t N>
  T any_of(const std::array<T, N>& choices) {
    return choices[numbers_.below(N)];
  }

  // The priority follows the group's end.
  void end_at(MessageGroup& group, int end) const {
    group.end = end;
    if (group.priority) group.priority = model_.size() - end;
  }

  bool merge(MessagePlan& plan, std::size_t at) {
    if (at + 1 >= plan.groups.size()) return false;
    end_at(plan.groups[at], plan.groups[at + 1].end);
    plan.groups.erase(plan.groups.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    return true;
  }

  bool split(MessagePlan& plan, std::size_t at) {
    MessageGroup second = plan.groups[at];
    if (second.end - second.begin < 2) return false;
    const int middle = between(second.begin + 1, second.end);
    second.begin = middle;
    end_at(plan.groups[at], middle);
    plan.groups.insert(plan.groups.begin() + static_cast<std::ptrdiff_t>(at) + 1, second);
    return true;
  }

  bool shift(MessagePlan& plan, std::size_t at) {
    if (at + 1 >= plan.groups.size()) return false;
    const int middle = between(plan.groups[at].begin + 1, plan.groups[at + 1].end);
    end_at(plan.groups[at], middle);
    plan.groups[at + 1].begin = middle;
    return true;
  }

  int between(int begin, int end) {
    return begin + static_cast<int>(numbers_.below(static_cast<std::uint64_t>(end - begin)));
  }

  bool recode(MessageGroup& group) {
    if (costs_.codecs.size() < 2) return false;
    group.codec = costs_.codecs[numbers_.below(costs_.codecs.size())].name;
    return true;
  }

  bool reroute(MessageGroup& group) const {
    if (settings_.only || !costs_.links.server) return false;
    group.path = group.path == Path::all_to_all ? Path::server : Path::all_to_all;
    return true;
  }

  bool reorder(MessageGroup& group) {
    if (!group.priority) return false;
    group.priority = std::max(0, *group.priority + any_of(std::array{-20, -3, 3, 20}));
    return true;
  }

  bool resize_parts(MessagePlan& plan, std::size_t at) {
    const double factor = any_of(std::array{.5, 2.0, 4.0});
    const bool only_one = numbers_.below(2) == 0;
    for (std::size_t i = 0; i < plan.groups.size(); ++i) {
      std::size_t& bytes = plan.groups[i].part_bytes;
      if (!only_one || i == at) bytes = resized(bytes, factor);
    }
    return true;
  }

  bool resize_window(MessagePlan& plan) {
    plan.window_bytes =
        std::max(kLeastWindow, resized(plan.window_bytes, any_of(std::array{.5, 2.0})));
    return true;
  }

  std::size_t resized(std::size_t bytes, double factor) const {
    const auto from = static_cast<double>(bytes > 0 ? bytes : model_.bytes());
    return std::max<std::size_t>(1, static_cast<std::size_t>(from * factor));
  }

  const Model& model_;
  const Costs& costs_;
  const GeneralSettings& settings_;
  SeededNumbers numbers_;
};

GeneralPlan best_start(const Model& model, const Costs& costs, const GeneralSettings& settings) {
  GeneralPlan best{.plan = {}, .seconds = std::numeric_limits<double>::infinity(), .start = {}};
  for (MessagePlan& plan : starting_plans(model, costs, settings.only)) {
    plan.crosses_barrier &= settings.crosses_barrier;
    cut_encoded(plan);
    const double seconds =
        iteration_seconds_within(best.seconds, model, costs, plan, settings.conditions);
    ++best.simulations;
    if (seconds >= best.seconds) continue;
    best.seconds = seconds;
    best.plan = std::move(plan);
  }
  best.start = best.plan.name;
  best.start_seconds = best.seconds;
  best.plan.name = "general";
  return best;
}

double least_seconds(const Model& model, const Costs& costs, bool crosses_barrier) {
  double ratio = 1;
  for (const CodecCost& codec : costs.codecs) {
    ratio = std::min(ratio, codec.ratio);
    for (const CodecCost& offer : codec.offers) ratio = std::min(ratio, offer.ratio);
  }
  const Bounds bounds = bounds_of(model, costs.links, ratio);
  return crosses_barrier ? bounds.crossing : bounds.with_barrier;
}

}  // namespace

GeneralPlan general(const Model& model, const Costs& costs, const GeneralSettings& settings) {
  PACELINE_CHECK(model.size() > 0, "a model without tensors needs no schedule");
  GeneralPlan best = best_start(model, costs, settings);
  const double enough = least_seconds(model, costs, settings.crosses_barrier) * kAtTheBound;
  const int most_messages = std::max(kMostMessages, messages_of(model, best.plan));
  Mutation mutation(model, costs, settings);
  double left = settings.most_simulations;
  while (left > 0 && best.seconds > enough) {
    MessagePlan changed = best.plan;
    const bool is_change = mutation.apply(changed);
    cut_encoded(changed);
    const int messages = messages_of(model, changed);
    left -= std::max(1.0, static_cast<double>(messages) / kMessagesOfASimulation);
    if (!is_change || messages > most_messages) continue;
    const double seconds =
        iteration_seconds_within(best.seconds, model, costs, changed, settings.conditions);
    ++best.simulations;
    if (seconds >= best.seconds * (1 - kGain)) continue;
    best.seconds = seconds;
    best.plan = std::move(changed);
  }
  return best;
}

namespace catalogue {

Policy general() {
  return {.name = "general",
          .summary = "the fastest plan that a search in the simulator finds",
          .is_measured = true,
          .chooses_codecs = true,
          .make = [](const Model& model, const Costs& costs, bool crosses_barrier) {
            return schedule::general(model, costs, {.crosses_barrier = crosses_barrier}).plan;
          }};
}

}  // namespace catalogue
}  // namespace paceline::schedule
