#include "paceline/torch/shard/units.h"

#include <map>
#include <set>

#include "tests/torch/shard/sharded_training.h"

namespace paceline {
namespace {

using namespace sharded_tests;
using shard::Segment;
using shard::Unit;
using shard::Units;

DataParallelOptions with_stage(int stage) {
  return options_of({stage, 1});
}

TEST(Units, LayOutEveryParameterOnceAndAligned) {
  Tree tree;
  const nn::Sequential net = cnn(at::kFloat);
  for (const auto& parts : {replica::parts_of(*net), replica::parts_of(*tree)}) {
    for (const int stage : {1, 2, 3}) {
      for (const int ranks : {1, 2, 3, 5, 64}) {
        const Units units = Units::of(parts, ranks, with_stage(stage));
        std::set<int> seen;
        std::set<std::size_t> sizes;
        for (const Unit& unit : units.all()) {
          EXPECT_EQ(unit.bytes % (128 * static_cast<std::size_t>(ranks)), 0u);
          sizes.insert(unit.bytes);
          std::size_t end = 0;
          for (std::size_t k = 0; k < unit.offsets.size(); ++k) {
            const int i = unit.parameters.gradients[k];
            EXPECT_TRUE(seen.insert(i).second);
            EXPECT_EQ(unit.offsets[k] % 64, 0u);
            EXPECT_GE(unit.offsets[k], end);
            end = unit.offsets[k] + parts.dense[static_cast<std::size_t>(i)].tensor.nbytes();
          }
          EXPECT_LE(end, unit.bytes);
        }
        EXPECT_EQ(seen.size(), parts.dense.size());
        if (stage == 3) {
          EXPECT_EQ(sizes.size(), units.size()) << "no two of the same size";
        }
      }
    }
  }
}

// The segments of all ranks are the parameter, one after the other, each in its rank's piece.
TEST(Units, SegmentsOfAllRanksMakeUpEachParameter) {
  Tree tree;
  const auto parts = replica::parts_of(*tree);
  for (const int ranks : {2, 3, 7}) {
    const Units units = Units::of(parts, ranks, with_stage(3));
    for (std::size_t i = 0; i < parts.dense.size(); ++i) {
      std::size_t bytes = 0, next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Segment segment = units.segment(i, rank);
        if (segment.bytes == 0) continue;
        const std::size_t piece = units.piece_bytes(segment.unit),
                          at = piece * static_cast<std::size_t>(rank) + segment.begin;
        EXPECT_LE(segment.begin + segment.bytes, piece);
        if (bytes > 0) {
          EXPECT_EQ(at, next);
        }
        next = at + segment.bytes;
        bytes += segment.bytes;
      }
      EXPECT_EQ(bytes, parts.dense[i].tensor.nbytes()) << parts.dense[i].name;
    }
  }
}

TEST(Units, AreTheElementsOfListsAndTheRestIsTheRoot) {
  Tree tree;
  const auto parts = replica::parts_of(*tree);
  const Units units = Units::of(parts, 2, with_stage(3));
  std::vector<std::string> names;
  for (const Unit& unit : units.all()) names.push_back(unit.name);
  // An element that is a list itself has elements.
  EXPECT_EQ(names, (std::vector<std::string>{"blocks.2.2", "blocks.2.0", "blocks.1.2", "blocks.1.0",
                                             "blocks.0.2", "blocks.0.0", "the root"}));
  EXPECT_TRUE(units.all().back().is_root);
  EXPECT_EQ(units.all().back().parameters.gradients.size(), 5u);
}

// The second layer has the first one's weight beside its own.
struct TiedBlocks : nn::Module {
  TiedBlocks() {
    nn::Linear first(3, 3), second(3, 3);
    second->register_parameter("other", first->weight);
    register_module("blocks", nn::ModuleList(first, second));
  }
};

TEST(Units, TiedParametersBelongToTheRoot) {
  const TiedBlocks model;
  const auto parts = replica::parts_of(model);
  std::map<std::string, int> of_units;
  for (const auto& [parameter, unit] : parts.units) ++of_units[unit];
  EXPECT_FALSE(parts.units.contains("blocks.0.weight"));
  EXPECT_EQ(parts.units.at("blocks.0.bias"), "blocks.0");
  EXPECT_EQ(of_units["blocks.1"], 2) << "its first weight and its bias";
}

TEST(Units, TwoTypesInAnElementAreTwoUnits) {
  nn::Sequential model(nn::Linear(3, 4), nn::Linear(4, 2));
  {
    const at::NoGradGuard no_grad;
    model[0]->as<nn::Linear>()->bias.set_data(at::zeros({4}, at::kDouble));
  }
  const Units units = Units::of(replica::parts_of(*model), 2, with_stage(3));
  EXPECT_EQ(units.size(), 3u);
}

}  // namespace
}  // namespace paceline
