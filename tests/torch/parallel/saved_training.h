// The state of a training that goes from step to step, for tests that go on with it.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "paceline/core/compress/compress.h"
#include "paceline/torch/parallel/parallel.h"
#include "paceline/torch/replica/replica.h"

namespace paceline {

template <typename Value>
std::string saved(const Value& value) {
  std::ostringstream out;
  torch::save(value, out);
  return out.str();
}

template <typename Value>
void load(Value& value, const std::string& bytes) {
  std::istringstream in(bytes);
  torch::load(value, in);
}

// For each parameter, the residuals of top_k for its elements. Empty: nothing was compressed.
inline std::vector<std::vector<float>> residuals_in(Bytes compression) {
  if (compression.empty()) return {};
  const auto state = compress::saved_state_of(compression).value();
  std::vector<std::vector<float>> all;
  for (const std::size_t elements : state.elements) all.emplace_back(elements);
  for (const auto& one : state.values) {
    EXPECT_EQ(one.name, "residual");
    std::memcpy(all[one.tensor].data() + one.begin, one.values.data(), one.values.size());
  }
  return all;
}

// The state that one rank keeps beside its model. Waits for updates under way.
inline replica::SynchronyState state_of(DataParallel& data_parallel) {
  data_parallel.finish();
  return data_parallel.replicas().synchrony().state();
}

// Pretends that the ranks of a world have saved these.
inline replica::SavedSynchrony saved_by(const std::vector<replica::SynchronyState>& ranks) {
  return {.values = ranks.front().values,
          .ranks = static_cast<int>(ranks.size()),
          .own = [&ranks](int rank) { return ranks.at(static_cast<std::size_t>(rank)).own; }};
}

}  // namespace paceline
