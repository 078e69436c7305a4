#include "paceline/core/schedule/policies/starting_plans.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "paceline/core/schedule/policies/policies.h"
#include "paceline/core/schedule/policies/survey_methods.h"
#include "paceline/core/schedule/simulation/fusion.h"

namespace paceline::schedule {
namespace {

constexpr double kLeastPart = 262144;
constexpr std::size_t kStates = 16;  // states of a prefix, in coded_fusion()
constexpr double kMostGrains = 64;   // pieces into which the model is cut for it
constexpr double kLeastRatio = .05;  // stronger compression does not make parts larger

std::size_t whole_bytes(double bytes) {
  return static_cast<std::size_t>(std::llround(bytes));
}

class Starts {
 public:
  Starts(const Model& model, const Costs& costs, Path path)
      : model_(model), costs_(costs), path_(path) {
    const LinkCosts& links = costs.links;
    const double start = path == Path::server ? links.server->push.alpha : links.all_reduce.alpha;
    // The start-up is 6, 1.6 and 0.4 % of the time of such a part.
    for (const double times : {16, 64, 256})
      parts_.push_back(std::max(kLeastPart, times * start / links.all_reduce.beta));
  }

  std::vector<MessagePlan> all() {
    const Cuts fused =
        cuts_of(merged(model_, costs_.links, {.rule = FusionRule::exact, .path = path_}));
    for (const CodecCost& codec : costs_.codecs) {
      plans_.push_back(plan_of("fused", fused, {.path = path_, .codec = codec.name}));
      for (const double part : parts_) add_parts(fused, codec, part);
    }
    if (costs_.codecs.size() > 1) add_mixtures();
    return std::move(plans_);
  }

 private:
  void add_parts(const Cuts& fused, const CodecCost& codec, double wire_part) {
    const double part = wire_part / std::max(codec.ratio, kLeastRatio);
    for (const Cuts& cuts : {fused, buckets_of(model_, part / 4), single_tensors(model_.size())}) {
      Uniform all{.path = path_, .part_bytes = whole_bytes(part), .codec = codec.name};
      plans_.push_back(plan_of("parts", cuts, all));
      all.by_forward_order = all.crosses_barrier = true;
      all.window_bytes = whole_bytes(2 * wire_part);
      plans_.push_back(plan_of("priority", cuts, all));
    }
  }

  // Adds the best mixture of codecs with a barrier, and the same groups across it.
  void add_mixtures() {
    const Cuts grains =
        buckets_of(model_, std::max(1048576.0, static_cast<double>(model_.bytes()) / kMostGrains));
    MessagePlan mixture{.name = "mixture"};
    for (const CodedGroup& group : mixed(grains).groups) {
      mixture.groups.push_back({.begin = grains[static_cast<std::size_t>(group.begin)],
                                .end = grains[static_cast<std::size_t>(group.end)],
                                .codec = costs_.codecs[static_cast<std::size_t>(group.way)].name,
                                .path = path_});
    }
    plans_.push_back(mixture);
    for (MessageGroup& group : mixture.groups) {
      group.part_bytes = whole_bytes(parts_[1]);
      group.priority = model_.size() - group.end;
    }
    mixture.name = "mixture by priority";
    mixture.crosses_barrier = true;
    mixture.window_bytes = whole_bytes(2 * parts_[1]);
    plans_.push_back(mixture);
  }

  CodedFusion mixed(const Cuts& grains) const {
    const auto all_ready = ready_times(model_);
    std::vector<double> ready, bytes;
    for (std::size_t i = 0; i + 1 < grains.size(); ++i) {
      ready.push_back(all_ready[static_cast<std::size_t>(grains[i + 1] - 1)]);
      bytes.push_back(bytes_of(model_, {.begin = grains[i], .end = grains[i + 1]}));
    }
    std::vector<CodedTransfer> ways;
    for (const CodecCost& codec : costs_.codecs) {
      ways.push_back({[&codec](double n) { return codec.encode * n; },
                      [this, &codec](double n) {
                        return occupancy(costs_.links, path_, n * codec.ratio, codec).up;
                      },
                      [&codec](double n) { return codec.decode * n; }});
    }
    return coded_fusion(ready, bytes, ways, {.states = kStates});
  }

  const Model& model_;
  const Costs& costs_;
  Path path_;
  std::vector<double> parts_;  // bytes on the wire
  std::vector<MessagePlan> plans_;
};

}  // namespace

std::vector<MessagePlan> starting_plans(const Model& model, const Costs& costs,
                                        std::optional<Path> only) {
  std::vector<MessagePlan> plans = survey_methods(model, costs.links);
  for (const Path path : {Path::all_to_all, Path::server}) {
    if (path == Path::server && !costs.links.server) continue;
    std::ranges::move(Starts(model, costs, path).all(), std::back_inserter(plans));
  }
  if (only)
    std::erase_if(plans, [&](const MessagePlan& p) { return p.groups.front().path != *only; });
  return plans;
}

}  // namespace paceline::schedule
