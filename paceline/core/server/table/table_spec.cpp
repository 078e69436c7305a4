#include "paceline/core/server/table/table_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "paceline/core/base/seed.h"

namespace paceline::server {
namespace {

// Members list the parts, so more of them cost more than messages that are long.
constexpr std::size_t kMostElements = std::size_t{1} << 48, kMostParts = std::size_t{1} << 20;

std::string complaint(const TableSpec& spec, const TableMembers& members) {
  if (spec.elements == 0) return "it has no elements: give it one or more";
  if (spec.dtype != Dtype::f32 && spec.dtype != Dtype::f64)
    return fmt::format("its dtype is {}: servers compute in f32 or f64", name_of(spec.dtype));
  if (spec.part_bytes < size_of(spec.dtype))
    return fmt::format("its parts have {} bytes, less than an element", spec.part_bytes);
  if (spec.name.size() > kLongestName)
    return fmt::format("its name has {} characters, and may have {}", spec.name.size(),
                       kLongestName);
  if (spec.elements > kMostElements)
    return fmt::format("its {} elements of {} are more than any memory holds", spec.elements,
                       name_of(spec.dtype));
  if (const auto parts = spec.elements / (spec.part_bytes / size_of(spec.dtype));
      parts > kMostParts)
    return fmt::format(
        "its {} elements of {} are {} parts of {} bytes, and may be {}: set "
        "part_bytes higher",
        spec.elements, name_of(spec.dtype), parts, spec.part_bytes, kMostParts);
  if (members.workers.empty()) return "it has no workers";
  if (members.servers.empty()) return "it has no servers: start some, or let workers serve";
  return complaint_of_replicas(spec.replicas, members);
}

}  // namespace

std::uint64_t mix_text(std::uint64_t fingerprint, std::string_view text) {
  for (const char one : text) fingerprint = mix(fingerprint, static_cast<unsigned char>(one));
  return mix(fingerprint, text.size());
}

std::string complaint_of_replicas(int replicas, const TableMembers& members) {
  if (replicas < 1 || replicas > kMostReplicas)
    return fmt::format("it has {} replicas: give it 1 .. {}", replicas, kMostReplicas);
  const auto servers = static_cast<int>(members.servers.size());
  if (replicas > servers)
    return fmt::format(
        "its {} replicas need as many servers, and there are {}: start more by "
        "--servers, or choose fewer by --replicas",
        replicas, servers);
  const auto works = [&](int server) {
    return std::ranges::find(members.workers, server) != members.workers.end();
  };
  if (replicas > 1 && std::ranges::any_of(members.servers, works))
    return fmt::format(
        "its {} replicas need servers that are no workers: start them by "
        "--servers",
        replicas);
  return {};
}

TableMembers TableMembers::of_ranks(int ranks) {
  TableMembers members;
  members.workers.resize(static_cast<std::size_t>(ranks));
  std::iota(members.workers.begin(), members.workers.end(), 0);
  members.servers = members.workers;
  return members;
}

TableMembers TableMembers::of_servers(int workers, int servers) {
  TableMembers members = of_ranks(workers);
  members.servers.resize(static_cast<std::size_t>(servers));
  std::iota(members.servers.begin(), members.servers.end(), workers);
  return members;
}

std::set<int> TableMembers::all() const {
  std::set<int> both(workers.begin(), workers.end());
  both.insert(servers.begin(), servers.end());
  return both;
}

std::uint64_t TableMembers::mixed_into(std::uint64_t fingerprint) const {
  for (const auto* list : {&workers, &servers}) {
    fingerprint = mix(fingerprint, list->size());
    for (const int member : *list)
      fingerprint = mix(fingerprint, static_cast<std::uint64_t>(member));
  }
  return fingerprint;
}

std::size_t TableShape::bytes_on(int member) const {
  std::size_t elements = std::ranges::binary_search(members.workers, member) ? spec.elements : 0;
  const std::size_t earlier = pacing.exact ? static_cast<std::size_t>(pacing.lead) : 0;
  const std::size_t workers = members.workers.size();
  const std::size_t of_workers = pacing.remembers_pulls() ? workers + 1
                                 : pacing.rounds          ? 3 * workers + 1
                                 : pacing.elastic         ? workers
                                                          : 0;
  const std::vector<Chain> all = chains();
  for (std::size_t range = 0; range < ranges.size(); ++range)
    if (all[chain_of(range)].has(member))
      elements += ranges[range].elements * (1 + slots() + earlier + of_workers);
  return elements * element_bytes();
}

Result<> check_memory(const TableShape& shape, int member, const transport::MemoryBound& bound) {
  const std::size_t bytes = shape.bytes_on(member);
  if (bytes <= bound.bytes) return Done{};
  return Failure{
      Fault::misuse,
      fmt::format("table '{}': its {} elements of {} take {} MiB in this process, and {}: "
                  "make it smaller, or give it more servers and hosts{}",
                  shape.spec.name, shape.spec.elements, name_of(shape.spec.dtype), bytes >> 20,
                  bound.text(), bound.limit.empty() ? "" : ", or raise that limit"),
      {}};
}

std::vector<Bytes> TableShape::pieces(std::size_t range, Bytes table) const {
  std::vector<Bytes> pieces;
  for (const ElementSpan& part : ranges[range].parts)
    pieces.push_back(table.subspan(part.begin * element_bytes(), part.count * element_bytes()));
  return pieces;
}

std::vector<std::byte> TableShape::gathered(std::size_t range, Bytes table) const {
  std::vector<std::byte> elements;
  elements.reserve(ranges[range].elements * element_bytes());
  for (const Bytes piece : pieces(range, table))
    elements.insert(elements.end(), piece.begin(), piece.end());
  return elements;
}

void TableShape::scatter(std::size_t range, Bytes elements, MutableBytes table) const {
  for (const ElementSpan& part : ranges[range].parts) {
    const std::size_t bytes = part.count * element_bytes();
    std::memcpy(table.data() + part.begin * element_bytes(), elements.data(), bytes);
    elements = elements.subspan(bytes);
  }
}

std::uint64_t TableShape::fingerprint() const {
  std::uint64_t sum = mix_text(0, spec.name);
  sum = mix(mix(mix(sum, spec.elements), static_cast<std::uint64_t>(spec.dtype)), spec.part_bytes);
  sum = mix(sum, static_cast<std::uint64_t>(spec.replicas));
  return members.mixed_into(mix_text(mix_text(sum, spec.synchrony), rule.text()));
}

Result<TableShape> shape_of(const TableSpec& spec, const TableMembers& members) {
  const auto refused = [&](std::string_view why) {
    return Failure{Fault::misuse, fmt::format("table '{}': {}", spec.name, why), {}};
  };
  if (const std::string why = complaint(spec, members); !why.empty()) return refused(why);
  auto rule = parse_rule(spec.rule);
  if (!rule) return refused(rule.error().what);
  const auto consistency = parse_consistency(spec.synchrony);
  if (!consistency) return refused(consistency.error().what);
  const Pacing pacing = pacing_of(consistency.value());
  const auto checked =
      check_pacing(pacing, static_cast<int>(members.workers.size()), spec.replicas);
  if (!checked) return refused(checked.error().what);
  if (pacing.adds() != rule->entry.sums)
    return refused(
        fmt::format("its rule is {} and its synchrony {}: the rule add goes with "
                    "update=worker and with elastic or admm, every other one with update=server",
                    rule->entry.name, spec.synchrony));
  auto ranges = partition(spec.elements, static_cast<int>(members.servers.size()),
                          spec.part_bytes / size_of(spec.dtype));
  return TableShape{spec, members, *std::move(rule), pacing, std::move(ranges)};
}

}  // namespace paceline::server
