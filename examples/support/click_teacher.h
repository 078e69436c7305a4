// Draws lines of a log of clicks (click_log.h) whose truth is known.
//
// Categories are distributed as in real logs: few are frequent, and most are rare, so that in a
// column of 1,000 the first has a tenth of all lines and the last a ten thousandth. Whether a line
// is clicked depends on each of its categories a little, on some numbers a little, and most of all
// on three pairs of columns (0 and 1, 2 and 3, 4 and 5): the categories of each of these columns
// are of two kinds, and both kinds of a pair together decide. What sums up a number for each
// category, as a linear model does, cannot know that.
#pragma once

#include <cstdint>

#include "click_log.h"

namespace examples {

// A value: lines are pure functions of the seed and their numbers.
class ClickTeacher {
 public:
  explicit ClickTeacher(std::uint64_t seed);

  struct Drawn {
    ClickLine line;
    double logit = 0;  // it was clicked with probability 1 / (1 + exp(-logit))
  };
  Drawn draw(std::uint64_t number) const;

  // The category of this rank, where ranks count from the most frequent one of a column.
  std::uint32_t category(std::size_t column, std::uint64_t rank) const;

 private:
  // The kinds' part of a column of a pair.
  struct Kinds {
    double mean = 0, deviation = 1;  // of +1 and -1, over the lines
  };
  double kind_of(std::size_t column, std::uint64_t rank) const;

  std::uint64_t seed_;
  std::array<Kinds, 6> kinds_;
};

}  // namespace examples
