#include "paceline/core/collective/short_calls.h"

namespace paceline::collective {
namespace {

// Numbers of segments that callers allocate are small.
constexpr std::uint64_t kPages = std::uint64_t{1} << 63;

}  // namespace

ShortCalls::ShortCalls(const Members& members, std::uint32_t group)
    : members_(members), group_(group) {}

bool ShortCalls::suits(const Call& call, int ranks) {
  const bool known =
      call.operation == Operation::barrier || call.operation == Operation::all_reduce;
  return known && ranks > 1 && !call.weighted && call.note.empty() &&
         Board::takes(call.count * size_of(call.dtype), ranks);
}

std::uint64_t ShortCalls::segment() const {
  return kPages | group_;
}

void ShortCalls::open() {
  if (members_.size() == 1) return;
  auto page = Board::make_page();
  if (!page) return;  // then all calls are messages
  own_page_ = *page;
  members_.mesh().share(segment(), own_page_);
}

void ShortCalls::close() {
  board_.reset();
  if (own_page_) members_.mesh().unshare(segment());
  own_page_.reset();
}

void ShortCalls::meet() {
  if (std::exchange(met_, true) || !own_page_) return;
  std::vector<std::shared_ptr<const transport::SharedMemory>> pages;
  for (int rank = 0; rank < members_.size(); ++rank) {
    transport::Link* const link = members_.link(rank);
    pages.push_back(link == nullptr ? own_page_ : link->memory(segment()));
    if (!Board::is_page(pages.back())) return;
  }
  board_.emplace(members_.rank(), std::move(pages));
}

bool ShortCalls::post(std::uint64_t sequence, const Request& request) {
  board_->post(sequence, request.print, request.input.bytes());
  bool woke = false;
  for (int rank = 0; rank < members_.size(); ++rank) {
    if (rank == members_.rank() || !board_->is_asleep(rank)) continue;
    members_.link(rank)->send({.type = transport::FrameType::nudge, .group = group_}, {});
    woke = true;
  }
  return woke;
}

void ShortCalls::carry_out(std::uint64_t sequence, const Request& request) {
  if (request.output.count == 0) return;
  const double factor = request.call.op == ReduceOp::average ? 1.0 / members_.size() : 1.0;
  board_->sum(sequence, request.call.op, request.output, factor);
}

}  // namespace paceline::collective
