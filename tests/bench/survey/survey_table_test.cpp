#include "bench/survey/survey_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::survey {
namespace {

using namespace schedule;

using ::testing::HasSubstr;

constexpr const char* kHead = "network,model,local_batch,method,single,n4,n8,n16,n32\n";
constexpr const char* kRow = "10GbE,BERT-Large,8,BSP-A2A,49,53.04,28.96,54.30,105.10\n";

TEST(SurveyTable, HasTheRowsThatTheSpecificationHandsOut) {
  const SurveyTable table = survey_table();
  EXPECT_EQ(table.size(), 48u);
  for (const std::string_view network : kSurveyNetworks) {
    for (const std::string_view method : kSurveyMethods) {
      for (const char* model : {"ResNet-50", "BERT-Large"})
        EXPECT_NE(find(table, network, model, method), nullptr) << network << method << model;
      const bool is_bsp = method.starts_with("BSP-");
      EXPECT_EQ(find(table, network, "BERT-Base", method) != nullptr, is_bsp);
    }
  }
  EXPECT_EQ(find(table, "100GbIB", "ResNet-50", "ByteScheduler-PS")->samples_per_second[3],
            7999.83);
}

TEST(SurveyTable, AFileWithTheSameColumnsIsReadWhateverEndsItsLines) {
  const std::string text = std::string(kHead) + kRow;
  const SurveyTable table = parse_survey_table(text, "x").value();
  ASSERT_EQ(table.size(), 1u);
  EXPECT_EQ(table[0].batch, 8);
  EXPECT_EQ(table[0].samples_per_second[1], 28.96);
  std::string with_returns;
  for (const char c : text) with_returns += c == '\n' ? std::string("\r\n") : std::string(1, c);
  EXPECT_EQ(parse_survey_table(with_returns, "x").value(), table);
}

TEST(SurveyTable, WhatIsWrongIsNamedWithItsLine) {
  const std::pair<std::string, const char*> wrong[] = {
      {"", "calibration x, line 1: the file has no rows"},
      {kHead, "the file has no rows"},
      {kRow, "line 1: the head is missing"},
      {std::string(kHead) + "10GbE,BERT-Large\n", "line 2: 2 fields instead of 9"},
      {std::string(kHead) + "1GbE,BERT-Large,8,BSP-A2A,49,1,2,3,4\n",
       "\"1GbE\" is none of 100GbIB, 100GbE, 10GbE"},
      {std::string(kHead) + "10GbE,BERT-Large,8,BSP,49,1,2,3,4\n", "\"BSP\" is none of BSP-PS"},
      {std::string(kHead) + "10GbE,BERT-Large,8,BSP-PS,49,1,2,x,4\n", "\"x\" is no number above 0"},
      {std::string(kHead) + "10GbE,BERT-Large,8,BSP-PS,49,1,2,-3,4\n", "\"-3\" is no number"},
      {std::string(kHead) + "10GbE,BERT-Large,8,BSP-PS,0,1,2,3,4\n", "numbers above 0"},
      {std::string(kHead) + kRow + kRow, "line 3: this row stands there twice"},
  };
  for (const auto& [text, says] : wrong) {
    const auto table = parse_survey_table(text, "x");
    ASSERT_FALSE(table.has_value()) << text;
    EXPECT_EQ(table.error().fault, Fault::misuse);
    EXPECT_THAT(table.error().what, HasSubstr(says));
    EXPECT_THAT(table.error().what, HasSubstr("the file must look like network,model"));
  }
}

}  // namespace
}  // namespace paceline::survey
