// The content of an archive of torch::save() of a training.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "paceline/core/compress/compress.h"

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

// The bytes of compress/state/saved_state.h in an archive.
inline std::vector<std::byte> compression_in(const std::string& archive) {
  std::istringstream in(archive);
  torch::serialize::InputArchive read;
  read.load_from(in);
  at::Tensor bytes;
  read.read("compression", bytes, true);
  const auto* data = static_cast<const std::byte*>(bytes.const_data_ptr());
  return {data, data + bytes.numel()};
}

// For each parameter, the residuals of top_k for its elements. Empty: nothing was compressed.
inline std::vector<std::vector<float>> residuals_in(const std::string& archive) {
  const auto bytes = compression_in(archive);
  if (bytes.empty()) return {};
  const auto state = compress::saved_state_of(bytes).value();
  std::vector<std::vector<float>> all;
  for (const std::size_t elements : state.elements) all.emplace_back(elements);
  for (const auto& one : state.values) {
    EXPECT_EQ(one.name, "residual");
    std::memcpy(all[one.tensor].data() + one.begin, one.values.data(), one.values.size());
  }
  return all;
}

}  // namespace paceline
