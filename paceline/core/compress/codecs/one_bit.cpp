#include "paceline/core/compress/codecs/one_bit.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "paceline/core/base/check.h"
#include "paceline/core/compress/kernels/long_output.h"
#include "paceline/core/compress/kernels/sign_bits.h"

namespace paceline::compress {
namespace {

// The means of one column, laid out as in the payload.
struct Means {
  float high;  // of the values >= 0; 0 if there are none
  float low;   // of the negative values; 0 if there are none
};

// Several rows of few columns count as one wide row, so that loops over a row are long.
std::size_t width_of(std::size_t columns) {
  return columns < 64 ? 64 / columns * columns : columns;
}

// The sums of each column, separately for each row of a wide row.
struct ColumnSums {
  std::vector<double> high, low;
  std::vector<std::uint32_t> count;  // of the values >= 0

  explicit ColumnSums(std::size_t width) : high(width), low(width), count(width) {}

  void add(std::span<const float> values) {
    for (std::size_t at = 0; at < values.size(); at += high.size())
      add_row(values.data() + at, std::min(high.size(), values.size() - at), high.data(),
              low.data(), count.data());
  }

  static void add_row(const float* values, std::size_t elements, double* high, double* low,
                      std::uint32_t* count) {
    for (std::size_t i = 0; i < elements; ++i) {
      const double value = values[i];
      const double not_negative = 0.5 * (value + std::abs(value));  // exact, and without a branch
      high[i] += not_negative;
      low[i] += value - not_negative;
    }
    for (std::size_t i = 0; i < elements; ++i) count[i] += values[i] >= 0;
  }

  static float mean(double sum, std::size_t values) {
    return static_cast<float>(sum / static_cast<double>(std::max<std::size_t>(values, 1)));
  }

  // Returns false if a value was not finite.
  bool means(std::size_t rows, std::span<Means> means) const {
    bool finite = true;
    for (std::size_t c = 0; c < means.size(); ++c) {
      double sum_high = 0, sum_low = 0;
      std::size_t highs = 0;
      for (std::size_t i = c; i < high.size(); i += means.size()) {
        sum_high += high[i];
        sum_low += low[i];
        highs += count[i];
      }
      means[c] = {mean(sum_high, highs), mean(sum_low, rows - highs)};
      finite = finite && std::isfinite(sum_high) && std::isfinite(sum_low);
    }
    return finite;
  }
};

// The means, repeated for each row of a wide row.
struct Table {
  std::vector<float> high, low;

  explicit Table(std::span<const Means> means) : high(width_of(means.size())), low(high.size()) {
    for (std::size_t i = 0; i < high.size(); ++i) {
      high[i] = means[i % means.size()].high;
      low[i] = means[i % means.size()].low;
    }
  }

  // Replaces +1 and -1 of elements first, first + 1, ... by the means of their columns.
  void look_up(std::size_t first, std::span<float> values) const {
    for (std::size_t i = 0; i < values.size();) {
      const std::size_t place = (first + i) % high.size();
      const std::size_t count = std::min(high.size() - place, values.size() - i);
      look_up_row(&high[place], &low[place], &values[i], count);
      i += count;
    }
  }

  static void look_up_row(const float* high, const float* low, float* values, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const float if_high = high[i], if_low = low[i];
      values[i] = values[i] > 0 ? if_high : if_low;
    }
  }
};

// The payload: the means of each column, then the signs.
class OneBit final : public Codec {
 public:
  explicit OneBit(std::size_t columns) : columns_(columns) {}

  PayloadFormat format() const override { return PayloadFormat::column_signs; }

  std::size_t longest_payload(std::size_t elements) const override {
    return sizeof(Means) * columns_ + sign_bytes(elements);
  }

  std::optional<std::size_t> encode(std::span<const float> values, const EncodeContext&,
                                    MutableBytes payload) const override {
    PACELINE_CHECK(values.size() % columns_ == 0,
                   "one_bit of {} elements in {} columns: give it the tensor's own columns",
                   values.size(), columns_);
    const std::size_t bytes = longest_payload(values.size());
    require_room(payload, bytes);
    pack_signs(values, payload.first(bytes).subspan(sizeof(Means) * columns_));
    ColumnSums sums(width_of(columns_));
    sums.add(values);
    std::vector<Means> means(columns_);
    if (!sums.means(values.size() / columns_, means)) return std::nullopt;
    std::memcpy(payload.data(), means.data(), sizeof(Means) * columns_);
    return bytes;
  }

  Result<> decode(Bytes payload, std::span<float> values) const override {
    if (auto length = expect_bytes(payload, longest_payload(values.size()), values.size()); !length)
      return length;
    std::vector<Means> means(columns_);
    std::memcpy(means.data(), payload.data(), sizeof(Means) * columns_);
    for (const Means& m : means) {
      if (!(0 <= m.high && m.low <= 0 && std::isfinite(m.high) && std::isfinite(m.low)))
        return malformed_payload(fmt::format("the means of a column are {} and {}", m.high, m.low));
    }
    const Bytes bits = payload.subspan(sizeof(Means) * columns_);
    if (values.size() % columns_ != 0 || !are_signs(bits, values.size()))
      return malformed_payload("its signs are not those of whole columns");
    const Table table(means);
    decode_in_blocks(values, [&](std::size_t at, std::span<float> block) {
      unpack_signs(bits.subspan(at / 8, sign_bytes(block.size())), 1, block);
      table.look_up(at, block);
      return true;
    });
    return Done{};
  }

 private:
  std::size_t columns_;
};

}  // namespace

std::unique_ptr<Codec> one_bit_codec(std::size_t columns) {
  PACELINE_CHECK(columns > 0, "one_bit of no columns");
  return std::make_unique<OneBit>(columns);
}

}  // namespace paceline::compress
