#include "paceline/app/cli/shared/subcommand.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <stdexcept>

#include "paceline/core/base/result.h"

namespace paceline::cli {
namespace {

using ::testing::HasSubstr;

std::vector<Subcommand> samples() {
  return {{"count", "counts its words",
           [](const std::vector<std::string>& words) { return static_cast<int>(words.size()); },
           nullptr},
          {"misuse", "", [](const std::vector<std::string>&) -> int { throw_misuse("not so"); },
           nullptr},
          {"refuse", "",
           [](const std::vector<std::string>&) -> int {
             throw Error({Fault::refused, "not you", {}});
           },
           nullptr},
          {"break", "",
           [](const std::vector<std::string>&) -> int { throw std::runtime_error("broken"); },
           nullptr}};
}

int run_words(const std::vector<std::string>& words) {
  return run_one_of(samples(), "paceline group", {"--help"}, words);
}

TEST(Subcommand, GetsWhatStandsBehindItsName) {
  EXPECT_EQ(run_words({"count"}), 0);
  EXPECT_EQ(run_words({"count", "a", "--b", "count"}), 3);
}

TEST(Subcommand, ThatFailsTellsWhyAndByItsExitCodeWhatKindOfFailure) {
  const std::tuple<const char*, int, const char*> cases[] = {
      {"misuse", 2, "paceline group misuse: not so\nTry `paceline group misuse --help`."},
      {"refuse", 4, "paceline group refuse: not you"},
      {"break", 1, "paceline group break: broken"},
      {"cuont", 2, "unknown subcommand cuont; did you mean count?"},
      {"--hepl", 2, "unknown option --hepl; did you mean --help?"}};
  for (const auto& [word, code, text] : cases) {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(run_words({word}), code) << word;
    EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr(text));
  }
}

TEST(Subcommand, EachHasALineInTheList) {
  EXPECT_THAT(list_of(samples()), HasSubstr("  count       counts its words\n"));
}

std::vector<std::string_view> names_below(std::string_view group) {
  std::vector<std::string_view> names;
  for (const Subcommand& one : subcommands_of(group)) names.push_back(one.name);
  return names;
}

TEST(SubcommandCatalogue, HelpListsThemByTheirPlacesAndThenByTheirNames) {
  using ::testing::ElementsAre;
  EXPECT_THAT(names_below(""), ElementsAre("run", "bench", "profile", "programs", "plan",
                                           "simulate", "doctor", "top", "checkpoint"));
  EXPECT_THAT(names_below("checkpoint"), ElementsAre("ls", "show", "verify", "diff"));
  EXPECT_THAT(names_below("bench"), ElementsAre("calibrate", "choose", "collective", "layouts",
                                                "pipeline", "schedule", "server"));
}

TEST(SubcommandCatalogue, EachStandsBelowOneThatExistsAndTellsWhatItDoes) {
  std::set<std::string_view> groups = {""};
  for (const Subcommand& one : subcommands_of("")) groups.insert(one.name);
  for (const Subcommand& one : built_in_subcommands()) {
    EXPECT_TRUE(groups.contains(one.group)) << one.name;
    EXPECT_FALSE(one.summary.empty()) << one.name;
    EXPECT_TRUE(one.main) << one.name;
    ASSERT_TRUE(one.described) << one.name;
    EXPECT_NE(one.described(), nullptr) << one.name;
  }
}

}  // namespace
}  // namespace paceline::cli
