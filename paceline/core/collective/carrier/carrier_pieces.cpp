#include "paceline/core/collective/carrier/carrier_pieces.h"

#include <algorithm>

#include "paceline/core/collective/carrier/board.h"
#include "paceline/core/collective/carrier/shared_reduction.h"
#include "paceline/core/collective/program/contract.h"
#include "paceline/core/collective/program/program.h"

namespace paceline::collective {
namespace {

// In these operations a place of a rank's output is written to after the input that lies there has
// been read.
bool may_be_cut(const Request& request) {
  switch (request.call.operation) {
    case Operation::all_reduce:
    case Operation::reduce:
    case Operation::reduce_scatter:
    case Operation::all_gather:
    case Operation::broadcast: return !request.scale_input;  // that needs all of the input at once
    default: return false;
  }
}

// The elements of a buffer's chunks that segments `first` to `last` take.
template <typename Has>
std::vector<ElementRange> ranges_of(const Request& request, const Partition& chunks, int first,
                                    int last, Has has) {
  const Partition begins = request.cut(chunks, first), ends = request.cut(chunks, last);
  std::vector<ElementRange> ranges;
  for (std::size_t c = 0; c < begins.chunks.size(); ++c) {
    if (!has(static_cast<int>(c))) continue;
    const std::size_t begin = begins.chunks[c].offset;
    ranges.push_back({begin, ends.chunks[c].offset + ends.chunks[c].count - begin});
  }
  return ranges;
}

int ranks_of(const Request& request) {
  return static_cast<int>(request.plan->sends.size());
}

// The fields that contract.h reads for these operations.
Shape shape_of(const Request& request, int rank) {
  return {.ranks = ranks_of(request), .rank = rank, .root = request.call.root};
}

std::vector<ElementRange> inputs(const Request& request, int rank, int first, int last) {
  const Shape shape = shape_of(request, rank);
  return ranges_of(request, request.input_chunks, first, last,
                   [&](int chunk) { return has_input(request.call.operation, shape, chunk); });
}

std::vector<ElementRange> outputs(const Request& request, int rank, int first, int last) {
  const Shape shape = shape_of(request, rank);
  return ranges_of(request, request.output_chunks(), first, last,
                   [&](int chunk) { return has_output(request.call.operation, shape, chunk); });
}

std::vector<StagedPiece> pieces_of_program(const Request& request, int rank,
                                           std::size_t piece_bytes) {
  const std::size_t segment_bytes =
      std::max<std::size_t>(1, bytes_of(request.call) / static_cast<std::size_t>(request.segments));
  const int each = static_cast<int>(std::max<std::size_t>(1, piece_bytes / segment_bytes));
  std::vector<StagedPiece> pieces;
  for (int first = 0; first < request.segments; first += each) {
    const int last = std::min(first + each, request.segments) - 1;
    pieces.push_back({inputs(request, rank, first, last), outputs(request, rank, first, last)});
  }
  return pieces;
}

}  // namespace

std::vector<ElementRange> input_of_segment(const Request& request, int rank, int segment) {
  return inputs(request, rank, segment, segment);
}

std::vector<ElementRange> output_of_segment(const Request& request, int rank, int segment) {
  return outputs(request, rank, segment, segment);
}

std::vector<StagedPiece> pieces_of(const Request& request, int rank, int owners,
                                   std::size_t piece_bytes) {
  const Call& call = request.call;
  if (bytes_of(call) <= piece_bytes || !may_be_cut(request) || !request.plan) return {};
  if (request.route == Route::programs) return pieces_of_program(request, rank, piece_bytes);
  if (request.route == Route::board && !Board::holds(bytes_of(call)))
    return SharedReduction::stripes(call.count, call.dtype, owners, piece_bytes);
  return {};
}

}  // namespace paceline::collective
