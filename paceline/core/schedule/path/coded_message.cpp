#include "paceline/core/schedule/path/coded_message.h"

#include <algorithm>
#include <ranges>
#include <vector>

namespace paceline::schedule {
namespace {

using compress::AveragedTensor;
using compress::Averaging;
using compress::Exchange;
using compress::Member;

// Fills the place of a tensor that is averaged elsewhere.
class Gap final : public Averaging {
 public:
  std::optional<Exchange> begin(std::span<float>, std::uint32_t) override { return std::nullopt; }
  Result<std::optional<Exchange>> next() override { return std::optional<Exchange>(); }
  bool overflowed() const override { return false; }
  Result<> finish() override { return Done{}; }
  std::vector<compress::StateView> state() override { return {}; }
};

// Collects the tensors that travel whole and averages them first, in one message: their exchanges
// cannot be packed with those of the others.
class WholeAside final : public Averaging {
 public:
  struct Run {
    std::size_t begin = 0, elements = 0;  // the place of whole tensors in the gradient
  };

  WholeAside(std::vector<Member> whole, std::vector<Run> runs, std::vector<Member> coded)
      : whole_(fused(std::move(whole))), coded_(fused(std::move(coded))), runs_(std::move(runs)) {}

  std::optional<Exchange> begin(std::span<float> gradient, std::uint32_t step) override {
    gradient_ = gradient;
    step_ = step;
    has_begun_coded_ = false;
    collected_.clear();
    for (const Run& run : runs_) {
      const auto values = gradient.subspan(run.begin, run.elements);
      collected_.insert(collected_.end(), values.begin(), values.end());
    }
    auto exchange = whole_->begin(collected_, step);
    return exchange ? exchange : begin_coded();
  }

  Result<std::optional<Exchange>> next() override {
    if (has_begun_coded_) return coded_->next();
    auto exchange = whole_->next();
    if (!exchange || *exchange) return exchange;
    return begin_coded();
  }

  bool overflowed() const override { return whole_->overflowed() || coded_->overflowed(); }

  Result<> finish() override {
    if (auto finished = whole_->finish(); !finished) return finished;
    auto from = collected_.begin();
    for (const Run& run : runs_) {
      std::copy_n(from, run.elements, gradient_.begin() + static_cast<std::ptrdiff_t>(run.begin));
      from += static_cast<std::ptrdiff_t>(run.elements);
    }
    return coded_->finish();
  }

  std::vector<compress::StateView> state() override {
    auto views = whole_->state();
    std::ranges::copy(coded_->state(), std::back_inserter(views));
    return views;
  }

 private:
  std::optional<Exchange> begin_coded() {
    has_begun_coded_ = true;
    return coded_->begin(gradient_, step_);
  }

  std::unique_ptr<Averaging> whole_, coded_;
  std::vector<Run> runs_;
  std::vector<float> collected_;
  std::span<float> gradient_;
  std::uint32_t step_ = 0;
  bool has_begun_coded_ = false;
};

// The rows of elements [begin, end) of the tensor as a matrix.
std::size_t rows_of(const Tensor& tensor, std::size_t begin, std::size_t end) {
  if (tensor.rows == 1) return 1;
  const std::size_t elements = end - begin, columns = columns_of(tensor, sizeof(float));
  if (columns > 0 && begin % columns == 0 && elements % columns == 0) return elements / columns;
  return elements % 2 == 0 ? 2 : 1;
}

}  // namespace

std::vector<PlacedPart> parts_of(const Dispatch& dispatch, const Model& model, int message,
                                 const MessageContext& place) {
  const Dispatch::Message& all = dispatch.messages()[static_cast<std::size_t>(message)];
  const MessageGroup& group = dispatch.plan().groups[static_cast<std::size_t>(all.group)];
  std::vector<PlacedPart> parts;
  for (int tensor = group.begin; tensor < group.end; ++tensor) {
    const std::size_t offset = dispatch.offset(tensor);
    const std::size_t whole = model.sent(tensor).bytes / sizeof(float);
    const std::size_t begin = std::max(all.begin, offset), end = std::min(all.end, offset + whole);
    if (begin >= end) continue;
    const std::size_t rows = rows_of(model.sent(tensor), begin - offset, end - offset);
    // A tensor's number is a key of its random numbers, so the parts of one have different ones.
    const AveragedTensor part{.tensor = static_cast<std::uint32_t>(message) << 12 |
                                        static_cast<std::uint32_t>(parts.size()),
                              .rows = rows,
                              .columns = (end - begin) / rows,
                              .rank = place.rank,
                              .ranks = place.ranks,
                              .seed = place.seed,
                              .spares = place.spares};
    parts.push_back({part, tensor, begin - offset, model.sent(tensor).offer});
  }
  return parts;
}

std::vector<CastRun> cast_runs_of(std::span<const PlacedPart> parts,
                                  const compress::Compression& compression, std::size_t begin) {
  std::vector<CastRun> runs;
  for (const PlacedPart& one : parts) {
    const bool is_whole = compression.leaves_whole(one.part, one.offer);
    if (runs.empty() || runs.back().is_whole != is_whole) runs.push_back({begin, 0, is_whole});
    runs.back().elements += one.part.elements();
    begin += one.part.elements();
  }
  return runs;
}

std::unique_ptr<Averaging> averaging_of(std::span<const PlacedPart> parts,
                                        const compress::Compression& compression) {
  std::vector<Member> whole, coded;
  std::vector<WholeAside::Run> runs;
  std::size_t at = 0;
  for (const auto& [part, place, begin, offer] : parts) {
    Member member{part, compression.averaging(part, offer)};
    if (compression.compresses(part) && !compression.is_whole(offer)) {
      coded.push_back(std::move(member));
    } else {
      whole.push_back(std::move(member));
      coded.push_back({part, std::make_unique<Gap>()});
      runs.push_back({at, part.elements()});
    }
    at += part.elements();
  }
  if (whole.empty()) return fused(std::move(coded));
  if (whole.size() == parts.size()) return fused(std::move(whole));
  return std::make_unique<WholeAside>(std::move(whole), std::move(runs), std::move(coded));
}

}  // namespace paceline::schedule
