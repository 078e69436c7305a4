#include "paceline/core/schedule/coded_message.h"

#include <algorithm>
#include <ranges>
#include <vector>

namespace paceline::schedule {
namespace {

using compress::Averaging;
using compress::Exchange;
using compress::Member;
using compress::Part;

// Where a tensor that is averaged elsewhere lies between the others.
class Gap final : public Averaging {
 public:
  std::optional<Exchange> begin(std::span<float>, std::uint32_t) override { return std::nullopt; }
  Result<std::optional<Exchange>> next() override { return std::optional<Exchange>(); }
  bool overflowed() const override { return false; }
  Result<> finish() override { return Done{}; }
  std::vector<compress::StateView> state() override { return {}; }
};

// Tensors that are not worth compressing are collected and averaged first, all in one message:
// their exchanges do not go together with those of the others.
class SmallAside final : public Averaging {
 public:
  struct Run {
    std::size_t begin = 0, elements = 0;  // of small tensors in the gradient
  };

  SmallAside(std::vector<Member> small, std::vector<Run> runs, std::vector<Member> large)
      : small_(fused(std::move(small))), large_(fused(std::move(large))), runs_(std::move(runs)) {}

  std::optional<Exchange> begin(std::span<float> gradient, std::uint32_t step) override {
    gradient_ = gradient;
    step_ = step;
    has_begun_large_ = false;
    collected_.clear();
    for (const Run& run : runs_) {
      const auto values = gradient.subspan(run.begin, run.elements);
      collected_.insert(collected_.end(), values.begin(), values.end());
    }
    auto exchange = small_->begin(collected_, step);
    return exchange ? exchange : begin_large();
  }

  Result<std::optional<Exchange>> next() override {
    if (has_begun_large_) return large_->next();
    auto exchange = small_->next();
    if (!exchange || *exchange) return exchange;
    return begin_large();
  }

  bool overflowed() const override { return small_->overflowed() || large_->overflowed(); }

  Result<> finish() override {
    if (auto finished = small_->finish(); !finished) return finished;
    auto from = collected_.begin();
    for (const Run& run : runs_) {
      std::copy_n(from, run.elements, gradient_.begin() + static_cast<std::ptrdiff_t>(run.begin));
      from += static_cast<std::ptrdiff_t>(run.elements);
    }
    return large_->finish();
  }

  std::vector<compress::StateView> state() override {
    auto views = small_->state();
    std::ranges::copy(large_->state(), std::back_inserter(views));
    return views;
  }

 private:
  std::optional<Exchange> begin_large() {
    has_begun_large_ = true;
    return large_->begin(gradient_, step_);
  }

  std::unique_ptr<Averaging> small_, large_;
  std::vector<Run> runs_;
  std::vector<float> collected_;
  std::span<float> gradient_;
  std::uint32_t step_ = 0;
  bool has_begun_large_ = false;
};

// Of elements [begin, end) of the tensor.
std::size_t rows_of(const Tensor& tensor, std::size_t begin, std::size_t end) {
  if (tensor.rows == 1) return 1;
  const std::size_t elements = end - begin, columns = columns_of(tensor, sizeof(float));
  if (columns > 0 && begin % columns == 0 && elements % columns == 0) return elements / columns;
  return elements % 2 == 0 ? 2 : 1;
}

}  // namespace

std::vector<PlacedPart> parts_of(const Dispatch& dispatch, const Model& model, int message,
                                 const Place& place) {
  const Dispatch::Message& all = dispatch.messages()[static_cast<std::size_t>(message)];
  const Group& group = dispatch.plan().groups[static_cast<std::size_t>(all.group)];
  std::vector<PlacedPart> parts;
  for (int tensor = group.begin; tensor < group.end; ++tensor) {
    const std::size_t offset = dispatch.offset(tensor);
    const std::size_t whole = model.sent(tensor).bytes / sizeof(float);
    const std::size_t begin = std::max(all.begin, offset), end = std::min(all.end, offset + whole);
    if (begin >= end) continue;
    const std::size_t rows = rows_of(model.sent(tensor), begin - offset, end - offset);
    // A tensor's number is a key of its random numbers, so the parts of one have different ones.
    const Part part{.tensor = static_cast<std::uint32_t>(message) << 12 |
                              static_cast<std::uint32_t>(parts.size()),
                    .rows = rows,
                    .columns = (end - begin) / rows,
                    .rank = place.rank,
                    .ranks = place.ranks,
                    .seed = place.seed,
                    .spares = place.spares};
    parts.push_back({part, tensor, begin - offset});
  }
  return parts;
}

std::unique_ptr<Averaging> averaging_of(std::span<const PlacedPart> parts,
                                        const compress::Compression& compression) {
  std::vector<Member> small, large;
  std::vector<SmallAside::Run> runs;
  std::size_t at = 0;
  for (const auto& [part, place, begin] : parts) {
    const bool is_large = compression.compresses(part);
    Member member{part, compression.averaging(part)};
    if (is_large) {
      large.push_back(std::move(member));
    } else {
      small.push_back(std::move(member));
      large.push_back({part, std::make_unique<Gap>()});
      runs.push_back({at, part.elements()});
    }
    at += part.elements();
  }
  if (small.empty()) return fused(std::move(large));
  if (small.size() == parts.size()) return fused(std::move(small));
  return std::make_unique<SmallAside>(std::move(small), std::move(runs), std::move(large));
}

}  // namespace paceline::schedule
