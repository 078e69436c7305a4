#include "paceline/app/launch/process/program.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace paceline::launch {
namespace {

using ::testing::HasSubstr;

class Program : public ::testing::Test {
 protected:
  Program()
      : folder_(std::filesystem::temp_directory_path() /
                fmt::format("program_test_{}", ::getpid())) {
    std::filesystem::create_directory(folder_);
  }
  ~Program() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& name, const std::string& text, mode_t mode) {
    const auto path = (folder_ / name).string();
    std::ofstream(path) << text;
    ::chmod(path.c_str(), mode);
    return path;
  }
  std::string refusal(const std::string& name, std::string_view path = "/nowhere") {
    const auto found = find_program(name, path);
    return found ? "found" : found.error().what;
  }

  std::filesystem::path folder_;
};

TEST_F(Program, IsFoundInThePathInOrder) {
  const auto first = file("train", "", 0755);
  EXPECT_EQ(*find_program("train", fmt::format("/nowhere:{}:/bin", folder_.string())), first);
  EXPECT_EQ(*find_program("sh", fmt::format("{}:/bin", folder_.string())), "/bin/sh");
  EXPECT_EQ(*find_program(first, ""), first);
}

TEST_F(Program, WhatIsNotExecutableInThePathIsPassedOver) {
  file("sh", "", 0644);
  EXPECT_EQ(*find_program("sh", fmt::format("{}:/bin", folder_.string())), "/bin/sh");
}

TEST_F(Program, ARefusalNamesTheRemedy) {
  EXPECT_THAT(refusal("no-such"), HasSubstr("was not found in $PATH"));
  EXPECT_THAT(refusal("/no/such"), HasSubstr("does not exist"));
  EXPECT_THAT(refusal(folder_.string()), HasSubstr("is a directory"));
  EXPECT_THAT(refusal(file("plain", "", 0644)), HasSubstr("chmod +x"));
  EXPECT_THAT(refusal(file("script", "#! /no/interpreter -x\n", 0755)),
              HasSubstr("#!/no/interpreter"));
  EXPECT_THAT(refusal(file("windows", "#!/bin/sh\r\n", 0755)), HasSubstr("s/\\r$//"));
  EXPECT_THAT(refusal(file("bare", "echo hello\n", 0755)), HasSubstr("#!/bin/sh"));
  EXPECT_THAT(refusal("/bin/true"), "found") << "no text";
}

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
