#include "paceline/core/base/plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temporary_folder.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

TEST(Plugin, ThatIsMissingIsMisuseWithTheFileThePlacesAndTheRemedy) {
  const auto failure = load_plugin("of_nobody", "entry", "make it", {"/nowhere"}).error();
  EXPECT_EQ(failure.fault, Fault::misuse);
  EXPECT_THAT(failure.what, HasSubstr("/nowhere/libpaceline_of_nobody.so"));
  EXPECT_THAT(failure.what, HasSubstr("`make it`, then build again"));
}

TEST(Plugin, ThatIsNoSharedObjectSaysSo) {
  const test::TemporaryFolder folder;
  std::ofstream(folder.file("libpaceline_of_words.so")) << "words";
  const auto failure = load_plugin("of_words", "entry", "make it", {folder.path()}).error();
  EXPECT_THAT(failure.what, HasSubstr("libpaceline_of_words.so: "));
}

TEST(Plugin, OfAnotherVersionIsNamedWithBoth) {
  const auto failure = of_another_version("ucx", "fabric 0", "fabric 1");
  EXPECT_EQ(failure.fault, Fault::misuse);
  EXPECT_THAT(failure.what, HasSubstr("libpaceline_ucx.so"));
  EXPECT_THAT(failure.what, HasSubstr("'fabric 0', not 'fabric 1'"));
}

TEST(Plugin, IsLookedForBesideTheProgram) {
  for (const std::string& folder : plugin_folders())
    EXPECT_TRUE(folder.ends_with("/lib/paceline")) << folder;
}

}  // namespace
}  // namespace paceline
