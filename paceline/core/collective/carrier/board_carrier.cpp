#include "paceline/core/collective/carrier/board_carrier.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "paceline/core/base/log.h"
#include "paceline/core/collective/carrier/posted_sum.h"

namespace paceline::collective {
namespace {

// The segments of stages, by group. Numbers of segments that callers allocate are small.
constexpr std::uint64_t kStages = std::uint64_t{1} << 62;

// The driver carries out longer calls, so that the caller may compute meanwhile.
constexpr std::size_t kLongestAtOnce = 1 << 20;

}  // namespace

bool BoardCarrier::suits(const Call& call, int ranks) {
  const bool known =
      call.operation == Operation::barrier || call.operation == Operation::all_reduce;
  return known && ranks > 1 && !call.weighted && call.note.empty();
}

bool BoardCarrier::is_short(const Call& call) {
  return bytes_of(call) <= kLongestAtOnce;
}

// --- the ranks' memory ---------------------------------------------------------------------------

// nullptr, and nothing shared, where the system refuses.
BoardCarrier::Memory BoardCarrier::make_stage() {
  auto memory = transport::SharedMemory::create(SharedReduction::kStageBytes);
  if (!memory) return nullptr;
  auto shared = std::make_shared<const transport::SharedMemory>(std::move(*memory));
  members_.generation().share(kStages | group_, shared);
  return shared;
}

transport::Offered BoardCarrier::offered(std::uint64_t segment) const {
  auto worst = transport::Offered::had;
  for (int rank = 0; rank < members_.size(); ++rank) {
    const transport::Link* const link = members_.link(rank);
    if (link != nullptr) worst = std::max(worst, link->offered(segment));
  }
  return worst;
}

void BoardCarrier::close() {
  leave_operation();
  if (stage_) members_.generation().unshare(kStages | group_);
  stage_.reset();
}

void BoardCarrier::tell_withheld(const std::vector<int>& ranks) {
  if (std::exchange(told_withheld_, true)) return;
  warn(
      fmt::format("{} cannot have the shared memory of {}: one of them has no descriptor left, or "
                  "may not pass it on (raise `ulimit -n`). Their calls go by messages, which "
                  "takes longer",
                  members_.name(members_.rank()), members_.names(ranks)));
}

// The other ranks do so, too.
void BoardCarrier::leave_operation() {
  reduction_.reset();
  lent_.reset();
}

void BoardCarrier::leave(int peer) {
  leave_operation();
  board_.left_by(peer, sequence_);
}

void BoardCarrier::give_up() {
  if (lent_) members_.generation().take_back(*lent_);
  board_.forbid_writes();
  leave_operation();
}

// --- calls ---------------------------------------------------------------------------------------

// The address at which others can reach it; 0 for memory that the system does not copy, such as
// that of devices.
std::uint64_t BoardCarrier::reachable(Bytes buffer) const {
  std::byte probe;
  for (const std::byte* end : {buffer.data(), &buffer.back()}) {
    if (!transport::read_memory(transport::own_remote_memory(),
                                reinterpret_cast<std::uint64_t>(end), {&probe, 1}))
      return 0;
  }
  return reinterpret_cast<std::uint64_t>(buffer.data());
}

SharedReduction::Offer BoardCarrier::offer(const Request& request) {
  const auto& own = members_.generation().segments();
  SharedReduction::Offer offer;
  offer.is_had = true;
  offer.comes = request.staged && !request.staged->is_here();
  const auto may_lend = [&](std::uint64_t segment) {
    const transport::Offered state = offered(segment);
    offer.is_had = offer.is_had && state != transport::Offered::awaited;
    return state != transport::Offered::withheld;
  };
  if (const auto input = own.find(request.input.bytes()); input && may_lend(input->segment))
    offer.input = *input;
  lent_ = own.share(request.output.bytes());
  if (lent_ && !may_lend(lent_->place.segment)) lent_.reset();
  if (lent_) offer.output = lent_->place;
  if (lent_) offer.writable = lent_->writable;
  offer.reaches = board_->reaches_all() &&
                  bytes_of(request.call) >= SharedReduction::shortest_reached(members_.size());
  if (!offer.needs_stage()) return offer;
  offer.reaches = offer.reaches && board_.is_as_reachable_as_before();
  if (!stage_) stage_ = make_stage();
  if (stage_ && may_lend(kStages | group_)) offer.stage = kStages | group_;
  if (!offer.reaches) return offer;
  offer.output_address = reachable(request.output.bytes());
  const bool in_place = request.input.data == request.output.data;
  offer.input_address = in_place ? offer.output_address : reachable(request.input.bytes());
  return offer;
}

Result<> BoardCarrier::begin(std::uint64_t sequence, Request& request) {
  sequence_ = sequence;
  request_ = &request;
  const std::size_t bytes = bytes_of(request.call);
  is_posted_sum_ = Board::holds(bytes) && !Board::each_sums_up(bytes, members_.size());
  if (board_->has_posted(members_.rank(), sequence)) return Done{};
  int awaiting = members_.size();
  if (Board::holds(bytes)) {
    board_->post(sequence, request.fingerprint, request.input.bytes());
    // This rank sums up what nobody else does, and wakes the others then.
    if (is_posted_sum_ && all_have_posted()) awaiting = 0;
  } else {
    const SharedReduction::Offer where = offer(request);
    board_->post(sequence, request.fingerprint, std::as_bytes(std::span(&where, 1)));
    if (all_have_posted() && SharedReduction::is_for_owners(*board_, sequence))
      awaiting = members_.owners();
  }
  board_.wake(awaiting);
  return Done{};
}

// The same call, this rank as the last one.
bool BoardCarrier::all_have_posted() const {
  return board_->may_be_awaited() &&
         board_->state(sequence_, request_->fingerprint) == Board::State::all_equal;
}

Result<> BoardCarrier::received(int peer, const transport::FrameHeader& header, Bytes, Delivery) {
  return unexpected(members_, peer, header, "which a board carries");
}

void BoardCarrier::sum_short() {
  const Request& request = *request_;
  if (request.output.count == 0) return;
  board_->sum(sequence_, request.call.op, 0, request.output);
}

CallProgress BoardCarrier::sum_posted() {
  PostedSum sum(*board_, members_.owners(), sequence_, *request_);
  CallProgress progress = sum.advance();
  if (progress != CallProgress::moved) return progress;
  board_.wake(members_.size());
  progress = sum.advance();
  return progress == CallProgress::soon ? CallProgress::moved : progress;
}

Result<CallProgress> BoardCarrier::advance() {
  const Request& request = *request_;
  if (!reduction_) {
    if (is_posted_sum_ && PostedSum::is_over(*board_, members_.owners(), sequence_))
      return sum_posted();
    switch (board_->state(sequence_, request.fingerprint)) {
      case Board::State::some_missing: return CallProgress::waiting;
      case Board::State::differs: leave_operation(); return CallProgress::by_messages;
      case Board::State::all_equal: break;
    }
    if (is_posted_sum_) return sum_posted();
    if (Board::holds(bytes_of(request.call))) {
      sum_short();
      return CallProgress::done;
    }
    reduction_.emplace(*board_, members_, sequence_, request, stage_, read_);
    if (reduction_->is_impossible()) {
      leave_operation();
      return CallProgress::by_messages;
    }
  }
  auto advanced = reduction_->advance();
  if (!advanced || *advanced == CallProgress::soon) return advanced;
  board_.wake(members_.size());
  if (*advanced == CallProgress::moved) return advanced;
  if (*advanced == CallProgress::by_messages) {
    if (!reduction_->withheld().empty()) tell_withheld(reduction_->withheld());
    leave_operation();
    return advanced;
  }
  // Others have read the rest of this rank's input, and it has written its sums to each of them.
  const std::size_t own = reduction_->bytes_of_own_chunk();
  const auto others = static_cast<std::size_t>(members_.size() - 1);
  traffic_.bytes_reduced += own * others;
  traffic_.bytes_sent += bytes_of(request.call) - own + own * others;
  lent_.reset();
  reduction_.reset();
  return CallProgress::done;
}

AwaitedRanks BoardCarrier::awaited() const {
  if (reduction_) return {.ranks = reduction_->awaited()};
  if (!is_posted_sum_ || board_->state(sequence_, request_->fingerprint) != Board::State::all_equal)
    return {};
  return {.ranks = PostedSum::awaited(*board_, members_.owners(), sequence_)};
}

}  // namespace paceline::collective
