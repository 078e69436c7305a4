// The door of settings: named settings of a method, as users write them behind its name:
// "NAME:SETTING=VALUE,SETTING=VALUE". A method lists its settings as values; one parser reads them.
// A name and its settings among the entries of a catalogue: named_choice.h.
#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/base/result.h"

namespace paceline {

// The value "auto".
inline constexpr double kAutomatic = std::numeric_limits<double>::quiet_NaN();

// A setting of a method.
struct Setting {
  std::string_view name;
  double standard = 0;  // the default: as published
  double least = 0, most = 1;
  std::string_view meaning;
  bool whole = false;                        // values have no fraction
  std::vector<std::string_view> words = {};  // names of the values 0, 1, ...; requires `whole`
  // If it is not empty, the value is a free text, such as a graph's name, and this is the default.
  std::string_view standard_text = {};
  // The value may be "auto", which is NaN: the method derives it, as `meaning` tells.
  bool may_be_auto = false;  // its default may be kAutomatic

  bool is_text() const { return !standard_text.empty(); }
};

// One value for each setting of a method.
struct Settings {
  struct Value {
    std::string_view name;
    double value = 0;
    std::string text = {};  // of a setting that is a text
    bool operator==(const Value&) const = default;
  };
  std::vector<Value> values;

  double operator[](std::string_view name) const;                 // THROWS misuse: no such setting
  const std::string& text(std::string_view name) const;           // THROWS misuse: no such setting
  double or_auto(std::string_view name, double automatic) const;  // `automatic` where it is auto
  bool on(std::string_view name) const { return (*this)[name] != 0; }
  template <typename T>
  T as(std::string_view name) const {
    return static_cast<T>((*this)[name]);
  }
  bool operator==(const Settings&) const = default;
};

// The defaults.
Settings standard_settings(const std::vector<Setting>& settings);

// "ratio=0.01,indices=own", with all settings.
std::string text_of(const Setting& setting, const Settings::Value& value);
std::string text_of(const std::vector<Setting>& settings, const Settings& values);

// "NAME:SETTINGS" in its two parts; without a colon the second is empty.
struct NameAndSettings {
  std::string_view name, settings;
  bool has_settings = false;  // there is a colon
};
NameAndSettings split_name(std::string_view text);
std::vector<std::string_view> split_at(std::string_view text, char separator);

// Parses the text of a value. `owner`: the method's name, for messages. A failure (misuse) tells
// which values are valid.
Result<Settings::Value> parse_setting(std::string_view owner, const Setting& setting,
                                      std::string_view text);

struct SettingText {
  std::string_view name, value;
};
// Splits "A=1,B=2". A failure (misuse): a name that is not in `known` (it lists them), one without
// a value, or one that is given twice.
Result<std::vector<SettingText>> split_settings(std::string_view owner, std::string_view text,
                                                const std::vector<std::string>& known);

// Parses "A=1,B=2" over the defaults.
Result<Settings> parse_settings(std::string_view owner, const std::vector<Setting>& settings,
                                std::string_view text);

}  // namespace paceline
