#include "paceline/core/compress/averaging/fused.h"

#include <algorithm>

#include "paceline/core/base/check.h"

namespace paceline::compress {
namespace {

class Fused final : public Averaging {
 public:
  explicit Fused(std::vector<Member> members)
      : members_(std::move(members)),
        packing_(members_.front().part.rank, members_.front().part.ranks) {}

  std::optional<Exchange> begin(std::span<float> gradient, std::uint32_t step) override {
    std::vector<std::optional<Exchange>> exchanges;
    std::size_t offset = 0;
    for (const Member& member : members_) {
      const std::span<float> own = gradient.subspan(offset, member.part.elements());
      exchanges.push_back(member.averaging->begin(own, step));
      offset += own.size();
    }
    return packed(std::move(exchanges));
  }

  Result<std::optional<Exchange>> next() override {
    packing_.unpack();
    std::vector<std::optional<Exchange>> exchanges(members_.size());
    for (const std::size_t i : active_) {
      auto exchange = members_[i].averaging->next();
      if (!exchange) return exchange.error();
      exchanges[i] = std::move(*exchange);
    }
    return packed(std::move(exchanges));
  }

  bool overflowed() const override {
    return std::ranges::any_of(members_,
                               [](const Member& member) { return member.averaging->overflowed(); });
  }

  Result<> finish() override {
    for (const Member& member : members_)
      if (const auto done = member.averaging->finish(); !done) return done;
    return Done();
  }

  std::vector<StateView> state() override {
    std::vector<StateView> all;
    for (const Member& member : members_) {
      for (StateView view : member.averaging->state()) {
        view.tensor = member.part.tensor;
        all.push_back(view);
      }
    }
    return all;
  }

 private:
  std::optional<Exchange> packed(std::vector<std::optional<Exchange>> exchanges) {
    active_.clear();
    std::vector<Exchange> present;
    for (std::size_t i = 0; i < exchanges.size(); ++i) {
      if (!exchanges[i]) continue;
      active_.push_back(i);
      present.push_back(std::move(*exchanges[i]));
    }
    if (present.empty()) return std::nullopt;
    return packing_.pack(std::move(present));
  }

  const std::vector<Member> members_;
  Packing packing_;
  std::vector<std::size_t> active_;  // members whose exchange is under way
};

using Kind = Exchange::Kind;

void append(std::vector<std::byte>& to, Bytes bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

// Moves bytes from the front of `from` into `into`.
void take(Bytes& from, MutableBytes into) {
  std::ranges::copy(from.first(into.size()), into.begin());
  from = from.subspan(into.size());
}

// The part of a buffer that goes to, or comes from, one rank of several.
template <typename Span>
Span part_of(Span bytes, const std::vector<std::size_t>& counts, std::size_t element, int rank) {
  std::size_t before = 0;
  for (int r = 0; r < rank; ++r) before += counts[static_cast<std::size_t>(r)];
  return bytes.subspan(before * element, counts[static_cast<std::size_t>(rank)] * element);
}

bool go_together(const Exchange& one, const Exchange& other) {
  return one.kind == other.kind && one.op == other.op && one.root == other.root &&
         one.to == other.to && one.from == other.from && one.input.dtype == other.input.dtype &&
         one.output.dtype == other.output.dtype;
}

bool side_by_side(const std::vector<Exchange>& exchanges) {
  const std::byte* next = exchanges.front().output.data;
  for (const Exchange& exchange : exchanges) {
    if (exchange.output.data != next || exchange.input.data != next) return false;
    next += exchange.output.size_bytes();
  }
  return true;
}

}  // namespace

std::unique_ptr<Averaging> fused(std::vector<Member> members) {
  PACELINE_CHECK(!members.empty(), "a message of no tensors");
  return std::make_unique<Fused>(std::move(members));
}

Exchange Packing::pack(std::vector<Exchange> exchanges) {
  exchanges_ = std::move(exchanges);
  const Exchange& first = exchanges_.front();
  for (const Exchange& exchange : exchanges_) {
    PACELINE_CHECK(go_together(first, exchange),
                   "tensors of one message are averaged by methods whose exchanges differ; put "
                   "them into messages of their own");
  }
  copied_ = exchanges_.size() > 1;
  if (!copied_) return first;
  sent_.clear();
  received_.clear();
  switch (first.kind) {
    case Kind::all_gather: return gather();
    case Kind::all_to_all: return to_all();
    case Kind::swap: return one_after_the_other(true);
    case Kind::all_reduce:
    case Kind::broadcast: break;
  }
  if (side_by_side(exchanges_)) {
    copied_ = false;
    Exchange all = first;
    for (std::size_t i = 1; i < exchanges_.size(); ++i) {
      all.input.count += exchanges_[i].input.count;
      all.output.count += exchanges_[i].output.count;
    }
    return all;
  }
  return one_after_the_other(false);
}

// A swap has a separate output; the other kinds work in place, in received_.
Exchange Packing::one_after_the_other(bool with_output) {
  Exchange all = exchanges_.front();
  std::size_t bytes = 0;
  all.input.count = all.output.count = 0;
  for (const Exchange& exchange : exchanges_) {
    append(with_output ? sent_ : received_, exchange.input.bytes());
    all.input.count += exchange.input.count;
    all.output.count += exchange.output.count;
    bytes += exchange.output.size_bytes();
  }
  received_.resize(bytes);
  all.input.data = with_output ? sent_.data() : received_.data();
  all.output.data = received_.data();
  return all;
}

Exchange Packing::gather() {
  Exchange all = exchanges_.front();
  std::size_t own = 0;
  all.input.count = all.output.count = 0;
  for (const Exchange& exchange : exchanges_) {
    all.input.count += exchange.input.count;
    all.output.count += exchange.output.count;
    own += exchange.input.size_bytes();
  }
  received_.resize(own * static_cast<std::size_t>(ranks_));
  std::byte* const at = received_.data() + own * static_cast<std::size_t>(rank_);
  std::byte* next = at;
  for (const Exchange& exchange : exchanges_)
    next = std::ranges::copy(exchange.input.bytes(), next).out;
  all.input.data = at;
  all.output.data = received_.data();
  return all;
}

Exchange Packing::to_all() {
  Exchange all = exchanges_.front();
  const std::size_t element = size_of(all.input.dtype);
  std::ranges::fill(all.send_counts, std::size_t{0});
  std::ranges::fill(all.receive_counts, std::size_t{0});
  for (int rank = 0; rank < ranks_; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    for (const Exchange& exchange : exchanges_) {
      append(sent_, part_of(exchange.input.bytes(), exchange.send_counts, element, rank));
      all.send_counts[r] += exchange.send_counts[r];
      all.receive_counts[r] += exchange.receive_counts[r];
    }
  }
  std::size_t count = 0;
  for (const std::size_t from_one : all.receive_counts) count += from_one;
  received_.resize(count * element);
  all.input = {sent_.data(), sent_.size() / element, all.input.dtype};
  all.output = {received_.data(), count, all.output.dtype};
  return all;
}

void Packing::unpack() {
  if (!copied_) return;
  Bytes rest = received_;
  const Kind kind = exchanges_.front().kind;
  if (kind != Kind::all_gather && kind != Kind::all_to_all) {
    for (const Exchange& exchange : exchanges_) take(rest, exchange.output.bytes());
    return;
  }
  for (int rank = 0; rank < ranks_; ++rank) {
    for (const Exchange& exchange : exchanges_) {
      const std::size_t element = size_of(exchange.output.dtype);
      const std::vector<std::size_t> equal(static_cast<std::size_t>(ranks_), exchange.input.count);
      const auto& counts = kind == Kind::all_gather ? equal : exchange.receive_counts;
      take(rest, part_of(exchange.output.bytes(), counts, element, rank));
    }
  }
}

}  // namespace paceline::compress
