// tests/readers/manifests_test.py reads the texts back by Python's reader.
#include "paceline/app/launch/emit/yaml.h"

#include <gtest/gtest.h>

#include "paceline/core/base/result.h"

namespace paceline::launch {
namespace {

TEST(Yaml, MembersAndItemsHaveLinesOfTheirOwn) {
  const Json value = {{"name", "train"},
                      {"count", 2},
                      {"ready", true},
                      {"inner", {{"list", {"a", {{"b", 1}, {"c", {2, 3}}}}}}},
                      {"nothing", Json::object()},
                      {"none", Json::array()}};
  EXPECT_EQ(yaml(value), R"(name: train
count: 2
ready: true
inner:
  list:
    - a
    - b: 1
      c:
        - 2
        - 3
nothing: {}
none: []
)");
}

TEST(Yaml, TextsThatReadersTakeForSomethingElseAreQuoted) {
  for (const char* text :
       {"",      "2",    "-5", "1e3",  "0x1F", "yes",  "No",    "on",         "OFF", "y",   "N",
        "true",  "Null", "~",  "1:30", ".5",   ".inf", "-.inf", "2026-11-24", "-",   "---", "- a",
        "a: b",  "a #b", "#a", "&a",   "*a",   "!a",   "%a",    "@a",         "`a`", "[a]", "{a}",
        "a,b c", "'",    "<<", "=",    "a:",   " a",   "a ",    "$(X)"})
    EXPECT_EQ(yaml(Json(text)), '"' + std::string(text) + "\"\n");
  for (const char* text : {"train", "--epochs", "-n", "--", "./train", "/runs/a", "node-0:29400",
                           "a=b", "reg/train:1.0", "me@host"})
    EXPECT_EQ(yaml(Json(text)), std::string(text) + "\n");
}

TEST(Yaml, WhatEndsLinesOrCannotBePrintedIsEscaped) {
  EXPECT_EQ(yaml(Json("a\nb\t\"\\\x01\x7f")), "\"a\\nb\\t\\\"\\\\\\u0001\\x7F\"\n");
  EXPECT_EQ(yaml(Json("\xC2\x85\xC2\xA0\xE2\x80\xA8\xEF\xBB\xBF")), "\"\\x85\\_\\L\\uFEFF\"\n");
  EXPECT_EQ(yaml(Json("gr\xC3\xBC\xC3\x9F \xF0\x9F\x98\x80")),
            "\"gr\xC3\xBC\xC3\x9F \xF0\x9F\x98\x80\"\n");
}

TEST(Yaml, ATextThatIsNotUtf8IsRefused) {
  EXPECT_THROW(yaml(Json("\xff")), Error);
  EXPECT_THROW(yaml({{"a", {"\xC3"}}}), Error);
}

}  // namespace
}  // namespace paceline::launch
