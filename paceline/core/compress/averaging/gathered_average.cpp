#include "paceline/core/compress/averaging/gathered_average.h"

#include <algorithm>

#include "paceline/core/compress/averaging/envelope.h"
#include "paceline/core/compress/averaging/residual.h"
#include "paceline/core/compress/kernels/long_output.h"
#include "paceline/core/compress/payload/sparse.h"

namespace paceline::compress {
namespace {

class GatheredAverage final : public Averaging {
 public:
  GatheredAverage(const AveragedTensor& part, std::unique_ptr<const Codec> codec,
                  const GatheredOptions& options)
      : part_(part),
        codec_(std::move(codec)),
        gain_(options.gain),
        spares_(part.spares ? part.spares : std::make_shared<SpareMemory>()),
        residual_(is_sparse() ? Residual(options.feedback, part.elements(), *spares_)
                              : Residual(options.feedback, part.elements())),
        slots_(part) {}

  std::optional<Exchange> begin(std::span<float> gradient, std::uint32_t step) override {
    gradient_ = gradient;
    overflowed_ = false;
    envelope_ = {static_cast<std::uint8_t>(codec_->format()), part_.tensor, step, part_.elements()};
    slots_.resize(codec_->longest_payload(gradient.size()));
    const EncodeContext occasion{part_.seed, part_.tensor, step,
                                 static_cast<std::uint32_t>(part_.rank)};
    return slots_.gather(envelope_, encode(occasion));
  }

  Result<std::optional<Exchange>> next() override {
    const auto opened = slots_.open(envelope_);
    if (!opened) return opened.error();
    overflowed_ = !opened.value();
    return std::optional<Exchange>();
  }

  bool overflowed() const override { return overflowed_; }

  Result<> finish() override {
    if (is_sparse()) return add_sparse();
    if (const auto done = add_dense(); !done) return done;
    if (part_.ranks > 1) scale(Dtype::f32, std::as_writable_bytes(gradient_), 1.0 / part_.ranks);
    return Done();
  }

  std::vector<StateView> state() override { return residual_.state(); }

 private:
  bool is_sparse() const { return codec_->format() == PayloadFormat::sparse; }

  // With a sparse payload, the next residual equals acc but for a few elements, so it is made here,
  // beside the present one.
  std::optional<std::size_t> encode(const EncodeContext& occasion) {
    const MutableBytes payload = slots_.own_payload();
    if (!residual_.kept()) return codec_->encode(gradient_, occasion, payload);
    std::span<float> sum = gradient_;
    if (is_sparse()) {
      if (!next_residual_) next_residual_ = spares_->take(gradient_.size());
      sum = {next_residual_.get(), gradient_.size()};
    }
    return codec_->encode_sum(gradient_, residual_.values(), occasion, sum, payload);
  }

  Result<> decode(int rank, std::span<float> decoded) const {
    if (const auto done = codec_->decode(slots_.payload(rank), decoded); !done)
      return blamed(rank, done.error());
    if (gain_ != 1) scale(Dtype::f32, std::as_writable_bytes(decoded), gain_);
    return Done();
  }

  // gradient = the sum over the ranks; the loss of this rank's payload becomes the residual.
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

  // add_dense for sparse payloads.
  Result<> add_sparse() {
    std::vector<SparseView> views;
    for (int rank = 0; rank < part_.ranks; ++rank) {
      const auto view = open_sparse(slots_.payload(rank), gradient_.size());
      if (!view) return blamed(rank, view.error());
      views.push_back(view.value());
    }
    if (residual_.kept()) {
      const SparseView& sent = views[static_cast<std::size_t>(part_.rank)];
      for (std::size_t i = 0; i < sent.size(); ++i)
        next_residual_[sent.index(i)] -= sent.value(i) * gain_;
      spares_->give(residual_.replace_by(std::move(next_residual_)), gradient_.size());
    }
    std::vector<std::size_t> next(views.size());  // the next element of each rank
    decode_in_blocks(gradient_, [&](std::size_t at, std::span<float> block) {
      std::ranges::fill(block, 0.0f);
      for (std::size_t rank = 0; rank < views.size(); ++rank)
        next[rank] = add_elements(views[rank], next[rank], at, block);
      if (part_.ranks > 1) scale(Dtype::f32, std::as_writable_bytes(block), 1.0 / part_.ranks);
      return true;
    });
    return Done();
  }

  // Adds the elements from number i on that lie in the block, which begins at element `at`. Returns
  // the number of the first element behind the block.
  std::size_t add_elements(const SparseView& view, std::size_t i, std::size_t at,
                           std::span<float> block) const {
    for (; i < view.size() && view.index(i) < at + block.size(); ++i)
      block[view.index(i) - at] += view.value(i) * gain_;
    return i;
  }

  const AveragedTensor part_;
  const std::unique_ptr<const Codec> codec_;
  const float gain_;
  const std::shared_ptr<SpareMemory> spares_;
  Residual residual_;                       // its memory is a spare if payloads are sparse
  std::unique_ptr<float[]> next_residual_;  // from begin() to finish(), if payloads are sparse
  Slots slots_;
  Envelope envelope_;
  std::span<float> gradient_;
  bool overflowed_ = false;
};

}  // namespace

std::unique_ptr<Averaging> gathered_average(const AveragedTensor& part,
                                            std::unique_ptr<const Codec> codec,
                                            const GatheredOptions& options) {
  return std::make_unique<GatheredAverage>(part, std::move(codec), options);
}

}  // namespace paceline::compress
