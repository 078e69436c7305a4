// PACELINE_CHECK: what the caller must have made sure of. A violation throws misuse with the text.
//
// For sources of the core and app floors only: it includes fmt, and libtorch brings another version
// of fmt along. The torch floor calls throw_misuse (result.h) with a text of its own making.
#pragma once

#include <fmt/format.h>

#include "paceline/core/base/result.h"

#define PACELINE_CHECK(condition, ...)                                      \
  do {                                                                      \
    if (!(condition)) ::paceline::throw_misuse(::fmt::format(__VA_ARGS__)); \
  } while (false)
