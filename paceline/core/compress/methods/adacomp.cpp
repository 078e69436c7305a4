#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "paceline/core/base/check.h"
#include "paceline/core/compress/averaging/averaging.h"
#include "paceline/core/compress/averaging/envelope.h"
#include "paceline/core/compress/averaging/residual.h"
#include "paceline/core/compress/kernels/norms.h"
#include "paceline/core/compress/methods/method_catalogue.h"
#include "paceline/core/compress/payload/binned_signs.h"
#include "paceline/core/compress/payload/codec.h"

namespace paceline::compress::catalogue {
namespace {

// A rank sends this instead of a length when it had an overflow.
constexpr std::int64_t kOverflow = std::numeric_limits<std::int64_t>::max();

// AdaComp: each bin sends the elements that an equal next gradient would make its largest, so the
// number of elements sent follows from the gradients. With acc = gradient + residual, element i is
// sent if |acc_i + gradient_i| >= the largest |acc| of its bin. All are sent as +-scale, the mean
// of the bins' largest magnitudes, and the loss is fed back. The ranks first exchange the lengths
// of their messages, so that no gathered message is padded beyond the longest.
class BinnedAverage final : public Averaging {
 public:
  BinnedAverage(const AveragedTensor& part, std::size_t bin)
      : part_(part), bin_(bin), residual_(true, part.elements()), slots_(part) {}

  std::optional<Exchange> begin(std::span<float> gradient, std::uint32_t step) override {
    gradient_ = gradient;
    envelope_ = {kBinnedSigns, part_.tensor, step, part_.elements()};
    overflowed_ = is_told_ = false;
    own_.elements.clear();
    longest_ = {select() ? static_cast<std::int64_t>(own_bytes()) : kOverflow};
    return Exchange{.kind = Exchange::Kind::all_reduce,
                    .input = const_buffer_of(longest_),
                    .output = buffer_of(longest_),
                    .op = ReduceOp::max};
  }

  Result<std::optional<Exchange>> next() override {
    if (is_told_) return take_messages();
    is_told_ = true;
    overflowed_ = longest_.front() == kOverflow;
    if (overflowed_) return std::optional<Exchange>();
    const auto longest = static_cast<std::size_t>(longest_.front());
    if (longest < own_bytes() || longest > binned_bytes(part_.elements(), bin_, part_.elements()))
      return malformed_payload(fmt::format("the longest of all has {} bytes", longest));
    slots_.resize(longest);
    write_binned(own_, part_.elements(), bin_, slots_.own_payload().first(own_bytes()));
    return std::optional<Exchange>(slots_.gather(envelope_, own_bytes()));
  }

  bool overflowed() const override { return overflowed_; }

  Result<> finish() override {
    std::ranges::fill(residual_.values(), 0.0f);
    add_to(own_, residual_.values());
    residual_.keep_rest_of(gradient_);
    std::ranges::fill(gradient_, 0.0f);
    for (const BinnedSigns& signs : received_) add_to(signs, gradient_);
    if (part_.ranks > 1) scale(Dtype::f32, std::as_writable_bytes(gradient_), 1.0 / part_.ranks);
    return Done();
  }

  std::vector<StateView> state() override { return residual_.state(); }

 private:
  std::size_t own_bytes() const {
    return binned_bytes(part_.elements(), bin_, own_.elements.size());
  }

  // Turns the gradient into acc, and selects own_ from it. Returns false if a value is not finite.
  bool select() {
    std::vector<float> acc(std::min(bin_, gradient_.size()));
    std::vector<SignedElement> chosen(acc.size());
    double maxima = 0;
    std::size_t bins = 0;
    for (std::size_t begin = 0; begin < gradient_.size(); begin += bin_, ++bins) {
      const auto bin = gradient_.subspan(begin, std::min(bin_, gradient_.size() - begin));
      const auto kept = residual_.values().subspan(begin, bin.size());
      for (std::size_t i = 0; i < bin.size(); ++i) acc[i] = bin[i] + kept[i];
      const float largest = largest_magnitude(std::span(acc).first(bin.size()));
      if (!std::isfinite(largest)) return false;
      maxima += largest;
      // It avoids a branch for each element, which no processor could predict.
      std::size_t count = 0;
      for (std::size_t i = 0; i < bin.size(); ++i) {
        chosen[count] = {static_cast<std::uint32_t>(begin + i), acc[i] < 0};
        count += std::abs(acc[i] + bin[i]) >= largest ? 1 : 0;
        bin[i] = acc[i];
      }
      if (largest > 0)
        own_.elements.insert(own_.elements.end(), chosen.begin(),
                             chosen.begin() + static_cast<std::ptrdiff_t>(count));
    }
    own_.scale = bins == 0 ? 0 : static_cast<float>(maxima / static_cast<double>(bins));
    return true;
  }

  Result<std::optional<Exchange>> take_messages() {
    const auto opened = slots_.open(envelope_);
    if (!opened) return opened.error();
    overflowed_ = !opened.value();
    received_.clear();
    for (int rank = 0; rank < part_.ranks && !overflowed_; ++rank) {
      auto signs = read_binned(slots_.payload(rank), part_.elements(), bin_);
      if (!signs) return blamed(rank, signs.error());
      received_.push_back(std::move(*signs));
    }
    return std::optional<Exchange>();
  }

  const AveragedTensor part_;
  const std::size_t bin_;
  Residual residual_;
  Slots slots_;
  BinnedSigns own_;
  std::vector<BinnedSigns> received_;
  std::vector<std::int64_t> longest_;
  Envelope envelope_;
  std::span<float> gradient_;
  bool is_told_ = false;
  bool overflowed_ = false;
};

std::unique_ptr<Averaging> make(const AveragedTensor& part, const Settings& settings) {
  const auto bin = settings.as<std::size_t>("bin");
  PACELINE_CHECK(bin > 0 && bin <= kLongestBin, "a bin of {} elements is not of 1 to {}", bin,
                 kLongestBin);
  return std::make_unique<BinnedAverage>(part, bin);
}

}  // namespace

Method adacomp() {
  return {.name = "adacomp",
          .summary = "the large values of each bin, all with one magnitude",
          .reference = "Chen et al., AdaComp, AAAI 2018",
          .settings = {{.name = "bin",
                        .standard = 50,
                        .least = 1,
                        .most = kLongestBin,
                        .meaning = "elements of a bin, which are compared with each other",
                        .whole = true}},
          .make = make};
}

}  // namespace paceline::compress::catalogue
