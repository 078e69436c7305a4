#include "paceline/core/collective/carrier/shared_reduction.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <ranges>

#include "paceline/core/collective/carrier/combine.h"

namespace paceline::collective {
namespace {

using Counter = Board::Counter;

constexpr std::size_t kLine = 64;
constexpr std::uint64_t kAllPieces = ~std::uint64_t{0};
constexpr std::uint64_t kPlaces = 4;  // pieces of a chunk for which a stage has room

SharedReduction::Offer offer_of(Bytes posted) {
  SharedReduction::Offer offer;
  std::memcpy(&offer, posted.data(), sizeof offer);
  return offer;
}

// Whole cache lines, so that no two ranks write the same one.
std::size_t whole_lines(std::size_t elements, std::size_t element) {
  const std::size_t line = kLine / element;
  return (elements + line - 1) / line * line;
}

std::size_t longest_chunk(std::size_t count, std::size_t element, std::size_t owners) {
  return whole_lines((count + owners - 1) / owners, element);
}

// A piece of a chunk that begins at `at` of the buffer's elements.
ElementRange piece_of(std::size_t count, std::size_t chunk, std::size_t at, std::size_t length,
                      std::uint64_t number) {
  const std::size_t begin = std::min(count, at + number * length);
  const std::size_t end = std::min({count, at + chunk, at + (number + 1) * length});
  return {begin, end > begin ? end - begin : 0};
}

transport::Extent whole_of(std::size_t bytes) {
  return {0, bytes};
}

transport::Extent common(transport::Extent a, transport::Extent b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

// The extent that others write, cut to the output of `bytes` bytes, whatever extent the rank has
// posted.
transport::Extent written_by_others(const SharedReduction::Offer& offer, std::size_t bytes) {
  const std::uint64_t begin = offer.output.offset;
  const transport::Extent part = common(offer.writable, {begin, begin + bytes});
  return part.is_empty() ? transport::Extent{}
                         : transport::Extent{part.begin - begin, part.end - begin};
}

}  // namespace

SharedReduction::SharedReduction(Board& board, const Members& members, std::uint64_t sequence,
                                 const Request& request, Memory stage, std::vector<std::byte>& read)
    : board_(board),
      members_(members),
      sequence_(sequence),
      request_(request),
      op_(request.call.op),
      dtype_(request.call.dtype),
      count_(request.call.count),
      element_(size_of(dtype_)),
      own_(static_cast<std::size_t>(members.rank())),
      factor_(op_ == ReduceOp::average ? 1.0 / members.size() : 1.0),
      owners_(static_cast<std::size_t>(members.owners())),
      ranks_(static_cast<std::size_t>(members.size())),
      tree_sum_(members.size(), kReductionBlock),
      read_(read) {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    Rank& rank = ranks_[r];
    rank.offer = offer_of(board.posted(static_cast<int>(r), sequence));
    rank.hides_input = rank.offer.input.segment == 0;
    rank.hides_output = rank.offer.output.segment == 0;
    if (!rank.hides_output) rank.written = written_by_others(rank.offer, count_ * element_);
  }
  reaches_ = wants_to_reach();
  if (request.staged && request.staged->has_pieces()) device_call_ = request.staged.get();
  for (Rank& rank : ranks_) {
    rank.counts_input = rank.offer.comes || (stages() && rank.hides_input);
    rank.takes = rank.hides_output ? stages() : rank.written != whole_of(count_ * element_);
  }
  const std::size_t line = kLine / element_, ranks = ranks_.size();
  if (!is_owner(own_)) reduced_ = kAllPieces;
  chunk_ = longest_chunk(count_, element_, owners_);
  const std::size_t piece = reaches_ ? kReadBytes / (ranks - 1) : kStageBytes / kPlaces / owners_;
  longest_piece_ = std::min(std::max<std::size_t>(piece / kLine, 1) * line, std::max(chunk_, line));
  pieces_ = (chunk_ + longest_piece_ - 1) / longest_piece_;
  if (reaches_) read_.resize(std::max(read_.size(), ranks * longest_piece_ * element_));
  own().input = request.input.data;
  own().output = request.output.data;
  if (stage) own().stage = stage->bytes().data();
  own().held.push_back(std::move(stage));
}

bool SharedReduction::is_for_owners(const Board& board, std::uint64_t sequence) {
  return std::ranges::all_of(std::views::iota(0, board.ranks()), [&](int rank) {
    const Offer offer = offer_of(board.posted(rank, sequence));
    return offer.is_had && !offer.needs_stage() && !offer.comes;
  });
}

bool SharedReduction::is_impossible() const {
  return stages() && std::ranges::any_of(ranks_, [](const Rank& r) {
           return r.offer.needs_stage() && r.offer.stage == 0;
         });
}

// The same on all ranks.
bool SharedReduction::wants_to_reach() const {
  return std::ranges::any_of(ranks_, [](const Rank& r) { return r.offer.needs_stage(); }) &&
         std::ranges::all_of(
             ranks_, [](const Rank& r) { return r.offer.reaches && r.offer.is_in_reach(); });
}

// --- where the others' buffers lie ---------------------------------------------------------------

Result<SharedReduction::Found> SharedReduction::find(Rank& rank, int peer) {
  const auto bytes_at = [&](transport::Remote place, std::size_t bytes) -> Result<std::byte*> {
    Memory memory = members_.link(peer)->memory(place.segment);
    if (!memory) return nullptr;
    const MutableBytes all = memory->bytes();
    if (place.offset > all.size() || bytes > all.size() - place.offset) {
      return members_.failure(Fault::io,
                              fmt::format("{} posted a buffer that does not lie in the memory that "
                                          "it shares: a bug, please report it",
                                          members_.name(peer)),
                              {peer});
    }
    rank.held.push_back(std::move(memory));
    return all.data() + place.offset;
  };
  rank.held.clear();
  struct Wanted {
    transport::Remote place;
    std::size_t bytes;
    std::byte* at = nullptr;
  } wanted[] = {{rank.offer.input, count_ * element_},
                {rank.offer.output, count_ * element_},
                {{rank.offer.stage, 0}, kStageBytes}};
  for (Wanted& w : wanted) {
    if (w.place.segment == 0) continue;
    auto found = bytes_at(w.place, w.bytes);
    if (!found) return found.error();
    if (*found == nullptr) {
      const bool comes = !members_.link(peer)->withholds(w.place.segment);
      return comes ? Found::not_yet : Found::never;
    }
    w.at = *found;
  }
  rank.input = wanted[0].at;
  rank.output = wanted[1].at;
  rank.stage = wanted[2].at;
  return Found::all;
}

Result<SharedReduction::Found> SharedReduction::find_all() {
  lacking_.clear();
  withheld_.clear();
  for (int r = 0; r < members_.size(); ++r) {
    // A rank that owns nothing touches the memory of owners at most.
    if (r == members_.rank() || !(is_owner(own_) || is_owner(static_cast<std::size_t>(r))))
      continue;
    const auto found = find(ranks_[static_cast<std::size_t>(r)], r);
    if (!found) return found.error();
    if (found.value() == Found::not_yet) lacking_.push_back(r);
    if (found.value() == Found::never) withheld_.push_back(r);
  }
  if (!withheld_.empty()) return Found::never;
  return lacking_.empty() ? Found::all : Found::not_yet;
}

Result<CallProgress> SharedReduction::agree_on_memory() {
  const bool all_had = std::ranges::all_of(ranks_, [](const Rank& r) { return r.offer.is_had; });
  const bool is_news = found_ == Found::not_yet;
  if (is_news) {
    auto found = find_all();
    if (!found) return found.error();
    found_ = *found;
  }
  if (all_had && found_ != Found::all) {
    const auto& ranks = withheld_.empty() ? lacking_ : withheld_;
    return members_.failure(
        Fault::io,
        fmt::format("{} posted a buffer in memory that it no longer shares: was it freed while its "
                    "call was under way?",
                    members_.names(ranks)),
        ranks);
  }
  if (found_ == Found::not_yet) return CallProgress::soon;
  knows_memory_ = all_had;
  if (all_had) return CallProgress::moved;
  if (is_news) {
    board_.count(sequence_, Counter::found, static_cast<std::uint64_t>(found_));
    return CallProgress::moved;
  }
  bool all = true;
  for (int r = 0; r < members_.size(); ++r) {
    const std::uint64_t found = board_.counted(r, sequence_, Counter::found);
    if (found == 0) return CallProgress::soon;
    all = all && found == static_cast<std::uint64_t>(Found::all);
  }
  knows_memory_ = all;
  return all ? CallProgress::moved : CallProgress::by_messages;
}

// --- pieces --------------------------------------------------------------------------------------

SharedReduction::Piece SharedReduction::piece(std::size_t chunk, std::uint64_t number) const {
  return piece_of(count_, chunk_, chunk * chunk_, longest_piece_, number);
}

std::vector<StagedPiece> SharedReduction::stripes(std::size_t count, Dtype dtype, int owners,
                                                  std::size_t bytes) {
  const std::size_t element = size_of(dtype), chunks = static_cast<std::size_t>(owners);
  const std::size_t chunk = longest_chunk(count, element, chunks);
  const std::size_t length =
      whole_lines(std::max<std::size_t>(1, bytes / element / chunks), element);
  std::vector<StagedPiece> stripes((chunk + length - 1) / length);
  for (std::size_t i = 0; i < stripes.size(); ++i) {
    for (std::size_t c = 0; c < chunks; ++c)
      stripes[i].input.push_back(piece_of(count, chunk, c * chunk, length, i));
    stripes[i].output = stripes[i].input;
  }
  return stripes;
}

std::byte* SharedReduction::staged(const Rank& rank, std::size_t chunk,
                                   std::uint64_t number) const {
  const std::size_t place = number % kPlaces * owners_ + chunk;
  return rank.stage + place * longest_piece_ * element_;
}

std::byte* SharedReduction::read_place(std::size_t rank) const {
  return read_.data() + rank * longest_piece_ * element_;
}

const std::byte* SharedReduction::at_hand(std::size_t rank, std::uint64_t number) const {
  return reaches_ ? read_place(rank) : staged(ranks_[rank], own_, number);
}

std::uint64_t SharedReduction::least(Counter counter, bool Rank::*among) const {
  std::uint64_t least = pieces_;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (r == own_ || (among != nullptr && !(ranks_[r].*among))) continue;
    if (counter == Counter::reduced && !is_owner(r)) break;
    least = std::min(least, board_.counted(static_cast<int>(r), sequence_, counter));
  }
  return least;
}

bool SharedReduction::is_here(std::uint64_t number) const {
  if (!ranks_[own_].offer.comes || device_call_ == nullptr) return true;
  for (std::size_t chunk = 0; chunk < owners_; ++chunk)
    if (!device_call_->is_here(piece(chunk, number))) return false;
  return true;
}

bool SharedReduction::may_stage() const {
  return stages() && ranks_[own_].hides_input && staged_ < pieces_ &&
         staged_ < least(Counter::reduced) + kPlaces && is_here(staged_);
}

bool SharedReduction::may_reduce() const {
  if (reduced_ >= pieces_ || !is_here(reduced_)) return false;
  if (reaches_) return reduced_ < least(Counter::staged, &Rank::counts_input);
  const bool has_place =
      !ranks_[own_].hides_output || reduced_ < least(Counter::taken, &Rank::takes) + kPlaces;
  return reduced_ < least(Counter::staged, &Rank::counts_input) && has_place;
}

bool SharedReduction::may_take() const {
  return ranks_[own_].takes && taken_ < pieces_ && taken_ < least(Counter::reduced);
}

bool SharedReduction::is_through(int rank) const {
  const auto has_counted_all = [&](Counter counter) {
    return board_.counted(rank, sequence_, counter) >= pieces_;
  };
  const Rank& r = ranks_[static_cast<std::size_t>(rank)];
  return (!is_owner(static_cast<std::size_t>(rank)) || has_counted_all(Counter::reduced)) &&
         (!r.counts_input || has_counted_all(Counter::staged)) &&
         (!r.takes || has_counted_all(Counter::taken));
}

void SharedReduction::stage_piece() {
  for (std::size_t chunk = 0; chunk < owners_; ++chunk) {
    const Piece from = piece(chunk, staged_);
    if (chunk == own_ || from.count == 0) continue;
    std::memcpy(staged(own(), chunk, staged_), own().input + from.offset * element_,
                from.count * element_);
  }
  board_.count(sequence_, Counter::staged, ++staged_);
}

// Others may read what has come to the host since.
bool SharedReduction::tell_arrived() {
  const Rank& own = ranks_[own_];
  if (!own.offer.comes || (stages() && own.hides_input)) return false;
  const std::uint64_t before = staged_;
  while (staged_ < pieces_ && is_here(staged_)) ++staged_;
  if (staged_ == before) return false;
  board_.count(sequence_, Counter::staged, staged_);
  return true;
}

// All owners have written these parts of the output, and this rank has taken the rest of them.
Result<> SharedReduction::let_go_of_sums() {
  if (device_call_ == nullptr) return Done{};
  std::uint64_t final = std::min(least(Counter::reduced), reduced_);
  if (own().takes) final = std::min(final, taken_);
  for (; let_go_ < final; ++let_go_) {
    for (std::size_t chunk = 0; chunk < owners_; ++chunk)
      if (auto told = device_call_->output_is_final(piece(chunk, let_go_)); !told)
        return failed_device(members_, request_, told.error());
  }
  return Done{};
}

bool SharedReduction::read_inputs(Piece all) {
  const std::size_t bytes = all.count * element_;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (r == own_ || !ranks_[r].hides_input) continue;
    const std::uint64_t from = ranks_[r].offer.input_address + all.offset * element_;
    if (!transport::read_memory(board_.memory_of(static_cast<int>(r)), from,
                                {read_place(r), bytes}))
      return note_forbidden(r);
  }
  return true;
}

bool SharedReduction::write_sums(Piece all) {
  const std::size_t at = all.offset * element_;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (r == own_ || !ranks_[r].hides_output) continue;
    if (!board_.write(static_cast<int>(r), ranks_[r].offer.output_address + at,
                      {own().output + at, all.count * element_}))
      return note_forbidden(r);
  }
  return true;
}

bool SharedReduction::note_forbidden(std::size_t rank) {
  if (transport::is_forbidden(board_.memory_of(static_cast<int>(rank))))
    forbidden_ = static_cast<int>(rank);
  return false;
}

bool SharedReduction::use_all() {
  for (int r = 0; r < members_.size(); ++r) {
    transport::Link* const link = members_.link(r);
    if (link != nullptr && !use_.begin(*link)) {
      use_.end();
      return false;
    }
  }
  return true;
}

bool SharedReduction::reduce_piece() {
  if (!use_all()) return false;
  const Piece all = piece(own_, reduced_);
  bool whole = true;
  if (!summed_up_) {  // once only: the sums may lie where the inputs did
    whole = !reaches_ || read_inputs(all);
    if (whole) sum_up(all);
    summed_up_ = whole;
  }
  whole = whole && (!reaches_ || write_sums(all));
  if (!use_.end() || !whole) return false;
  summed_up_ = false;
  board_.count(sequence_, Counter::reduced, ++reduced_, static_cast<int>(owners_));
  return true;
}

void SharedReduction::sum_up(Piece all) {
  const std::size_t longest = kReductionBlock / element_;
  for (std::size_t at = 0; at < all.count; at += longest) {
    const std::size_t count = std::min(longest, all.count - at);
    const std::size_t offset = (all.offset + at) * element_, bytes = count * element_;
    inputs_.clear();
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const bool is_hidden = r != own_ && ranks_[r].hides_input;
      const std::byte* const input =
          is_hidden ? at_hand(r, reduced_) + at * element_ : ranks_[r].input + offset;
      inputs_.push_back({input, count, dtype_});
    }
    std::byte* const sum = own().output + offset;
    tree_sum_(op_, inputs_, {sum, count, dtype_}, factor_);
    if (stages() && own().hides_output)  // for those whose outputs are out of reach as well
      std::memcpy(staged(own(), own_, reduced_) + at * element_, sum, bytes);
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (r == own_ || ranks_[r].hides_output) continue;
      const transport::Extent part = common(ranks_[r].written, {offset, offset + bytes});
      if (!part.is_empty())
        std::memcpy(ranks_[r].output + part.begin, sum + (part.begin - offset), part.size());
    }
  }
}

// Part of a chunk, of the piece that is taken now.
bool SharedReduction::take(std::size_t chunk, transport::Extent part) {
  if (part.is_empty()) return true;
  const Rank& owner = ranks_[chunk];
  const MutableBytes target{own().output + part.begin, part.size()};
  if (owner.hides_output && reaches_) {
    return transport::read_memory(board_.memory_of(static_cast<int>(chunk)),
                                  owner.offer.output_address + part.begin, target) ||
           note_forbidden(chunk);
  }
  const std::byte* const sum =
      owner.hides_output
          ? staged(owner, chunk, taken_) + (part.begin - bytes_of(piece(chunk, taken_)).begin)
          : owner.output + part.begin;
  std::memcpy(target.data(), sum, target.size());
  return true;
}

bool SharedReduction::take_piece() {
  if (!use_all()) return false;
  bool all = true;
  for (std::size_t chunk = 0; chunk < owners_; ++chunk) {
    if (chunk == own_) continue;
    const transport::Extent sums = bytes_of(piece(chunk, taken_)), there = own().written;
    all = all && take(chunk, common(sums, {0, there.begin})) &&
          take(chunk, common(sums, {there.end, count_ * element_}));
  }
  if (!use_.end() || !all) return false;
  board_.count(sequence_, Counter::taken, ++taken_);
  return true;
}

Result<CallProgress> SharedReduction::advance() {
  if (!knows_memory_) {
    auto agreed = agree_on_memory();
    if (!agreed || !knows_memory_) return agreed;
  }
  bool moved = true;
  if (tell_arrived()) moved = true;
  else if (may_reduce()) moved = reduce_piece();
  else if (may_take()) moved = take_piece();
  else if (may_stage()) stage_piece();
  else moved = false;
  if (forbidden_ >= 0) return closed();
  if (auto let_go = let_go_of_sums(); !let_go) return let_go.error();
  if (is_done()) return CallProgress::done;
  return moved ? CallProgress::moved : CallProgress::soon;
}

// The call cannot start again by messages, because sums may already stand in the buffers.
Failure SharedReduction::closed() const {
  return members_.failure(
      Fault::io,
      fmt::format(
          "the system has closed the memory of {} in the middle of an all_reduce of buffers "
          "that others reach: a process that calls prctl(PR_SET_DUMPABLE, 0) or changes "
          "its user must do so while no call is under way, or run with "
          "PACELINE_TRANSPORT=tcp",
          members_.name(forbidden_)),
      {forbidden_});
}

bool SharedReduction::is_done() const {
  return std::ranges::all_of(std::views::iota(0, members_.size()),
                             [this](int rank) { return is_through(rank); });
}

std::vector<int> SharedReduction::awaited() const {
  if (!lacking_.empty()) return lacking_;
  if (reduced_ < pieces_ && !is_here(reduced_)) return {};  // its own device
  std::vector<int> ranks;
  for (int r = 0; knows_memory_ && reduced_ < pieces_ && r < members_.size(); ++r) {
    const bool is_late = ranks_[static_cast<std::size_t>(r)].counts_input &&
                         board_.counted(r, sequence_, Counter::staged) <= reduced_;
    if (r != members_.rank() && is_late) ranks.push_back(r);
  }
  if (!ranks.empty()) return ranks;
  for (int r = 0; r < members_.size(); ++r) {
    const bool is_late =
        knows_memory_ ? !is_through(r) : board_.counted(r, sequence_, Counter::found) == 0;
    if (r != members_.rank() && is_late) ranks.push_back(r);
  }
  return ranks;
}

std::uint64_t SharedReduction::movement() const {
  std::uint64_t pieces = 0;
  for (int r = 0; r < members_.size(); ++r) {
    for (const Counter counter :
         {Counter::staged, Counter::reduced, Counter::taken, Counter::found})
      pieces += board_.counted(r, sequence_, counter);
  }
  return pieces;
}

std::size_t SharedReduction::bytes_of_own_chunk() const {
  const std::size_t begin = std::min(count_, own_ * chunk_);
  return (std::min(count_, begin + chunk_) - begin) * element_;
}

}  // namespace paceline::collective
