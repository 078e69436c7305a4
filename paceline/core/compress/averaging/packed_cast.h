// PackedCast: the mean of a message whose caller has packed and cast its elements himself, as a
// device does before it copies them. Beside the elements that a casting codec (fp16, bf16) rounds
// there may be others that travel whole. It exchanges what that codec's averaging exchanges on
// other ranks, so that some ranks may pack and others not.
#pragma once

#include "paceline/core/compress/averaging/averaging.h"

namespace paceline::compress {

class PackedCast final : public Averaging {
 public:
  // The means replace the elements there, in any memory. They stay valid from begin() on until the
  // last exchange has been carried out.
  void load(const Buffer& whole, const Buffer& cast) {
    whole_ = whole;
    cast_ = cast;
  }

  // The gradient is not looked at.
  std::optional<Exchange> begin(std::span<float> gradient, std::uint32_t step) override;
  Result<std::optional<Exchange>> next() override;
  // The caller looks, where the elements are.
  bool overflowed() const override { return false; }
  Result<> finish() override { return Done{}; }
  std::vector<StateView> state() override { return {}; }

 private:
  Buffer whole_, cast_;
  bool has_cast_to_come_ = false;
};

}  // namespace paceline::compress
