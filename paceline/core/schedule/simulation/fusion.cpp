#include "paceline/core/schedule/simulation/fusion.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace paceline::schedule {
namespace {

// The times at which a prefix of the send order leaves each resource free, and the path to them.
struct State {
  double decoder = 0, link = 0, encoder = 0;
  int begin = 0, way = 0;    // the last group
  std::size_t previous = 0;  // index among the states of the prefix before that group

  // States are sorted by decoder, so an earlier state that is no worse here dominates.
  bool is_no_worse(const State& other) const {
    return link <= other.link && encoder <= other.encoder;
  }
  bool operator<(const State& other) const {
    return std::tie(decoder, link, encoder) < std::tie(other.decoder, other.link, other.encoder);
  }
};

struct Step {
  // The times of the group's last gradient: absolute, and after the group before.
  double ready = 0, since_last = 0;
  double encode = 0, transfer = 0, decode = 0;
};

State after(const State& state, const Step& step, bool encodes_on_compute) {
  State next;
  double sendable = step.ready;
  if (encodes_on_compute) {
    sendable = next.encoder = state.encoder + step.since_last + step.encode;
  } else if (step.encode > 0) {
    sendable = next.encoder = std::max(state.encoder, step.ready) + step.encode;
  } else {
    next.encoder = state.encoder;
  }
  next.link = std::max(state.link, sendable) + step.transfer;
  next.decoder = std::max(state.decoder, next.link) + step.decode;
  return next;
}

std::vector<State> front_of(std::vector<State> candidates, std::size_t most) {
  std::ranges::sort(candidates, [](const State& a, const State& b) { return a < b; });
  std::vector<State> front;
  for (const State& candidate : candidates) {
    if (most > 0 && front.size() == most) break;
    const auto dominates = [&](const State& kept) { return kept.is_no_worse(candidate); };
    if (std::ranges::none_of(front, dominates)) front.push_back(candidate);
  }
  return front;
}

CodedFusion traced(const std::vector<std::vector<State>>& fronts) {
  std::size_t at = fronts.size() - 1, best = 0;
  CodedFusion fusion{.end = fronts[at][best].decoder, .groups = {}};
  while (at > 0) {
    const State& state = fronts[at][best];
    fusion.groups.push_back({state.begin, static_cast<int>(at), state.way});
    best = state.previous;
    at = static_cast<std::size_t>(state.begin);
  }
  std::ranges::reverse(fusion.groups);
  return fusion;
}

}  // namespace

Fusion exact_fusion(std::span<const double> ready, std::span<const double> bytes,
                    const TransferTime& transfer) {
  const std::size_t count = bytes.size();
  std::vector<double> sum(count + 1, 0), end(count + 1, std::numeric_limits<double>::infinity());
  std::vector<std::size_t> begin_of_last(count + 1, 0);
  end[0] = 0;
  for (std::size_t j = 1; j <= count; ++j) {
    sum[j] = sum[j - 1] + bytes[j - 1];
    for (std::size_t i = 0; i < j; ++i) {
      const double ends = std::max(end[i], ready[j - 1]) + transfer(sum[j] - sum[i]);
      if (ends >= end[j]) continue;
      end[j] = ends;
      begin_of_last[j] = i;
    }
  }
  Fusion fusion{.end = end[count], .cuts = {static_cast<int>(count)}};
  for (std::size_t at = count; at > 0; at = begin_of_last[at])
    fusion.cuts.push_back(static_cast<int>(begin_of_last[at]));
  std::ranges::reverse(fusion.cuts);
  return fusion;
}

Fusion released_fusion(std::span<const double> ready, std::span<const double> bytes,
                       const topology::Line& transfer, double floor) {
  Fusion fusion{.end = 0, .cuts = {0}};
  double open = 0;
  for (std::size_t j = 0; j < bytes.size(); ++j) {
    open += bytes[j];
    const double start = std::max(fusion.end, ready[j]);
    const bool is_last = j + 1 == bytes.size();
    if (!is_last && (ready[j + 1] < start + transfer.alpha || open < floor)) continue;
    fusion.end = start + transfer(open);
    fusion.cuts.push_back(static_cast<int>(j + 1));
    open = 0;
  }
  return fusion;
}

CodedFusion coded_fusion(std::span<const double> ready, std::span<const double> bytes,
                         std::span<const CodedTransfer> ways, const CodedFusionOptions& options) {
  std::vector<std::vector<State>> fronts = {{State{}}};
  for (std::size_t j = 1; j <= bytes.size(); ++j) {
    std::vector<State> candidates;
    double total = 0;
    for (std::size_t i = j; i-- > 0;) {
      total += bytes[i];
      for (std::size_t way = 0; way < ways.size(); ++way) {
        const Step step{ready[j - 1], ready[j - 1] - (i > 0 ? ready[i - 1] : 0),
                        ways[way].encode(total), ways[way].transfer(total),
                        ways[way].decode(total)};
        for (std::size_t k = 0; k < fronts[i].size(); ++k) {
          State next = after(fronts[i][k], step, options.encodes_on_compute);
          next.begin = static_cast<int>(i);
          next.way = static_cast<int>(way);
          next.previous = k;
          candidates.push_back(next);
        }
      }
    }
    fronts.push_back(front_of(std::move(candidates), options.states));
  }
  return traced(fronts);
}

}  // namespace paceline::schedule
