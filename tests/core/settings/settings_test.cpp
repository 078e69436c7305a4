#include "paceline/core/settings/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::vector<Setting> kSettings = {
    {.name = "period", .standard = 8, .least = 1, .most = 100, .meaning = "steps", .whole = true},
    {.name = "alpha", .standard = kAutomatic, .least = 0, .most = 2, .may_be_auto = true},
    {.name = "momentum", .whole = true, .words = {"keep", "reset"}},
    {.name = "graph", .standard_text = "ring"}};

Settings parsed(std::string_view text) {
  return parse_settings("method", kSettings, text).value();
}

std::string refusal(std::string_view text) {
  const auto result = parse_settings("method", kSettings, text);
  if (result) return "accepted";
  EXPECT_EQ(result.error().fault, Fault::misuse);
  return result.error().what;
}

TEST(SettingsText, GivesEachSettingItsValueOrItsDefault) {
  const Settings standard = standard_settings(kSettings);
  EXPECT_EQ(standard["period"], 8);
  EXPECT_EQ(standard.or_auto("alpha", 0.25), 0.25);
  EXPECT_EQ(standard.text("graph"), "ring");
  const Settings given = parsed("graph=@a/b.txt,momentum=reset,alpha=0.5,period=3");
  EXPECT_EQ(given.as<int>("period"), 3);
  EXPECT_EQ(given.or_auto("alpha", 0.25), 0.5);
  EXPECT_TRUE(given.on("momentum"));
  EXPECT_EQ(given.text("graph"), "@a/b.txt");
  EXPECT_TRUE(std::isnan(parsed("alpha=auto")["alpha"]));
}

TEST(SettingsText, IsReadAsItIsWritten) {
  for (const char* text : {"period=8,alpha=auto,momentum=keep,graph=ring",
                           "period=3,alpha=0.5,momentum=reset,graph=@edges"})
    EXPECT_EQ(text_of(kSettings, parsed(text)), text);
}

TEST(SettingsText, OfASwitchIsAWordOrADigitAndOfOtherWordsAWordAlone) {
  const std::vector<Setting> settings = {{.name = "exact", .whole = true, .words = {"off", "on"}}};
  for (const auto& [text, is_on] : std::vector<std::pair<std::string, bool>>{
           {"off", false}, {"on", true}, {"0", false}, {"1", true}})
    EXPECT_EQ(parse_settings("method", settings, "exact=" + text).value().on("exact"), is_on)
        << text;
  EXPECT_THAT(parse_settings("method", settings, "exact=2").error().what, HasSubstr("off or on"));
  EXPECT_THAT(refusal("momentum=1"), HasSubstr("keep or reset"));
}

TEST(SettingsText, NamesWhatIsWrongAndWhatIsValid) {
  EXPECT_THAT(refusal("perod=3"), AllOf(HasSubstr("'perod'"), HasSubstr("did you mean period")));
  EXPECT_THAT(refusal("period"), HasSubstr("write period="));
  EXPECT_THAT(refusal("period=3,period=4"), HasSubstr("given twice"));
  for (const char* text :
       {"period=0", "period=101", "period=2.5", "period=nan", "period=", "period=x"})
    EXPECT_THAT(refusal(text), HasSubstr("a whole number from 1 to 100")) << text;
  EXPECT_THAT(refusal("alpha=-1"), HasSubstr("or auto"));
  EXPECT_THAT(refusal("momentum=keeps"), AllOf(HasSubstr("keep or reset"), HasSubstr("mean keep")));
  EXPECT_THAT(refusal("graph="), HasSubstr("is empty"));
  EXPECT_THAT(refusal(""), HasSubstr("period"));
}

TEST(SettingsText, StandsBehindAColon) {
  EXPECT_EQ(split_name("a:b=1").name, "a");
  EXPECT_EQ(split_name("a:b=1").settings, "b=1");
  EXPECT_FALSE(split_name("a").has_settings);
  EXPECT_TRUE(split_name("a:").has_settings);
}

}  // namespace
}  // namespace paceline
