// The text with which a call refuses what its caller has done.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "paceline/core/base/base.h"

namespace paceline::test {

// "nothing was thrown" if the call did not refuse. A test fails by an Error of another kind.
template <typename Call>
std::string misuse_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::misuse) << error.what();
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace paceline::test
