#include "paceline/torch/data/distributed_sampler.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <sstream>

#include "paceline/core/base/result.h"

namespace paceline::data {
namespace {

// Sample i is the number i.
class MixedPrecision : public torch::data::datasets::Dataset<MixedPrecision> {
 public:
  explicit MixedPrecision(std::int64_t count) : count_(count) {}
  torch::data::Example<> get(std::size_t index) override {
    return {torch::full({1}, static_cast<std::int64_t>(index)), torch::zeros({1})};
  }
  std::optional<std::size_t> size() const override { return static_cast<std::size_t>(count_); }

 private:
  std::int64_t count_;
};

std::vector<std::int64_t> numbers_in(const at::Tensor& tensor) {
  const auto* first = tensor.const_data_ptr<std::int64_t>();
  return {first, first + tensor.numel()};
}

// All that the loader gives until its end, batch after batch.
template <typename Loader>
std::vector<std::int64_t> epoch_of(Loader& loader, std::int64_t batch_size) {
  std::vector<std::int64_t> all;
  for (auto& batch : loader) {
    const auto some = numbers_in(batch.data.flatten().contiguous());
    EXPECT_LE(static_cast<std::int64_t>(some.size()), batch_size);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

TEST(DistributedSampler, ALoaderGivesTheShareOfEachRankInEachEpoch) {
  for (const std::int64_t samples : {1, 7, 20}) {
    for (int ranks = 1; ranks <= 4; ++ranks) {
      for (const bool drop : {false, true}) {
        for (int rank = 0; rank < ranks; ++rank) {
          ShareOptions options{.rank = rank, .world_size = ranks, .seed = 11, .drop_last = drop};
          DistributedSampler sampler(static_cast<std::size_t>(samples), options);
          const auto loader = torch::data::make_data_loader(
              MixedPrecision(samples).map(torch::data::transforms::Stack<>()), sampler,
              torch::data::DataLoaderOptions(3));
          for (const std::int64_t epoch : {0, 1, 5}) {
            sampler.set_epoch(epoch);
            options.epoch = epoch;
            EXPECT_EQ(epoch_of(*loader, 3), numbers_in(share_of(samples, options)));
          }
        }
      }
    }
  }
}

TEST(DistributedSampler, AnotherEpochHasAnotherOrderAndTheSameOneItsOwn) {
  DistributedSampler sampler(100, {.rank = 1, .world_size = 2});
  DistributedSampler in_loader = sampler;
  const auto order = [&] {
    in_loader.reset();
    return *in_loader.next(50);
  };
  const auto first = order();
  EXPECT_EQ(order(), first);
  sampler.set_epoch(1);
  EXPECT_NE(order(), first);
  EXPECT_EQ(in_loader.epoch(), 1);
  sampler.set_epoch(0);
  EXPECT_EQ(order(), first);
}

TEST(DistributedSampler, ASavedOneGoesOnWhereItWas) {
  DistributedSampler one(31, {.rank = 0, .world_size = 3, .seed = 2});
  one.set_epoch(4);
  one.reset();
  one.next(4);
  std::stringstream stream;
  torch::serialize::OutputArchive saved;
  one.save(saved);
  saved.save_to(stream);
  DistributedSampler other(31, {.rank = 0, .world_size = 3, .seed = 2});
  torch::serialize::InputArchive archive;
  archive.load_from(stream);
  other.load(archive);
  EXPECT_EQ(other.epoch(), 4);
  EXPECT_EQ(other.next(100), one.next(100));
  EXPECT_EQ(other.next(100), std::nullopt);
}

std::vector<std::int64_t> share_in(std::int64_t samples, ShareOptions options, std::int64_t epoch,
                                   std::int64_t consumed = 0) {
  options.epoch = epoch;
  options.consumed = consumed;
  return numbers_in(share_of(samples, options));
}

TEST(DistributedSampler, SamplesConsumedBeforeAreLeftOutOfTheFirstEpochAlone) {
  ShareOptions options{.rank = 1, .world_size = 2, .seed = 3, .epoch = 4, .consumed = 12};
  DistributedSampler sampler(31, options);
  const auto loader =
      torch::data::make_data_loader(MixedPrecision(31).map(torch::data::transforms::Stack<>()),
                                    sampler, torch::data::DataLoaderOptions(3));
  for (const std::int64_t epoch : {4, 5, 6}) {
    sampler.set_epoch(epoch);
    EXPECT_EQ(epoch_of(*loader, 3), share_in(31, options, epoch, epoch == 4 ? 12 : 0));
  }
}

TEST(DistributedSampler, ALoadedPlaceIsWhereTheNextEpochOfALoaderBegins) {
  const ShareOptions options{.rank = 0, .world_size = 3, .seed = 2};
  DistributedSampler one(31, options);
  one.set_epoch(4);
  one.reset();
  one.next(4);
  torch::serialize::OutputArchive saved;
  one.save(saved);
  std::stringstream stream;
  saved.save_to(stream);
  DistributedSampler other(31, options);
  const auto loader =
      torch::data::make_data_loader(MixedPrecision(31).map(torch::data::transforms::Stack<>()),
                                    other, torch::data::DataLoaderOptions(3));
  torch::serialize::InputArchive archive;
  archive.load_from(stream);
  other.load(archive);
  auto rest = share_in(31, options, 4);
  rest.erase(rest.begin(), rest.begin() + 4);
  EXPECT_EQ(epoch_of(*loader, 3), rest);
  other.set_epoch(5);
  EXPECT_EQ(epoch_of(*loader, 3), share_in(31, options, 5)) << "later epochs are whole";
}

// Takes some batches of an epoch, and compares the place with them after each.
void expect_places_of(std::size_t workers, std::size_t max_jobs, std::int64_t samples) {
  DistributedSampler sampler(static_cast<std::size_t>(samples), {.shuffle = false});
  auto options = torch::data::DataLoaderOptions(3).workers(workers);
  if (max_jobs > 0) options.max_jobs(max_jobs);
  const auto loader = torch::data::make_data_loader(
      MixedPrecision(samples).map(torch::data::transforms::Stack<>()), sampler, options);
  sampler.taken_ahead(loader->options().max_jobs);
  for (const std::int64_t epoch : {0, 1}) {
    sampler.set_epoch(epoch);
    EXPECT_EQ(sampler.place(), (DistributedSampler::Place{epoch, 0, 0}));
    std::int64_t taken = 0;
    for (auto& batch : *loader) {
      taken += batch.data.size(0);
      EXPECT_EQ(sampler.place(), (DistributedSampler::Place{epoch, 0, taken}))
          << workers << " workers, " << max_jobs << " jobs, " << samples << " samples";
    }
    EXPECT_EQ(sampler.place().taken, samples);
  }
}

TEST(DistributedSampler, ThePlaceIsThatOfTheBatchInHandWhateverWorkersTakeAhead) {
  expect_places_of(0, 0, 20);
  for (const std::int64_t samples : {2, 5, 12, 20, 31}) {
    expect_places_of(1, 0, samples);
    expect_places_of(2, 0, samples);
    expect_places_of(1, 7, samples);
    expect_places_of(1, 1, samples);
  }
}

TEST(DistributedSampler, AnEpochBeforeThePlaceThatWasLoadedIsMisuse) {
  DistributedSampler sampler(31, {});
  sampler.go_on({.epoch = 3, .consumed = 4, .taken = 2});
  EXPECT_EQ(sampler.epoch(), 3);
  try {
    sampler.set_epoch(0);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("sampler.epoch()"), std::string::npos);
  }
  sampler.set_epoch(4);
  EXPECT_EQ(sampler.place(), (DistributedSampler::Place{4, 0, 0})) << "a later one is whole";
}

TEST(DistributedSampler, ASetWithoutSamplesIsMisuse) {
  EXPECT_THROW(DistributedSampler(0, {}), Error);
  EXPECT_THROW(DistributedSampler(5, {.rank = 2, .world_size = 2}), Error);
}

}  // namespace
}  // namespace paceline::data
