// SHA-256 (FIPS 180-4), by OpenSSL.
#pragma once

#include <memory>
#include <string>

#include "paceline/core/base/bytes.h"

namespace paceline {

class Sha256 {
 public:
  Sha256();  // THROWS Error (io) if OpenSSL has no SHA-256 here
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void add(Bytes bytes);
  std::string hex();  // 64 hexadecimal digits; ends the sum

 private:
  struct Context;
  const std::unique_ptr<Context> context_;
};

std::string sha256_hex(Bytes bytes);

}  // namespace paceline
