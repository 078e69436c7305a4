#include "paceline/core/server/sparse/sparse_spec.h"

#include <fmt/format.h>

#include <cmath>

#include "paceline/core/base/seed.h"

namespace paceline::server {
namespace {

std::string complaint(const SparseTableSpec& spec, const TableMembers& members) {
  if (spec.width == 0 || spec.width > kMostWidth)
    return fmt::format("its rows have {} elements: give them 1 to {}", spec.width, kMostWidth);
  if (spec.dtype != Dtype::f32 && spec.dtype != Dtype::f64)
    return fmt::format("its dtype is {}: servers compute in f32 or f64", name_of(spec.dtype));
  if (spec.name.size() > kLongestName)
    return fmt::format("its name has {} characters, and may have {}", spec.name.size(),
                       kLongestName);
  if (!std::isfinite(spec.spread) || spec.spread < 0)
    return fmt::format("its spread is {}: it is a finite number of at least 0", spec.spread);
  if (spec.admit_after < 0 || spec.admit_after > kMostAdmitAfter)
    return fmt::format("its admit_after is {}: it is the push that stores a row, 0 to {}",
                       spec.admit_after, kMostAdmitAfter);
  if (spec.evict_after < 0 || spec.evict_after > kMostEvictAfter)
    return fmt::format("its evict_after is {}: it is a number of steps, 0 (never) to {}",
                       spec.evict_after, kMostEvictAfter);
  if (members.workers.empty()) return "it has no workers";
  if (members.servers.empty()) return "it has no servers: start some, or let workers serve";
  return complaint_of_replicas(spec.replicas, members);
}

std::string complaint(const ConsistencyChoice& choice, const Pacing& pacing) {
  if (const std::string_view name = choice.entry.name;
      name != "bsp" && name != "ssp" && name != "asp")
    return fmt::format("its synchrony is {}: a sparse table has bsp, ssp or asp", name);
  if (pacing.worker_updates)
    return "update=worker: the servers of a sparse table step its rows, so leave update=server";
  return {};
}

template <typename T>
void begin_elements(std::uint64_t root, std::size_t width, double spread, std::byte* values) {
  T* const row = reinterpret_cast<T*>(values);
  SeededNumbers numbers(root);
  for (std::size_t i = 0; i < width; ++i)
    row[i] = static_cast<T>((2 * numbers.unit() - 1) * spread);
}

}  // namespace

std::uint64_t SparseShape::fingerprint() const {
  std::uint64_t sum = mix_text(0x737061727365, spec.name);
  sum = mix(mix(mix(sum, spec.width), static_cast<std::uint64_t>(spec.dtype)), spec.seed);
  sum = mix_text(mix_text(sum, spec.synchrony), rule.text());
  sum = mix(sum, std::bit_cast<std::uint64_t>(spec.spread));
  sum = mix(sum, static_cast<std::uint64_t>(spec.replicas));
  sum = mix(sum, static_cast<std::uint64_t>(spec.admit_after));
  return members.mixed_into(mix(sum, static_cast<std::uint64_t>(spec.evict_after)));
}

Result<SparseShape> shape_of(const SparseTableSpec& spec, const TableMembers& members) {
  const auto refused = [&](std::string_view why) {
    return Failure{Fault::misuse, fmt::format("sparse table '{}': {}", spec.name, why), {}};
  };
  if (const std::string why = complaint(spec, members); !why.empty()) return refused(why);
  auto rule = parse_sparse_rule(spec.rule);
  if (!rule) return refused(rule.error().what);
  auto consistency = parse_consistency(spec.synchrony);
  if (!consistency) return refused(consistency.error().what);
  const Pacing pacing = pacing_of(*consistency);
  if (const std::string why = complaint(*consistency, pacing); !why.empty()) return refused(why);
  std::vector<double> settings = values_of(rule->choice);
  return SparseShape{spec,
                     members,
                     *std::move(rule),
                     std::move(settings),
                     pacing,
                     mix_text(mix(0x726f7773, spec.seed), spec.name)};
}

void begin_row(const SparseShape& shape, std::uint64_t id, std::byte* values) {
  const std::uint64_t root = mix(shape.root, id);
  shape.spec.dtype == Dtype::f64
      ? begin_elements<double>(root, shape.spec.width, shape.spec.spread, values)
      : begin_elements<float>(root, shape.spec.width, shape.spec.spread, values);
}

}  // namespace paceline::server
