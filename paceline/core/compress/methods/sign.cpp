#include <algorithm>
#include <cmath>
#include <memory>

#include "paceline/core/compress/averaging/averaging.h"
#include "paceline/core/compress/averaging/envelope.h"
#include "paceline/core/compress/averaging/sign_chunks.h"
#include "paceline/core/compress/kernels/sign_bits.h"
#include "paceline/core/compress/methods/method_catalogue.h"
#include "paceline/core/compress/payload/codec.h"

namespace paceline::compress::catalogue {
namespace {

// signSGD with majority vote (Bernstein et al. 2018): each element becomes +1 or -1, by the
// majority of the ranks; a tie is +1. The result is not a mean but a direction, with a learning
// rate of its own.
//
// All ranks together send 2 ceil(N/8) (ranks - 1) bytes of payload, so a rank's share does not grow
// with the number of ranks.
class VoteAverage final : public Averaging {
 public:
  explicit VoteAverage(const AveragedTensor& part)
      : part_(part), chunks_(part, 0), slots_(part), signs_(sign_bytes(part.elements())) {
    slots_.resize(chunks_.longest_bytes());
  }

  std::optional<Exchange> begin(std::span<float> gradient, std::uint32_t step) override {
    gradient_ = gradient;
    overflowed_ = voted_ = false;
    envelope_ = {kVotes, part_.tensor, step, part_.elements()};
    const bool finite = std::isfinite(pack_signs(gradient, signs_));
    return chunks_.send(envelope_, {}, finite ? std::optional<Bytes>(signs_) : std::nullopt);
  }

  Result<std::optional<Exchange>> next() override {
    if (!voted_) return vote();
    const auto opened = slots_.open(envelope_);
    if (!opened) return opened.error();
    overflowed_ = !opened.value();
    for (int owner = 0; owner < part_.ranks && !overflowed_; ++owner) {
      const Bytes verdict = slots_.payload(owner);
      if (const auto right = expect(verdict, owner); !right) return blamed(owner, right.error());
      std::ranges::copy(verdict, MutableBytes(signs_).subspan(chunks_.first_byte(owner)).begin());
    }
    return std::optional<Exchange>();
  }

  bool overflowed() const override { return overflowed_; }

  Result<> finish() override {
    unpack_signs(signs_, 1, gradient_);
    return Done();
  }

  std::vector<StateView> state() override { return {}; }

 private:
  Result<std::optional<Exchange>> vote() {
    voted_ = true;
    const auto opened = chunks_.open(envelope_);
    if (!opened) return opened.error();
    if (!opened.value()) return std::optional<Exchange>(slots_.gather(envelope_, std::nullopt));
    for (int rank = 0; rank < part_.ranks; ++rank) {
      const Bytes vote = chunks_.received()[static_cast<std::size_t>(rank)];
      if (const auto right = expect(vote, part_.rank); !right) return blamed(rank, right.error());
    }
    const std::size_t bytes = chunks_.bytes(part_.rank);
    majority_vote(chunks_.received(), slots_.own_payload().first(bytes));
    return std::optional<Exchange>(slots_.gather(envelope_, bytes));
  }

  // Fails unless these are signs of the owner's chunk.
  Result<> expect(Bytes signs, int owner) const {
    const std::size_t elements = chunks_.elements(owner);
    if (const auto right = expect_bytes(signs, chunks_.bytes(owner), elements); !right)
      return right;
    if (!are_signs(signs, elements)) return malformed_payload("votes behind the last element");
    return Done();
  }

  const AveragedTensor part_;
  SignChunks chunks_;
  Slots slots_;
  std::vector<std::byte> signs_;
  Envelope envelope_;
  std::span<float> gradient_;
  bool voted_ = false;
  bool overflowed_ = false;
};

std::unique_ptr<Averaging> make(const AveragedTensor& part, const Settings&) {
  return std::make_unique<VoteAverage>(part);
}

}  // namespace

Method sign() {
  return {.name = "sign",
          .summary = "the sign that most ranks have",
          .reference = "Bernstein et al., signSGD, ICML 2018, and with Majority Vote, ICLR 2019",
          .settings = {},
          .make = make,
          .make_small = make,
          .shortens_small = true,
          .outcome = Method::Outcome::direction,
          .learning_rate = 0.0002};
}

}  // namespace paceline::compress::catalogue
