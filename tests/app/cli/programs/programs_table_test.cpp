#include "paceline/app/cli/programs/programs_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "paceline/core/collective/program/algorithm_catalogue.h"

namespace paceline::cli {
namespace {

using ::testing::ContainsRegex;

const collective::Catalogue& catalogue() {
  static const collective::Catalogue all = collective::built_in_algorithms();
  return all;
}

TEST(ProgramsTable, HasALineForEachAlgorithmInTheOrderOfTheCatalogue) {
  const std::string table = programs_table(programs_rows(catalogue(), 8), 8);
  std::size_t at = 0;
  for (const collective::Algorithm& algorithm : catalogue()) {
    const std::string operation(name_of(algorithm.operation));
    at = table.find("\n" + operation + " ", at);
    ASSERT_NE(at, table.npos) << operation;
    const std::string line = table.substr(at + 1, table.find('\n', at + 1) - at - 1);
    EXPECT_THAT(line, ContainsRegex("^" + operation + " +" + std::string(algorithm.name) + " +D"));
    EXPECT_FALSE(algorithm.purpose.empty()) << line << ": what it is for, the file should say";
    ++at;
  }
}

TEST(ProgramsTable, TellsWhatTheClosedFormsTell) {
  const std::string table = programs_table(programs_rows(catalogue(), 8), 8);
  EXPECT_THAT(table, ContainsRegex("all_reduce +ring +D2 +no +14 +112 +1.75 "));
  EXPECT_THAT(table, ContainsRegex("all_reduce +direct +D3 +always +2 +112 +1.75 "));
  EXPECT_THAT(table, ContainsRegex("all_to_all +pairwise +D3 +always +7 +56 +0.88 "));
}

TEST(ProgramsTable, SaysWhereAnAlgorithmFitsNoShape) {
  collective::Algorithm picky = catalogue().front();
  picky.fits = [](const collective::Shape& shape) { return shape.ranks == 4; };
  const auto rows = programs_rows({picky}, 5);
  EXPECT_FALSE(rows.front().fits);
  EXPECT_THAT(programs_table(rows, 5), ContainsRegex(" - +- +-"));
  EXPECT_EQ(nlohmann::json::parse(programs_json(rows, {}, 5)).at(0).at("fits"), false);
}

TEST(ProgramsJson, HasTheSameFigures) {
  const auto list = nlohmann::json::parse(programs_json(programs_rows(catalogue(), 4), {}, 4));
  ASSERT_EQ(list.size(), catalogue().size());
  for (const auto& entry : list) {
    if (entry["operation"] != "all_reduce" || entry["algorithm"] != "ring") continue;
    EXPECT_EQ(entry["rounds"], 6);
    EXPECT_EQ(entry["messages"], 24);
    EXPECT_EQ(entry["sent"], 1.5);
    EXPECT_EQ(entry["class"], 2);
    EXPECT_EQ(entry["balanced_for"], nlohmann::json({1}));
  }
}

using collective::Program;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<Program> programs_of(Operation operation, std::string_view name, int ranks) {
  const auto catalogue = collective::built_in_algorithms();
  std::vector<Program> programs;
  for (int rank = 0; rank < ranks; ++rank)
    programs.push_back(find(catalogue, operation, name)->build({.ranks = ranks, .rank = rank}));
  return programs;
}

std::string header_of(Operation operation, std::string_view name, const collective::Shape& shape) {
  const auto catalogue = collective::built_in_algorithms();
  const collective::Algorithm& algorithm = *find(catalogue, operation, name);
  return programs_header(algorithm, shape, verify(algorithm, shape).value());
}

TEST(ProgramsHeader, TellsTheCostAndTheOrderOfSummation) {
  EXPECT_EQ(header_of(Operation::all_reduce, "direct", {.ranks = 3}),
            "all_reduce direct, 3 ranks: 2 rounds, 12 messages, 4 chunks from the busiest rank\n"
            "chunk 0 is summed as ((0+1)+2) (as every other): the balanced tree\n");
  EXPECT_EQ(header_of(Operation::all_reduce, "ring", {.ranks = 3}),
            "all_reduce ring, 3 ranks: 4 rounds, 12 messages, 4 chunks from the busiest rank\n"
            "chunk 0 is summed as ((0+1)+2) (others in other orders)\n");
  EXPECT_EQ(
      header_of(Operation::broadcast, "direct", {.ranks = 3, .root = 2}),
      "broadcast direct, 3 ranks, root 2: 1 round, 2 messages, 2 chunks from the busiest rank\n"
      "sums nothing\n");
}

TEST(ProgramsHeader, ShortensALongTree) {
  const std::string header = header_of(Operation::all_reduce, "direct", {.ranks = 64});
  EXPECT_THAT(header, HasSubstr("((((((0+1)+(2+3))"));
  EXPECT_THAT(header, HasSubstr("(62+63))))))"));
  EXPECT_LT(header.size(), 250u);
}

TEST(ProgramsText, PutsRanksBesideEachOtherWhereTheyFit) {
  const auto programs = programs_of(Operation::broadcast, "direct", 3);
  const std::string beside = programs_text(programs, 200);
  EXPECT_THAT(beside, HasSubstr("rank 0"));
  EXPECT_EQ(beside.find("rank 2") < beside.find('\n'), true);
  const std::string below = programs_text(programs, 40);
  EXPECT_GT(below.find("rank 1"), below.find('\n'));
  for (const std::string& text : {beside, below}) {
    EXPECT_THAT(text, HasSubstr("send to 2: input(0)"));
    EXPECT_THAT(text, Not(HasSubstr(" \n")));
  }
}

TEST(ProgramsText, SaysHowToSeeLessWhereItIsTooMuch) {
  const std::string text = programs_text(programs_of(Operation::all_reduce, "direct", 16), 200);
  EXPECT_THAT(text, HasSubstr("--rank R shows one of them"));
}

TEST(ProgramsText, OfARankWithoutStepsSaysSo) {
  EXPECT_THAT(programs_text({Program{}, Program{}}, 100), HasSubstr("does nothing"));
}

}  // namespace

}  // namespace paceline::cli
