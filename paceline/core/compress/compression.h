// How gradients are compressed, as a user says it: a method and its settings, and which tensors it
// is for.
#pragma once

#include <string>
#include <vector>

#include "paceline/core/compress/method_catalogue.h"

namespace paceline::compress {

struct Compression {
  Method method;
  Settings settings;
  // Shorter tensors travel whole (BytePS's limit), and so do vectors: biases and norms.
  std::size_t min_compress_bytes = 65536;
  // What a tensor may be compressed by instead, chosen tensor by tensor and anew every so many
  // steps (ratio_choice.h, schedule/chosen_offers.h). `settings` is the first, whose loss all may
  // have together. Empty: there is nothing to choose.
  std::vector<Settings> menu = {};
  std::size_t choose_every = 200;

  bool compresses(const Part& part) const;
  // Of a tensor: the menu's and, last, to travel whole.
  int offers() const { return menu.empty() ? 1 : static_cast<int>(menu.size()) + 1; }
  bool is_whole(int offer) const { return !menu.empty() && offer + 1 == offers(); }
  // For one tensor: the method's by that offer, or what small ones get. THROWS misuse: settings
  // that do not fit the part, as sums in too few bits for its ranks.
  std::unique_ptr<Averaging> averaging(const Part& part, int offer = 0) const;
  // "top_k:ratio=0.01", with all settings; "ratio=0.01/0.001" where there is a menu.
  std::string text() const;
  // With that offer's settings alone. REQUIRES: !is_whole(offer).
  std::string text_of_offer(int offer) const;
};

// "NAME" or "NAME:SETTING=VALUE,SETTING=VALUE", as in "power_sgd:rank=4"; min_compress_bytes is a
// setting of every method. One setting may have several values, as in "power_sgd:rank=4/1/2/8": a
// menu, for most methods whose results are means; choose_every is a setting then. A failure says
// what is wrong and what there is.
Result<Compression> parse_compression(std::string_view text, const Catalogue& methods);

}  // namespace paceline::compress
