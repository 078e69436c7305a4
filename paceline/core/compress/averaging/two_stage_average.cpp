#include "paceline/core/compress/averaging/two_stage_average.h"

#include <algorithm>
#include <cmath>

#include "paceline/core/compress/averaging/envelope.h"
#include "paceline/core/compress/averaging/residual.h"
#include "paceline/core/compress/averaging/sign_chunks.h"
#include "paceline/core/compress/codecs/ef_sign.h"
#include "paceline/core/compress/kernels/sign_bits.h"

namespace paceline::compress {
namespace {

class TwoStageAverage final : public Averaging {
 public:
  explicit TwoStageAverage(const AveragedTensor& part)
      : part_(part),
        codec_(ef_sign_codec()),
        chunks_(part, sizeof(float)),
        slots_(part),
        residual_(true, part.elements()),
        owner_residual_(chunks_.elements(part.rank)),
        owner_acc_(owner_residual_.size()),
        scratch_(owner_residual_.size()),
        signs_(sign_bytes(part.elements())) {
    slots_.resize(codec_->longest_payload(chunks_.elements(0)));
  }

  std::optional<Exchange> begin(std::span<float> gradient, std::uint32_t step) override {
    gradient_ = gradient;
    overflowed_ = reduced_ = false;
    occasion_ = {part_.seed, part_.tensor, step, static_cast<std::uint32_t>(part_.rank)};
    envelope_ = {static_cast<std::uint8_t>(codec_->format()), part_.tensor, step, part_.elements()};
    residual_.add_to(gradient);
    const double sum = pack_signs(gradient, signs_);
    scale_ = gradient.empty() ? 0 : static_cast<float>(sum / static_cast<double>(gradient.size()));
    return chunks_.send(envelope_, bytes_of(scale_),
                        std::isfinite(scale_) ? std::optional<Bytes>(signs_) : std::nullopt);
  }

  Result<std::optional<Exchange>> next() override {
    if (!reduced_) return reduce_own_chunk();
    const auto opened = slots_.open(envelope_);
    if (!opened) return opened.error();
    overflowed_ = !opened.value();
    return std::optional<Exchange>();
  }

  bool overflowed() const override { return overflowed_; }

  Result<> finish() override {
    unpack_signs(signs_, scale_, residual_.values());
    residual_.keep_rest_of(gradient_);
    for (int owner = 0; owner < part_.ranks; ++owner) {
      const std::span<float> chunk =
          gradient_.subspan(chunks_.first_element(owner), chunks_.elements(owner));
      if (const auto done = codec_->decode(slots_.payload(owner), chunk); !done)
        return blamed(owner, done.error());
      if (owner != part_.rank) continue;
      for (std::size_t i = 0; i < chunk.size(); ++i) owner_residual_[i] = owner_acc_[i] - chunk[i];
    }
    return Done();
  }

  std::vector<StateView> state() override {
    std::vector<StateView> views = residual_.state();
    views.push_back({StateView::Sharing::chunk, "owner_residual", owner_residual_});
    return views;
  }

 private:
  Result<std::optional<Exchange>> reduce_own_chunk() {
    reduced_ = true;
    const auto opened = chunks_.open(envelope_);
    if (!opened) return opened.error();
    if (!opened.value()) return std::optional<Exchange>(slots_.gather(envelope_, std::nullopt));
    const MutableBytes acc = std::as_writable_bytes(std::span(owner_acc_));
    std::ranges::fill(owner_acc_, 0.0f);
    for (int rank = 0; rank < part_.ranks; ++rank) {
      const Bytes payload = chunks_.received()[static_cast<std::size_t>(rank)];
      if (const auto done = codec_->decode(payload, scratch_); !done)
        return blamed(rank, done.error());
      reduce(ReduceOp::sum, Dtype::f32, acc, std::as_bytes(std::span(scratch_)), acc);
    }
    scale(Dtype::f32, acc, 1.0 / part_.ranks);
    reduce(ReduceOp::sum, Dtype::f32, acc, std::as_bytes(std::span(owner_residual_)), acc);
    return std::optional<Exchange>(
        slots_.gather(envelope_, codec_->encode(owner_acc_, occasion_, slots_.own_payload())));
  }

  const AveragedTensor part_;
  const std::unique_ptr<const Codec> codec_;
  SignChunks chunks_;
  Slots slots_;
  Residual residual_;
  std::vector<float> owner_residual_;  // of this rank's chunk
  std::vector<float> owner_acc_, scratch_;
  std::vector<std::byte> signs_;
  float scale_ = 0;
  EncodeContext occasion_;
  Envelope envelope_;
  std::span<float> gradient_;
  bool reduced_ = false;
  bool overflowed_ = false;
};

}  // namespace

std::unique_ptr<Averaging> two_stage_average(const AveragedTensor& part) {
  return std::make_unique<TwoStageAverage>(part);
}

}  // namespace paceline::compress
