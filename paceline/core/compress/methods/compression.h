// A user's choice of compression: a method, its settings, and the tensors that it applies to.
#pragma once

#include <string>
#include <vector>

#include "paceline/core/compress/methods/method_catalogue.h"

namespace paceline::compress {

struct Compression {
  Method method;
  Settings settings;
  // Tensors of fewer bytes travel whole (BytePS's limit), and so do vectors: biases and norms.
  std::size_t min_compress_bytes = 65536;
  // Alternative settings, of which one is chosen for each tensor every `choose_every` steps
  // (ratio_choice.h, schedule/adapt/chosen_offers.h). `settings` is the first of them; its error is
  // the limit for all tensors together. Empty: there is no choice.
  std::vector<Settings> menu = {};
  std::size_t choose_every = 200;

  bool compresses(const AveragedTensor& part) const;
  // Whether a part travels as it is: it is not to be compressed, and the method's substitute for
  // such parts keeps their length.
  bool leaves_whole(const AveragedTensor& part, int offer) const;
  // The number of a tensor's offers: those of the menu and, as the last, to travel whole.
  int offers() const { return menu.empty() ? 1 : static_cast<int>(menu.size()) + 1; }
  bool is_whole(int offer) const { return !menu.empty() && offer + 1 == offers(); }
  // Makes the averaging of one tensor: the method with that offer's settings, or the substitute for
  // small tensors. THROWS misuse: settings that do not fit the part, for example sums of too few
  // bits for its ranks.
  std::unique_ptr<Averaging> averaging(const AveragedTensor& part, int offer = 0) const;
  // "top_k:ratio=0.01" with all settings; "ratio=0.01/0.001" if there is a menu.
  std::string text() const;
  // The text with only that offer's settings. REQUIRES: !is_whole(offer).
  std::string text_of_offer(int offer) const;
};

// Parses "NAME" or "NAME:SETTING=VALUE,SETTING=VALUE", for example "power_sgd:rank=4";
// min_compress_bytes is a setting of every method. One setting may have several values, as in
// "power_sgd:rank=4/1/2/8": a menu, which most methods whose results are means allow; choose_every
// is then a setting too. A failure says what is wrong and lists the valid names.
Result<Compression> parse_compression(std::string_view text, const Catalogue& methods);

// Whether the built-in method of that text needs_whole_tensors. Other texts: no.
bool needs_whole_tensors(std::string_view text);

}  // namespace paceline::compress
