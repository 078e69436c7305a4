// The job's secret: 32 random bytes that prove that a process belongs to the job.
//
// It never stands in argv, logs or error texts, and is erased from memory when the object ends.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "paceline/core/base/result.h"

namespace paceline::membership {

class Secret {
 public:
  static constexpr std::size_t kSize = 32;
  using Key = std::array<std::byte, kSize>;

  static Secret random();
  explicit Secret(const Key& key) : key_(key) {}
  Secret(const Secret&) = default;
  Secret& operator=(const Secret&) = default;
  ~Secret();

  const Key& key() const { return key_; }
  std::string hexadecimal() const;  // what the secret's file holds: 64 digits

  // Refuses a file that other users may read, or that holds anything but 64 hexadecimal digits.
  static Result<Secret> from_file(const std::string& path);
  // Reads a pipe, or a file from its beginning on, wherever its position is.
  static Result<Secret> from_descriptor(int fd);
  static Result<Secret> parse(std::string_view hexadecimal);

 private:
  Key key_;
};

}  // namespace paceline::membership
