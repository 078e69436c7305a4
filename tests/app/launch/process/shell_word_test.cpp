#include "paceline/app/launch/process/shell_word.h"

#include <gtest/gtest.h>

namespace paceline::launch {
namespace {

TEST(ShellWord, IsLeftAloneWhenAShellTakesItAsItIs) {
  for (const char* word : {"./train", "--epochs", "a-b_c.d", "10.0.0.7:29400", "user@host", "50%"})
    EXPECT_EQ(shell_word(word), word);
}

TEST(ShellWord, IsQuotedWhenAShellWouldChangeIt) {
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("two words"), "'two words'");
  EXPECT_EQ(shell_word("it's"), R"('it'\''s')");
  for (const char* word : {"$HOME", "`x`", "a;b", "a&b", "*", "?", "[a]", "~", "#x", "a\nb", "\\",
                           "\"", "(", "{a,b}", "!", "A=b", "<", "|", "\xff"})
    EXPECT_EQ(shell_word(word), std::string("'") + word + "'");
}

}  // namespace
}  // namespace paceline::launch
