#include "paceline/core/pipeline/versions/stage_versions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "paceline/core/base/seed.h"
#include "paceline/core/pipeline/order/turns.h"
#include "tests/support/seed.h"

namespace paceline::pipeline {
namespace {

using ::testing::HasSubstr;

VersionRule ruled(std::string_view schedule, const std::vector<int>& replicas, int micro_batches) {
  int ranks = 0;
  for (const int count : replicas) ranks += count;
  const int stages = static_cast<int>(replicas.size());
  const Placement placement{ranks, stages, ranks > stages ? replicas : std::vector<int>{}};
  return version_rule(parse_schedule(schedule).value(), placement, micro_batches).value();
}

// A chain of stages y = tanh(w x), each with one weight, which descends the loss (y - target)^2
// / 2.
struct ChainData {
  std::vector<double> weights, inputs, targets;
};
ChainData chain_data(std::size_t stages, std::size_t count, std::uint64_t seed) {
  SeededNumbers numbers(test::seed(seed));
  ChainData data;
  for (std::size_t i = 0; i < stages; ++i) data.weights.push_back(.5 + numbers.unit());
  for (std::size_t i = 0; i < count; ++i) {
    data.inputs.push_back(2 * numbers.unit() - 1);
    data.targets.push_back(2 * numbers.unit() - 1);
  }
  return data;
}
constexpr double kRate = 0.3;

// One process after the formula alone: micro-batch after micro-batch, each stage on the version
// that the rule names; the gradients that lead to one version are added up.
std::vector<double> recurrence(const VersionRule& rule, const ChainData& data) {
  const std::size_t stages = data.weights.size();
  std::vector<std::vector<double>> history;
  std::vector<double> sums(stages, 0);
  for (const double weight : data.weights) history.push_back({weight});
  for (std::size_t j = 0; j < data.inputs.size(); ++j) {
    const int micro_batch = static_cast<int>(j);
    std::vector<double> used, xs = {data.inputs[j]};
    for (std::size_t s = 0; s < stages; ++s) {
      const int version = rule.version_of(static_cast<int>(s), micro_batch);
      used.push_back(history[s].at(static_cast<std::size_t>(version)));
      xs.push_back(std::tanh(used[s] * xs[s]));
    }
    double delta = (xs.back() - data.targets[j]) / rule.micro_batches;
    for (std::size_t s = stages; s-- > 0;) {
      const double inner = delta * (1 - xs[s + 1] * xs[s + 1]);
      sums[s] += inner * xs[s];
      delta = inner * used[s];
      const int stage = static_cast<int>(s);
      if (rule.made_by(stage, micro_batch) == rule.made_by(stage, micro_batch + 1)) continue;
      history[s].push_back(history[s].back() - kRate * sums[s]);
      sums[s] = 0;
    }
  }
  std::vector<double> last;
  for (const auto& versions : history) last.push_back(versions.back());
  return last;
}

// The pipeline: ranks that keep the versions which their StageVersions tell.
class Pipelined {
 public:
  Pipelined(const VersionRule& rule, const ChainData& data, bool stashes = true)
      : rule_(rule), data_(data), stashes_(stashes) {
    for (std::size_t s = 0; s < data.weights.size(); ++s) {
      for (int replica = 0; replica < rule.replicas[s]; ++replica) {
        ranks_.push_back({.stage = s, .versions = {rule, static_cast<int>(s), replica}});
        ranks_.back().weights[0] = data.weights[s];
      }
      most_kept.push_back(0);
      delays.emplace_back();
    }
  }

  std::vector<double> run() {
    const Order order = order_of_turns(rule_.replicas, static_cast<int>(data_.inputs.size()));
    std::vector<std::size_t> reached(ranks_.size(), 0);
    std::set<Operation> ran;
    for (bool has_moved = true; has_moved;) {
      has_moved = false;
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        if (reached[rank] == order.ranks[rank].size()) continue;
        const Operation& next = order.ranks[rank][reached[rank]];
        if (!can_run(ranks_[rank], next, ran)) continue;
        const auto j = static_cast<std::size_t>(next.micro_batch);
        if (next.kind == Kind::forward) forward(ranks_[rank], j);
        else backward(ranks_[rank], j);
        ran.insert(next);
        ++reached[rank];
        has_moved = true;
      }
    }
    EXPECT_EQ(ran.size(), 2 * data_.weights.size() * data_.inputs.size()) << "a deadlock";
    std::vector<double> last(data_.weights.size());
    for (Rank& rank : ranks_) last[rank.stage] = rank.weights.at(rank.versions.newest());
    return last;
  }

  std::vector<int> most_kept;            // by stage
  std::vector<std::vector<int>> delays;  // by stage, then micro-batch

 private:
  struct Rank {
    std::size_t stage;
    StageVersions versions;
    std::map<int, double> weights = {};
    std::map<std::size_t, double> inputs = {}, outputs = {};
    std::map<int, double> sums = {};  // by the version that they make: not yet stepped
  };

  // A forward may also wait for the other replicas, until their round is over.
  bool can_run(const Rank& rank, const Operation& next, const std::set<Operation>& ran) const {
    if (next.kind == Kind::forward && !rank.versions.can_forward(next.micro_batch)) return false;
    const auto inputs = inputs_of(next, static_cast<int>(data_.weights.size()));
    return std::ranges::all_of(inputs, [&](const Operation& i) { return ran.contains(i); });
  }

  void forward(Rank& rank, std::size_t j) {
    const int micro_batch = static_cast<int>(j);
    const int version = rank.versions.forward(micro_batch);
    const double x = rank.stage == 0 ? data_.inputs[j] : activations_.at({rank.stage - 1, j});
    rank.inputs[j] = x;
    rank.outputs[j] = activations_[{rank.stage, j}] = std::tanh(rank.weights.at(version) * x);
  }

  void backward(Rank& rank, std::size_t j) {
    const int micro_batch = static_cast<int>(j), newest = rank.versions.newest();
    const auto change = rank.versions.backward(micro_batch);
    delays[rank.stage].push_back(newest - change.version);
    const double y = rank.outputs.at(j);
    const bool is_last = rank.stage + 1 == data_.weights.size();
    const double delta =
        is_last ? (y - data_.targets[j]) / rule_.micro_batches : deltas_.at({rank.stage + 1, j});
    const double inner = delta * (1 - y * y);
    deltas_[{rank.stage, j}] = inner * rank.weights.at(stashes_ ? change.version : newest);
    free_of(rank, change.freed);
    rounds_[{rank.stage, rule_.made_by(static_cast<int>(rank.stage), micro_batch)}].push_back(
        inner * rank.inputs.at(j));
    if (rank.versions.ends_step(micro_batch)) step_all(rank.stage);
  }

  // A stage's ranks step together, once all gradients of the round are there.
  void step_all(std::size_t stage) {
    for (Rank& rank : ranks_) {
      if (rank.stage != stage) continue;
      const auto size = static_cast<std::size_t>(
          rule_.sync == VersionSync::double_buffered ? rule_.micro_batches : rule_.replicas[stage]);
      while (true) {
        const int next = rank.versions.newest() + 1;
        const auto round = rounds_.find({stage, next});
        if (round == rounds_.end() || round->second.size() < size) break;
        double sum = 0;
        for (const double gradient : round->second) sum += gradient;
        rank.weights[next] = rank.weights.at(next - 1) - kRate * sum;
        free_of(rank, rank.versions.step().freed);
        most_kept[stage] = std::max(most_kept[stage], static_cast<int>(rank.weights.size()));
      }
    }
  }
  static void free_of(Rank& rank, const std::vector<int>& freed) {
    for (const int version : freed) EXPECT_EQ(rank.weights.erase(version), 1u);
    std::vector<int> kept;
    for (const auto& [version, weight] : rank.weights) kept.push_back(version);
    EXPECT_EQ(kept, rank.versions.kept());
  }

  const VersionRule& rule_;
  const ChainData& data_;
  const bool stashes_;
  std::vector<Rank> ranks_;
  std::map<std::pair<std::size_t, std::size_t>, double> activations_, deltas_;
  std::map<std::pair<std::size_t, int>, std::vector<double>> rounds_;  // by stage and version made
};

double largest_gap(const std::vector<double>& a, const std::vector<double>& b) {
  double gap = 0;
  for (std::size_t i = 0; i < a.size(); ++i) gap = std::max(gap, std::abs(a[i] - b[i]));
  return gap;
}

TEST(StageVersions, APipelineThatStashesEqualsItsRecurrence) {
  for (const char* schedule : {"pipedream", "pipedream:sync=vertical"}) {
    for (int stages = 2; stages <= 4; ++stages) {
      const std::vector<int> replicas(static_cast<std::size_t>(stages), 1);
      const VersionRule rule = ruled(schedule, replicas, 1);
      const ChainData data = chain_data(replicas.size(), 30, 4110);
      Pipelined pipelined(rule, data);
      EXPECT_LT(largest_gap(pipelined.run(), recurrence(rule, data)), 1e-12);
      for (int s = 0; s < stages; ++s) {
        const bool is_stash = rule.sync == VersionSync::stash;
        const int steady = is_stash ? stages - 1 - s : stages - 1;
        const auto at = static_cast<std::size_t>(s);
        EXPECT_EQ(pipelined.most_kept[at], is_stash ? stages - s : stages);
        EXPECT_EQ(pipelined.most_kept[at], rule.most_kept(s));
        for (int j = 0; j < 30; ++j)
          EXPECT_EQ(pipelined.delays[at][static_cast<std::size_t>(j)], std::min(j, steady));
      }
    }
  }
}

TEST(StageVersions, WithoutStashingTheResultIsAnother) {
  const VersionRule rule = ruled("pipedream", {1, 1, 1, 1}, 1);
  const ChainData data = chain_data(4, 30, 4111);
  EXPECT_GT(largest_gap(Pipelined(rule, data, false).run(), recurrence(rule, data)), 1e-3);
}

TEST(StageVersions, TwoBuffersAreEnoughForBatchesOfStagesLessOneMicroBatches) {
  for (int stages = 2; stages <= 4; ++stages) {
    for (const int m : {stages - 1, stages, 2 * stages}) {
      const std::vector<int> replicas(static_cast<std::size_t>(stages), 1);
      const VersionRule rule = ruled("pipedream_2bw", replicas, m);
      const ChainData data = chain_data(replicas.size(), static_cast<std::size_t>(10 * m), 4112);
      Pipelined pipelined(rule, data);
      EXPECT_LT(largest_gap(pipelined.run(), recurrence(rule, data)), 1e-12);
      for (const int kept : pipelined.most_kept) EXPECT_LE(kept, 2) << stages << " stages, m " << m;
    }
  }
}

TEST(StageVersions, ReplicatedStagesEqualTheirRecurrence) {
  const std::vector<std::vector<int>> shapes = {{2, 1}, {2, 1, 1}, {4, 2, 1}, {1, 2}, {3, 1}};
  for (const auto& replicas : shapes) {
    const VersionRule rule = ruled("pipedream", replicas, 1);
    const ChainData data = chain_data(replicas.size(), 36, 4113);
    Pipelined pipelined(rule, data);
    EXPECT_LT(largest_gap(pipelined.run(), recurrence(rule, data)), 1e-12)
        << ::testing::PrintToString(replicas);
    for (std::size_t s = 0; s < replicas.size(); ++s)
      EXPECT_LE(pipelined.most_kept[s], rule.most_kept(static_cast<int>(s)));
  }
}

TEST(StageVersions, AVersionThatIsFreedByItsStepMayBeOverwritten) {
  StageVersions last(ruled("pipedream", {1, 1}, 1), 1);
  last.forward(0);
  EXPECT_EQ(last.backward(0).freed, std::vector<int>{});
  EXPECT_EQ(last.step().freed, (std::vector<int>{0}));
  EXPECT_EQ(last.kept(), (std::vector<int>{1}));
}

TEST(StageVersions, WhatComesOutOfOrderIsRefused) {
  StageVersions versions(ruled("pipedream", {1, 1}, 1), 0);
  versions.forward(0);
  const auto refusal = [&](const auto& call) {
    try {
      call();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal([&] { versions.forward(2); }), HasSubstr("where 1 is the next one"));
  EXPECT_THAT(refusal([&] { versions.backward(1); }), HasSubstr("not in flight"));
  versions.forward(1);
  EXPECT_FALSE(versions.can_forward(2));
  EXPECT_THAT(refusal([&] { versions.forward(2); }), HasSubstr("uses version 1"));
}

}  // namespace
}  // namespace paceline::pipeline
