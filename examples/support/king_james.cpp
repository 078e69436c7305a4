#include "king_james.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "program_output.h"

namespace examples {

using paceline::Failure;
using paceline::Fault;
using paceline::Result;
using paceline::linear::Samples;

namespace {

constexpr std::size_t kVerses = 31102;
constexpr std::size_t kMostTextBytes = std::size_t{16} << 20;  // the text has 4.4 MB

struct Book {
  std::string_view name;        // as a label
  std::string_view short_name;  // as the program writes it
};

constexpr std::array<Book, 66> kBooks = {{{"genesis", "Ge"},          {"exodus", "Exo"},
                                          {"leviticus", "Lev"},       {"numbers", "Num"},
                                          {"deuteronomy", "Deu"},     {"joshua", "Josh"},
                                          {"judges", "Jdgs"},         {"ruth", "Ruth"},
                                          {"1_samuel", "1Sm"},        {"2_samuel", "2Sm"},
                                          {"1_kings", "1Ki"},         {"2_kings", "2Ki"},
                                          {"1_chronicles", "1Chr"},   {"2_chronicles", "2Chr"},
                                          {"ezra", "Ezra"},           {"nehemiah", "Neh"},
                                          {"esther", "Est"},          {"job", "Job"},
                                          {"psalms", "Psa"},          {"proverbs", "Prv"},
                                          {"ecclesiastes", "Eccl"},   {"song_of_solomon", "SSol"},
                                          {"isaiah", "Isa"},          {"jeremiah", "Jer"},
                                          {"lamentations", "Lam"},    {"ezekiel", "Eze"},
                                          {"daniel", "Dan"},          {"hosea", "Hos"},
                                          {"joel", "Joel"},           {"amos", "Amos"},
                                          {"obadiah", "Obad"},        {"jonah", "Jonah"},
                                          {"micah", "Mic"},           {"nahum", "Nahum"},
                                          {"habakkuk", "Hab"},        {"zephaniah", "Zep"},
                                          {"haggai", "Hag"},          {"zechariah", "Zec"},
                                          {"malachi", "Mal"},         {"matthew", "Mat"},
                                          {"mark", "Mark"},           {"luke", "Luke"},
                                          {"john", "John"},           {"acts", "Acts"},
                                          {"romans", "Rom"},          {"1_corinthians", "1Cor"},
                                          {"2_corinthians", "2Cor"},  {"galatians", "Gal"},
                                          {"ephesians", "Eph"},       {"philippians", "Phi"},
                                          {"colossians", "Col"},      {"1_thessalonians", "1Th"},
                                          {"2_thessalonians", "2Th"}, {"1_timothy", "1Tim"},
                                          {"2_timothy", "2Tim"},      {"titus", "Titus"},
                                          {"philemon", "Phmn"},       {"hebrews", "Heb"},
                                          {"james", "Jas"},           {"1_peter", "1Pet"},
                                          {"2_peter", "2Pet"},        {"1_john", "1Jn"},
                                          {"2_john", "2Jn"},          {"3_john", "3Jn"},
                                          {"jude", "Jude"},           {"revelation", "Rev"}}};

constexpr std::size_t kFirstOfTheNewTestament = 39;  // matthew

constexpr bool is_digit(char letter) {
  return letter >= '0' && letter <= '9';
}

// The books whose verses are +1, as a range of indices.
struct Books {
  std::size_t begin = 0, end = 0;
  bool holds(std::size_t book) const { return begin <= book && book < end; }
};

Result<Books> books_of(std::string_view label) {
  if (label == "testament") return Books{kFirstOfTheNewTestament, kBooks.size()};
  const auto found = std::ranges::find(kBooks, label, &Book::name);
  const auto index = static_cast<std::size_t>(found - kBooks.begin());
  if (found != kBooks.end()) return Books{index, index + 1};
  return paceline::unknown_name("label", label, king_james_labels());
}

// "1Sm3:4" is of the book "1Sm".
std::optional<std::size_t> book_of(std::string_view reference) {
  const auto drop_number = [&] {
    const std::size_t before = reference.size();
    while (!reference.empty() && is_digit(reference.back())) reference.remove_suffix(1);
    return reference.size() < before;
  };
  if (!drop_number() || !reference.ends_with(':')) return std::nullopt;
  reference.remove_suffix(1);
  if (!drop_number()) return std::nullopt;
  const auto found = std::ranges::find(kBooks, reference, &Book::short_name);
  if (found == kBooks.end()) return std::nullopt;
  return static_cast<std::size_t>(found - kBooks.begin());
}

// Numbers words in the order in which they are met.
class Vocabulary {
 public:
  // The numbers of the words of a verse, each once.
  std::vector<std::uint32_t> words_of(std::string_view verse) {
    std::vector<std::uint32_t> found;
    std::string word;
    const auto end_word = [&] {
      if (!word.empty()) found.push_back(number_of(word));
      word.clear();
    };
    for (const char letter : verse) {
      if (letter >= 'A' && letter <= 'Z') {
        word += static_cast<char>(letter - 'A' + 'a');
      } else if (letter >= 'a' && letter <= 'z') {
        word += letter;
      } else {
        end_word();
      }
    }
    end_word();
    std::ranges::sort(found);
    const auto repeated = std::ranges::unique(found);
    found.erase(repeated.begin(), repeated.end());
    return found;
  }

  const std::vector<std::string>& words() const { return words_; }

 private:
  std::uint32_t number_of(const std::string& word) {
    const auto [found, is_new] =
        numbers_.try_emplace(word, static_cast<std::uint32_t>(words_.size()));
    if (is_new) words_.push_back(word);
    return found->second;
  }

  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::vector<std::string> words_;
};

struct Verse {
  std::vector<std::uint32_t> words;
  double label = 0;
};

void append(const Verse& verse, Samples& samples) {
  const double value = 1 / std::sqrt(static_cast<double>(verse.words.size()));
  const std::vector<double> values(verse.words.size(), value);
  samples.rows.append({verse.words, values});
  samples.labels.push_back(verse.label);
}

KingJames samples_of(std::vector<Verse> verses, const std::vector<std::string>& words) {
  std::vector<std::uint32_t> alphabetic(words.size());  // numbers of words
  std::iota(alphabetic.begin(), alphabetic.end(), 0u);
  std::ranges::sort(alphabetic, {}, [&](std::uint32_t number) { return words[number]; });
  std::vector<std::uint32_t> columns(words.size());  // by number
  KingJames result;
  for (std::uint32_t column = 0; column < columns.size(); ++column) {
    columns[alphabetic[column]] = column;
    result.words.push_back(words[alphabetic[column]]);
  }
  for (std::size_t i = 0; i < verses.size(); ++i) {
    for (std::uint32_t& word : verses[i].words) word = columns[word];
    std::ranges::sort(verses[i].words);
    append(verses[i], i % 10 == 9 ? result.held_out : result.training);
  }
  result.training.rows.width = result.held_out.rows.width = words.size();
  return result;
}

constexpr std::string_view kRemedy = "apt-get install bible-kjv bible-kjv-text";

// The verses, each with its reference.
Result<std::string> lines_of(const std::string& program) {
  auto text = output_of_program({program, "-f", "gen1:1-rev22:21"}, kMostTextBytes);
  if (text) return text;
  return Failure{Fault::misuse,
                 fmt::format("the King James Bible cannot be read: {}. Its text comes from two "
                             "packages: {}",
                             text.error().what, kRemedy),
                 {}};
}

}  // namespace

std::vector<std::string> king_james_labels() {
  std::vector<std::string> labels = {"testament"};
  for (const Book& book : kBooks) labels.emplace_back(book.name);
  return labels;
}

Result<KingJames> parse_king_james(std::string_view text, std::string_view label) {
  const auto positive = books_of(label);
  if (!positive) return positive.error();
  Vocabulary vocabulary;
  std::vector<Verse> verses;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::string_view reference = line.substr(0, line.find(' '));
    const auto book = book_of(reference);
    if (!book)
      return Failure{Fault::misuse,
                     fmt::format("line {} of the bible's text is no verse; it begins with a book, "
                                 "a chapter and a verse, as in \"1Sm3:4 That the LORD\"",
                                 verses.size() + 1),
                     {}};
    verses.push_back({vocabulary.words_of(line.substr(reference.size())),
                      positive.value().holds(*book) ? 1. : -1.});
  }
  return samples_of(std::move(verses), vocabulary.words());
}

Result<std::string> king_james_text(const std::string& program) {
  const auto lines = lines_of(program);
  if (!lines) return lines.error();
  std::string text;
  for (std::string_view rest = lines.value(); !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    text.append(line.substr(std::min(line.find(' '), line.size() - 1) + 1)).push_back('\n');
  }
  return text;
}

Result<KingJames> king_james(std::string_view label, const std::string& program) {
  if (const auto known = books_of(label); !known) return known.error();
  const auto text = lines_of(program);
  if (!text) return text.error();
  auto result = parse_king_james(text.value(), label);
  const auto verses = result ? result->training.size() + result->held_out.size() : 0;
  if (result && verses != kVerses)
    return Failure{Fault::misuse,
                   fmt::format("{} wrote {} verses of the King James Bible, which has {}: {}",
                               program, verses, kVerses, kRemedy),
                   {}};
  return result;
}

}  // namespace examples
