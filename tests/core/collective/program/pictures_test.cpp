// The algorithms' programs as text, docs/algorithms/pictures/<operation>_<algorithm>.txt: shapes,
// and under each the program that the algorithm builds for it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "paceline/core/collective/program/contract.h"
#include "tests/core/collective/programs.h"
#include "tests/support/process.h"

namespace paceline::collective::testing {
namespace {

struct Picture {
  Shape shape;
  std::string program;
};

// "0,1|2,3"
std::vector<std::vector<int>> groups_of(const std::string& text) {
  std::vector<std::vector<int>> groups;
  std::istringstream all(text);
  for (std::string group; std::getline(all, group, '|');) {
    std::istringstream ranks(group);
    auto& members = groups.emplace_back();
    for (std::string rank; std::getline(ranks, rank, ',');) members.push_back(std::stoi(rank));
  }
  return groups;
}

// "ranks=4 rank=1 groups=0,1|2,3"
Shape shape_of(const std::string& line) {
  Shape shape;
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    const std::string key = word.substr(0, equals), value = word.substr(equals + 1);
    if (key == "groups") shape.groups = groups_of(value);
    else if (key == "ranks") shape.ranks = std::stoi(value);
    else if (key == "rank") shape.rank = std::stoi(value);
    else if (key == "root") shape.root = std::stoi(value);
    else ADD_FAILURE() << "unknown word '" << word << "'";
  }
  return shape;
}

std::vector<Picture> pictures_in(const std::filesystem::path& path) {
  std::vector<Picture> pictures;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("ranks=")) pictures.push_back({shape_of(line), {}});
    else if (!line.empty()) pictures.back().program += line + "\n";
  }
  return pictures;
}

TEST(Pictures, OfAlgorithmsAreTheProgramsThatTheyBuild) {
  int compared = 0;
  const std::filesystem::path folder = test::source("docs/algorithms/pictures");
  for (const Algorithm& algorithm : built_in_algorithms()) {
    const std::string name =
        std::string(name_of(algorithm.operation)) + "_" + std::string(algorithm.name);
    for (const Picture& picture : pictures_in(folder / (name + ".txt"))) {
      EXPECT_EQ(to_string(algorithm.build(picture.shape)), picture.program) << name;
      ++compared;
    }
  }
  EXPECT_GE(compared, 66);
}

TEST(Algorithms, AloneCopyTheirInputAndTellThatTheSumIsComplete) {
  int alone = 0;
  for (const Algorithm& algorithm : built_in_algorithms()) {
    // A barrier has nothing to copy, and Bruck's all_to_all rotates its input first.
    const bool has_other_steps =
        algorithm.operation == Operation::barrier || algorithm.operation == Operation::all_to_all;
    if (!algorithm.fits({}) || has_other_steps) continue;
    const Program program = algorithm.build({});
    ASSERT_EQ(program.rounds.size(), 1U) << algorithm.name;
    Program copies{.chunks = program.chunks, .rounds = {{}}};
    for (int chunk = 0; chunk < program.chunks; ++chunk) {
      const Step one = copy(input(chunk), output(chunk));
      copies.rounds[0].push_back(is_reduction(algorithm.operation) ? completing(one) : one);
    }
    EXPECT_EQ(program, copies) << name_of(algorithm.operation) << " " << algorithm.name;
    ++alone;
  }
  EXPECT_GE(alone, 22);
}

}  // namespace
}  // namespace paceline::collective::testing
