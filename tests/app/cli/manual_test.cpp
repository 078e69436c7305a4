#include "paceline/app/cli/manual.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/App.hpp>

namespace paceline::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Sample {
  Sample() {
    app.add_option("-n,--np", number, "how many\n.not a macro")
        ->type_name("N")
        ->envname("SAMPLE_NP");
    app.add_flag("--dry-run", flag, "only tell; it's \\harmless [really]: yes");
    app.footer("'quoted\nlast");
  }
  CLI::App app{"About.", "paceline sample"};
  std::string number;
  bool flag = false;
  std::vector<Described> all = {{"sample", "does: nothing", &app}};
};

TEST(ManPage, HasEveryOptionWithItsValueVariableAndHelp) {
  const Sample sample;
  const std::string page = man_page(sample.all[0], "1.2.3", "2026-11-21");
  EXPECT_THAT(page, HasSubstr(".TH PACELINE-SAMPLE 1 2026-11-21 \"Paceline 1.2.3\""));
  EXPECT_THAT(page, HasSubstr("\\fB\\-n,\\-\\-np\\fR \\fIN\\fR\nhow many"));
  EXPECT_THAT(page, HasSubstr("Also read from SAMPLE_NP."));
  EXPECT_THAT(page, HasSubstr("\\fB\\-\\-dry\\-run\\fR\n"));
}

TEST(ManPage, TextIsNeverTakenForACommandOfRoff) {
  const Sample sample;
  const std::string page = man_page(sample.all[0], "1", "2026-11-21");
  EXPECT_THAT(page, HasSubstr("\n\\&.not a macro"));
  EXPECT_THAT(page, HasSubstr("\n\\&'quoted"));
  EXPECT_THAT(page, HasSubstr("\\eharmless"));
}

TEST(Completion, OfEveryShellNamesEverySubcommandAndOption) {
  const Sample sample;
  for (const std::string& shell : shells()) {
    const std::string script = completion(shell, sample.all);
    for (const char* word : {"sample", "dry-run", "np"})
      EXPECT_THAT(script, HasSubstr(word)) << shell;
    EXPECT_THAT(script, Not(HasSubstr("it's"))) << shell << ": a quote would end the string";
  }
}

TEST(ManPage, OfAGroupHasTheOptionsOfItsPartsAndShellsKnowTheirNames) {
  const Sample sample;
  const auto part = std::make_shared<CLI::App>("Of the part.", "paceline group inner");
  std::string value;
  part->add_option("--depth", value, "how deep")->type_name("N");
  CLI::App group("A group.", "paceline group");
  group.add_subcommand(part);
  const std::vector<Described> all = {{"group", "several", &group}};
  const std::string page = man_page(all[0], "1", "2026-11-21");
  EXPECT_THAT(page, HasSubstr(".SH INNER\nOf the part.\n"));
  EXPECT_THAT(page, HasSubstr("\\fB\\-\\-depth\\fR \\fIN\\fR\nhow deep"));
  for (const std::string& shell : shells()) {
    for (const char* word : {"inner", "depth"})
      EXPECT_THAT(completion(shell, all), HasSubstr(word)) << shell;
  }
}

}  // namespace
}  // namespace paceline::cli
