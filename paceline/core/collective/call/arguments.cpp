#include "paceline/core/collective/call/arguments.h"

#include "paceline/core/base/check.h"

namespace paceline::collective {

void check_memory(ConstBuffer buffer, std::string_view what) {
  PACELINE_CHECK(buffer.count == 0 || buffer.data != nullptr,
                 "{}: a buffer of {} elements without memory", what, buffer.count);
  PACELINE_CHECK(buffer.count <= (std::size_t{1} << 60),
                 "{}: {} elements are more than any memory holds", what, buffer.count);
}

void check_host_memory(ConstBuffer buffer, std::string_view what) {
  check_memory(buffer, what);
  PACELINE_CHECK(buffer.memory.kind == Memory::Kind::host,
                 "{}: a buffer lies in device memory; copy it to the host first", what);
}

void check_reduction(std::string_view what, ReduceOp op, Dtype dtype) {
  PACELINE_CHECK(op != ReduceOp::average || is_floating(dtype),
                 "{}: the average of {} is no {}; sum them and divide, or convert to f64", what,
                 name_of(dtype), name_of(dtype));
  PACELINE_CHECK(can_reduce(op, dtype),
                 "{}: there is no {} of {}: bits are combined of integers and bools", what,
                 name_of(op), name_of(dtype));
}

// `part` lies at `at` elements of `whole`, or the two do not overlap at all.
void check_overlap(std::string_view what, ConstBuffer whole, ConstBuffer part, std::size_t at) {
  const std::byte *w = whole.data, *p = part.data;
  const bool apart = part.count == 0 || w + whole.size_bytes() <= p || p + part.size_bytes() <= w;
  PACELINE_CHECK(apart || p == w + at * size_of(whole.dtype),
                 "{}: input and output overlap without being the same memory; use one buffer for "
                 "both, or two apart",
                 what);
}

void check_equal(std::string_view what, ConstBuffer in, ConstBuffer out) {
  PACELINE_CHECK(in.dtype == out.dtype && in.count == out.count,
                 "{}: input is {}[{}], output {}[{}]; they must be equal", what, name_of(in.dtype),
                 in.count, name_of(out.dtype), out.count);
  check_overlap(what, in, out, 0);
}

// One buffer holds all parts, the other the part of `rank`.
void check_part(std::string_view what, ConstBuffer whole, ConstBuffer part, const Partition& parts,
                int rank) {
  const ElementRange own = parts.chunks[static_cast<std::size_t>(rank)];
  PACELINE_CHECK(
      whole.dtype == part.dtype && whole.count == parts.count() && part.count == own.count,
      "{}: {}[{}] over {} ranks takes {}[{}] of rank {}, but the buffers have {}[{}] and {}[{}]",
      what, name_of(whole.dtype), parts.count(), parts.chunks.size(), name_of(whole.dtype),
      own.count, rank, name_of(whole.dtype), whole.count, name_of(part.dtype), part.count);
  check_overlap(what, whole, part, own.offset);
}

}  // namespace paceline::collective
