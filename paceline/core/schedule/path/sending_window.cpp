#include "paceline/core/schedule/path/sending_window.h"

#include <algorithm>

#include "paceline/core/base/check.h"

namespace paceline::schedule {

void SendingWindow::begin(int message, std::size_t bytes) {
  messages_.push_back({message, bytes});
}

void SendingWindow::shorten(int message, std::size_t bytes) {
  messages_[position(message)].bytes = bytes;
}

bool SendingWindow::may_transfer(int message) const {
  return admits(position(message), 0);
}

void SendingWindow::end(int message) {
  messages_.erase(messages_.begin() + static_cast<std::ptrdiff_t>(position(message)));
}

std::size_t SendingWindow::position(int message) const {
  const auto found = std::ranges::find(messages_, message, &Message::number);
  PACELINE_CHECK(found != messages_.end(), "message {} has not begun", message);
  return static_cast<std::size_t>(found - messages_.begin());
}

bool SendingWindow::admits(std::size_t earlier, std::size_t prepared) const {
  if (earlier < sent_ + prepared) return true;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < earlier; ++i) bytes += messages_[i].bytes;
  return bytes < kShortBytes;
}

}  // namespace paceline::schedule
