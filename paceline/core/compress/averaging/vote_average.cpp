#include "paceline/core/compress/averaging/vote_average.h"

#include <algorithm>
#include <cmath>

#include "paceline/core/compress/averaging/sign_chunks.h"
#include "paceline/core/compress/averaging/slots.h"
#include "paceline/core/compress/kernels/sign_bits.h"
#include "paceline/core/compress/payload/codec.h"

namespace paceline::compress {
namespace {

class VoteAverage final : public Averaging {
 public:
  explicit VoteAverage(const Part& part)
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

  const Part part_;
  SignChunks chunks_;
  Slots slots_;
  std::vector<std::byte> signs_;
  Envelope envelope_;
  std::span<float> gradient_;
  bool voted_ = false;
  bool overflowed_ = false;
};

}  // namespace

std::unique_ptr<Averaging> vote_average(const Part& part) {
  return std::make_unique<VoteAverage>(part);
}

}  // namespace paceline::compress
