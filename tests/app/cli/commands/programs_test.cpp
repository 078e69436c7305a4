// Mistakes in the words after `paceline programs`, and texts that name them and the remedy. Also
// covers paceline/app/cli/programs/selection.h and paceline/app/cli/shared/text.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/app/cli/commands/subcommand_entries.h"
#include "paceline/core/base/result.h"

namespace paceline::cli {
namespace {

using ::testing::HasSubstr;
using Words = std::vector<std::string>;

struct Wrong {
  Words arguments;
  Words says;
};

Words show(Words more) {
  more.insert(more.begin(), {"show", "ring", "--operation", "all_reduce", "--ranks", "4"});
  return more;
}

std::vector<Wrong> wrong_uses() {
  return {
      {{"shwo"}, {"\"shwo\" is none of list, show, verify", "did you mean show?"}},
      {{"list", "--rank", "4"}, {"unknown option --rank", "did you mean --ranks?"}},
      {{"list", "more"}, {"more"}},
      {{"list", "--ranks", "0"}, {"--ranks: 0 is too few", "1 to 1024"}},
      {{"--ranks", "4096"}, {"--ranks: 4096 is too many", "1 to 1024"}},
      {{"list", "--operation", "all_redcue"},
       {"no operation \"all_redcue\"", "did you mean all_reduce?", "there are all_gather"}},
      {{"list", "--operation", "send"}, {"no operation \"send\" has programs", "neighbours"}},
      {{"show", "rung", "--operation", "neighbours"},
       {"neighbours has no algorithm \"rung\"", "did you mean ring?", "one_peer"}},
      {{"show", "one_peer", "--operation", "gather"},
       {"gather has no algorithm \"one_peer\"", "--operation neighbours"}},
      {{"show", "torus", "--ranks", "7"}, {"torus needs ranks that fill a grid", "take ring"}},
      {{"show", "one_peer", "--dimensions", "4x2"}, {"--dimensions:", "leave the option away"}},
      {{"show", "one_peer", "--rank", "8"}, {"--rank: 8 is too many", "0 to 7"}},
      {{"show", "@/nowhere/edges"}, {"cannot read the list of edges /nowhere/edges"}},
      {{"show", "@edges", "--operation", "gather"}, {"gather has no algorithm \"@edges\""}},
      {{"verify", "--algorithm", "@/nowhere/edges"}, {"cannot read the list of edges"}},
      {{"list", "--json", "/nowhere/list.json"},
       {"--json: /nowhere/list.json cannot be written", "- for stdout"}},
      {{"list", "--json"}, {"--json needs a value"}},
      {{"show"}, {"which algorithm?", "paceline programs show ring"}},
      {{"show", "rign"}, {"no algorithm \"rign\"", "did you mean ring?", "lists all"}},
      {{"show", "ring"}, {"ring of which operation?", "--operation", "all_reduce", "neighbours"}},
      {{"show", "ring", "binomial"}, {"binomial"}},
      {{"show", "bionmial", "--operation", "all_reduce"},
       {"all_reduce has no algorithm \"bionmial\"", "did you mean binomial?", "there are", "ring"}},
      {{"show", "pairwise", "--operation", "all_reduce"},
       {"all_reduce has no algorithm \"pairwise\"", "--operation all_to_all"}},
      {show({"--rank", "4"}), {"--rank: 4 is too many", "0 to 3"}},
      {show({"--rank", "-1"}), {"--rank: -1 is too few", "0 to 3"}},
      {show({"--root", "4"}), {"--root: 4 is too many", "0 to 3"}},
      {show({"--radix", "x"}), {"--radix: \"x\" is not a whole number"}},
      {show({"--groups", "0,1/2"}), {"--groups: rank 3 is on none of the hosts", "0,1/2,3"}},
      {show({"--groups", "0,1/1,2,3"}), {"--groups: rank 1 is on several hosts"}},
      {show({"--groups", "0,1/2,3,4"}), {"--groups: 4 is too many", "0 to 3"}},
      {show({"--groups", "0,1//2,3"}), {"--groups: \"\" is not a whole number"}},
      {show({"--dimensions", "4x2"}), {"--dimensions: 4x2 has 8 ranks", "--ranks says 4"}},
      {show({"--dimensions", "2x"}), {"--dimensions: \"\" is not a whole number"}},
      {show({"--dimensions", "1024x1024x1024"}), {"--dimensions:", "more than 1024 ranks"}},
      {show({"--svg", "/nowhere/ring.svg"}), {"--svg: /nowhere/ring.svg cannot be written"}},
      {{"verify", "--ranks", "64..1"}, {"--ranks: 64..1 ends before it begins", "1..64"}},
      {{"verify", "--ranks", "1..2000"}, {"--ranks: 2000 is too many"}},
      {{"verify", "--algorithm", "rings"}, {"there is no \"rings\"", "did you mean ring?"}},
      {{"verify", "--algorithm", "ring", "--operation", "gather"},
       {"there is no \"ring\"", "linear"}},
  };
}

TEST(Programs, WrongUsesAreNamedWithTheirRemedy) {
  for (const Wrong& wrong : wrong_uses()) {
    try {
      catalogue::programs().main(wrong.arguments);
      ADD_FAILURE() << ::testing::PrintToString(wrong.arguments) << " is taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::misuse) << error.what();
      for (const std::string& text : wrong.says) EXPECT_THAT(error.what(), HasSubstr(text));
    }
  }
}

}  // namespace
}  // namespace paceline::cli
