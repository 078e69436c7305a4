// A rank's share of a data set for libtorch's own loader:
//
//   paceline::data::DistributedSampler sampler(*set.size(), {.rank = rank, .world_size = ranks});
//   auto loader = torch::data::make_data_loader(std::move(set), sampler, options);
//   for (std::int64_t epoch = sampler.epoch(); epoch < epochs; ++epoch) {
//     sampler.set_epoch(epoch);
//     for (auto& batch : *loader) ...
//   }
//
// Its place in the data is an item of checkpoints: checkpoints.add("data", sampler), after which
// the loop above goes on in the middle of an epoch, also on another number of ranks.
#pragma once

#include <torch/data/samplers/base.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "paceline/torch/data/sampler.h"

namespace paceline::data {

// Gives the samples of share_of() in their order. A loader takes a copy of the sampler. Copies are
// one sampler to set_epoch(), place() and go_on(), so that a program's own copy reaches that of
// the loader: give each loader a sampler of its own. THREAD: one.
class DistributedSampler final : public torch::data::samplers::Sampler<> {
 public:
  // ShareOptions::consumed counts in the first epoch that is walked; those after it are whole.
  // THROWS Error (misuse): no samples, or a rank that does not exist.
  DistributedSampler(std::size_t samples, const ShareOptions& options);

  // Holds from the loader's next begin() on. Without it every epoch has the same order. THROWS
  // Error (misuse): an epoch before that of the place from which this goes on.
  void set_epoch(std::int64_t epoch);
  std::int64_t epoch() const;

  // Samples that this rank has in the epoch whose share was cut last. With drop_last it may be 0.
  std::size_t size() const { return order_.size(); }

  // A loader with workers asks for so many batches before it gives the first one:
  // loader->options().max_jobs. place() has to know, for those are not trained yet.
  void taken_ahead(std::size_t batches);
  std::optional<std::size_t> told_ahead() const;

  // The training is in `epoch`, whose shares were cut when all ranks together had consumed
  // `consumed` samples of it, and of its share this rank has been given `taken`.
  struct Place {
    std::int64_t epoch = 0, consumed = 0, taken = 0;
    bool operator==(const Place&) const = default;
  };
  Place place() const;
  // The next begin() of a loader goes on there, and later ones are whole epochs. So does next().
  void go_on(const Place& place);
  std::size_t samples() const { return samples_; }
  const ShareOptions& options() const { return options_; }
  // The batches that were asked for since the last begin(); nothing: the epoch has ended, or none
  // was begun.
  std::optional<std::size_t> batches_asked() const;

  void reset(std::optional<std::size_t> new_size = std::nullopt) override;
  std::optional<std::vector<std::size_t>> next(std::size_t batch_size) override;
  // The place; the samples and options are those that the sampler is made with.
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  struct Walk;

  std::size_t samples_;
  ShareOptions options_;
  std::shared_ptr<Walk> walk_;
  std::vector<std::size_t> order_;
  std::size_t place_ = 0;
};

}  // namespace paceline::data
