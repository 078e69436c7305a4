// Gradients that their ranks have packed and cast before they load them into a path, beside ranks
// whose codec does it.
// Also covers paceline/core/compress/averaging/packed_cast.cpp.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "paceline/core/base/half.h"
#include "paceline/core/base/seed.h"
#include "paceline/core/job/job.h"
#include "paceline/core/schedule/path/gradient_path.h"
#include "paceline/core/schedule/policies/policies.h"
#include "tests/core/schedule/example_costs.h"
#include "tests/support/local_world.h"
#include "tests/support/misuse.h"
#include "tests/support/seed.h"

namespace paceline::schedule {
namespace {

// Long and short tensors in turn, of which only long ones of even length are cast.
Model packed_model() {
  Model model{.name = "mixed", .tensors = {}};
  for (const std::size_t elements : {3000, 64, 2001, 64, 4000, 8, 600, 602})
    model.tensors.push_back({.bytes = 4 * elements});
  return model;
}

std::vector<MessagePlan> plans_with(const std::string& codec) {
  const Model model = packed_model();
  const Costs costs = {.links = costs_of({.workers = 3, .servers = Servers::none})};
  std::vector<MessagePlan> all = {
      barrier(model), merged(model, costs.links),
      priority(model, {.part_bytes = 5000, .window_bytes = 10000}),
      plan_of("split", single_tensors(model.size()), {.part_bytes = 4000})};
  for (MessagePlan& plan : all) {
    plan = ordered(plan, model, costs);
    for (MessageGroup& group : plan.groups) group.codec = codec;
  }
  return all;
}

// A group's elements as a caller packs them.
class Packed {
 public:
  explicit Packed(const GradientPath::Cast& cast)
      : cast_(cast), whole_(cast.elements(true)), halves_(cast.elements(false)) {}

  void load(GradientPath& path, int group, std::span<const float> gradients) {
    std::vector<float> to_cast;
    whole_.clear();
    for (const CastRun& run : cast_.runs) {
      auto& into = run.is_whole ? whole_ : to_cast;
      const auto part = gradients.subspan(run.begin, run.elements);
      into.insert(into.end(), part.begin(), part.end());
    }
    narrow(cast_.dtype, to_cast, std::as_writable_bytes(std::span(halves_)));
    path.load_packed(group, buffer_of(whole_),
                     {reinterpret_cast<std::byte*>(halves_.data()), halves_.size(), cast_.dtype});
  }
  void unpack(std::span<float> gradients) const {
    std::vector<float> widened(halves_.size());
    widen(cast_.dtype, std::as_bytes(std::span(halves_)), widened);
    std::size_t next[] = {0, 0};  // by is_whole
    for (const CastRun& run : cast_.runs) {
      std::size_t& at = next[run.is_whole ? 1 : 0];
      const auto& from = run.is_whole ? whole_ : widened;
      std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(at), run.elements,
                  gradients.begin() + static_cast<std::ptrdiff_t>(run.begin));
      at += run.elements;
    }
  }

 private:
  const GradientPath::Cast& cast_;
  std::vector<float> whole_;
  std::vector<std::uint16_t> halves_;
};

struct PackedTraining {
  std::vector<float> means;
  double wire = 0;
};

// Two steps on three ranks, of which those in `packers` pack.
std::vector<PackedTraining> trained_by(const MessagePlan& plan, std::vector<int> packers) {
  const Model model = packed_model();
  std::vector<PackedTraining> results(3);
  test::run_ranks(3, [&](Job& job) {
    const bool packs = std::ranges::count(packers, job.rank()) > 0;
    std::vector<std::vector<float>> groups;
    std::vector<Buffer> buffers;
    for (const MessageGroup& group : plan.groups)
      groups.emplace_back(static_cast<std::size_t>(bytes_of(model, group)) / 4);
    for (auto& group : groups) buffers.push_back(buffer_of(group));
    GradientPath path(transport_in_lanes(job.world(), 2), model, plan, buffers);
    PackedTraining& result = results[static_cast<std::size_t>(job.rank())];
    for (int step = 0; step < 2; ++step) {
      std::vector<Packed> packed;
      for (std::size_t g = 0; g < groups.size(); ++g) {
        SeededNumbers numbers(test::seed(static_cast<std::uint64_t>(job.rank()) * 100 + g));
        for (float& value : groups[g]) value = static_cast<float>(numbers.below(9999)) / 7 - 70;
        const int group = static_cast<int>(g);
        packed.emplace_back(path.cast_of(group).value());
        if (packs) packed.back().load(path, group, groups[g]);
      }
      for (int place = 0; place < model.size(); ++place) path.ready(place);
      path.finish();
      for (std::size_t g = 0; g < groups.size(); ++g) {
        if (packs) packed[g].unpack(groups[g]);
        result.means.insert(result.means.end(), groups[g].begin(), groups[g].end());
      }
    }
    EXPECT_FALSE(path.take_overflow());
    result.wire = path.codec_work().wire;
  });
  return results;
}

TEST(PackedGradients, HaveTheMeansAndTheBytesOfTheCodecOnAnyRanks) {
  for (const char* method : {"fp16", "bf16"}) {
    for (const int shortest : {0, 2000, 1 << 20}) {
      for (const MessagePlan& plan :
           plans_with(fmt::format("{}:min_compress_bytes={}", method, shortest))) {
        SCOPED_TRACE(fmt::format("{} {} {}", plan.name, method, shortest));
        const auto expected = trained_by(plan, {});
        for (const std::vector<int>& packers : {std::vector{1}, std::vector{0, 1, 2}}) {
          const auto got = trained_by(plan, packers);
          for (std::size_t rank = 0; rank < got.size(); ++rank) {
            EXPECT_EQ(got[rank].means, expected[rank].means) << "rank " << rank;
            EXPECT_EQ(got[rank].wire, expected[rank].wire) << "rank " << rank;
          }
        }
      }
    }
  }
}

TEST(PackedGradients, ACastIsTheWholeOfNoOtherCodec) {
  const Model model = packed_model();
  test::run_ranks(1, [&](Job& job) {
    std::vector<float> all(static_cast<std::size_t>(model.bytes()) / 4);
    for (const char* codec : {"none", "int8:min_compress_bytes=0", "top_k:ratio=0.1"}) {
      MessagePlan plan = barrier(model);
      plan.groups[0].codec = codec;
      GradientPath path(transport_in_lanes(job.world(), 1), model, plan, {buffer_of(all)});
      EXPECT_FALSE(path.cast_of(0).has_value()) << codec;
    }
  });
}

TEST(PackedGradients, OfAnotherLengthOrTypeAreRefused) {
  const Model model = packed_model();
  test::run_ranks(1, [&](Job& job) {
    std::vector<float> all(static_cast<std::size_t>(model.bytes()) / 4);
    MessagePlan plan = barrier(model);
    plan.groups[0].codec = "bf16:min_compress_bytes=2000";
    GradientPath path(transport_in_lanes(job.world(), 1), model, plan, {buffer_of(all)});
    const auto& cast = path.cast_of(0).value();
    EXPECT_EQ(cast.elements(true) + cast.elements(false), all.size());
    const Buffer whole = {reinterpret_cast<std::byte*>(all.data()), cast.elements(true),
                          Dtype::f32},
                 halves = {reinterpret_cast<std::byte*>(all.data()), cast.elements(false),
                           Dtype::bf16};
    Buffer shorter = whole, other = halves;
    --shorter.count;
    other.dtype = Dtype::f16;
    for (const auto& [first, second] : {std::pair{shorter, halves}, std::pair{whole, other}}) {
      EXPECT_THAT(test::misuse_of([&] { path.load_packed(0, first, second); }),
                  testing::HasSubstr("the packed gradients of group 0 are"));
    }
  });
}

}  // namespace
}  // namespace paceline::schedule
