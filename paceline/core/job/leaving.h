// A rank tells its peers why it goes before it goes.
#pragma once

#include <string>
#include <string_view>

#include "paceline/core/base/deadline.h"
#include "paceline/core/membership/generation/generation.h"
#include "paceline/core/transport/reactor/reactor.h"

namespace paceline::job {

// Drives until the last frames are out, or the deadline has passed. THREAD: any but the driver.
void flush(transport::Reactor& reactor, membership::Generation& generation, Deadline deadline);

// Ends the generation, and tells all peers that this rank ends by an exception: "rank 3 `did`:
// `text`". Returns when that is out, or after half a second. THREAD: any.
void tell_exception(transport::Reactor& reactor, membership::Generation& generation,
                    std::string_view did, const std::string& text);

// The text of the exception that is being handled.
std::string text_of_current_exception();

// An exception that nobody catches ends the process without running any destructor. While this
// lives, all peers are told of it first, with its text, by a handler of std::terminate, which then
// goes on with the handler that was there before. Both must outlive this.
class UncaughtExceptions {
 public:
  UncaughtExceptions(transport::Reactor& reactor, membership::Generation& generation);
  ~UncaughtExceptions();
  UncaughtExceptions(const UncaughtExceptions&) = delete;
  UncaughtExceptions& operator=(const UncaughtExceptions&) = delete;

  // Ends the generation with the text of the exception. THREAD: any.
  void tell(const std::string& what);

 private:
  transport::Reactor& reactor_;
  membership::Generation& generation_;
};

}  // namespace paceline::job
