#include "paceline/core/checkpoint/compare_checkpoints.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstring>
#include <map>
#include <span>
#include <utility>

#include "paceline/core/base/half.h"
#include "paceline/core/checkpoint/checkpoint_reader.h"

namespace paceline::checkpoint {
namespace {

template <typename T>
std::vector<double> numbers_of_type(Bytes bytes) {
  std::vector<double> all(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < all.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
    all[i] = static_cast<double>(value);
  }
  return all;
}

std::vector<double> numbers_in(Dtype dtype, Bytes bytes) {
  switch (dtype) {
    case Dtype::f64: return numbers_of_type<double>(bytes);
    case Dtype::f32: return numbers_of_type<float>(bytes);
    case Dtype::f16:
    case Dtype::bf16: {
      std::vector<float> wide(bytes.size() / 2);
      widen(dtype, bytes, wide);
      return {wide.begin(), wide.end()};
    }
    case Dtype::i64: return numbers_of_type<std::int64_t>(bytes);
    case Dtype::i32: return numbers_of_type<std::int32_t>(bytes);
    case Dtype::i16: return numbers_of_type<std::int16_t>(bytes);
    case Dtype::i8: return numbers_of_type<std::int8_t>(bytes);
    case Dtype::u8:
    case Dtype::boolean: return numbers_of_type<std::uint8_t>(bytes);
  }
  return {};
}

// REQUIRES: the bytes differ.
std::string largest_difference(Dtype dtype, Bytes first, Bytes second) {
  const auto a = numbers_in(dtype, first), b = numbers_in(dtype, second);
  const std::size_t element = size_of(dtype);
  std::size_t different = 0, not_a_number = 0;
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(first.data() + i * element, second.data() + i * element, element) == 0)
      continue;
    ++different;
    const double distance = std::fabs(a[i] - b[i]);
    if (std::isnan(distance)) ++not_a_number;
    else largest = std::max(largest, distance);
  }
  std::string text = fmt::format("differs by at most {} in {} of {} element{}", largest, different,
                                 a.size(), a.size() == 1 ? "" : "s");
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
    std::vector<std::byte> one(byte_length(first.shape, first.dtype).value()), other(one.size());
    if (auto read = readers_[0].read(first, one); !read) return read;
    if (auto read = readers_[1].read(second, other); !read) return read;
    if (one != other) found.push_back({item, name, largest_difference(first.dtype, one, other)});
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
