#include "paceline/torch/shard/units.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "paceline/torch/bridge/bridge.h"

namespace paceline::shard {
namespace {

std::size_t rounded_up(std::size_t bytes, std::size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

std::vector<schedule::Gradient> gradients_of(const std::vector<replica::Parameter>& parameters) {
  std::vector<schedule::Gradient> gradients;
  for (const auto& one : parameters)
    gradients.push_back({one.tensor.nbytes(), *dtype_of(one.tensor.scalar_type()), 0});
  return gradients;
}

std::vector<Unit> buckets_of(const std::vector<replica::Parameter>& dense,
                             const DataParallelOptions& options) {
  const std::vector<int> order =
      schedule::reverse_registration_order(static_cast<int>(dense.size()));
  std::vector<Unit> units;
  for (schedule::Bucket& bucket : schedule::plan_buckets(
           gradients_of(dense), order, {options.first_bucket_bytes, options.bucket_bytes})) {
    units.push_back(
        {.name = c10::str("bucket ", units.size() + 1), .parameters = std::move(bucket)});
  }
  return units;
}

// A unit whose parameters are of two types is two.
std::vector<Unit> elements_of(const replica::ModelParts& parts) {
  const auto gradients = gradients_of(parts.dense);
  std::vector<Unit> units;
  for (std::size_t i = parts.dense.size(); i-- > 0;) {
    const auto found = parts.units.find(parts.dense[i].name);
    const bool is_root = found == parts.units.end();
    const std::string name = is_root ? "the root" : found->second;
    const auto is_it = [&](const Unit& unit) {
      return unit.name == name && unit.is_root == is_root &&
             unit.parameters.dtype == gradients[i].dtype;
    };
    auto unit = std::ranges::find_if(units, is_it);
    if (unit == units.end()) {
      units.push_back(
          {.name = name, .parameters = {.dtype = gradients[i].dtype}, .is_root = is_root});
      unit = units.end() - 1;
    }
    unit->parameters.gradients.push_back(static_cast<int>(i));
    unit->parameters.bytes += gradients[i].bytes;
  }
  std::ranges::stable_partition(units, [](const Unit& unit) { return !unit.is_root; });
  return units;
}

}  // namespace

Units Units::of(const replica::ModelParts& parts, int ranks, const DataParallelOptions& options) {
  const bool by_module = options.zero_stage == 3;
  return {by_module ? elements_of(parts) : buckets_of(parts.dense, options), parts, ranks,
          by_module};
}

Units::Units(std::vector<Unit> units, const replica::ModelParts& parts, int ranks, bool distinct)
    : units_(std::move(units)),
      ranks_(ranks),
      unit_of_(parts.dense.size()),
      offset_(parts.dense.size()),
      bytes_(parts.dense.size()) {
  const std::size_t multiple = kPieceAlignment * static_cast<std::size_t>(ranks);
  std::set<std::size_t> sizes;
  for (std::size_t u = 0; u < units_.size(); ++u) {
    Unit& unit = units_[u];
    for (const int index : unit.parameters.gradients) {
      const auto i = static_cast<std::size_t>(index);
      unit_of_[i] = u;
      offset_[i] = unit.bytes;
      bytes_[i] = parts.dense[i].tensor.nbytes();
      unit.offsets.push_back(unit.bytes);
      unit.bytes += rounded_up(bytes_[i], kTensorAlignment);
    }
    unit.bytes = std::max(rounded_up(unit.bytes, multiple), multiple);
    while (distinct && !sizes.insert(unit.bytes).second) unit.bytes += multiple;
  }
}

std::size_t Units::bytes() const {
  return std::accumulate(units_.begin(), units_.end(), std::size_t{0},
                         [](std::size_t sum, const Unit& unit) { return sum + unit.bytes; });
}

Segment Units::segment(std::size_t parameter, int rank) const {
  Segment segment{.parameter = parameter, .unit = unit_of_[parameter]};
  const std::size_t piece = piece_bytes(segment.unit),
                    from = piece * static_cast<std::size_t>(rank),
                    begin = std::max(offset_[parameter], from),
                    end = std::min(offset_[parameter] + bytes_[parameter], from + piece);
  if (begin >= end) return segment;
  segment.begin = begin - from;
  segment.bytes = end - begin;
  segment.place = begin - offset_[parameter];
  return segment;
}

}  // namespace paceline::shard
