#include "paceline/core/server/vectors/vector_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "paceline/core/settings/settings.h"

namespace paceline::server {
namespace {

constexpr double kMostSamples = 1e15;
constexpr std::int64_t kMostPortions = std::int64_t{1} << 24;
constexpr int kMostHistory = 100;
constexpr std::size_t kMostVectorElements = std::size_t{1} << 48;

const std::vector<Setting>& settings_of_vectors() {
  static const std::vector<Setting> settings = {
      {.name = "samples", .least = 1, .most = kMostSamples, .meaning = "of all", .whole = true},
      {.name = "portion", .least = 1, .most = kMostSamples, .meaning = "samples", .whole = true},
      {.name = "history", .least = 1, .most = kMostHistory, .meaning = "pairs", .whole = true},
  };
  return settings;
}

std::string complaint_about(const VectorShape& shape) {
  if (shape.elements == 0) return "it has no parameters: give it a model with some";
  if (shape.elements > kMostVectorElements)
    return fmt::format("its {} parameters are more than any memory holds", shape.elements);
  if (shape.dtype != Dtype::f32 && shape.dtype != Dtype::f64)
    return fmt::format("its parameters are {}: servers compute in f32 or f64",
                       name_of(shape.dtype));
  if (shape.name.size() > kLongestName)
    return fmt::format("its name has {} characters, and may have {}", shape.name.size(),
                       kLongestName);
  if (shape.samples < 1) return fmt::format("it has {} samples, and needs one", shape.samples);
  if (shape.portion < 1)
    return fmt::format(
        "a portion has {} samples: give it one or more, much less than a worker's "
        "share of all {}",
        shape.portion, shape.samples);
  if (shape.portions() > kMostPortions)
    return fmt::format("its {} samples are {} portions of {}, and may be {}: take longer portions",
                       shape.samples, shape.portions(), shape.portion, kMostPortions);
  if (shape.history < 1 || shape.history > kMostHistory)
    return fmt::format("its history is {} pairs: it keeps 1 to {}", shape.history, kMostHistory);
  if (shape.members.workers.empty()) return "it has no workers";
  if (shape.members.servers.empty())
    return "this job has no servers, which hold its vectors; start it with `paceline run "
           "--servers N`";
  return {};
}

}  // namespace

std::int64_t VectorShape::end_of(std::int64_t number) const {
  return std::min(samples, begin_of(number) + portion);
}

ElementSpan VectorShape::shard(std::size_t server) const {
  const std::size_t each = elements / servers(), longer = elements % servers();
  return {server * each + std::min(server, longer), each + (server < longer ? 1 : 0)};
}

std::size_t VectorShape::bytes_on(int member) const {
  std::size_t bytes = 0;
  if (std::ranges::binary_search(members.workers, member)) bytes += 3 * this->bytes();
  const auto server = std::ranges::find(members.servers, member);
  if (server != members.servers.end())
    bytes += shard_bytes(static_cast<std::size_t>(server - members.servers.begin())) *
             (vectors() + static_cast<std::size_t>(window()));
  return bytes;
}

TableSpec declaration_of(const VectorShape& shape) {
  return {.name = shape.name,
          .elements = shape.elements,
          .dtype = shape.dtype,
          .synchrony = kVectorsSynchrony,
          .rule = fmt::format("samples={},portion={},history={}", shape.samples, shape.portion,
                              shape.history)};
}

Result<VectorShape> vector_shape_of(const TableSpec& spec, const TableMembers& members) {
  const auto settings = parse_settings(spec.name, settings_of_vectors(), spec.rule);
  if (!settings) return settings.error();
  const Settings& said = settings.value();
  VectorShape shape{.name = spec.name,
                    .elements = spec.elements,
                    .dtype = spec.dtype,
                    .samples = said.as<std::int64_t>("samples"),
                    .portion = said.as<std::int64_t>("portion"),
                    .history = said.as<int>("history"),
                    .members = members};
  const auto checked = check_vectors(shape);
  if (!checked) return checked.error();
  return shape;
}

Result<> check_vectors(const VectorShape& shape) {
  const std::string why = complaint_about(shape);
  if (why.empty()) return Done{};
  return Failure{Fault::misuse, fmt::format("'{}': {}", shape.name, why), {}};
}

Result<> check_memory(const VectorShape& shape, int member, const transport::MemoryBound& bound) {
  const std::size_t bytes = shape.bytes_on(member);
  if (bytes <= bound.bytes) return Done{};
  return Failure{
      Fault::misuse,
      fmt::format("'{}': {} vectors of its {} parameters of {} take {} MiB in this process, and "
                  "{}: keep a shorter history, or give it more servers and hosts{}",
                  shape.name, shape.vectors(), shape.elements, name_of(shape.dtype), bytes >> 20,
                  bound.text(), bound.limit.empty() ? "" : ", or raise that limit"),
      {}};
}

}  // namespace paceline::server
