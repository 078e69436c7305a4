#include "paceline/core/checkpoint/compare_checkpoints.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "paceline/core/base/half.h"
#include "paceline/core/checkpoint/checkpoint_reader.h"

namespace paceline::checkpoint {
namespace {

template <typename T>
double number_of_type(Bytes bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return static_cast<double>(value);
}

double number_in(Dtype dtype, Bytes element) {
  switch (dtype) {
    case Dtype::f64: return number_of_type<double>(element);
    case Dtype::f32: return number_of_type<float>(element);
    case Dtype::f16:
    case Dtype::bf16: {
      float wide = 0;
      widen(dtype, element, {&wide, 1});
      return wide;
    }
    case Dtype::i64: return number_of_type<std::int64_t>(element);
    case Dtype::i32: return number_of_type<std::int32_t>(element);
    case Dtype::i16: return number_of_type<std::int16_t>(element);
    case Dtype::i8: return number_of_type<std::int8_t>(element);
    case Dtype::u8:
    case Dtype::boolean: return number_of_type<std::uint8_t>(element);
  }
  return 0;
}

// REQUIRES: the bytes differ.
std::string largest_difference(Dtype dtype, Bytes first, Bytes second) {
  const std::size_t bytes = size_of(dtype), count = first.size() / bytes;
  std::size_t different = 0, not_a_number = 0;
  double largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Bytes one = first.subspan(i * bytes, bytes), other = second.subspan(i * bytes, bytes);
    if (std::memcmp(one.data(), other.data(), bytes) == 0) continue;
    ++different;
    const double distance = std::fabs(number_in(dtype, one) - number_in(dtype, other));
    if (std::isnan(distance)) ++not_a_number;
    else largest = std::max(largest, distance);
  }
  std::string text = fmt::format("differs by at most {} in {} of {} element{}", largest, different,
                                 count, count == 1 ? "" : "s");
  if (not_a_number > 0) text += fmt::format(", of which {} have no difference (NaN)", not_a_number);
  return text;
}

using TensorName = std::pair<std::string, int>;  // and its rank

std::string text_of_name(const TensorName& name) {
  return name.second < 0 ? name.first : fmt::format("{} of rank {}", name.first, name.second);
}

class Comparison {
 public:
  Comparison(Disk& disk, const std::string& first, const std::string& second)
      : readers_{CheckpointReader(disk, first), CheckpointReader(disk, second)} {}

  Result<> compare(const Manifest& first, const Manifest& second) {
    const auto one = items_by_name(first), other = items_by_name(second);
    for (const auto& [name, item] : one) {
      const auto same = other.find(name);
      if (same == other.end()) {
        found.push_back({name, "", "is in the first alone"});
      } else if (auto done = compare(*item, *same->second); !done) {
        return done;
      }
    }
    for (const auto& [name, item] : other)
      if (!one.contains(name)) found.push_back({name, "", "is in the second alone"});
    return Done{};
  }

  std::vector<Difference> found;

 private:
  static std::map<std::string, const Item*> items_by_name(const Manifest& manifest) {
    std::map<std::string, const Item*> items;
    for (const Item& item : manifest.items) items[item.name] = &item;
    return items;
  }
  static std::map<TensorName, const LogicalTensor*> tensors_by_name(const Item& item) {
    std::map<TensorName, const LogicalTensor*> tensors;
    for (const LogicalTensor& tensor : item.tensors) tensors[{tensor.name, tensor.rank}] = &tensor;
    return tensors;
  }

  Result<> compare(const Item& first, const Item& second) {
    if (first.values != second.values)
      found.push_back(
          {first.name, "",
           fmt::format("has the values {} and {}", first.values.dump(), second.values.dump())});
    const auto one = tensors_by_name(first), other = tensors_by_name(second);
    for (const auto& [name, tensor] : one) {
      const auto same = other.find(name);
      if (same == other.end()) {
        found.push_back({first.name, text_of_name(name), "is in the first alone"});
      } else if (auto done = compare(first.name, *tensor, *same->second); !done) {
        return done;
      }
    }
    for (const auto& [name, tensor] : other)
      if (!one.contains(name))
        found.push_back({first.name, text_of_name(name), "is in the second alone"});
    return Done{};
  }

  Result<> compare(const std::string& item, const LogicalTensor& first,
                   const LogicalTensor& second) {
    const std::string name = text_of_name({first.name, first.rank});
    if (first.dtype != second.dtype || first.shape != second.shape) {
      found.push_back(
          {item, name,
           fmt::format("is {}[{}] and {}[{}]", name_of(first.dtype), fmt::join(first.shape, ", "),
                       name_of(second.dtype), fmt::join(second.shape, ", "))});
      return Done{};
    }
    const auto one = readers_[0].read(first), other = readers_[1].read(second);
    if (!one) return one.error();
    if (!other) return other.error();
    if (one.value() != other.value())
      found.push_back({item, name, largest_difference(first.dtype, one.value(), other.value())});
    return Done{};
  }

  CheckpointReader readers_[2];
};

}  // namespace

Result<std::vector<Difference>> differences(Disk& disk, const std::string& first,
                                            const Manifest& of_first, const std::string& second,
                                            const Manifest& of_second) {
  Comparison comparison(disk, first, second);
  if (auto done = comparison.compare(of_first, of_second); !done) return done.error();
  return std::move(comparison.found);
}

}  // namespace paceline::checkpoint
