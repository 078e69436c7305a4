#include "paceline/core/base/json_reader.h"

#include <gmock/gmock.h>

namespace paceline {
namespace {

using ::testing::HasSubstr;
using Json = JsonReader::Json;

std::string complaint(const JsonReader& reader) {
  if (!reader.failure()) return "";
  EXPECT_EQ(reader.failure()->fault, Fault::misuse);
  return reader.failure()->what;
}

TEST(JsonReader, ReadsWhatIsAsItMustBe) {
  JsonReader reader("file f", "mend it");
  const Json json = reader.parse(R"({"a": 1.5, "b": 7, "c": "text"})");
  EXPECT_TRUE(reader.has_keys(json, "", {"a", "b"}, {"c", "d"}));
  EXPECT_EQ(reader.number(json, "", "a", 2), 1.5);
  EXPECT_EQ(reader.whole(json, "", "b", 7, 7), 7u);
  EXPECT_EQ(reader.text(json, "", "c", 4, 4), "text");
  EXPECT_EQ(complaint(reader), "");
}

TEST(JsonReader, TellsOfTheFirstWrongThingAlone) {
  JsonReader reader("file f", "mend it");
  const Json json = reader.parse(R"({"a": -1})");
  EXPECT_EQ(reader.number(json, "lines[2]", "a", 2), 0);
  EXPECT_EQ(reader.text(json, "", "a", 0, 9), "");
  EXPECT_FALSE(reader.has_keys(json, "", {"a"})) << "after a complaint nothing is read";
  EXPECT_EQ(complaint(reader), "file f: lines[2].a must be a number from 0 to 2; mend it");
}

TEST(JsonReader, NamesTheKeyThatIsMissingOrOneTooMany) {
  JsonReader missing("file f", "mend it"), unknown("file f", "mend it");
  EXPECT_FALSE(missing.has_keys(Json{{"a", 1}}, "part", {"a", "b"}));
  EXPECT_EQ(complaint(missing), "file f: part.b must be given; mend it");
  EXPECT_FALSE(unknown.has_keys(Json{{"a", 1}, {"x", 1}}, "part", {"a"}, {"b"}));
  EXPECT_EQ(complaint(unknown), "file f: key 'x' of part must be one of a, b; mend it");
}

TEST(JsonReader, RefusesWhatIsNoObject) {
  for (const char* text : {"", "{", "[1]", "1", "null", "\"a\""}) {
    JsonReader reader("file f", "mend it");
    EXPECT_FALSE(reader.has_keys(reader.parse(text), "", {})) << text;
    EXPECT_EQ(complaint(reader), "file f: the whole must be a JSON object; mend it") << text;
  }
}

TEST(JsonReader, RefusesValuesOfAnotherKindOrBeyondTheirBounds) {
  const Json json = {{"bad", Json::array({-1, 1.5, "1", nullptr, true, Json::array(), 8})}};
  for (const Json& value : json["bad"]) {
    JsonReader whole("f", "r"), text("f", "r");
    EXPECT_EQ(whole.whole(Json{{"k", value}}, "", "k", 1, 7), 1u);
    EXPECT_EQ(complaint(whole), "f: k must be a whole number from 1 to 7; r") << value;
    text.text(Json{{"k", value}}, "", "k", 2, 3);
    EXPECT_EQ(complaint(text), "f: k must be a text of 2 to 3 bytes; r") << value;
  }
}

TEST(StrictJson, RefusesWhatIsNestedTooDeepWithoutFollowingIt) {
  const auto nested = [](int depth) {
    return std::string(static_cast<std::size_t>(depth), '[') +
           std::string(static_cast<std::size_t>(depth), ']');
  };
  EXPECT_TRUE(parse_strict_json(nested(kDeepestJson)));
  EXPECT_THAT(parse_strict_json(nested(kDeepestJson + 1)).error().what, HasSubstr("nested"));
  EXPECT_FALSE(parse_strict_json(std::string(1'000'000, '[')));
}

// tests/core/checkpoint/hostile_checkpoint_test.cpp measures the allocations.
TEST(StrictJson, RefusesListsAndTextsThatWouldTakeFarMoreMemoryThanTheyAreLong) {
  const auto list = [](std::size_t commas) {
    std::string text = "[{\"a\": [0";
    for (std::size_t i = 0; i < commas; ++i) text += ",0";
    return text + "], \"b\": \"],,,[\\\",\"}]";
  };
  EXPECT_TRUE(parse_strict_json(list(100'000)));
  EXPECT_THAT(parse_strict_json(list(3'000'000)).error().what, HasSubstr("a list or an object of"));
  const std::string text = "\"" + std::string(kSpareJsonBytes, ',') + "\"";
  EXPECT_THAT(parse_strict_json(text).error().what, HasSubstr("a text or a number of more than"));
}

TEST(StrictJson, RefusesAKeyThatAnObjectHasTwice) {
  EXPECT_TRUE(parse_strict_json(R"({"a": {"a": 1}, "b": {"a": 2}})"));
  EXPECT_THAT(parse_strict_json(R"({"b": {"a": 1, "c": 2, "a": 3}})").error().what,
              HasSubstr("key 'a' is there twice"));
  EXPECT_FALSE(parse_strict_json("{"));
}

}  // namespace
}  // namespace paceline
