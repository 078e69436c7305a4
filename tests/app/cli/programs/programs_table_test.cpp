#include "paceline/app/cli/programs/programs_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

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

}  // namespace
}  // namespace paceline::cli
