#include "paceline/app/launch/process/visible_devices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "paceline/core/base/number.h"

namespace paceline::launch {
namespace {

Failure wrong_device(std::string what) {
  return {Fault::misuse, "--devices: " + std::move(what), {}};
}

std::vector<std::string_view> entries_of(std::string_view text) {
  std::vector<std::string_view> entries;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t comma = std::min(text.find(',', from), text.size());
    std::string_view entry = text.substr(from, comma - from);
    while (entry.starts_with(' ')) entry.remove_prefix(1);
    while (entry.ends_with(' ')) entry.remove_suffix(1);
    entries.push_back(entry);
    from = comma + 1;
  }
  return entries;
}

bool is_uuid(std::string_view text) {
  constexpr std::string_view kInside =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-/";
  return text.size() > 4 && (text.starts_with("GPU-") || text.starts_with("MIG-")) &&
         text.find_first_not_of(kInside) == std::string_view::npos;
}

std::optional<int> number_of(std::string_view text) {
  const auto number = number_in<int>(text);
  return number && *number >= 0 ? number : std::nullopt;
}

// Nothing: every device is visible. CUDA takes the entries before the first that names none.
std::optional<std::vector<std::string>> shown_by(const Environment& environment) {
  const std::string begins = fmt::format("{}=", kVisibleDevices);
  const auto set = std::ranges::find_if(
      environment, [&](const std::string& entry) { return entry.starts_with(begins); });
  if (set == environment.end()) return std::nullopt;
  std::vector<std::string> shown;
  for (const std::string_view entry : entries_of(std::string_view(*set).substr(begins.size()))) {
    if (!number_of(entry) && !is_uuid(entry)) break;
    shown.emplace_back(entry);
  }
  return shown;
}

}  // namespace

Result<std::vector<std::string>> parse_devices(std::string_view text) {
  std::vector<std::string> devices;
  for (const std::string_view entry : entries_of(text)) {
    const auto number = number_of(entry);
    if (!number && !is_uuid(entry))
      return wrong_device(
          fmt::format("\"{}\" names no device; give numbers, as in 0,1, or UUIDs as `nvidia-smi "
                      "-L` lists them (GPU-...)",
                      entry));
    std::string device = number ? std::to_string(*number) : std::string(entry);
    if (std::ranges::find(devices, device) != devices.end())
      return wrong_device(
          fmt::format("{} is named twice; name each device once, and give --ranks-per-device N for "
                      "several ranks on each",
                      device));
    devices.push_back(std::move(device));
  }
  return devices;
}

Result<std::string> visible_devices(const std::vector<std::string>& devices,
                                    const Environment& environment) {
  const auto shown = shown_by(environment);
  if (!shown) return fmt::format("{}", fmt::join(devices, ","));
  std::vector<std::string> chosen;
  for (const std::string& device : devices) {
    const auto number = number_of(device);
    const auto named = std::ranges::find_if(
        *shown, [&](const std::string& entry) { return entry.starts_with(device); });
    if (number ? *number >= static_cast<int>(shown->size()) : named == shown->end())
      return wrong_device(fmt::format(
          "{} is not among what {}={} shows here, {} device{} that --devices counts from 0; name "
          "one of them, or unset {}",
          device, kVisibleDevices, fmt::join(*shown, ","), shown->size(),
          shown->size() == 1 ? "" : "s", kVisibleDevices));
    chosen.push_back(number ? (*shown)[static_cast<std::size_t>(*number)] : *named);
  }
  return fmt::format("{}", fmt::join(chosen, ","));
}

}  // namespace paceline::launch
