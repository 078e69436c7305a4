#include "paceline/core/compress/gathered_average.h"

#include <algorithm>

#include "paceline/core/compress/long_output.h"
#include "paceline/core/compress/residual.h"
#include "paceline/core/compress/slots.h"
#include "paceline/core/compress/sparse.h"

namespace paceline::compress {
namespace {

class GatheredAverage final : public Averaging {
 public:
  GatheredAverage(const Part& part, std::unique_ptr<const Codec> codec,
                  const GatheredOptions& options)
      : part_(part),
        codec_(std::move(codec)),
        gain_(options.gain),
        residual_(options.feedback, part.elements()),
        slots_(part) {}

  std::optional<Exchange> begin(std::span<float> gradient, std::uint32_t step) override {
    gradient_ = gradient;
    overflowed_ = false;
    envelope_ = {static_cast<std::uint8_t>(codec_->format()), part_.tensor, step, part_.elements()};
    residual_.add_to(gradient);
    slots_.resize(codec_->longest_payload(gradient.size()));
    const Occasion occasion{part_.seed, part_.tensor, step, static_cast<std::uint32_t>(part_.rank)};
    return slots_.gather(envelope_, codec_->encode(gradient, occasion, slots_.own_payload()));
  }

  Result<std::optional<Exchange>> next() override {
    const auto opened = slots_.open(envelope_);
    if (!opened) return opened.error();
    overflowed_ = !opened.value();
    return std::optional<Exchange>();
  }

  bool overflowed() const override { return overflowed_; }

  Result<> finish() override {
    const bool sparse = codec_->format() == PayloadFormat::sparse;
    if (sparse) return add_sparse();
    if (const auto done = add_dense(); !done) return done;
    if (part_.ranks > 1) scale(Dtype::f32, std::as_writable_bytes(gradient_), 1.0 / part_.ranks);
    return Done();
  }

  std::vector<StateView> state() override { return residual_.state(); }

 private:
  Result<> decode(int rank, std::span<float> decoded) const {
    if (const auto done = codec_->decode(slots_.payload(rank), decoded); !done)
      return blamed(rank, done.error());
    if (gain_ != 1) scale(Dtype::f32, std::as_writable_bytes(decoded), gain_);
    return Done();
  }

  // gradient = the sum over the ranks, and what the own payload has not goes into the residual.
  Result<> add_dense() {
    if (residual_.kept()) {
      if (const auto done = decode(part_.rank, residual_.values()); !done) return done;
      residual_.keep_rest_of(gradient_);
    }
    if (const auto done = decode(0, gradient_); !done) return done;
    if (part_.ranks == 1) return Done();
    const auto scratch = std::make_unique_for_overwrite<float[]>(gradient_.size());
    const std::span<float> decoded(scratch.get(), gradient_.size());
    const MutableBytes sum = std::as_writable_bytes(gradient_);
    for (int rank = 1; rank < part_.ranks; ++rank) {
      if (const auto done = decode(rank, decoded); !done) return done;
      reduce(ReduceOp::sum, Dtype::f32, sum, std::as_bytes(decoded), sum);
    }
    return Done();
  }

  // The same where few elements were sent: block by block, in one pass over gradient and residual.
  Result<> add_sparse() {
    std::vector<SparseView> views;
    for (int rank = 0; rank < part_.ranks; ++rank) {
      const auto view = open_sparse(slots_.payload(rank), gradient_.size());
      if (!view) return blamed(rank, view.error());
      views.push_back(view.value());
    }
    constexpr std::size_t kBlock = 4096;
    std::vector<std::size_t> next(views.size());  // of each rank's elements
    for (std::size_t at = 0; at < gradient_.size(); at += kBlock)
      add_sparse_block(views, next, at, std::min(kBlock, gradient_.size() - at));
    finish_copies();
    return Done();
  }

  void add_sparse_block(const std::vector<SparseView>& views, std::vector<std::size_t>& next,
                        std::size_t at, std::size_t elements) {
    const std::span<float> block = gradient_.subspan(at, elements);
    // Calls with those of a rank's elements that lie in the block; returns the first behind it.
    const auto for_each = [&](std::size_t rank, auto&& call) {
      std::size_t i = next[rank];
      for (; i < views[rank].size() && views[rank].index(i) < at + elements; ++i)
        call(block[views[rank].index(i) - at], views[rank].value(i) * gain_);
      return i;
    };
    if (residual_.kept()) {
      for_each(static_cast<std::size_t>(part_.rank), [](float& kept, float sent) { kept -= sent; });
      copy_past_caches(std::as_bytes(block),
                       std::as_writable_bytes(residual_.values().subspan(at, elements)));
    }
    std::ranges::fill(block, 0.0f);
    for (std::size_t rank = 0; rank < views.size(); ++rank)
      next[rank] = for_each(rank, [](float& sum, float sent) { sum += sent; });
    if (part_.ranks > 1) scale(Dtype::f32, std::as_writable_bytes(block), 1.0 / part_.ranks);
  }

  const Part part_;
  const std::unique_ptr<const Codec> codec_;
  const float gain_;
  Residual residual_;
  Slots slots_;
  Envelope envelope_;
  std::span<float> gradient_;
  bool overflowed_ = false;
};

}  // namespace

std::unique_ptr<Averaging> gathered_average(const Part& part, std::unique_ptr<const Codec> codec,
                                            const GatheredOptions& options) {
  return std::make_unique<GatheredAverage>(part, std::move(codec), options);
}

}  // namespace paceline::compress
