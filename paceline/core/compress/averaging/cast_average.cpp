#include "paceline/core/compress/averaging/cast_average.h"

#include "paceline/core/base/check.h"
#include "paceline/core/base/half.h"
#include "paceline/core/compress/averaging/residual.h"
#include "paceline/core/compress/codecs/casts.h"

namespace paceline::compress {
namespace {

Exchange average_in_place(Buffer values) {
  return {.kind = Exchange::Kind::all_reduce,
          .input = values,
          .output = values,
          .op = ReduceOp::average};
}

class DenseAverage final : public Averaging {
 public:
  std::optional<Exchange> begin(std::span<float> gradient, std::uint32_t) override {
    gradient_ = gradient;
    return average_in_place(buffer_of(gradient));
  }
  Result<std::optional<Exchange>> next() override {
    overflowed_ = !all_finite(gradient_);
    return std::optional<Exchange>();
  }
  bool overflowed() const override { return overflowed_; }
  Result<> finish() override { return Done(); }
  std::vector<StateView> state() override { return {}; }

 private:
  std::span<float> gradient_;
  bool overflowed_ = false;
};

class CastAverage final : public Averaging {
 public:
  CastAverage(const AveragedTensor& part, Dtype wire)
      : wire_(wire), codec_(cast_codec(wire)), halves_(part.elements()) {}

  std::optional<Exchange> begin(std::span<float> gradient, std::uint32_t) override {
    gradient_ = gradient;
    overflowed_ = false;
    narrow(wire_, gradient, bytes());
    return average_in_place({bytes().data(), halves_.size(), wire_});
  }

  // Decodes here already, in one pass with the check.
  Result<std::optional<Exchange>> next() override {
    overflowed_ = !codec_->decode(bytes(), gradient_);
    return std::optional<Exchange>();
  }

  bool overflowed() const override { return overflowed_; }
  Result<> finish() override { return Done(); }
  std::vector<StateView> state() override { return {}; }

 private:
  MutableBytes bytes() { return std::as_writable_bytes(std::span(halves_)); }

  const Dtype wire_;
  const std::unique_ptr<const Codec> codec_;
  std::vector<std::uint16_t> halves_;
  std::span<float> gradient_;
  bool overflowed_ = false;
};

}  // namespace

std::unique_ptr<Averaging> cast_average(const AveragedTensor& part, Dtype wire) {
  if (wire == Dtype::f32) return std::make_unique<DenseAverage>();
  PACELINE_CHECK(is_half(wire), "gradients cannot travel as {}", name_of(wire));
  return std::make_unique<CastAverage>(part, wire);
}

}  // namespace paceline::compress
