// Layers made of seeded numbers, and all ways to cut and to replicate them with the seconds of
// each, to compare the exact planners with.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "paceline/core/base/seed.h"
#include "paceline/core/plan/partitioner.h"

namespace paceline::plan {

inline std::vector<LayerCost> random_layers(SeededNumbers& numbers, int count) {
  std::vector<LayerCost> layers;
  for (int i = 0; i < count; ++i) {
    const double seconds = 1 + 9 * numbers.unit();
    layers.push_back({.forward = seconds / 3,
                      .backward = seconds * 2 / 3,
                      .output_bytes = 5 * numbers.unit(),
                      .weight_bytes = 40 * numbers.unit()});
  }
  return layers;
}

struct Candidate {
  double seconds;
  std::vector<Stage> stages;
};

// Every cut and every replication of the layers first .. last on all units of the level.
inline std::vector<Candidate> all_candidates(LayerCosts layers, const Machine& machine,
                                             PartitionModel model, int level, int first, int last) {
  double seconds = 0;
  for (int i = first; i <= last; ++i) seconds += layers[static_cast<std::size_t>(i)].seconds();
  if (level < 0) return {{seconds, {{first, last, 1}}}};
  const Level& here = machine[static_cast<std::size_t>(level)];
  const bool is_paper = model == PartitionModel::paper;
  // The stages from `from` on, on exactly `left` units.
  const auto rest = [&](const auto& self, int from, int left) -> std::vector<Candidate> {
    std::vector<Candidate> all;
    for (int to = from; to <= last; ++to) {
      double bytes = 0;
      for (int i = from; i <= to; ++i) bytes += layers[static_cast<std::size_t>(i)].weight_bytes;
      const double output = to < last ? layers[static_cast<std::size_t>(to)].output_bytes : 0;
      const double sent = is_paper ? 2 * output / here.bytes_per_second : 0;
      for (int copies = to == last ? std::max(left, 1) : 1; copies <= left; ++copies) {
        const double sum =
            (is_paper ? 2.0 : 4.0 / copies) * (copies - 1) * bytes / here.bytes_per_second;
        const std::vector<Candidate> next =
            to == last ? std::vector<Candidate>{{0, {}}} : self(self, to + 1, left - copies);
        for (const Candidate& inner : all_candidates(layers, machine, model, level - 1, from, to)) {
          const double own =
              (is_paper ? std::max(inner.seconds, sum) : inner.seconds + sum) / copies;
          for (const Candidate& after : next) {
            Candidate made{std::max({own, sent, after.seconds}), inner.stages};
            for (Stage& stage : made.stages) stage.replicas *= copies;
            made.stages.insert(made.stages.end(), after.stages.begin(), after.stages.end());
            all.push_back(std::move(made));
          }
        }
      }
    }
    return all;
  };
  return rest(rest, first, here.units);
}

inline std::vector<Candidate> all_candidates(LayerCosts layers, const Machine& machine,
                                             PartitionModel model = PartitionModel::paper) {
  return all_candidates(layers, machine, model, static_cast<int>(machine.size()) - 1, 0,
                        static_cast<int>(layers.size()) - 1);
}

}  // namespace paceline::plan
