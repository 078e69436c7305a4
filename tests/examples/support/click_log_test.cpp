#include "examples/support/click_log.h"

#include <gmock/gmock.h>

#include <cstring>
#include <fstream>
#include <limits>

#include "tests/support/seed.h"
#include "tests/support/temporary_folder.h"

namespace examples {
namespace {

using paceline::SeededNumbers;
using paceline::test::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Any line: also the least and the largest numbers, and empty fields.
ClickLine any_click_line(SeededNumbers& numbers) {
  ClickLine line{.clicked = numbers.below(2) == 1};
  using Limits = std::numeric_limits<std::int32_t>;
  for (auto& number : line.numbers) {
    const std::uint64_t kind = numbers.below(5);
    if (kind == 0) number = Limits::min();
    if (kind == 1) number = Limits::max();
    if (kind == 2) number = static_cast<std::int32_t>(numbers.below(2'000)) - 1'000;
    if (kind == 3) number = static_cast<std::int32_t>(numbers.next());
  }
  for (auto& category : line.categories)
    if (numbers.below(4) > 0) category = static_cast<std::uint32_t>(numbers.next() >> 32);
  return line;
}

std::vector<std::string> click_fields(const std::string& text) {
  std::vector<std::string> fields(1);
  for (const char letter : text) {
    if (letter == '\t') fields.emplace_back();
    else fields.back() += letter;
  }
  return fields;
}

std::string joined(const std::vector<std::string>& fields) {
  std::string text = fields.front();
  for (std::size_t i = 1; i < fields.size(); ++i) text += '\t' + fields[i];
  return text;
}

std::string click_refusal(const std::string& text) {
  const auto line = parse_click_line(text);
  return line ? "none" : line.error().what;
}

TEST(ClickLog, ALineIsReadAsItWasWritten) {
  SeededNumbers numbers(paceline::test::seed(4501));
  for (int i = 0; i < 2'000; ++i) {
    const ClickLine line = any_click_line(numbers);
    const auto read = parse_click_line(text_of(line));
    ASSERT_TRUE(read) << read.error().what;
    EXPECT_EQ(read.value(), line) << text_of(line);
  }
}

TEST(ClickLog, ALineOfCriteosFormatHasItsFieldsInTheirPlaces) {
  const auto read = parse_click_line(
      "0\t1\t1\t5\t0\t1382\t4\t15\t2\t181\t1\t2\t\t2\t68fd1e64\t80e26c9b\tfb936136\t7b4723c4\t"
      "25c83c98\t7e0ccccf\tde7995b8\t1f89b562\ta73ee510\ta8cd5504\tb2cb9c98\t37c9c164\t2824a5f6\t"
      "1adce6ef\t8ba8b39a\t891b62e7\te5ba7672\tf54016b9\t21ddcdc9\tb1252a9d\t07b5194c\t\t3a171ecb\t"
      "c5c50484\te8b83407\t9727dd16");
  ASSERT_TRUE(read) << read.error().what;
  const ClickLine& line = read.value();
  EXPECT_FALSE(line.clicked);
  EXPECT_EQ(line.numbers[4], 1382);
  EXPECT_EQ(line.numbers[11], std::nullopt);
  EXPECT_EQ(line.categories[0], 0x68fd1e64u);
  EXPECT_EQ(line.categories[21], std::nullopt);
  EXPECT_EQ(line.categories[25], 0x9727dd16u);
}

TEST(ClickLog, AWrongFieldIsNamedByItsPlaceWithWhatStandsThere) {
  SeededNumbers numbers(paceline::test::seed(4502));
  const std::vector<std::string> right = click_fields(text_of(any_click_line(numbers)));
  const auto with = [&](std::size_t field, const std::string& text) {
    std::vector<std::string> wrong = right;
    wrong[field] = text;
    return click_refusal(joined(wrong));
  };
  for (const char* text : {"", "2", "01", "1 ", "yes"})
    EXPECT_THAT(with(0, text), AllOf(HasSubstr("its first field is '" + std::string(text) + "'"),
                                     HasSubstr("1 is a click, 0 none")));
  for (std::size_t i = 0; i < kClickNumbers; ++i) {
    for (const char* text : {"1.5", "x", "+1", "2147483648", "1 "})
      EXPECT_THAT(with(1 + i, text), HasSubstr("number " + std::to_string(i + 1) + " is '" + text));
  }
  for (std::size_t i = 0; i < kClickCategories; ++i) {
    for (const char* text : {"xyz", "0x12", "168fd1e64", "-1", " 12"})
      EXPECT_THAT(with(1 + kClickNumbers + i, text),
                  HasSubstr("category " + std::to_string(i + 1) + " is '" + text));
  }
  EXPECT_THAT(with(3, std::string(1'000, '\a')), HasSubstr("'" + std::string(40, '?') + "...'"));
}

TEST(ClickLog, ALineWithAnotherNumberOfFieldsIsRefusedByIt) {
  for (const std::size_t count : {1, 2, 39, 41, 100}) {
    EXPECT_THAT(click_refusal(joined(std::vector<std::string>(count, "0"))),
                AllOf(HasSubstr("it has " + std::to_string(count) + " fields in place of 40"),
                      HasSubstr("13 whole numbers and 26 categories, with one tab")));
  }
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

TEST(ClickLog, AFileHasItsLinesWithEitherEndAlsoTheLastWithoutOne) {
  const TemporaryFolder folder;
  const std::string path = folder.file("clicks");
  SeededNumbers numbers(paceline::test::seed(4503));
  std::vector<ClickLine> lines;
  for (int i = 0; i < 20; ++i) lines.push_back(any_click_line(numbers));
  for (const char* end : {"\n", "\r\n"}) {
    std::string text;
    for (const ClickLine& line : lines) text += text_of(line) + end;
    for (const std::string& whole : {text, text.substr(0, text.size() - std::strlen(end))}) {
      write_text(path, whole);
      const auto read = read_click_log(path);
      ASSERT_TRUE(read) << read.error().what;
      EXPECT_EQ(read.value(), lines);
    }
  }
}

TEST(ClickLog, AWrongLineOfAFileIsNamedByItsNumber) {
  const TemporaryFolder folder;
  const std::string path = folder.file("clicks");
  SeededNumbers numbers(paceline::test::seed(4504));
  for (int wrong = 1; wrong <= 5; ++wrong) {
    std::string text;
    for (int i = 1; i <= 5; ++i)
      text += i == wrong ? "\n" : text_of(any_click_line(numbers)) + "\n";
    write_text(path, text);
    const auto read = read_click_log(path);
    ASSERT_FALSE(read);
    EXPECT_THAT(read.error().what,
                HasSubstr(path + ", line " + std::to_string(wrong) + ": it has 1 fields"));
  }
}

TEST(ClickLog, AFileWithoutLinesOrThatCannotBeReadIsRefused) {
  const TemporaryFolder folder;
  write_text(folder.file("empty"), "");
  EXPECT_THAT(read_click_log(folder.file("empty")).error().what, HasSubstr("empty has no line"));
  EXPECT_THAT(read_click_log(folder.file("none")).error().what,
              AllOf(HasSubstr("none: No such file or directory"), HasSubstr("Criteo's format")));
  EXPECT_THAT(read_click_log(folder.path()).error().what, HasSubstr("cannot read"));
}

}  // namespace
}  // namespace examples
