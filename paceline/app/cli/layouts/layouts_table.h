// The table of `paceline bench layouts`: what formulas say of each layout, beside what its run has
// told.
//
// | row                  | one device | data among N         | a model in parts              |
// |----------------------|------------|----------------------|-------------------------------|
// | samples of a device  | B          | B / N                | B                             |
// | traffic of a step    | 0          | 2 (N-1)/N weights    | 2 B (activations of the cuts) |
// | storage of all       | 1          | N                    | 1                             |
// | limit                | none       | N <= samples of step | N <= layers                   |
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "paceline/app/cli/layouts/layout_choice.h"
#include "paceline/core/plan/plan.h"
#include "paceline/core/schedule/order/model.h"

namespace paceline::cli {

// The model before it is divided. A fact that is not known is empty, and so are the formulas that
// need it.
struct ModelFacts {
  std::optional<int> batch;             // samples of a step
  std::optional<double> weight_bytes;   // its parameters
  std::vector<plan::LayerCost> layers;  // of a step of `profiled_batch` samples
  double profiled_batch = 1;
  std::string partition;  // of stages; empty: as many layers on each stage, to one
};

// The facts are the model's weights, and its layers if they were recorded.
ModelFacts facts_of(const schedule::Model& model);

struct LayoutRow {
  LayoutChoice layout;
  std::optional<double> samples;                                // of a device, in a step
  std::optional<double> traffic_bytes, storage_bytes, balance;  // by formulas
  std::optional<int> limit;                                     // the most devices
  std::string limited_by;                                       // "layers"
  MeasuredRun measured;
};

struct LayoutsTable {
  std::vector<LayoutRow> rows;
  std::optional<int> batch;
  // The batch at which replicas and stages send as much: of the first layout of each kind.
  std::string data, stages;  // their names; empty: none is there
  std::optional<double> crossover, measured_crossover;
};

// THROWS Error (misuse): a partition that does not tile the layers, more stages than layers.
LayoutsTable layouts_table(const ModelFacts& facts, const std::vector<LayoutChoice>& layouts,
                           const std::vector<MeasuredRun>& runs);

// A line for each layout, and one for the crossover.
std::string layouts_text(const LayoutsTable& table);
// One object: "batch", "crossover_batch", "layouts". A figure that is not known is null.
std::string layouts_json(const LayoutsTable& table);

}  // namespace paceline::cli
