#include "paceline/core/topology/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include <nlohmann/json.hpp>

#include "paceline/core/base/seed.h"

namespace paceline::topology {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr double kMicro = 1e-6, kNano = 1e-9;
// Slower is no computer: a second a message, a microsecond a byte.
constexpr double kMostMicroseconds = 1e6, kMostNanosecondsPerByte = 1e3;

constexpr std::string_view kVersionKey = "paceline_profile", kLinksKey = "links",
                           kUpToKey = "up_to_bytes", kAlphaKey = "alpha_us",
                           kBetaKey = "beta_ns_per_byte", kGammaKey = "gamma_ns_per_byte",
                           kCopyKey = "copy_ns_per_byte", kStoreKey = "store_ns_per_byte",
                           kRelayKey = "relay_ns_per_byte", kCrowdedKey = "crowded_us",
                           kCrowdedReferenceKey = "crowded_reference_us";

// Reads a profile's JSON; the first complaint stays.
class Reader {
 public:
  explicit Reader(std::string_view origin) : origin_(origin) {}

  Result<Profile> read(std::string_view text) {
    const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded()) complain("the whole", "a JSON object");
    Profile profile;
    if (is_object(json, "the whole",
                  {kVersionKey, kLinksKey, kGammaKey, kCopyKey, kStoreKey, kRelayKey, kCrowdedKey,
                   kCrowdedReferenceKey})) {
      if (!json.contains(kVersionKey) || json[kVersionKey] != kVersion)
        complain(kVersionKey, fmt::format("{}", kVersion));
      if (json.contains(kLinksKey)) links(json[kLinksKey], profile);
      number(json, kGammaKey, "", kMostNanosecondsPerByte, kNano, profile.gamma);
      number(json, kCopyKey, "", kMostNanosecondsPerByte, kNano, profile.copy);
      number(json, kStoreKey, "", kMostNanosecondsPerByte, kNano, profile.store);
      number(json, kRelayKey, "", kMostNanosecondsPerByte, kNano, profile.relay);
      number(json, kCrowdedKey, "", kMostMicroseconds, kMicro, profile.crowded);
      number(json, kCrowdedReferenceKey, "", kMostMicroseconds, kMicro, profile.crowded_reference);
    }
    if (!complaint_.empty()) return Failure{Fault::misuse, complaint_, {}};
    return profile;
  }

 private:
  void complain(std::string_view where, std::string_view wanted) {
    if (!complaint_.empty()) return;
    complaint_ = fmt::format(
        "profile {}: {} must be {}; write it anew with: paceline bench calibrate --output FILE",
        origin_, where, wanted);
  }

  bool is_object(const Json& json, std::string_view where, std::vector<std::string_view> keys) {
    if (!json.is_object()) complain(where, "a JSON object");
    else {
      for (const auto& [key, value] : json.items()) {
        if (std::ranges::find(keys, key) == keys.end())
          complain(fmt::format("key '{}' of {}", key, where),
                   fmt::format("one of {}", fmt::join(keys, ", ")));
      }
    }
    return complaint_.empty();
  }

  void links(const Json& json, Profile& profile) {
    std::vector<std::string_view> names;
    for (const LinkClass link : kLinkClasses) names.push_back(name_of(link));
    if (!is_object(json, kLinksKey, names)) return;
    for (const LinkClass link : kLinkClasses) {
      const std::string where = fmt::format("{}.{}", kLinksKey, name_of(link));
      if (json.contains(name_of(link)))
        lines(json[std::string(name_of(link))], where, profile.link(link));
    }
  }

  void lines(const Json& json, const std::string& where, LinkPrices& prices) {
    if (!json.is_array() || json.size() != prices.lines.size())
      return complain(where, fmt::format("a list of {} lines", prices.lines.size()));
    for (std::size_t i = 0; i < prices.lines.size(); ++i) {
      const std::string here = fmt::format("{}[{}]", where, i);
      if (!is_object(json[i], here, {kUpToKey, kAlphaKey, kBetaKey})) return;
      if (i < kLineEnds.size() &&
          (!json[i].contains(kUpToKey) || json[i][kUpToKey] != kLineEnds[i]))
        return complain(fmt::format("{}.{}", here, kUpToKey), fmt::format("{}", kLineEnds[i]));
      number(json[i], kAlphaKey, here, kMostMicroseconds, kMicro, prices.lines[i].alpha);
      number(json[i], kBetaKey, here, kMostNanosecondsPerByte, kNano, prices.lines[i].beta);
    }
  }

  void number(const Json& json, std::string_view key, std::string_view where, double most,
              double unit, double& value) {
    if (!json.contains(key)) return;
    const Json& found = json[std::string(key)];
    const double read = found.is_number() ? found.get<double>() : -1;
    if (!std::isfinite(read) || read < 0 || read > most)
      return complain(where.empty() ? std::string(key) : fmt::format("{}.{}", where, key),
                      fmt::format("a number from 0 to {}", most));
    value = read * unit;
  }

  std::string_view origin_;
  std::string complaint_;
};

}  // namespace

Profile Profile::uniform(const Prices& prices) {
  Profile profile{.gamma = prices.gamma,
                  .copy = 0,
                  .store = 0,
                  .relay = 0,
                  .crowded = 0,
                  .crowded_reference = 0};
  profile.links.fill(LinkPrices::straight(prices.alpha, prices.beta));
  return profile;
}

std::uint64_t fingerprint(const Profile& profile) {
  std::uint64_t mixed = kVersion;
  const auto add = [&mixed](double value) {
    mixed = mix(mixed, std::bit_cast<std::uint64_t>(value));
  };
  for (const LinkPrices& link : profile.links) {
    for (const Line& line : link.lines) {
      add(line.alpha);
      add(line.beta);
    }
  }
  add(profile.gamma);
  add(profile.copy);
  add(profile.store);
  add(profile.relay);
  add(profile.crowded);
  add(profile.crowded_reference);
  return mixed;
}

std::string to_json(const Profile& profile) {
  Json links = Json::object();
  for (const LinkClass link : kLinkClasses) {
    Json& lines = links[std::string(name_of(link))] = Json::array();
    for (std::size_t i = 0; i < profile.link(link).lines.size(); ++i) {
      const Line& line = profile.link(link).lines[i];
      Json one = Json::object();
      if (i < kLineEnds.size()) one[std::string(kUpToKey)] = kLineEnds[i];
      one[std::string(kAlphaKey)] = line.alpha / kMicro;
      one[std::string(kBetaKey)] = line.beta / kNano;
      lines.push_back(std::move(one));
    }
  }
  Json json = Json::object();
  json[std::string(kVersionKey)] = kVersion;
  json[std::string(kLinksKey)] = std::move(links);
  json[std::string(kGammaKey)] = profile.gamma / kNano;
  json[std::string(kCopyKey)] = profile.copy / kNano;
  json[std::string(kStoreKey)] = profile.store / kNano;
  json[std::string(kRelayKey)] = profile.relay / kNano;
  json[std::string(kCrowdedKey)] = profile.crowded / kMicro;
  json[std::string(kCrowdedReferenceKey)] = profile.crowded_reference / kMicro;
  return json.dump(2) + "\n";
}

Result<Profile> parse_profile(std::string_view text, std::string_view origin) {
  return Reader(origin).read(text);
}

}  // namespace paceline::topology
