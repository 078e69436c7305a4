#include "paceline/core/compress/one_bit.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "paceline/core/base/check.h"
#include "paceline/core/compress/sign_bits.h"

namespace paceline::compress {
namespace {

// Of one column, as it lies in the payload.
struct Means {
  float high;  // of the values that are not negative; 0 without any
  float low;   // of the negative values; 0 without any
};

// Sums of columns. Few columns are made many, which are added up at the end, so that additions that
// follow each other do not wait for each other.
class ColumnSums {
 public:
  explicit ColumnSums(std::size_t columns)
      : columns_(columns),
        width_(columns * (columns < 64 ? 64 / columns : 1)),
        high_(width_),
        low_(width_),
        count_(width_) {}

  void add(std::span<const float> values) {
    for (std::size_t at = 0; at < values.size(); at += width_)
      add_row(values.subspan(at, std::min(width_, values.size() - at)));
  }

  // False: a value was not finite.
  bool means(std::size_t rows, std::span<Means> means) const {
    bool finite = true;
    for (std::size_t c = 0; c < columns_; ++c) {
      double high = 0, low = 0;
      std::size_t count = 0;
      for (std::size_t i = c; i < width_; i += columns_) {
        high += high_[i];
        low += low_[i];
        count += count_[i];
      }
      means[c] = {mean(high, count), mean(low, rows - count)};
      finite = finite && std::isfinite(high) && std::isfinite(low);
    }
    return finite;
  }

 private:
  void add_row(std::span<const float> values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool is_high = values[i] >= 0;
      high_[i] += is_high ? values[i] : 0;
      low_[i] += is_high ? 0 : values[i];
      count_[i] += is_high;
    }
  }

  static float mean(double sum, std::size_t count) {
    return static_cast<float>(sum / static_cast<double>(std::max<std::size_t>(count, 1)));
  }

  std::size_t columns_, width_;
  std::vector<double> high_, low_;
  std::vector<std::uint32_t> count_;
};

// The payload: the means of each column, then the signs.
class OneBit final : public Codec {
 public:
  explicit OneBit(std::size_t columns) : columns_(columns) {}

  PayloadFormat format() const override { return PayloadFormat::column_signs; }

  std::size_t longest_payload(std::size_t elements) const override {
    return sizeof(Means) * columns_ + sign_bytes(elements);
  }

  std::optional<std::size_t> encode(std::span<const float> values, const Occasion&,
                                    MutableBytes payload) const override {
    PACELINE_CHECK(values.size() % columns_ == 0,
                   "one_bit of {} elements in {} columns: give it the tensor's own columns",
                   values.size(), columns_);
    const std::size_t bytes = longest_payload(values.size());
    require_room(payload, bytes);
    pack_signs(values, payload.first(bytes).subspan(sizeof(Means) * columns_));
    ColumnSums sums(columns_);
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
    for (std::size_t i = 0, column = 0; i < values.size(); ++i) {
      const bool is_high = static_cast<unsigned>(bits[i / 8]) >> i % 8 & 1;
      values[i] = is_high ? means[column].high : means[column].low;
      column = column + 1 == columns_ ? 0 : column + 1;
    }
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
