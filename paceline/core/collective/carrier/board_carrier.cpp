#include "paceline/core/collective/carrier/board_carrier.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "paceline/core/base/log.h"
#include "paceline/core/collective/carrier/posted_sum.h"

namespace paceline::collective {
namespace {

// Numbers of segments that callers allocate are small.
constexpr std::uint64_t kPages = std::uint64_t{1} << 63;
constexpr std::uint64_t kStages = std::uint64_t{1} << 62;

// The driver carries out longer calls, so that the caller may compute meanwhile.
constexpr std::size_t kLongestAtOnce = 1 << 20;

}  // namespace

BoardCarrier::BoardCarrier(const Members& members, std::uint32_t group, Traffic& traffic,
                           std::function<void(const Request&, StagedCall::Moment)> awaits)
    : members_(members), group_(group), traffic_(traffic), awaits_(std::move(awaits)) {}

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
BoardCarrier::Memory BoardCarrier::create(std::uint64_t segment, std::size_t bytes) {
  auto memory = transport::SharedMemory::create(bytes);
  if (!memory) return nullptr;
  if (segment == (kPages | group_))
    Board::initialize(memory->bytes(), transport::own_memory_door());
  auto shared = std::make_shared<const transport::SharedMemory>(std::move(*memory));
  members_.generation().share(segment, shared);
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

void BoardCarrier::open() {
  is_open_ = members_.size() > 1;
  if (!is_open_) return;
  was_reachable_ = transport::own_door_is_open();
  own_page_ = create(kPages | group_, Board::page_bytes());
  if (!own_page_) members_.generation().withhold(kPages | group_);
}

void BoardCarrier::close() {
  leave_board();
  if (is_open_) members_.generation().unshare(kPages | group_);
  is_open_ = false;
  if (stage_) members_.generation().unshare(kStages | group_);
  own_page_.reset();
  stage_.reset();
}

std::vector<int> BoardCarrier::awaited_pages() const {
  std::vector<int> ranks;
  if (met_ || !own_page_) return ranks;
  for (int rank = 0; rank < members_.size(); ++rank) {
    transport::Link* const link = members_.link(rank);
    if (link == nullptr || link->memory(kPages | group_)) continue;
    if (!link->withholds(kPages | group_) && !members_.has_departed(rank)) ranks.push_back(rank);
  }
  return ranks;
}

bool BoardCarrier::meet() {
  if (met_ || !own_page_) return true;
  if (!awaited_pages().empty()) return false;
  met_ = true;
  std::vector<Memory> pages;
  for (int rank = 0; rank < members_.size(); ++rank) {
    transport::Link* const link = members_.link(rank);
    pages.push_back(link == nullptr ? own_page_ : link->memory(kPages | group_));
    if (!Board::is_page(pages.back())) return true;  // withheld, or its group has ended there
  }
  board_.emplace(members_.rank(), std::move(pages));
  return true;
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
  on_devices_.reset();
  lent_.reset();
}

void BoardCarrier::leave(int peer) {
  if (has_posted(peer, sequence_)) return leave_operation();
  leave_board();
  others_know_ = true;  // all hear the peer's call
}

void BoardCarrier::leave_board() {
  if (board_ && !board_->forbid_writes()) {
    warn(fmt::format(
        "the system has kept another rank in the middle of a copy for {} s: it may still write to "
        "a buffer of this rank's failed all_reduce in group {}",
        Board::kPatience.count(), group_));
  }
  if (on_devices_) on_devices_->give_up();
  on_devices_.reset();
  reduction_.reset();
  board_.reset();
  lent_.reset();
}

void BoardCarrier::give_up() {
  if (lent_) members_.generation().take_back(*lent_);
  leave_board();
}

void BoardCarrier::wake(int ranks) {
  if (!board_->may_be_awaited()) return;
  for (int rank = 0; rank < ranks; ++rank) {
    const bool waits = rank != members_.rank() && board_->may_be_awaited_by(rank);
    if (!waits || !board_->is_asleep(rank)) continue;
    members_.link(rank)->send({.type = transport::FrameType::nudge, .group = group_}, {});
    woke_ = true;
  }
}

// --- calls ---------------------------------------------------------------------------------------

// The address at which others can reach it; 0 for memory that the system does not copy, such as
// that of devices.
std::uint64_t BoardCarrier::reachable(Bytes buffer) const {
  std::byte probe;
  for (const std::byte* end : {buffer.data(), &buffer.back()}) {
    if (!transport::read_memory(transport::own_memory_door(), reinterpret_cast<std::uint64_t>(end),
                                {&probe, 1}))
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
  offer.reaches = offer.reaches && transport::own_door_is_open() == was_reachable_;
  if (!stage_) stage_ = create(kStages | group_, SharedReduction::kStageBytes);
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
  is_posted_sum_ = request.route == Route::board && Board::holds(bytes) &&
                   !Board::each_sums_up(bytes, members_.size());
  if (board_->has_posted(members_.rank(), sequence)) return Done{};
  int awaiting = members_.size();
  if (request.route == Route::direct) {
    if (auto posted = post_on_device(request); !posted) return posted;
  } else if (Board::holds(bytes)) {
    board_->post(sequence, request.fingerprint, request.input.bytes());
    // This rank sums up what nobody else does, and wakes the others then.
    if (is_posted_sum_ && all_have_posted()) awaiting = 0;
  } else {
    const SharedReduction::Offer where = offer(request);
    board_->post(sequence, request.fingerprint, std::as_bytes(std::span(&where, 1)));
    if (all_have_posted() && SharedReduction::is_for_owners(*board_, sequence))
      awaiting = members_.owners();
  }
  wake(awaiting);
  return Done{};
}

// The same call, this rank as the last one.
bool BoardCarrier::all_have_posted() const {
  return board_->may_be_awaited() &&
         board_->state(sequence_, request_->fingerprint) == Board::State::all_equal;
}

// A rank that cannot lend its memory posts what no other rank does, so that all leave.
Result<> BoardCarrier::post_on_device(Request& request) {
  auto offer = DeviceReduction::offer(*request.staged);
  const std::uint64_t refusal = offer ? 0 : 1 + static_cast<std::uint64_t>(members_.rank());
  if (!offer) tell_obstacle(offer.error().what);
  board_->post(sequence_, request.fingerprint ^ refusal,
               offer ? std::as_bytes(std::span(&*offer, 1)) : Bytes());
  return Done{};
}

Result<> BoardCarrier::received(int peer, const transport::FrameHeader& header, Bytes, Delivery) {
  return unexpected(members_, peer, header, "which a board carries");
}

void BoardCarrier::sum_short() {
  const Request& request = *request_;
  if (request.output.count == 0) return;
  board_->sum(sequence_, request.call.op, 0, request.output);
}

Progress BoardCarrier::sum_posted() {
  PostedSum sum(*board_, members_.owners(), sequence_, *request_);
  Progress progress = sum.advance();
  if (progress != Progress::moved) return progress;
  wake(members_.size());
  progress = sum.advance();
  return progress == Progress::soon ? Progress::moved : progress;
}

Result<Progress> BoardCarrier::advance() {
  const Request& request = *request_;
  if (!reduction_) {
    if (is_posted_sum_ && PostedSum::is_over(*board_, members_.owners(), sequence_))
      return sum_posted();
    switch (board_->state(sequence_, request.fingerprint)) {
      case Board::State::some_missing: return Progress::waiting;
      case Board::State::differs: leave_operation(); return Progress::by_messages;
      case Board::State::all_equal: break;
    }
    if (request.route == Route::direct) return advance_on_devices();
    if (is_posted_sum_) return sum_posted();
    if (Board::holds(bytes_of(request.call))) {
      sum_short();
      return Progress::done;
    }
    reduction_.emplace(*board_, members_, sequence_, request, stage_, read_);
    if (reduction_->is_impossible()) {
      leave_operation();
      return Progress::by_messages;
    }
  }
  auto advanced = reduction_->advance();
  if (!advanced || *advanced == Progress::soon) return advanced;
  wake(members_.size());
  if (*advanced == Progress::moved) return advanced;
  if (*advanced == Progress::by_messages) {
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
  return Progress::done;
}

// All have posted the place of their buffers on devices.
Result<Progress> BoardCarrier::advance_on_devices() {
  const Request& request = *request_;
  if (!on_devices_) {
    on_devices_.emplace(*board_, members_, sequence_, request,
                        [this](StagedCall::Moment moment) { awaits_(*request_, moment); });
  }
  auto advanced = on_devices_->advance();
  if (!advanced || *advanced == Progress::soon || *advanced == Progress::waiting) return advanced;
  wake(members_.size());
  if (*advanced == Progress::moved) return advanced;
  if (*advanced == Progress::by_messages) {
    tell_obstacle(on_devices_->obstacle());
    leave_operation();
    return advanced;
  }
  const auto others = static_cast<std::size_t>(members_.size() - 1);
  traffic_.bytes_reduced += on_devices_->bytes_of_own_chunk() * others;
  on_devices_.reset();
  return Progress::done;
}

// From now on this rank's calls are staged.
void BoardCarrier::tell_obstacle(const std::string& why) {
  if (!may_go_direct_.exchange(false) || why.empty()) return;
  warn(fmt::format("{}, so buffers on devices go through the host", why));
}

Awaited BoardCarrier::awaited() const {
  if (on_devices_) return {.ranks = on_devices_->awaited()};
  if (reduction_) return {.ranks = reduction_->awaited()};
  if (!is_posted_sum_ || board_->state(sequence_, request_->fingerprint) != Board::State::all_equal)
    return {};
  return {.ranks = PostedSum::awaited(*board_, members_.owners(), sequence_)};
}

}  // namespace paceline::collective
