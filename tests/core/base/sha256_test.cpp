#include "paceline/core/base/sha256.h"

#include <gtest/gtest.h>

#include <string>

namespace paceline {
namespace {

Bytes view(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// FIPS 180-4's examples (NIST, "SHA-256 example").
TEST(Sha256, GivesTheStandardsExamples) {
  EXPECT_EQ(sha256_hex({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex(view("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex(view("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(Sha256, IsThatOfTheWholeHoweverItsBytesArrive) {
  const std::string text(1000, 'a');
  for (const std::size_t cut : {0, 1, 63, 64, 65, 999, 1000}) {
    Sha256 sum;
    sum.add(view(text).first(cut));
    sum.add(view(text).subspan(cut));
    EXPECT_EQ(sum.hex(), sha256_hex(view(text)));
  }
}

}  // namespace
}  // namespace paceline
