#include "paceline/core/compress/averaging/fused.h"

#include <algorithm>

#include "paceline/core/base/check.h"
#include "paceline/core/compress/averaging/packing.h"

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

}  // namespace

std::unique_ptr<Averaging> fused(std::vector<Member> members) {
  PACELINE_CHECK(!members.empty(), "a message of no tensors");
  return std::make_unique<Fused>(std::move(members));
}

}  // namespace paceline::compress
