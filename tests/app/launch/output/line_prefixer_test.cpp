#include "paceline/app/launch/output/line_prefixer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/support/seed.h"

namespace paceline::launch {
namespace {

// All that comes out when `text` comes in pieces of the given lengths, over and over.
std::string prefixed(std::string_view text, const std::vector<std::size_t>& pieces,
                     std::size_t longest = 1000) {
  LinePrefixer lines({.prefix = "[3] ", .longest = longest});
  std::string out;
  for (std::size_t i = 0; !text.empty(); ++i) {
    const auto piece = text.substr(0, pieces[i % pieces.size()]);
    lines.feed(piece, out);
    text.remove_prefix(piece.size());
  }
  lines.finish(out);
  return out;
}

TEST(LinePrefixer, PrefixesEachLineAndClosesTheLast) {
  EXPECT_EQ(prefixed("one\n\ntwo", {100}), "[3] one\n[3] \n[3] two\n");
  EXPECT_EQ(prefixed("", {1}), "");
  EXPECT_EQ(prefixed("\n", {1}), "[3] \n");
}

TEST(LinePrefixer, HoldsALineBackUntilItIsWhole) {
  LinePrefixer lines({.prefix = "> "});
  std::string out;
  lines.feed("begin", out);
  EXPECT_EQ(out, "");
  lines.feed(" end\nnext", out);
  EXPECT_EQ(out, "> begin end\n");
}

TEST(LinePrefixer, ALineOfExactlyTheLimitStaysWhole) {
  EXPECT_EQ(prefixed("12345\n", {2}, 5), "[3] 12345\n");
}

TEST(LinePrefixer, ALongerLineComesInMarkedPieces) {
  EXPECT_EQ(prefixed("1234567890ab\nx\n", {100}, 5),
            "[3] 12345 [paceline: this line goes on]\n"
            "[3] [paceline: the line goes on] 67890 [paceline: this line goes on]\n"
            "[3] [paceline: the line goes on] ab\n"
            "[3] x\n");
}

TEST(LinePrefixer, AnySplitOfTheStreamGivesTheSameLines) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937 random(static_cast<unsigned>(test::seed(seed)));
    std::string text;
    const auto size = random() % 300;
    for (std::size_t i = 0; i < size; ++i) text += "ab\n\r\0["[random() % 6];
    std::vector<std::size_t> pieces;
    for (int i = 0; i < 10; ++i) pieces.push_back(1 + random() % 20);
    const std::size_t longest = 1 + random() % 12;
    EXPECT_EQ(prefixed(text, pieces, longest), prefixed(text, {text.size() + 1}, longest));
  }
}

TEST(LinePrefixer, TheBeginningOfALineCanBeShownAndItsRestFollowsWithoutAPrefix) {
  LinePrefixer lines({.prefix = "> "});
  std::string out;
  lines.show(out);
  EXPECT_EQ(out, "") << "nothing is held";
  lines.feed("continue? ", out);
  lines.show(out);
  EXPECT_EQ(out, "> continue? ");
  EXPECT_TRUE(lines.is_open());
  lines.feed("yes\nnext", out);
  EXPECT_EQ(out, "> continue? yes\n");
  EXPECT_FALSE(lines.is_open());
  lines.finish(out);
  EXPECT_EQ(out, "> continue? yes\n> next\n");
}

TEST(LinePrefixer, WhatFollowsAnInterruptedLineHasAPrefixOfItsOwn) {
  LinePrefixer lines({.prefix = "> "});
  std::string out;
  lines.feed("10 %", out);
  lines.show(out);
  lines.interrupt();
  lines.finish(out);
  EXPECT_EQ(out, "> 10 %") << "an interrupted line was ended by others";
  lines.feed(", 20 %\n", out);
  EXPECT_EQ(out, "> 10 %> , 20 %\n");
}

TEST(LinePrefixer, ALineThatIsDrawnAnewKeepsItsPrefix) {
  LinePrefixer lines({.prefix = "> ", .redraws = true});
  std::string out;
  for (const char* piece : {"\r10 %", "\r20 %", "30 %\r", "40 %"}) {
    lines.feed(piece, out);
    lines.show(out);
  }
  EXPECT_EQ(out, "> \r> 10 %\r> 20 %30 %\r> 40 %");
  lines.feed("\r\nend\r\n", out);
  EXPECT_EQ(out, "> \r> 10 %\r> 20 %30 %\r> 40 %\r\n> end\r\n");
}

TEST(LinePrefixer, AStampFollowsThePrefixOfEachLine) {
  int now = 0;
  LinePrefixer lines({.prefix = "> ", .stamp = [&] { return fmt::format("{}s ", ++now); }});
  std::string out;
  lines.feed("a\nb\n", out);
  EXPECT_EQ(out, "> 1s a\n> 2s b\n");
}

}  // namespace
}  // namespace paceline::launch
