// The table that compares the ways to divide training among devices, by formulas: the samples of a
// device, the bytes that it sends, the storage of all, the balance of their work, and the limit.
//
// | row                  | one device | data among N         | a model in parts               |
// |----------------------|------------|----------------------|--------------------------------|
// | samples of a device  | B          | B / N                | B                              |
// | traffic of a step    | 0          | 2 (N-1)/N weights    | 2 B (activations of the cuts)  |
// | storage of all       | 1          | N                    | 1                              |
// | limit                | none       | N <= samples of step | N <= layers                    |
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/base/result.h"
#include "paceline/core/plan/layer_cost.h"
#include "paceline/core/plan/stage_partition.h"

namespace paceline::plan {

// Whether devices run one program or several, on one part of the data or on several.
enum class SplitLabel : std::uint8_t { spsd, spmd, mpsd, mpmd };
std::string_view name_of(SplitLabel label);  // "SPSD", "SPMD", "MPSD", "MPMD"
// `data`: the number of parts of the data; `model`: that of the model's.
SplitLabel label_of(int data, int model);

// Bytes that each of the ranks sends in a step to sum the gradients of all parameters.
double data_traffic(double parameter_bytes, int ranks);
// Bytes that cross the cuts in a step of `batch` samples, activations and their gradients together.
double cut_traffic(double cut_bytes_per_sample, double batch);
// The batch at which both are equal: above it, data parallelism sends less. Infinite if the cuts
// carry nothing.
double crossover_batch(double parameter_bytes, int ranks, double cut_bytes_per_sample);

struct SplitRow {
  std::string split;  // "none", "dp=2", "pp=2"
  SplitLabel label = SplitLabel::spsd;
  int devices = 1;
  double samples = 0;        // of a device, in a step
  double traffic_bytes = 0;  // of a step: of a rank by sums of gradients, and of all cuts
  double storage_bytes = 0;  // parameters on all devices together
  double balance = 1;        // the work of the busiest device over the mean of all
  int limit = 1;             // the most devices
  std::string limited_by;    // "samples of a step", "layers"
};

struct SplitQuestion {
  LayerCosts layers = {};     // of a batch of `profiled_batch` samples
  double profiled_batch = 1;  // samples
  int batch = 1;              // samples of a step
  int ranks = 2;
  StagePartition partition = {};  // the straight cut to compare with
};

struct SplitTable {
  std::vector<SplitRow> rows;  // one device, data, the cut
  double crossover = 0;        // batch
};

// A failure (misuse): the partition is not straight, or the batch has fewer samples than ranks.
Result<SplitTable> split_table(const SplitQuestion& question);

// The table as text, with a head, formulas and the crossover.
std::string text_of(const SplitTable& table);

}  // namespace paceline::plan
