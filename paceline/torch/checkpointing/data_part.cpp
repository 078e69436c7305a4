// The place of a sampler in its data as an item: each rank's own, and what another number of ranks
// makes of them.
#include <torch/torch.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "paceline/core/base/base.h"
#include "paceline/core/base/log.h"
#include "paceline/torch/checkpointing/checkpoint_part.h"
#include "paceline/torch/data/data.h"

namespace paceline::checkpointing {
namespace {

using Json = JsonReader::Json;
using Place = data::DistributedSampler::Place;

constexpr const char *kPlace = "place", *kRanks = "ranks";

// The place of one of the ranks that share the data.
struct RankPlace {
  Place place;
  std::int64_t rank = 0;
};

at::Tensor tensor_of(const RankPlace& one) {
  return at::tensor({one.place.epoch, one.place.consumed, one.place.taken, one.rank}, at::kLong);
}

class DataPart final : public CheckpointPart {
 public:
  explicit DataPart(data::DistributedSampler& sampler) : sampler_(sampler) {}

  ItemState state() override {
    const data::ShareOptions& options = sampler_.options();
    Json values = order();
    values[kRanks] = options.world_size;
    return {.values = std::move(values),
            .tensors = {{kPlace, tensor_of({sampler_.place(), options.rank}), Held::by_each}}};
  }

  // A loader that asks for several batches before it gives the first one is ahead of the steps by
  // as many. A program in which the batches of the first two steps tell so has to say it.
  void step_ended() override {
    if (sampler_.told_ahead() || is_checked_) return;
    const auto asked = sampler_.batches_asked();
    if (!asked || !before_ || *asked <= *before_) {
      before_ = asked;
      return;
    }
    is_checked_ = true;
    const std::size_t in_step = *asked - *before_;
    if (*before_ <= in_step) return;
    throw_misuse(c10::str(
        "the loader of the data in checkpoints had asked for ", *before_,
        " batches when its first step ended, and the next step took ", in_step,
        ": it has workers, which take batches ahead, and a resume would leave those out. Call "
        "sampler.taken_ahead(loader->options().max_jobs) before the first step; or "
        "sampler.taken_ahead(0) if the loader has no workers and steps take different numbers of "
        "batches"));
  }

  void check(const SavedItem& saved) override {
    const Json here = order();
    for (const auto& [key, own] : here.items()) {
      const auto found = saved.values().find(key);
      if (found == saved.values().end() || *found != own) {
        refuse_item(saved, c10::str("its data have ", key, " = ",
                                    found == saved.values().end() ? "nothing" : found->dump(),
                                    ", and those of this program ", key, " = ", own.dump(),
                                    ", so that a place in one is none in the other"));
      }
    }
    saved.require(kPlace, Held::by_each, tensor_of({}));
    saved.require_no_other({kPlace});
    (void)place_in(saved, /*is_told=*/false);
  }

  void load(const SavedItem& saved) override { sampler_.go_on(place_in(saved, true)); }

 private:
  // All that decides on the order of the samples.
  Json order() const {
    const data::ShareOptions& options = sampler_.options();
    return {{"samples", sampler_.samples()},
            {"shuffle", options.shuffle},
            {"seed", options.seed},
            {"contiguous", options.contiguous}};
  }

  static RankPlace read(const SavedItem& saved, int rank) {
    const at::Tensor tensor = tensor_of({});
    const checkpoint::LogicalTensor* const found = saved.find_of(kPlace, rank);
    if (found == nullptr || found->dtype != Dtype::i64 || found->shape != checkpoint::Extents{4} ||
        !saved.values().contains(kRanks) || !saved.values().at(kRanks).is_number_unsigned() ||
        saved.values().at(kRanks) == 0)
      refuse_item(saved, c10::str("it has no place of rank ", rank, " in the data"));
    saved.read_into(*found, tensor);
    const auto* const values = tensor.const_data_ptr<std::int64_t>();
    return {{values[0], values[1], values[2]}, values[3]};
  }

  // This rank's. The ranks that share the data may be fewer than those that saved, which share
  // layers too.
  Place place_in(const SavedItem& saved, bool is_told) const {
    const data::ShareOptions& options = sampler_.options();
    std::vector<RankPlace> all;
    for (int rank = 0; rank < saved.ranks(); ++rank) all.push_back(read(saved, rank));
    const auto ranks = saved.values().at(kRanks).get<std::int64_t>();
    const auto own = std::ranges::find(all, options.rank, &RankPlace::rank);
    if (ranks == options.world_size && own != all.end()) return own->place;
    std::vector<Place> places;
    for (const RankPlace& one : all) places.push_back(shared_anew(saved, one.place, ranks));
    const auto [first, last] = std::ranges::minmax_element(
        places, {}, [](const Place& place) { return std::tuple(place.epoch, place.consumed); });
    if (is_told && *first != *last) tell_of_repeated(saved, *first, *last);
    return *first;
  }

  void tell_of_repeated(const SavedItem& saved, const Place& first, const Place& last) const {
    if (sampler_.options().rank != 0) return;
    warn(c10::str("ranks were at different places in the data when ", saved.place(),
                  " was saved, from sample ", first.consumed, " of epoch ", first.epoch,
                  " to sample ", last.consumed, " of epoch ", last.epoch,
                  ": another number of ranks goes on at the first, so that some samples come twice "
                  "and none is left out"));
  }

  // The same place of `ranks` ranks, from which others share the rest of the epoch.
  Place shared_anew(const SavedItem& saved, const Place& place, std::int64_t ranks) const {
    const data::ShareOptions& options = sampler_.options();
    const auto samples = static_cast<std::int64_t>(sampler_.samples());
    const std::int64_t left = std::max<std::int64_t>(0, samples - place.consumed);
    const std::int64_t of_each = options.drop_last ? left / ranks : (left + ranks - 1) / ranks;
    const bool is_over = place.taken >= of_each;
    if (!options.contiguous)
      return {place.epoch, is_over ? samples : place.consumed + ranks * place.taken, 0};
    if (place.taken == 0 || is_over) return {place.epoch, 0, is_over ? samples : 0};
    refuse_item(saved, c10::str("it was saved in the middle of an epoch by ", ranks,
                                " ranks that had blocks of the data (ShareOptions::contiguous), "
                                "which ",
                                options.world_size, " ranks cut elsewhere"));
  }

  data::DistributedSampler& sampler_;
  std::optional<std::size_t> before_;
  bool is_checked_ = false;
};

}  // namespace

PartPtr data_part(data::DistributedSampler& sampler) {
  return std::make_unique<DataPart>(sampler);
}

}  // namespace paceline::checkpointing
