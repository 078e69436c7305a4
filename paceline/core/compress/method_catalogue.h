// The catalogue of compression methods: a value that a caller may copy and extend with methods of
// its own.
//
// CMake lists codecs/*.cpp and generates built_in_methods(); file <name>.cpp defines
// `Method <name>()` in namespace paceline::compress::catalogue. Nothing registers itself.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "paceline/core/compress/averaging.h"

namespace paceline::compress {

// What a user may set of a method.
struct Setting {
  std::string_view name;
  double standard = 0;  // as published
  double least = 0, most = 1;
  std::string_view meaning;
  bool whole = false;                        // no fractions
  std::vector<std::string_view> words = {};  // what values 0, 1, ... are called; whole then
};

// One value for each setting of a method.
struct Settings {
  struct Value {
    std::string_view name;
    double value;
    bool operator==(const Value&) const = default;
  };
  std::vector<Value> values;

  double operator[](std::string_view name) const;  // THROWS misuse: no such setting
  bool on(std::string_view name) const { return (*this)[name] != 0; }
  template <typename T>
  T as(std::string_view name) const {
    return static_cast<T>((*this)[name]);
  }
  bool operator==(const Settings&) const = default;
};

struct Method {
  using Make = std::unique_ptr<Averaging> (*)(const Part&, const Settings&);

  std::string_view name;
  std::string_view summary;  // one line
  std::string_view reference;
  std::vector<Setting> settings;
  Make make = nullptr;
  // For tensors that are not worth compressing; nullptr: the dense mean.
  Make make_small = nullptr;
  // What results are: means of gradients, for any optimizer; or directions in which the method's
  // momenta are already, for plain SGD.
  enum class Outcome : std::uint8_t { mean, direction } outcome = Outcome::mean;
  // What it sends and loses shows on one rank alone: else its settings cannot be tried (offers.h),
  // and there are no menus of them.
  bool shows_alone = true;
};

using Catalogue = std::vector<Method>;

Catalogue built_in_methods();  // sorted by name

// nullptr when there is none. The pointer lives as long as `catalogue`.
const Method* find(const Catalogue& catalogue, std::string_view name);
const Method* find(Catalogue&&, std::string_view) = delete;

}  // namespace paceline::compress
