// CheckpointFields: a program's own values in a checkpoint, told once for both ways.
//
//   checkpoints.add("mine", [&](paceline::CheckpointFields& fields) {
//     fields("best", best);
//     fields("ema", ema);
//   });
//
// The function is called to save, where its variables are read, and to load, where they are set. It
// names the same fields each time. Whole numbers, floating numbers, bool, std::string, vectors of
// these, and tensors; a vector of bool is not among them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cmath>
#include <concepts>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "paceline/core/base/json_reader.h"
#include "paceline/torch/checkpointing/saved_item.h"

namespace paceline {

namespace checkpointing {

class SavedItem;

template <typename T>
inline constexpr bool kIsFieldValue = std::is_arithmetic_v<T> || std::same_as<T, std::string>;
template <typename T>
inline constexpr bool kIsFieldValue<std::vector<T>> = kIsFieldValue<T> && !std::same_as<T, bool>;

// JSON has no infinite numbers.
inline constexpr std::string_view kInfinity = "Infinity", kMinusInfinity = "-Infinity",
                                  kNotANumber = "NaN";

template <typename T>
JsonReader::Json json_of_field(const T& value) {
  if constexpr (std::floating_point<T>) {
    if (std::isnan(value)) return kNotANumber;
    if (std::isinf(value)) return value > 0 ? kInfinity : kMinusInfinity;
  }
  if constexpr (requires { typename T::value_type; } && !std::same_as<T, std::string>) {
    JsonReader::Json list = JsonReader::Json::array();
    for (const auto& one : value) list.push_back(json_of_field(one));
    return list;
  } else {
    return value;
  }
}

// False: the JSON is none of this type, and the value is unspecified.
template <typename T>
bool read_field(const JsonReader::Json& json, T& value) {
  if constexpr (std::same_as<T, bool>) {
    return json.is_boolean() && (value = json.get<bool>(), true);
  } else if constexpr (std::integral<T>) {
    if (json.is_number_unsigned()) {
      const auto number = json.get<std::uint64_t>();
      return std::in_range<T>(number) && (value = static_cast<T>(number), true);
    }
    if (!json.is_number_integer()) return false;
    const auto number = json.get<std::int64_t>();
    return std::in_range<T>(number) && (value = static_cast<T>(number), true);
  } else if constexpr (std::floating_point<T>) {
    if (json.is_number()) return (value = json.get<T>(), true);
    if (!json.is_string()) return false;
    const auto text = json.get<std::string>();
    if (text == kInfinity) value = std::numeric_limits<T>::infinity();
    else if (text == kMinusInfinity) value = -std::numeric_limits<T>::infinity();
    else value = std::numeric_limits<T>::quiet_NaN();
    return text == kInfinity || text == kMinusInfinity || text == kNotANumber;
  } else if constexpr (std::same_as<T, std::string>) {
    return json.is_string() && (value = json.get<std::string>(), true);
  } else {
    if (!json.is_array()) return false;
    T list(json.size());
    for (std::size_t i = 0; i < json.size(); ++i)
      if (!read_field(json[i], list[i])) return false;
    value = std::move(list);
    return true;
  }
}

}  // namespace checkpointing

class CheckpointFields {
 public:
  // To save.
  CheckpointFields() = default;
  // To look whether the saved item fits, or to load it.
  CheckpointFields(const checkpointing::SavedItem& saved, bool only_checks)
      : saved_(&saved), only_checks_(only_checks) {}

  // Whether variables are read, on all ranks, or set.
  bool is_saving() const { return saved_ == nullptr; }

  // THROWS Error (misuse): the name was given already; while loading: there is no such field, or
  // one of another type.
  template <typename T>
  requires checkpointing::kIsFieldValue<T>
  void operator()(std::string_view name, T& value) {
    note(name);
    if (saved_ == nullptr) {
      state_.values[std::string(name)] = checkpointing::json_of_field(value);
      return;
    }
    T read = value;
    if (!checkpointing::read_field(saved_value(name), read)) refuse_type(name);
    if (!only_checks_) value = std::move(read);
  }
  // A tensor of this shape and type is filled; an undefined one becomes the saved one.
  void operator()(std::string_view name, at::Tensor& tensor);

  checkpointing::ItemState& state() { return state_; }
  // THROWS Error (misuse): the saved item has a field that was not named.
  void require_no_other() const;

 private:
  void note(std::string_view name);
  const JsonReader::Json& saved_value(std::string_view name) const;
  [[noreturn]] void refuse_type(std::string_view name) const;

  const checkpointing::SavedItem* saved_ = nullptr;
  bool only_checks_ = false;
  checkpointing::ItemState state_;
  std::vector<std::string> names_;
};

}  // namespace paceline
