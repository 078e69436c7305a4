// The layouts that `paceline bench layouts` compares, as the user names them, and the figures of a
// run with one of them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/base/result.h"
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

// The figures of one run that `paceline bench layouts` finds in the metrics of a program. A figure
// that the program does not tell for this layout is empty.
struct MeasuredRun {
  double samples_per_second = 0;
  std::optional<double> traffic_bytes;  // of a step: gradients of a rank, and all that crosses cuts
  std::optional<double> storage_bytes;  // parameters on all ranks together
  std::optional<double> balance;        // the work of the busiest rank over the mean of all
};

// Reads the last line of the file whose "event" is "summary":
//
// | figure                   | meaning                                                        |
// |--------------------------|----------------------------------------------------------------|
// | train_samples_per_second | must be there                                                  |
// | exchanged_bytes, steps   | gradients that a rank sent in so many steps                    |
// | cut_bytes_per_step       | activations and gradients that crossed cuts, of all ranks      |
// | parameter_bytes          | a list: the parameters of each rank                            |
// | stepped_bytes            | the parameters of rank 0, where all ranks have the same layers |
// | busy_microseconds        | a list: the computation of each rank                           |
//
// A failure (io) names the file and what it lacks.
Result<MeasuredRun> read_measured_run(const std::string& file, const LayoutChoice& layout);

}  // namespace paceline::cli
