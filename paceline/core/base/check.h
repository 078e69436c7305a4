// PACELINE_CHECK tests what the caller must guarantee. A violation throws misuse with the text.
//
// Only sources of the core and app floors may use it: it includes fmt, and libtorch brings another
// version of fmt along. The torch floor calls throw_misuse (result.h) with a text of its own.
#pragma once

#include <fmt/format.h>

#include "paceline/core/base/result.h"

#define PACELINE_CHECK(condition, ...)                                      \
  do {                                                                      \
    if (!(condition)) ::paceline::throw_misuse(::fmt::format(__VA_ARGS__)); \
  } while (false)
