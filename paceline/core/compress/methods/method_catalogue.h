// The catalogue of compression methods: a value that a caller may copy and extend with methods of
// its own.
//
// CMake lists methods/*.cpp and generates built_in_methods(); file <name>.cpp defines
// `Method <name>()` in namespace paceline::compress::catalogue. Nothing registers itself.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "paceline/core/compress/averaging/averaging.h"
#include "paceline/core/settings/settings.h"

namespace paceline::compress {

using paceline::Setting;
using paceline::Settings;

struct Method {
  using Make = std::unique_ptr<Averaging> (*)(const AveragedTensor&, const Settings&);

  std::string_view name;
  std::string_view summary;  // one line
  std::string_view reference;
  std::vector<Setting> settings;
  Make make = nullptr;
  // Makes the averaging of tensors that are not worth compressing. nullptr: the dense mean.
  Make make_small = nullptr;
  bool shortens_small = false;  // make_small does, too
  // The kind of result: means of gradients, for any optimizer; or directions that already contain
  // the method's momenta, for plain SGD.
  enum class Outcome : std::uint8_t { mean, direction } outcome = Outcome::mean;
  // A learning rate to begin with, for directions that are not as long as gradients are; 0: SGD's.
  double learning_rate = 0;
  // Its bytes and errors can be measured on one rank alone. If not, its settings cannot be tried
  // (ratio_choice.h), and it has no menus.
  bool shows_alone = true;
  // Its bytes and errors are those of whole tensors: schedules do not cut them into several
  // messages. A tensor's pieces would each have factors of their own, for example.
  bool needs_whole_tensors = false;
  // All that the method does: values travel in this 16-bit type (packed_cast.h).
  std::optional<Dtype> cast = {};
};

using Catalogue = std::vector<Method>;

Catalogue built_in_methods();  // sorted by name

// nullptr when there is none. The pointer lives as long as `catalogue`.
const Method* find(const Catalogue& catalogue, std::string_view name);
const Method* find(Catalogue&&, std::string_view) = delete;

// Several methods have these settings. Each method gives its own default.
inline Setting ratio_setting(double standard) {
  return {.name = "ratio",
          .standard = standard,
          .least = 1e-6,
          .most = 1,
          .meaning = "share of the elements that is sent"};
}

inline Setting bucket_setting() {
  return {.name = "bucket",
          .standard = 512,
          .least = 1,
          .most = 0x1p32,
          .meaning = "elements that share a scale",
          .whole = true};
}

inline Setting feedback_setting(bool standard) {
  return {.name = "feedback",
          .standard = standard ? 1.0 : 0.0,
          .meaning = "what was lost is added to the next gradient",
          .whole = true,
          .words = {"off", "on"}};
}

}  // namespace paceline::compress
