#include "paceline/linear/data/libsvm.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>

#include "paceline/core/base/seed.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/watched_allocations.h"

namespace paceline::linear {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string failure_of_text(std::string_view text) {
  const auto parsed = parse_libsvm(text, "a.svm");
  return parsed ? "" : parsed.error().what;
}

TEST(Libsvm, ReadsLabelsIndicesAndValuesWithCommentsBlankLinesTabsAndBothEndsOfLines) {
  const auto samples = parse_libsvm(
      "# two classes\n"
      "+1 1:0.5 3:-2e-1\t7:+4\r\n"
      "\n"
      "   \r\n"
      "-1 # no feature at all\n"
      "0.25 2:1# the last line has no end",
      "a.svm");
  ASSERT_TRUE(samples) << samples.error().what;
  const Samples expected = {.rows = {.width = 7,
                                     .starts = {0, 3, 3, 4},
                                     .columns = {0, 2, 6, 1},
                                     .values = {.5, -.2, 4, 1}},
                            .labels = {1, -1, .25}};
  EXPECT_EQ(samples.value(), expected);
}

TEST(Libsvm, AnErrorNamesTheFileTheLineTheColumnAndWhatIsRight) {
  EXPECT_EQ(failure_of_text("1 1:1\n1 1:1 x"),
            "a.svm:2:7: 'x' has no colon; a feature is INDEX:VALUE");
  EXPECT_EQ(failure_of_text("1 0:1"),
            "a.svm:1:3: '0' is no index; it is a whole number from 1 to 134217728. If the file's "
            "indices count from 0, read it with the option zero_based");
  EXPECT_EQ(failure_of_text("1 134217729:1"),
            "a.svm:1:3: '134217729' is no index; it is a whole number from 1 to 134217728");
  EXPECT_EQ(failure_of_text("1 5:1 5:2"),
            "a.svm:1:1: index 5 stands twice in the line; give each feature of a sample once");
  EXPECT_EQ(failure_of_text("1 5:1e999"),
            "a.svm:1:5: '1e999' is no value; it is a finite number, such as 0.5 or 1e-3");
  EXPECT_EQ(failure_of_text("one 5:1"),
            "a.svm:1:1: 'one' is no label; a line begins with one finite number, such as +1 or -1");
  EXPECT_EQ(failure_of_text("# nothing\n\n"),
            "a.svm: there is no sample in it; each line is LABEL INDEX:VALUE ...");
}

TEST(Libsvm, RefusesWhatIsNoFiniteNumberOrNoIndex) {
  for (const char* const text :
       {"nan 1:1",       "inf 1:1", "1,2 1:1", "1 1:nan", "1 1:inf",  "1 1:-inf",
        "1 1:",          "1 :1",    "1 1",     "1 -1:1",  "1 1.5:1",  "1 1:1:1",
        "1 qid:3 1:1",   "1 +-1:2", "1 1:+-2", "+",       "1 1:0x10", "1 99999999999999999999:1",
        "1 2:1 1:1 2:0", "1:1"}) {
    EXPECT_THAT(failure_of_text(text), StartsWith("a.svm:1:")) << text;
  }
  EXPECT_THAT(failure_of_text(std::string("1 1:1\0", 6)), HasSubstr("'1\\x00' is no value"));
  EXPECT_THAT(failure_of_text("1 1:" + std::string(100, '\x1b')), HasSubstr("\\x1b...' is no"));
}

TEST(Libsvm, SortsTheIndicesOfALineAndReadsThoseThatCountFromZeroWhereItIsAsked) {
  const auto sorted = parse_libsvm("1 3:0.3 1:0.1 2:0.2\n-1 2:5\n", "a.svm");
  ASSERT_TRUE(sorted) << sorted.error().what;
  const Samples expected = {
      .rows = {.width = 3, .starts = {0, 3, 4}, .columns = {0, 1, 2, 1}, .values = {.1, .2, .3, 5}},
      .labels = {1, -1}};
  EXPECT_EQ(sorted.value(), expected);
  const auto from_zero =
      parse_libsvm("1 2:0.3 0:0.1 1:0.2\n-1 1:5\n", "a.svm", {.zero_based = true});
  ASSERT_TRUE(from_zero) << from_zero.error().what;
  EXPECT_EQ(from_zero.value(), expected);
  EXPECT_EQ(parse_libsvm("1 134217728:1", "a.svm", {.zero_based = true}).error().what,
            "a.svm:1:3: '134217728' is no index; it is a whole number from 0 to 134217727");
}

TEST(Libsvm, RefusesALineThatIsTooLong) {
  const std::string text = "1 1:1\n1" + std::string(kLongestLibsvmLine, ' ');
  EXPECT_THAT(failure_of_text(text),
              StartsWith("a.svm:2:16777217: the line has 16777217 bytes; one sample has at most"));
}

TEST(Libsvm, AFileThatCannotBeReadIsRefusedByName) {
  test::TemporaryFolder folder;
  for (const std::string& path : {folder.file("absent.svm"), folder.path().string()}) {
    const auto read = read_libsvm(path);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().fault, Fault::misuse);
    EXPECT_THAT(read.error().what, HasSubstr(path + ": name a LIBSVM file that can be read"));
  }
  std::ofstream(folder.file("one.svm")) << "1 2:3\n";
  EXPECT_EQ(read_libsvm(folder.file("one.svm")).value().rows.width, 2u);
}

// --- hostile files ------------------------------------------------------------------------------

std::string sound_libsvm(SeededNumbers& numbers) {
  std::string text;
  for (std::uint64_t lines = 1 + numbers.below(8); lines > 0; --lines) {
    text += numbers.below(2) == 0 ? "+1" : "-1";
    std::uint64_t index = 0;
    for (std::uint64_t entries = numbers.below(6); entries > 0; --entries)
      text += fmt::format(" {}:{:.3g}", index += 1 + numbers.below(9), numbers.unit() - .5);
    text += numbers.below(4) == 0 ? "\r\n" : "\n";
  }
  return text;
}

void mutate_libsvm(std::string& text, SeededNumbers& numbers) {
  static const std::vector<std::string> parts = {
      ":",  "::",  " ",    "\n",   "\r",       "#",          "-",         "+",    "nan", "inf",
      "0:", "1:1", "e999", "1e-9", "99999999", "4294967296", "134217728", "\xff", "\t",  "qid:1"};
  const std::size_t at = numbers.below(text.size() + 1);
  const std::size_t length = std::min(numbers.below(9), text.size() - at);
  switch (numbers.below(5)) {
    case 0: text.insert(at, parts[numbers.below(parts.size())]); return;
    case 1: text.erase(at, length); return;
    case 2: text.insert(numbers.below(text.size() + 1), text.substr(at, length)); return;
    case 3: text.insert(at, std::string(numbers.below(300), ":\n 1#"[numbers.below(5)])); return;
    default:
      if (at < text.size()) text[at] = static_cast<char>(numbers.below(256));
  }
}

// The samples are as solvers expect them.
bool is_sound(const Samples& samples) {
  const SparseRows& rows = samples.rows;
  if (rows.size() != samples.size() || samples.size() == 0 ||
      rows.columns.size() != rows.values.size())
    return false;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const SparseVector row = rows.row(i);
    for (std::size_t k = 0; k < row.entries(); ++k) {
      if (row.indices[k] >= rows.width || !std::isfinite(row.values[k])) return false;
      if (k > 0 && row.indices[k] <= row.indices[k - 1]) return false;
    }
  }
  return std::ranges::all_of(samples.labels, [](double label) { return std::isfinite(label); });
}

TEST(Libsvm, HostileTextsAreReadOrRefusedWithinMemoryThatTheirLengthBounds) {
  const int texts = test::is_nightly() ? 1'000'000 : 30'000;
  SeededNumbers numbers(test::seed(2510000));
  int read = 0;
  for (int i = 0; i < texts; ++i) {
    std::string text = sound_libsvm(numbers);
    for (std::uint64_t times = numbers.below(4); times > 0; --times) mutate_libsvm(text, numbers);
    auto& seen = test::watched_allocations;
    const std::size_t most = 16 * text.size() + 4096;  // a message has its place in the last part
    seen = {.is_watched = true, .most = most};
    std::optional<Result<Samples>> parsed = parse_libsvm(text, "a.svm");
    seen.is_watched = false;
    ASSERT_LE(seen.peak, static_cast<std::int64_t>(most)) << text;
    ASSERT_TRUE(parsed->has_value() ? is_sound(parsed->value())
                                    : parsed->error().what.starts_with("a.svm:"))
        << text;
    read += parsed->has_value();
  }
  EXPECT_GT(read, texts / 10) << "some are sound";
  EXPECT_LT(read, texts * 9 / 10) << "and some are not";
}

}  // namespace
}  // namespace paceline::linear
