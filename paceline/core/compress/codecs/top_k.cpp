#include "paceline/core/compress/codecs/top_k.h"

#include <vector>

#include "paceline/core/base/check.h"
#include "paceline/core/compress/kernels/selection.h"
#include "paceline/core/compress/payload/sparse.h"

namespace paceline::compress {
namespace {

class TopK final : public Codec {
 public:
  explicit TopK(double ratio) : ratio_(ratio) {}

  PayloadFormat format() const override { return PayloadFormat::sparse; }

  std::size_t longest_payload(std::size_t elements) const override {
    return sparse_bytes(count_of(ratio_, elements));
  }

  std::optional<std::size_t> encode(std::span<const float> values, const EncodeContext&,
                                    MutableBytes payload) const override {
    std::vector<std::uint32_t> indices(count_of(ratio_, values.size()));
    if (!select_largest(values, indices)) return std::nullopt;
    return write(values, indices, payload);
  }

  std::optional<std::size_t> encode_sum(std::span<const float> values, std::span<const float> more,
                                        const EncodeContext&, std::span<float> sum,
                                        MutableBytes payload) const override {
    std::vector<std::uint32_t> indices(count_of(ratio_, values.size()));
    if (!select_largest_of_sum(values, more, sum, indices)) return std::nullopt;
    return write(sum, indices, payload);
  }

  Result<> decode(Bytes payload, std::span<float> values) const override {
    if (auto length = expect_bytes(payload, longest_payload(values.size()), values.size()); !length)
      return length;
    const auto sparse = open_sparse(payload, values.size());
    if (!sparse) return sparse.error();
    scatter(sparse.value(), values);
    return Done{};
  }

 private:
  std::size_t write(std::span<const float> values, std::span<const std::uint32_t> indices,
                    MutableBytes payload) const {
    const std::size_t bytes = longest_payload(values.size());
    require_room(payload, bytes);
    write_sparse(values, indices, payload.first(bytes));
    return bytes;
  }

  double ratio_;
};

}  // namespace

std::unique_ptr<Codec> top_k_codec(double ratio) {
  PACELINE_CHECK(0 < ratio && ratio <= 1, "top_k of a ratio of {}: it must be in (0, 1]", ratio);
  return std::make_unique<TopK>(ratio);
}

}  // namespace paceline::compress
