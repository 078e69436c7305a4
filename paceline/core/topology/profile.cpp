#include "paceline/core/topology/profile.h"

#include <fmt/format.h>

#include <bit>

#include "paceline/core/base/json_reader.h"
#include "paceline/core/base/seed.h"

namespace paceline::topology {
namespace {

using Json = JsonReader::Json;

constexpr int kVersion = 1;
constexpr double kMicro = 1e-6, kNano = 1e-9;
// Larger values are errors in the file: a second a message, a microsecond a byte.
constexpr double kMostMicroseconds = 1e6, kMostNanosecondsPerByte = 1e3;

constexpr std::string_view kVersionKey = "paceline_profile", kLinksKey = "links",
                           kUpToKey = "up_to_bytes", kAlphaKey = "alpha_us",
                           kBetaKey = "beta_ns_per_byte", kGammaKey = "gamma_ns_per_byte",
                           kCopyKey = "copy_ns_per_byte", kStoreKey = "store_ns_per_byte",
                           kRelayKey = "relay_ns_per_byte", kCrowdedKey = "crowded_us",
                           kCrowdedReferenceKey = "crowded_reference_us";

// Sets `value` to the key's number in units of `unit`, if the key exists.
void read_number(JsonReader& reader, const Json& json, std::string_view where, std::string_view key,
                 double most, double unit, double& value) {
  if (json.contains(key)) value = reader.number(json, where, key, most) * unit;
}

void expect(JsonReader& reader, const Json& json, std::string_view where, std::string_view key,
            std::uint64_t expected) {
  if (!json.contains(key) || json[std::string(key)] != expected)
    reader.complain(JsonReader::place(where, key), fmt::format("{}", expected));
}

void read_lines(JsonReader& reader, const Json& json, const std::string& where,
                LinkPrices& prices) {
  if (!json.is_array() || json.size() != prices.lines.size())
    return reader.complain(where, fmt::format("a list of {} lines", prices.lines.size()));
  for (std::size_t i = 0; i < prices.lines.size(); ++i) {
    const std::string here = fmt::format("{}[{}]", where, i);
    if (!reader.has_keys(json[i], here, {}, {kUpToKey, kAlphaKey, kBetaKey})) return;
    if (i < kLineEnds.size()) expect(reader, json[i], here, kUpToKey, kLineEnds[i]);
    Line& line = prices.lines[i];
    read_number(reader, json[i], here, kAlphaKey, kMostMicroseconds, kMicro, line.alpha);
    read_number(reader, json[i], here, kBetaKey, kMostNanosecondsPerByte, kNano, line.beta);
  }
}

void read_links(JsonReader& reader, const Json& json, Profile& profile) {
  JsonReader::Keys names;
  for (const LinkClass link : kLinkClasses) names.push_back(name_of(link));
  if (!reader.has_keys(json, kLinksKey, {}, names)) return;
  for (const LinkClass link : kLinkClasses) {
    if (json.contains(name_of(link)))
      read_lines(reader, json[std::string(name_of(link))],
                 JsonReader::place(kLinksKey, name_of(link)), profile.link(link));
  }
}

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
  JsonReader reader(fmt::format("profile {}", origin),
                    "write it again with: paceline bench calibrate --output FILE");
  const Json json = reader.parse(text);
  Profile profile;
  if (reader.has_keys(json, "", {},
                      {kVersionKey, kLinksKey, kGammaKey, kCopyKey, kStoreKey, kRelayKey,
                       kCrowdedKey, kCrowdedReferenceKey})) {
    expect(reader, json, "", kVersionKey, kVersion);
    if (json.contains(kLinksKey)) read_links(reader, json[kLinksKey], profile);
    const auto read = [&](std::string_view key, double most, double unit, double& value) {
      read_number(reader, json, "", key, most, unit, value);
    };
    read(kGammaKey, kMostNanosecondsPerByte, kNano, profile.gamma);
    read(kCopyKey, kMostNanosecondsPerByte, kNano, profile.copy);
    read(kStoreKey, kMostNanosecondsPerByte, kNano, profile.store);
    read(kRelayKey, kMostNanosecondsPerByte, kNano, profile.relay);
    read(kCrowdedKey, kMostMicroseconds, kMicro, profile.crowded);
    read(kCrowdedReferenceKey, kMostMicroseconds, kMicro, profile.crowded_reference);
  }
  if (reader.failure()) return *reader.failure();
  return profile;
}

}  // namespace paceline::topology
