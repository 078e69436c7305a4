#include "paceline/app/cli/programs/drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "paceline/app/cli/programs/drawing_plan.h"

namespace paceline::cli {

using namespace collective;
namespace {

constexpr std::size_t kMostLabels = 700;    // more arrows than this have no labels
constexpr std::size_t kLongestLabel = 11;   // characters
constexpr double kCharacter = 5.7;          // the width of one
constexpr double kLeft = 56, kHeader = 96;  // where the columns begin
constexpr double kGap = 10;                 // between two rounds
constexpr double kMarkHeight = 18;
constexpr double kSymbol = 5;  // radius

constexpr const char* kDrawingStyle = R"(<style>
.paper{fill:#ffffff}.ink{fill:#24292f}.faint{fill:#6e7781}.band{fill:#818b98;fill-opacity:.08}
.life{stroke:#afb8c1;stroke-width:1}.message,.sample{stroke-width:1.4}.many .message{stroke-width:1;opacity:.75}.store{stroke-dasharray:5 2}
.label{fill:#24292f;stroke:#ffffff;stroke-width:3;paint-order:stroke}
.symbol{fill:#ffffff;stroke:#24292f;stroke-width:1.2}.complete{fill:#2da44e;stroke:#2da44e}.plus{stroke:#24292f;stroke-width:1.2}.done{stroke:#ffffff;stroke-width:1.4}
@media (prefers-color-scheme:dark){
.paper{fill:#0d1117}.ink{fill:#e6edf3}.faint{fill:#8b949e}.life{stroke:#484f58}
.label{fill:#e6edf3;stroke:#0d1117}.symbol{fill:#0d1117;stroke:#e6edf3}.plus{stroke:#e6edf3}}
</style>
)";

constexpr const char* kSymbols = R"(<defs>
<g id="adds"><circle class="symbol" r="5"/><path class="plus" d="M-3 0H3M0-3V3"/></g>
<g id="completes"><circle class="complete" r="5"/><path class="done" d="M-3 0H3M0-3V3"/></g>
<rect id="copies" class="symbol" x="-3.5" y="-3.5" width="7" height="7"/>
</defs>
)";

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '&') result += "&amp;";
    else if (c == '<') result += "&lt;";
    else if (c == '>') result += "&gt;";
    else result += c;
  }
  return result;
}

double width_of(std::string_view text) {
  return kCharacter * static_cast<double>(text.size());
}

std::string shortened(std::string text) {
  if (text.size() <= kLongestLabel) return text;
  return text.substr(0, kLongestLabel - 2) + "..";
}

// 12.0 -> "12", 12.34 -> "12.3"
std::string coordinate(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

std::string use(std::string_view symbol, double x, double y) {
  return fmt::format("<use href=\"#{}\" x=\"{}\" y=\"{}\"/>", symbol, coordinate(x), coordinate(y));
}

std::string text_at(double x, double y, std::string_view look, std::string_view text) {
  return fmt::format("<text x=\"{}\" y=\"{}\" {}>{}</text>", coordinate(x), coordinate(y), look,
                     escaped(text));
}

std::string colour_of(int chunk, int chunks) {
  return fmt::format("hsl({},62%,48%)", (210 + 360 * chunk / std::max(1, chunks)) % 360);
}

class Picture {
 public:
  Picture(std::span<const Program> programs, const Rendezvous& meeting, const Caption& caption)
      : plan_(plan_drawing(programs, meeting)),
        caption_(caption),
        ranks_(static_cast<int>(programs.size())),
        chunks_(programs.empty() ? 0 : programs[0].chunks),
        has_labels_(plan_.arrows.size() <= kMostLabels) {
    lane_height_ = has_labels_ ? 24 : 14;
    column_ = column_width();
    place_times();
  }

  std::string text() {
    std::string body =
        time_bands() + lifelines() + fmt::format("<g{}>\n", has_labels_ ? "" : " class=\"many\"");
    for (const Arrow& arrow : plan_.arrows) body += drawn(arrow);
    body += sums();
    for (const Mark& mark : plan_.marks) body += drawn(mark);
    const std::string key = legend();
    const double width =
        std::max({kLeft + column_ * ranks_ + 12, legend_width_ + 12,
                  24 + 1.6 * width_of(caption_.title), 24 + 1.2 * width_of(caption_.subtitle)});
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 "
               "0 {0} {1}\" font-family=\"system-ui,sans-serif\" font-size=\"10\" role=\"img\">\n"
               "<title>{2}</title>\n<metadata>{3}</metadata>\n",
               coordinate(width), coordinate(bottom_ + 12), escaped(caption_.title),
               escaped(caption_.made_by)) +
           kDrawingStyle + kSymbols + "<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n" +
           text_at(12, 24, "class=\"ink\" font-size=\"15\" font-weight=\"600\"", caption_.title) +
           text_at(12, 42, "class=\"faint\" font-size=\"11\"", caption_.subtitle) + "\n" + key +
           body + "</g>\n</svg>\n";
  }

 private:
  double column_width() const {
    if (!has_labels_) return 30;
    std::size_t longest = 1;
    for (const Arrow& arrow : plan_.arrows)
      longest = std::max(longest, label_of(arrow.chunks).size());
    return std::max(52.0, 28 + 2 * kCharacter * static_cast<double>(longest));
  }

  void place_times() {
    std::vector<bool> has_marks(plan_.lanes.size(), false);
    for (const Mark& mark : plan_.marks)
      if (mark.time >= 0) has_marks[static_cast<std::size_t>(mark.time)] = true;
    double y = kHeader + 14;
    for (std::size_t time = 0; time < plan_.lanes.size(); ++time) {
      tops_.push_back(y);
      y += lane_height_ * plan_.lanes[time] + (has_marks[time] ? kMarkHeight : 0) + kGap;
    }
    tops_.push_back(y);
    bottom_ = y;
    int round = 0;
    for (const int lanes : plan_.lanes)
      times_.push_back(lanes > 0 ? fmt::format("round {}", round++) : "locally");
  }

  double x_of(int rank) const { return kLeft + column_ * (rank + 0.5); }
  double top_of(int time) const { return tops_[static_cast<std::size_t>(time)]; }
  // Rounds with messages have numbers, as the costs count them.
  const std::string& name_of_time(int time) const { return times_[static_cast<std::size_t>(time)]; }
  std::string label_of(const std::vector<int>& chunks) const {
    return shortened(chunk_list(chunks));
  }

  std::string time_bands() const {
    std::string text;
    for (int time = 0; time + 1 < static_cast<int>(tops_.size()); ++time) {
      const double top = top_of(time) - kGap / 2, height = top_of(time + 1) - top_of(time);
      if (time % 2 == 0)
        text += fmt::format("<rect class=\"band\" y=\"{}\" width=\"100%\" height=\"{}\"/>\n",
                            coordinate(top), coordinate(height));
      text += text_at(12, top + height / 2 + 3, "class=\"faint\"", name_of_time(time)) + "\n";
    }
    return text;
  }

  std::string lifelines() const {
    std::string text;
    for (int rank = 0; rank < ranks_; ++rank) {
      text +=
          fmt::format("<path class=\"life\" d=\"M{} {}V{}\"/>", coordinate(x_of(rank)),
                      coordinate(kHeader + 4), coordinate(bottom_)) +
          text_at(x_of(rank), kHeader, "class=\"ink\" text-anchor=\"middle\" font-weight=\"600\"",
                  fmt::format("{}{}", column_ < 40 ? "" : "rank ", rank)) +
          "\n";
    }
    return text;
  }

  // A line and its head, which ends before the symbol at its target.
  std::string shaft_and_head(double x1, double y1, double x2, double y2, double short_of,
                             bool stores) const {
    const double length = std::hypot(x2 - x1, y2 - y1);
    const double dx = (x2 - x1) / length, dy = (y2 - y1) / length;
    const double tip_x = x2 - short_of * dx, tip_y = y2 - short_of * dy;
    const double back_x = tip_x - 6 * dx, back_y = tip_y - 6 * dy;
    const std::string shaft = fmt::format("M{} {}L{} {}", coordinate(x1), coordinate(y1),
                                          coordinate(back_x), coordinate(back_y));
    const std::string head =
        fmt::format("M{} {}L{} {}L{} {}Z", coordinate(back_x - 2.6 * dy),
                    coordinate(back_y + 2.6 * dx), coordinate(tip_x), coordinate(tip_y),
                    coordinate(back_x + 2.6 * dy), coordinate(back_y - 2.6 * dx));
    return stores ? fmt::format("<path class=\"store\" d=\"{}\"/><path d=\"{}\"/>", shaft, head)
                  : fmt::format("<path d=\"{}{}\"/>", shaft, head);
  }

  std::string drawn(const Arrow& arrow) const {
    const double top = top_of(arrow.time) + lane_height_ * arrow.lane;
    const double y1 = top + (has_labels_ ? 9 : 3), y2 = top + lane_height_ - 4;
    const double x1 = x_of(arrow.from), x2 = x_of(arrow.to);
    const std::string colour = colour_of(arrow.chunks.front(), chunks_);
    std::string text = fmt::format(
        "<g class=\"message\" stroke=\"{0}\" fill=\"{0}\"><title>{1}: rank {2} {3} rank {4}: "
        "chunk {5}{6}</title>{7}",
        colour, name_of_time(arrow.time), arrow.from, arrow.stores ? "stores to" : "sends to",
        arrow.to, chunk_list(arrow.chunks), arrow.reduces ? ", which adds it" : "",
        shaft_and_head(x1, y1, x2, y2, arrow.reduces ? kSymbol : 0, arrow.stores));
    if (has_labels_) {
      const bool to_the_right = x2 > x1;
      text +=
          text_at(x1 + (to_the_right ? 5 : -5), y1 - 1,
                  fmt::format("class=\"label\" text-anchor=\"{}\"", to_the_right ? "start" : "end"),
                  label_of(arrow.chunks));
    }
    return text + "</g>\n";
  }

  // The sums are drawn above all lines.
  std::string sums() const {
    std::string text;
    for (const Arrow& arrow : plan_.arrows) {
      if (!arrow.reduces) continue;
      const double y = top_of(arrow.time) + lane_height_ * (arrow.lane + 1) - 4;
      text += use(arrow.completes ? "completes" : "adds", x_of(arrow.to), y) + "\n";
    }
    return text;
  }

  std::string drawn(const Mark& mark) const {
    const double y = mark.time < 0 ? kHeader + 14 - kGap / 2
                                   : top_of(mark.time + 1) - kGap - kMarkHeight / 2 + 2;
    const double x = x_of(mark.rank);
    const char* symbol = mark.completes ? "completes" : mark.reduces ? "adds" : "copies";
    std::string text = fmt::format("<g class=\"local\"><title>rank {} {} chunk {}</title>{}",
                                   mark.rank, mark.reduces ? "adds up" : "copies",
                                   chunk_list(mark.chunks), use(symbol, x, y));
    if (has_labels_) text += text_at(x + 8, y + 3.5, "class=\"label\"", label_of(mark.chunks));
    return text + "</g>\n";
  }

  struct Entry {
    bool occurs = false;
    std::string drawing;  // around the origin, to the right
    double width = 0;
    std::string_view meaning;
  };

  std::vector<Entry> entries() const {
    const auto arrows = [&](auto is) { return std::ranges::any_of(plan_.arrows, is); };
    const auto marks = [&](auto is) { return std::ranges::any_of(plan_.marks, is); };
    const auto adds = [](const auto& a) { return a.reduces && !a.completes; };
    const auto completes = [](const auto& a) { return a.completes; };
    const auto stores = [](const Arrow& arrow) { return arrow.stores; };
    const auto copies = [](const Mark& mark) { return !mark.reduces && !mark.completes; };
    const auto sample = [&](bool is_store) {
      return fmt::format("<g class=\"sample\" stroke=\"{0}\" fill=\"{0}\">{1}</g>", colour_of(0, 1),
                         shaft_and_head(0, 0, 24, 0, 0, is_store));
    };
    return {
        {arrows(std::not_fn(stores)), sample(false), 24,
         has_labels_ ? "sends the chunk of this number" : "sends a chunk: rest on it to see which"},
        {arrows(stores), sample(true), 24, "stores it into the output"},
        {arrows(adds) || marks(adds), use("adds", 5, 0), 10, "adds"},
        {arrows(completes) || marks(completes), use("completes", 5, 0), 10, "adds the last part"},
        {marks(copies), use("copies", 5, 0), 10, "copies"}};
  }

  // The legend explains the symbols of this picture, and no others.
  std::string legend() {
    std::string text;
    double x = 12;
    for (const Entry& entry : entries()) {
      if (!entry.occurs) continue;
      text +=
          fmt::format("<g transform=\"translate({},64)\">{}</g>", coordinate(x), entry.drawing) +
          text_at(x + entry.width + 5, 67.5, "class=\"faint\"", entry.meaning) + "\n";
      x += entry.width + 5 + width_of(entry.meaning) + 14;
    }
    legend_width_ = x;
    return text;
  }

  DrawingPlan plan_;
  Caption caption_;
  int ranks_;
  int chunks_;
  bool has_labels_;
  double lane_height_ = 0;
  double column_ = 0;
  std::vector<double> tops_;        // by time; the last one is the end
  std::vector<std::string> times_;  // their names
  double bottom_ = 0;
  double legend_width_ = 0;
};

}  // namespace

std::string draw(std::span<const Program> programs, const Rendezvous& meeting,
                 const Caption& caption) {
  return Picture(programs, meeting, caption).text();
}

}  // namespace paceline::cli
