#include "paceline/core/topology/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace paceline::topology {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

Profile measured() {
  Profile profile;
  double value = 1;
  for (LinkPrices& link : profile.links) {
    for (Line& line : link.lines) line = {value++ * 1e-6, value++ * 1e-10};
  }
  profile.gamma = 3e-10;
  profile.copy = 2e-10;
  profile.store = 1e-10;
  profile.relay = 4e-11;
  profile.crowded = 7e-6;
  profile.crowded_reference = 9e-6;
  return profile;
}

void expect_near(const Profile& a, const Profile& b) {
  for (std::size_t link = 0; link < a.links.size(); ++link) {
    for (std::size_t i = 0; i < a.links[link].lines.size(); ++i) {
      const Line &one = a.links[link].lines[i], &other = b.links[link].lines[i];
      EXPECT_NEAR(one.alpha, other.alpha, 1e-12 * other.alpha);
      EXPECT_NEAR(one.beta, other.beta, 1e-12 * other.beta);
    }
  }
  EXPECT_NEAR(a.gamma, b.gamma, 1e-12 * b.gamma);
  EXPECT_NEAR(a.copy, b.copy, 1e-12 * b.copy);
  EXPECT_NEAR(a.store, b.store, 1e-12 * b.store);
  EXPECT_NEAR(a.relay, b.relay, 1e-12 * b.relay);
  EXPECT_NEAR(a.crowded, b.crowded, 1e-12 * b.crowded);
  EXPECT_NEAR(a.crowded_reference, b.crowded_reference, 1e-12 * b.crowded_reference);
}

std::string complaint(const std::string& text) {
  const auto parsed = parse_profile(text, "p.json");
  EXPECT_FALSE(parsed.has_value()) << text;
  if (parsed) return "";
  EXPECT_EQ(parsed.error().fault, Fault::misuse);
  EXPECT_THAT(parsed.error().what, HasSubstr("profile p.json"));
  EXPECT_THAT(parsed.error().what, HasSubstr("paceline bench calibrate --output FILE"));
  return parsed.error().what;
}

TEST(Profile, ComesBackFromItsJson) {
  for (const Profile& profile : {Profile(), measured()}) {
    expect_near(parse_profile(to_json(profile), "p.json").value(), profile);
  }
}

TEST(Profile, WhatIsLeftOutIsAsBuiltIn) {
  EXPECT_EQ(parse_profile(R"({"paceline_profile": 1})", "p.json").value(), Profile());
  Json one_link = Json::parse(to_json(measured()));
  one_link["links"].erase("memory");
  const Profile parsed = parse_profile(one_link.dump(), "p.json").value();
  EXPECT_EQ(parsed.link(LinkClass::memory), Profile().link(LinkClass::memory));
  EXPECT_NE(parsed.link(LinkClass::network), Profile().link(LinkClass::network));
}

TEST(Profile, TheFingerprintTellsEveryPriceApart) {
  const Profile base = measured();
  EXPECT_EQ(fingerprint(base), fingerprint(measured()));
  for (std::size_t link = 0; link < base.links.size(); ++link) {
    for (std::size_t i = 0; i < base.links[link].lines.size(); ++i) {
      Profile other = base;
      other.links[link].lines[i].alpha *= 2;
      EXPECT_NE(fingerprint(other), fingerprint(base));
      other = base;
      other.links[link].lines[i].beta *= 2;
      EXPECT_NE(fingerprint(other), fingerprint(base));
    }
  }
  for (double Profile::*const price :
       {&Profile::gamma, &Profile::copy, &Profile::store, &Profile::relay, &Profile::crowded,
        &Profile::crowded_reference}) {
    Profile other = base;
    other.*price *= 2;
    EXPECT_NE(fingerprint(other), fingerprint(base));
  }
}

TEST(Profile, WhatIsNoProfileIsRefusedWithTheKeyAndTheRemedy) {
  EXPECT_THAT(complaint(""), HasSubstr("the whole must be a JSON object"));
  EXPECT_THAT(complaint("[1]"), HasSubstr("the whole must be a JSON object"));
  EXPECT_THAT(complaint("{}"), HasSubstr("paceline_profile must be 1"));
  EXPECT_THAT(complaint(R"({"paceline_profile": 2})"), HasSubstr("paceline_profile must be 1"));
  EXPECT_THAT(complaint(R"({"paceline_profile": 1, "alpha": 1})"), HasSubstr("key 'alpha'"));
  EXPECT_THAT(complaint(R"({"paceline_profile": 1, "links": {"wifi": []}})"),
              HasSubstr("key 'wifi' of links must be one of memory, loopback, network"));
  EXPECT_THAT(complaint(R"({"paceline_profile": 1, "links": {"memory": []}})"),
              HasSubstr("links.memory must be a list of 3 lines"));
}

TEST(Profile, PricesThatNoMachineHasAreRefused) {
  const Json sound = Json::parse(to_json(measured()));
  for (const Json& wrong : {Json(-1), Json(1e9), Json("fast"), Json(nullptr), Json::array()}) {
    Json one = sound;
    one["gamma_ns_per_byte"] = wrong;
    EXPECT_THAT(complaint(one.dump()), HasSubstr("gamma_ns_per_byte must be a number from 0 to"));
    one = sound;
    one["links"]["network"][1]["alpha_us"] = wrong;
    EXPECT_THAT(complaint(one.dump()), HasSubstr("links.network[1].alpha_us must be a number"));
  }
  Json other_segments = sound;
  other_segments["links"]["memory"][0]["up_to_bytes"] = 4096;
  EXPECT_THAT(complaint(other_segments.dump()),
              HasSubstr("links.memory[0].up_to_bytes must be 16384"));
}

}  // namespace
}  // namespace paceline::topology
