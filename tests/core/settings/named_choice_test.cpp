#include "paceline/core/settings/named_choice.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

struct Dish {
  std::string_view name;
  std::vector<Setting> settings = {};
};

const std::vector<Dish>& dishes() {
  static const std::vector<Dish> all = {
      {"soup", {{.name = "salt", .standard = 2, .least = 0, .most = 9, .meaning = "grams"}}},
      {"bread"}};
  return all;
}

TEST(NamedChoiceTest, ANameMayStandAloneOrWithSettings) {
  EXPECT_EQ(parse_named("dish", "soup", dishes()).value().text(), "soup:salt=2");
  const auto salty = parse_named("dish", "soup:salt=3.5", dishes()).value();
  EXPECT_EQ(salty.settings["salt"], 3.5);
  EXPECT_EQ(salty.text(), "soup:salt=3.5");
  EXPECT_EQ(parse_named("dish", "bread", dishes()).value().text(), "bread");
}

TEST(NamedChoiceTest, WhatIsWrongIsToldWithWhatIsRight) {
  const auto complaint = [](std::string_view text) {
    const auto parsed = parse_named("dish", text, dishes());
    return parsed ? "" : parsed.error().what;
  };
  EXPECT_EQ(complaint("sop"), "there is no dish 'sop'; there are soup, bread; did you mean soup?");
  EXPECT_EQ(complaint("soup:sugar=1"), "soup has no setting 'sugar'; it has salt");
  EXPECT_EQ(complaint("soup:salt=10"), "salt of soup is a number from 0 to 9, not '10'");
  EXPECT_EQ(complaint("bread:salt=1"), "bread has no setting 'salt'; it has none");
}

}  // namespace
}  // namespace paceline
