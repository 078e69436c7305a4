#include "paceline/core/collective/call.h"

#include <fmt/format.h>

#include "paceline/core/base/seed.h"
#include "paceline/core/transport/wire.h"

namespace paceline::collective {
namespace {

constexpr std::size_t kLongestName = 64;

}  // namespace

bool matches(const Call& a, const Call& b) {
  return a.operation == b.operation && a.op == b.op && a.dtype == b.dtype && a.weighted == b.weighted &&
         a.root == b.root && a.count == b.count && a.algorithm == b.algorithm;
}

std::uint64_t fingerprint(const Call& call) {
  std::uint64_t sum = mix(static_cast<std::uint64_t>(call.operation), static_cast<std::uint64_t>(call.op));
  sum = mix(sum, static_cast<std::uint64_t>(call.dtype) * 2 + (call.weighted ? 1 : 0));
  sum = mix(sum, static_cast<std::uint32_t>(call.root));
  sum = mix(sum, call.count);
  for (const char c : call.algorithm) sum = mix(sum, static_cast<unsigned char>(c));
  return sum;
}

std::string to_string(const Call& call) {
  if (call.operation == Operation::barrier) return "barrier";
  std::string text = fmt::format("{} {}[{}]", name_of(call.operation), name_of(call.dtype), call.count);
  if (is_reduction(call.operation)) text += fmt::format(" {}{}", call.weighted ? "weighted " : "", name_of(call.op));
  if (call.operation == Operation::broadcast) text += fmt::format(" from root {}", call.root);
  if (!call.algorithm.empty()) text += fmt::format(" by {}", call.algorithm);
  return text;
}

std::vector<std::byte> encode(const Call& call) {
  transport::WireWriter w;
  w.integer(call.operation).integer(call.op).integer(call.dtype).integer(std::uint8_t{call.weighted});
  w.integer(call.root).integer(call.count).real(call.weight);
  w.integer(call.output.segment).integer(call.output.offset);
  w.text(call.algorithm).raw(call.note);
  return std::move(w).take();
}

std::optional<Call> decode_call(Bytes payload) {
  transport::WireReader r(payload);
  Call call;
  call.operation = r.integer<Operation>();
  call.op = r.integer<ReduceOp>();
  call.dtype = r.integer<Dtype>();
  call.weighted = r.integer<std::uint8_t>() != 0;
  call.root = r.integer<std::int32_t>();
  call.count = r.integer<std::uint64_t>();
  call.weight = r.real();
  call.output.segment = r.integer<std::uint64_t>();
  call.output.offset = r.integer<std::uint64_t>();
  call.algorithm = r.text(kLongestName);
  if (!r.ok() || r.rest().size() > kLongestNote || !is_known(call.dtype) || !is_known(call.op)) return std::nullopt;
  call.note.assign(r.rest().begin(), r.rest().end());
  return call;
}

}  // namespace paceline::collective
