// The layouts that `paceline bench layouts` compares, as the user names them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/plan/split_table.h"

namespace paceline::cli {

// How a run divides its data and its model. Lengths of axes; 1 where an axis is not named.
struct LayoutChoice {
  std::string name;    // as given: "none", "dp=2", "dp=2+pp=2"
  std::string option;  // for the program's --layout: "dp=2,pp=2"; empty for "none"
  int pp = 1, dp = 1, cp = 1, tp = 1;

  int ranks() const { return pp * dp * cp * tp; }
  bool has_data_alone() const { return dp > 1 && dp == ranks(); }
  bool has_stages_alone() const { return pp > 1 && pp == ranks(); }
  // Sequences that are split are data; layers and tensors that are split are the model.
  plan::SplitLabel label() const { return plan::label_of(dp * cp, pp * tp); }
  bool operator==(const LayoutChoice&) const = default;
};

// "none,dp=2,dp=2+pp=2": a comma stands between layouts, + between the axes of one. THROWS Error
// (misuse) that quotes the layout: an axis that is unknown or named twice, a length that is no
// whole number above 0, a layout that is named twice.
std::vector<LayoutChoice> parse_layouts(std::string_view option, const std::string& text);

}  // namespace paceline::cli
