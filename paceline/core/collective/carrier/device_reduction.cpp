#include "paceline/core/collective/carrier/device_reduction.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <thread>

#include "paceline/core/base/deadline.h"

namespace paceline::collective {
namespace {

using Counter = Board::Counter;
using Moment = StagedCall::Moment;

// Values of Counter::found.
constexpr std::uint64_t kReached = 1, kOutOfReach = 2;
// Values of Counter::taken of an owner: it looks whether it may begin, it does not begin, its kernel
// is done. Counter::reduced would not do: there a count wakes others only if it is the last one of
// the ranks with the lowest numbers.
constexpr std::uint64_t kBegins = 1, kDoesNotBegin = 2, kHasSummed = 3;

// A verdict must not come late because of a rank that was killed while its kernel ran.
constexpr std::chrono::milliseconds kPatience{300};

constexpr std::size_t kAlignment = 256;  // of chunks, in bytes

}  // namespace

Result<DeviceReduction::Offer> DeviceReduction::offer(const StagedCall& call) {
  const auto& [input, output] = std::tie(call.buffers().input, call.buffers().output);
  auto lent_input = call.device().lend(input.bytes());
  if (!lent_input) return lent_input.error();
  auto lent_output = call.device().lend(ConstBuffer(output).bytes());
  if (!lent_output) return lent_output.error();
  return Offer{*lent_input, *lent_output};
}

DeviceReduction::DeviceReduction(Board& board, const Members& members, std::uint64_t sequence,
                                 const Request& request, std::function<void(Moment)> awaits)
    : board_(board),
      members_(members),
      sequence_(sequence),
      request_(request),
      call_(*request.staged),
      awaits_(std::move(awaits)),
      all_(static_cast<std::size_t>(members.size())) {
  std::iota(all_.begin(), all_.end(), 0);
  for (const int rank : all_) {
    Offer& one = offers_.emplace_back();
    std::memcpy(&one, board.posted(rank, sequence).data(), sizeof one);
  }
  choose_owners();
}

// The same on all ranks.
void DeviceReduction::choose_owners() {
  std::map<std::array<std::byte, 16>, std::vector<int>> by_device;
  for (const int rank : all_)
    by_device[offers_[static_cast<std::size_t>(rank)].input.identity].push_back(rank);
  for (const auto& [device, ranks] : by_device) owners_.push_back(ranks[sequence_ % ranks.size()]);
  std::ranges::sort(owners_);
  own_chunk_ =
      static_cast<std::size_t>(std::ranges::find(owners_, members_.rank()) - owners_.begin());
}

device::Reduction DeviceReduction::reduction() {
  const std::size_t element = size_of(request_.call.dtype), count = request_.call.count;
  const std::size_t line = kAlignment / element;
  const std::size_t chunk = (count / owners_.size() + line) / line * line;
  const std::size_t begin = std::min(count, own_chunk_ * chunk);
  const std::size_t end = std::min(count, begin + chunk);
  for (auto& input : inputs_) input += begin * element;
  for (auto& output : outputs_) output += begin * element;
  const bool averages = request_.call.op == ReduceOp::average;
  return {.op = request_.call.op,
          .dtype = request_.call.dtype,
          .count = end - begin,
          .factor = averages ? 1.0 / members_.size() : 1.0,
          .inputs = inputs_,
          .outputs = outputs_};
}

std::size_t DeviceReduction::bytes_of_own_chunk() const {
  return owns() ? request_.input.size_bytes() / owners_.size() : 0;
}

// --- the steps -----------------------------------------------------------------------------------

// Why it cannot; empty: it has.
std::string DeviceReduction::reach_all() {
  if (!owns()) return {};
  const std::size_t bytes = request_.input.size_bytes();
  for (const int rank : all_) {
    const Offer& one = offers_[static_cast<std::size_t>(rank)];
    const bool is_own = rank == members_.rank();
    auto input = is_own ? Result<std::byte*>(const_cast<std::byte*>(request_.input.data))
                        : call_.device().reach(one.input, bytes);
    auto output =
        is_own ? Result<std::byte*>(request_.output.data) : call_.device().reach(one.output, bytes);
    if (!input || !output) {
      return fmt::format("{} cannot reach the device memory of {} ({})",
                         members_.name(members_.rank()), members_.name(rank),
                         (input ? output : input).error().what);
    }
    inputs_.push_back(*input);
    outputs_.push_back(*output);
  }
  return {};
}

bool DeviceReduction::have_all(Counter counter, const std::vector<int>& ranks) const {
  return std::ranges::all_of(
      ranks, [&](int rank) { return board_.counted(rank, sequence_, counter) > 0; });
}

Result<CallProgress> DeviceReduction::agree() {
  if (!have_all(Counter::found, all_)) return CallProgress::soon;
  const bool all_reached = std::ranges::all_of(all_, [this](int rank) {
    return board_.counted(rank, sequence_, Counter::found) == kReached;
  });
  if (!all_reached) return CallProgress::by_messages;
  stage_ = Stage::marking;
  awaits_(Moment::called);
  return CallProgress::moved;
}

Result<CallProgress> DeviceReduction::tell_ready() {
  auto passed = call_.has_passed(Moment::called);
  if (!passed) return failed_device(members_, request_, passed.error());
  if (!*passed) return CallProgress::waiting;
  stage_ = Stage::ready;
  board_.count(sequence_, Counter::staged, 1);
  return CallProgress::moved;
}

// A rank that fails now has forbidden writes before it looks whether a kernel may have begun.
Result<CallProgress> DeviceReduction::launch() {
  if (!owns()) {
    stage_ = Stage::over;
    return CallProgress::moved;
  }
  if (!have_all(Counter::staged, all_)) return CallProgress::waiting;
  board_.count(sequence_, Counter::taken, kBegins);
  if (std::ranges::any_of(all_, [this](int rank) { return board_.forbids_writes(rank); })) {
    board_.count(sequence_, Counter::taken, kDoesNotBegin);
    return CallProgress::waiting;  // for the failure
  }
  has_begun_ = true;
  if (auto begun = call_.begin_sum(reduction()); !begun)
    return failed_device(members_, request_, begun.error());
  stage_ = Stage::summing;
  awaits_(Moment::sum);
  return CallProgress::moved;
}

Result<CallProgress> DeviceReduction::end_sum() {
  auto passed = call_.has_passed(Moment::sum);
  if (!passed) return failed_device(members_, request_, passed.error());
  if (!*passed) return CallProgress::waiting;
  stage_ = Stage::over;
  board_.count(sequence_, Counter::taken, kHasSummed);
  return CallProgress::moved;
}

bool DeviceReduction::has_summed(int owner) const {
  return board_.counted(owner, sequence_, Counter::taken) == kHasSummed;
}

Result<CallProgress> DeviceReduction::advance() {
  switch (stage_) {
    case Stage::reaching:
      obstacle_ = reach_all();
      board_.count(sequence_, Counter::found, obstacle_.empty() ? kReached : kOutOfReach);
      stage_ = Stage::agreeing;
      return CallProgress::moved;
    case Stage::agreeing: return agree();
    case Stage::marking: return tell_ready();
    case Stage::ready: return launch();
    case Stage::summing: return end_sum();
    case Stage::over: break;
  }
  const bool all = std::ranges::all_of(owners_, [this](int owner) { return has_summed(owner); });
  return all ? CallProgress::done : CallProgress::waiting;
}

std::vector<int> DeviceReduction::awaited() const {
  std::vector<int> ranks = stage_ == Stage::over ? owners_ : all_;
  std::erase_if(ranks, [this](int rank) {
    switch (stage_) {
      case Stage::agreeing: return board_.counted(rank, sequence_, Counter::found) > 0;
      case Stage::ready: return board_.counted(rank, sequence_, Counter::staged) > 0;
      case Stage::over: return has_summed(rank);
      default: return true;  // it waits for its own device
    }
  });
  return ranks;
}

std::uint64_t DeviceReduction::movement() const {
  std::uint64_t sum = 0;
  for (const int rank : all_) {
    for (const Counter counter : {Counter::found, Counter::staged, Counter::taken})
      sum += board_.counted(rank, sequence_, counter);
  }
  return sum;
}

// --- failures ------------------------------------------------------------------------------------

bool DeviceReduction::may_still_write(int owner) const {
  return board_.counted(owner, sequence_, Counter::taken) == kBegins;
}

void DeviceReduction::give_up() {
  const Deadline deadline = Deadline::in(kPatience);
  const auto is_over = [this] {
    auto passed = has_begun_ ? call_.has_passed(Moment::sum) : Result<bool>(true);
    if (has_begun_ && (!passed || *passed)) board_.count(sequence_, Counter::taken, kHasSummed);
    return (!passed || *passed) && std::ranges::none_of(owners_, [this](int owner) {
             return owner != members_.rank() && may_still_write(owner);
           });
  };
  while (!is_over() && !deadline.passed()) std::this_thread::yield();
}

}  // namespace paceline::collective
