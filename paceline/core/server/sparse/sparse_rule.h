// Rules of sparse tables: those of rules/ that leave rows alone which nobody pushes.
//
// A rule steps one row at a time, by the very function that steps a dense table. `adagrad:per=row`
// keeps one number a row, the sum of the means of its squared gradients, instead of one an element.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/server/rules/rule.h"

namespace paceline::server {

// A value.
struct SparseRule {
  RuleChoice choice;
  bool per_row = false;
  int slots = 0;                       // that its settings use
  void (*step)(const RuleStep&) = {};  // of one row

  std::string text() const;  // as a user writes it, with all settings
  // Elements of a slot, for rows of this many.
  std::size_t slot_elements(std::size_t width) const { return per_row ? 1 : width; }
  std::size_t state_elements(std::size_t width) const {
    return static_cast<std::size_t>(slots) * slot_elements(width);
  }
};

// Parses "adagrad:per=row,rate=0.05". A failure (misuse) says what is wrong: a rule or a setting
// that moves rows which nobody pushes.
Result<SparseRule> parse_sparse_rule(std::string_view text);

}  // namespace paceline::server
