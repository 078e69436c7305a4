#include "examples/support/king_james.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

namespace examples {
namespace {

using paceline::linear::SparseRows;
using paceline::linear::squared_norm;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(KingJames, AVerseIsItsWordsInLowerCaseEachOnceAndItsRowHasUnitLength) {
  const auto read = parse_king_james(
      "Ge1:3 And God said, Let there be light: and there was light.\n"
      "1Sm3:4 God's 7 LIGHTS\n"
      "Rev22:21 ...\n",
      "1_samuel");
  ASSERT_TRUE(read) << read.error().what;
  KingJames bible = read.value();
  EXPECT_THAT(bible.words, ElementsAre("and", "be", "god", "let", "light", "lights", "s", "said",
                                       "there", "was"));
  const SparseRows& rows = bible.training.rows;
  EXPECT_EQ(rows.columns, (std::vector<std::uint32_t>{0, 1, 2, 3, 4, 7, 8, 9, 2, 5, 6}));
  EXPECT_EQ(rows.starts, (std::vector<std::size_t>{0, 8, 11, 11}));
  EXPECT_EQ(rows.values[0], 1 / std::sqrt(8.));
  EXPECT_EQ(rows.values[10], 1 / std::sqrt(3.));
  EXPECT_THAT(bible.training.labels, ElementsAre(-1, 1, -1));
}

TEST(KingJames, EveryTenthVerseIsHeldOut) {
  std::string lines;
  for (int verse = 1; verse <= 25; ++verse)
    lines += "Mat1:" + std::to_string(verse) + (verse == 20 ? " twenty\n" : " other\n");
  const KingJames bible = parse_king_james(lines, "testament").value();
  EXPECT_EQ(bible.training.size(), 23u);
  EXPECT_EQ(bible.held_out.size(), 2u);
  EXPECT_EQ(bible.held_out.rows.width, 2u);
  EXPECT_EQ(bible.training.rows.width, 2u);
  EXPECT_EQ(bible.held_out.rows.columns, (std::vector<std::uint32_t>{0, 1}));
}

TEST(KingJames, AnErrorNamesTheLineOrListsTheKnownLabels) {
  const auto failure_of = [](std::string_view text, std::string_view label) {
    const auto read = parse_king_james(text, label);
    return read ? "" : read.error().what;
  };
  for (const char* const line : {"Gen1:1 x", "Ge1: x", "Ge:1 x", "Ge1 x", "", "x"})
    EXPECT_THAT(failure_of("Ge1:1 a\n" + std::string(line) + "\nGe1:2 b", "testament"),
                HasSubstr("line 2 of the bible's text is no verse"))
        << line;
  EXPECT_THAT(failure_of("", "revelations"),
              AllOf(StartsWith("there is no label 'revelations'; there are testament, genesis, "
                               "exodus, "),
                    EndsWith("; did you mean revelation?")));
  EXPECT_THAT(king_james("acts_of_peter").error().what,
              HasSubstr("there is no label 'acts_of_peter'; there are testament, genesis"));
}

TEST(KingJames, WithoutItsTextTheErrorNamesThePackages) {
  EXPECT_EQ(king_james("testament", "/nowhere/bible").error().what,
            "the King James Bible cannot be read: cannot start /nowhere/bible: No such file or "
            "directory. Its text comes from two packages: apt-get install bible-kjv "
            "bible-kjv-text");
  EXPECT_EQ(king_james("testament", "/bin/true").error().what,
            "/bin/true wrote 0 verses of the King James Bible, which has 31102: apt-get install "
            "bible-kjv bible-kjv-text");
}

TEST(KingJames, TheWholeTextHasTheNumbersOfTheSpecification) {
  const auto read = king_james("testament");
  ASSERT_TRUE(read) << read.error().what;
  KingJames bible = read.value();
  EXPECT_EQ(bible.training.size() + bible.held_out.size(), 31102u);
  EXPECT_EQ(bible.held_out.size(), 3110u);
  EXPECT_EQ(bible.words.size(), 12544u);
  EXPECT_EQ(bible.training.rows.width, 12544u);
  EXPECT_EQ(bible.training.rows.entries() + bible.held_out.rows.entries(), 617401u);
  EXPECT_EQ(
      std::ranges::count(bible.training.labels, 1.) + std::ranges::count(bible.held_out.labels, 1.),
      7957);
  for (std::size_t i = 0; i < bible.training.size(); ++i)
    ASSERT_NEAR(squared_norm(bible.training.rows.row(i)), 1, 1e-12);
}

}  // namespace
}  // namespace examples
