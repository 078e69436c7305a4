// Sanitizers make everything ten times slower, so tests whose law needs no large number take a
// small one under them.
#pragma once

// Both are there in a process that a sanitizer watches.
extern "C" {
void __asan_init() __attribute__((weak));
void __tsan_init() __attribute__((weak));
}

namespace paceline::test {

// It is found out when the process starts, because one object of a test may be linked both with and
// without a sanitizer (PACELINE_CHECKED_TESTS in cmake/Tests.cmake).
inline const bool kSanitized = &__asan_init != nullptr || &__tsan_init != nullptr;

}  // namespace paceline::test
