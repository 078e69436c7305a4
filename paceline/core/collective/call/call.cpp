#include "paceline/core/collective/call/call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "paceline/core/base/seed.h"
#include "paceline/core/transport/frame/wire.h"

namespace paceline::collective {
namespace {

constexpr std::size_t kLongestName = 64;
// They stand in one byte.
constexpr std::uint8_t kWeighted = 1, kOffers = 2;

// In all_to_all each rank has counts of its own: those between the two must agree.
bool counts_match(const Call& a, int rank_a, const Call& b, int rank_b) {
  if (a.operation != Operation::all_to_all) return a.counts == b.counts;
  const auto at = [](const std::vector<std::uint64_t>& counts,
                     int rank) -> std::optional<std::uint64_t> {
    if (static_cast<std::size_t>(rank) >= counts.size()) return std::nullopt;
    return counts[static_cast<std::size_t>(rank)];
  };
  return a.counts.size() == b.counts.size() && at(a.counts, rank_b) == at(b.expected, rank_a) &&
         at(b.counts, rank_a) == at(a.expected, rank_b);
}

std::string list_of(const std::vector<std::uint64_t>& counts) {
  constexpr std::size_t kTold = 16;
  const std::size_t told = std::min(counts.size(), kTold);
  return fmt::format(
      "{}{}", fmt::join(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(told), "+"),
      told < counts.size() ? fmt::format("+.. ({} counts)", counts.size()) : "");
}

void write_counts(transport::WireWriter& w, const std::vector<std::uint64_t>& counts) {
  w.integer(static_cast<std::uint32_t>(counts.size()));
  for (const std::uint64_t count : counts) w.integer(count);
}

std::uint8_t flags_of(const Call& call) {
  return static_cast<std::uint8_t>((call.weighted ? kWeighted : 0) | (call.offer ? kOffers : 0));
}

std::vector<std::uint64_t> read_counts(transport::WireReader& r) {
  const auto size = r.integer<std::uint32_t>();
  std::vector<std::uint64_t> counts;
  for (std::uint32_t i = 0; i < size && r.ok(); ++i) counts.push_back(r.integer<std::uint64_t>());
  return counts;
}

}  // namespace

bool matches(const Call& a, int rank_a, const Call& b, int rank_b) {
  return a.operation == b.operation && a.op == b.op && a.dtype == b.dtype &&
         a.weighted == b.weighted && a.root == b.root && a.count == b.count &&
         a.algorithm == b.algorithm && counts_match(a, rank_a, b, rank_b);
}

std::uint64_t fingerprint(const Call& call) {
  std::uint64_t sum =
      mix(static_cast<std::uint64_t>(call.operation), static_cast<std::uint64_t>(call.op));
  sum = mix(sum, static_cast<std::uint64_t>(call.dtype) * 2 + (call.weighted ? 1 : 0));
  sum = mix(sum, static_cast<std::uint32_t>(call.root));
  sum = mix(sum, call.count);
  for (const char c : call.algorithm) sum = mix(sum, static_cast<unsigned char>(c));
  if (call.operation != Operation::all_to_all) {
    for (const std::uint64_t count : call.counts) sum = mix(sum, count);
  }
  return sum;
}

std::string to_string(const Call& call, std::string_view carrier) {
  if (call.operation == Operation::barrier) return "barrier";
  const bool cuts = !call.counts.empty();
  std::string text = fmt::format("{} {}[{}]", name_of(call.operation), name_of(call.dtype),
                                 cuts ? list_of(call.counts) : std::to_string(call.count));
  if (!call.expected.empty()) text += fmt::format(" for [{}]", list_of(call.expected));
  if (is_reduction(call.operation))
    text += fmt::format(" {}{}", call.weighted ? "weighted " : "", name_of(call.op));
  const bool to_root = call.operation == Operation::reduce || call.operation == Operation::gather;
  if (has_root(call.operation))
    text += fmt::format(" {} root {}", to_root ? "to" : "from", call.root);
  if (!carrier.empty()) text += fmt::format(" by {}", carrier);
  return text;
}

std::vector<std::byte> encode(const Call& call) {
  transport::WireWriter w;
  w.integer(call.operation).integer(call.op).integer(call.dtype).integer(flags_of(call));
  w.integer(call.root).integer(call.count).real(call.weight);
  w.integer(call.output.place.segment).integer(call.output.place.offset);
  w.integer(call.output.writable.begin).integer(call.output.writable.end);
  w.text(call.algorithm);
  write_counts(w, call.counts);
  write_counts(w, call.expected);
  if (call.offer) w.integer(static_cast<std::uint32_t>(call.offer->size())).raw(*call.offer);
  w.raw(call.note);
  return std::move(w).take();
}

std::optional<Call> decode_call(Bytes payload) {
  transport::WireReader r(payload);
  Call call;
  call.operation = r.integer<Operation>();
  call.op = r.integer<ReduceOp>();
  call.dtype = r.integer<Dtype>();
  const auto flags = r.integer<std::uint8_t>();
  call.weighted = (flags & kWeighted) != 0;
  call.root = r.integer<std::int32_t>();
  call.count = r.integer<std::uint64_t>();
  call.weight = r.real();
  call.output.place.segment = r.integer<std::uint64_t>();
  call.output.place.offset = r.integer<std::uint64_t>();
  call.output.writable.begin = r.integer<std::uint64_t>();
  call.output.writable.end = r.integer<std::uint64_t>();
  call.algorithm = r.text(kLongestName);
  call.counts = read_counts(r);
  call.expected = read_counts(r);
  if ((flags & kOffers) != 0) {
    const auto length = r.integer<std::uint32_t>();
    if (length > kLongestInvitation) return std::nullopt;
    const Bytes invitation = r.raw(length);
    call.offer.emplace(invitation.begin(), invitation.end());
  }
  if (!r.ok() || flags > (kWeighted | kOffers) || r.rest().size() > kLongestNote ||
      !is_known(call.dtype) || !is_known(call.op))
    return std::nullopt;
  call.note.assign(r.rest().begin(), r.rest().end());
  return call;
}

}  // namespace paceline::collective
