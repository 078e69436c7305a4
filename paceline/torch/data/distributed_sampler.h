// A rank's share of a data set for libtorch's own loader:
//
//   paceline::data::DistributedSampler sampler(*set.size(), {.rank = rank, .world_size = ranks});
//   auto loader = torch::data::make_data_loader(std::move(set), sampler, options);
//   for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
//     sampler.set_epoch(epoch);
//     for (auto& batch : *loader) ...
//   }
#pragma once

#include <torch/data/samplers/base.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "paceline/torch/data/sampler.h"

namespace paceline::data {

// Gives the samples of share_of() in their order. A loader takes a copy of the sampler: the copies
// share the epoch, so that set_epoch() reaches the one in the loader, and nothing else.
class DistributedSampler final : public torch::data::samplers::Sampler<> {
 public:
  // THROWS Error (misuse): no samples, or a rank that does not exist.
  DistributedSampler(std::size_t samples, const ShareOptions& options);

  // Holds from the loader's next begin() on. Without it every epoch has the same order.
  void set_epoch(std::int64_t epoch);
  std::int64_t epoch() const;

  // Samples of this rank in an epoch. With drop_last it may be 0.
  std::size_t size() const { return order_.size(); }

  void reset(std::optional<std::size_t> new_size = std::nullopt) override;
  std::optional<std::vector<std::size_t>> next(std::size_t batch_size) override;
  // The epoch and the place in it; the samples and options are those that the sampler is made with.
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  std::size_t samples_;
  ShareOptions options_;
  std::shared_ptr<std::int64_t> epoch_;
  std::vector<std::size_t> order_;
  std::size_t place_ = 0;
};

}  // namespace paceline::data
