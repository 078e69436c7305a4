// Sanitizers make everything ten times slower, so tests whose law needs no large number take a
// small one under them.
#pragma once

namespace paceline::test {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

}  // namespace paceline::test
