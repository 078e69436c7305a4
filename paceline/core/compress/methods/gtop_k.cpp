#include <algorithm>
#include <memory>

#include "paceline/core/base/check.h"
#include "paceline/core/compress/averaging/averaging.h"
#include "paceline/core/compress/averaging/envelope.h"
#include "paceline/core/compress/averaging/residual.h"
#include "paceline/core/compress/kernels/selection.h"
#include "paceline/core/compress/methods/method_catalogue.h"
#include "paceline/core/compress/payload/codec.h"
#include "paceline/core/compress/payload/message.h"
#include "paceline/core/compress/payload/sparse.h"

namespace paceline::compress::catalogue {
namespace {

// gTop-k (Shi et al. 2019) sends the largest elements of the sum up a binomial tree and back.
//
// Each rank starts with its k largest elements. A rank that receives adds its child's elements to
// its own and keeps the k largest of the union; rank 0 broadcasts the result. There are ceil(lg
// ranks) rounds of 8 k bytes, then a broadcast of 8 k bytes. Any number of ranks works.
struct TreeSelectionOptions {
  double ratio = 0.01;  // of the elements, in (0, 1]
  // Elements that a rank drops when it merges stay in its own residual, so nothing is lost. The
  // paper's program instead clears a residual at every element of the final set, and so loses what
  // was dropped on the way.
  bool lossless = true;
};

class TreeSelectionAverage final : public Averaging {
 public:
  TreeSelectionAverage(const AveragedTensor& part, const TreeSelectionOptions& options)
      : part_(part),
        lossless_(options.lossless),
        residual_(true, part.elements()),
        own_(count_of(options.ratio, part.elements())),
        sent_(message_bytes(sparse_bytes(own_.size()))),
        received_(sent_.size()) {}

  std::optional<Exchange> begin(std::span<float> gradient, std::uint32_t step) override {
    gradient_ = gradient;
    envelope_ = {static_cast<std::uint8_t>(PayloadFormat::sparse), part_.tensor, step,
                 part_.elements()};
    distance_ = 1;
    broadcast_ = false;
    dropped_.clear();
    residual_.add_to(gradient);
    overflowed_ = !select_largest(gradient, own_);
    if (!overflowed_) sum_ = SparseSum::of(gradient, own_);
    return up_or_back();
  }

  Result<std::optional<Exchange>> next() override {
    if (broadcast_) {
      const auto done = hear(0);
      if (!done) return done.error();
      return std::optional<Exchange>();
    }
    if (receives()) {
      SparseSum mine = std::move(sum_);
      const auto done = hear(part_.rank + distance_);
      if (!done) return done.error();
      if (!overflowed_) merge(mine);
    }
    distance_ *= 2;
    return up_or_back();
  }

  bool overflowed() const override { return overflowed_; }

  Result<> finish() override {
    residual_.keep_all_but(gradient_, own_);
    const std::span<float> kept = residual_.values();
    for (const SparseSum& others : dropped_) {
      for (std::size_t i = 0; i < others.indices.size(); ++i)
        kept[others.indices[i]] += others.values[i];
    }
    if (!lossless_) {
      for (const std::uint32_t index : own_) {
        if (!std::ranges::binary_search(sum_.indices, index)) kept[index] = gradient_[index];
      }
    }
    std::ranges::fill(gradient_, 0.0f);
    const float share = 1.0f / static_cast<float>(part_.ranks);
    for (std::size_t i = 0; i < sum_.indices.size(); ++i)
      gradient_[sum_.indices[i]] = sum_.values[i] * share;
    return Done();
  }

  std::vector<StateView> state() override { return residual_.state(); }

 private:
  bool sends() const { return part_.rank % (2 * distance_) == distance_; }
  bool receives() const {
    return part_.rank % (2 * distance_) == 0 && part_.rank + distance_ < part_.ranks;
  }

  // Returns the next round of the tree, in which ranks that have sent or have no child send
  // nothing; above the root it returns the broadcast.
  std::optional<Exchange> up_or_back() {
    if (part_.ranks == 1) return std::nullopt;
    if (distance_ < part_.ranks) {
      Exchange exchange{.kind = Exchange::Kind::swap, .input = {}, .output = {}};
      exchange.input.dtype = exchange.output.dtype = Dtype::u8;
      if (sends()) {
        seal_sum();
        exchange.input = const_buffer_of(sent_);
        exchange.to = part_.rank - distance_;
      }
      if (receives()) {
        exchange.output = buffer_of(received_);
        exchange.from = part_.rank + distance_;
      }
      return exchange;
    }
    broadcast_ = true;
    if (part_.rank == 0) {
      seal_sum();
      received_ = sent_;
    }
    return Exchange{.kind = Exchange::Kind::broadcast,
                    .input = const_buffer_of(received_),
                    .output = buffer_of(received_)};
  }

  void seal_sum() {
    std::optional<std::size_t> payload;
    if (!overflowed_) {
      payload = sparse_bytes(sum_.indices.size());
      write(sum_, payload_of(sent_).first(*payload));
    }
    seal_in(sent_, envelope_, payload);
  }

  // Takes the received payload as sum_, or notes an overflow.
  Result<> hear(int sender) {
    const auto payload = open_from(sender, received_, envelope_);
    if (!payload) return payload.error();
    overflowed_ = overflowed_ || !payload.value();
    if (overflowed_) return Done();
    const auto sparse = open_sparse(*payload.value(), part_.elements());
    if (!sparse) return blamed(sender, sparse.error());
    sum_ = SparseSum::of(sparse.value());
    return Done();
  }

  void merge(const SparseSum& mine) {
    sum_ = merged(mine, sum_);
    Dropped dropped = keep_largest(sum_, own_.size());
    overflowed_ = !dropped.finite;
    if (lossless_ && !overflowed_) dropped_.push_back(std::move(dropped.others));
  }

  const AveragedTensor part_;
  const bool lossless_;
  Residual residual_;
  std::vector<std::uint32_t> own_;  // what this rank contributes
  std::vector<std::byte> sent_, received_;
  SparseSum sum_;
  std::vector<SparseSum> dropped_;
  Envelope envelope_;
  std::span<float> gradient_;
  int distance_ = 1;  // to the other rank of this round
  bool broadcast_ = false;
  bool overflowed_ = false;
};

std::unique_ptr<Averaging> make(const AveragedTensor& part, const Settings& settings) {
  const TreeSelectionOptions options{.ratio = settings["ratio"], .lossless = !settings.on("mode")};
  PACELINE_CHECK(options.ratio > 0 && options.ratio <= 1, "a ratio of {} is not in (0, 1]",
                 options.ratio);
  return std::make_unique<TreeSelectionAverage>(part, options);
}

}  // namespace

Method gtop_k() {
  return {
      .name = "gtop_k",
      .summary = "the largest elements of the sum, by a tree",
      .reference =
          "Shi et al., A Distributed Synchronous SGD Algorithm with Global Top-k "
          "Sparsification, ICDCS 2019",
      .settings = {ratio_setting(0.001),
                   {.name = "mode",
                    .standard = 0,
                    .meaning =
                        "keep elements that merges drop, or lose them as the paper's program does",
                    .whole = true,
                    .words = {"lossless", "paper"}}},
      .make = make,
      .shows_alone = false};
}

}  // namespace paceline::compress::catalogue
