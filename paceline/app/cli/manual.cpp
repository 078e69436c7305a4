#include "paceline/app/cli/manual.h"

#include <fmt/format.h>

#include <algorithm>

#include <CLI/App.hpp>

namespace paceline::cli {
namespace {

// Escapes backslashes, and the characters that have a meaning at the start of a line.
std::string roff(std::string_view text) {
  std::string escaped;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) escaped += "\\&";
    if (c == '\\') escaped += "\\e";
    else if (c == '-') escaped += "\\-";
    else escaped += c;
    line_begins = c == '\n';
  }
  return escaped;
}

std::string upper(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return result;
}

std::string title(std::string_view page, std::string_view version, std::string_view date) {
  return fmt::format(".TH {} 1 {} \"Paceline {}\" \"Paceline\"\n", upper(page), date, version);
}

std::vector<const CLI::Option*> own_options(const CLI::App& app) {
  return app.get_options([](const CLI::Option* option) {
    return !option->get_group().empty() && option->nonpositional();
  });
}

// Subcommands of the subcommand.
std::vector<const CLI::App*> parts_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

// "paceline bench collective" -> "collective"
std::string part_name(const CLI::App& part) {
  const std::string& name = part.get_name();
  return name.substr(name.rfind(' ') + 1);
}

std::string part_names(const CLI::App& app) {
  std::string names;
  for (const CLI::App* part : parts_of(app)) names += (names.empty() ? "" : " ") + part_name(*part);
  return names;
}

// The app's own options and those of its parts, each name once.
std::vector<const CLI::Option*> shown_options(const CLI::App& app) {
  auto options = own_options(app);
  for (const CLI::App* part : parts_of(app)) {
    for (const CLI::Option* option : own_options(*part)) {
      const auto same = [&](const CLI::Option* o) { return o->get_name() == option->get_name(); };
      if (std::ranges::none_of(options, same)) options.push_back(option);
    }
  }
  return options;
}

bool takes_value(const CLI::Option& option) {
  return option.get_items_expected_max() > 0;
}

std::string options_of(const CLI::App& app) {
  std::string text;
  for (const CLI::Option* option : own_options(app)) {
    text += fmt::format(
        ".TP\n\\fB{}\\fR{}\n{}\n", roff(option->get_name(false, true)),
        takes_value(*option) ? fmt::format(" \\fI{}\\fR", roff(option->get_type_name())) : "",
        roff(option->get_description()));
    if (!option->get_envname().empty())
      text += fmt::format(".br\nAlso read from {}.\n", roff(option->get_envname()));
  }
  return text;
}

std::string words_of(const CLI::App& app) {
  std::string words;
  for (const CLI::Option* option : shown_options(app)) {
    for (const auto& name : option->get_lnames()) words += (words.empty() ? "--" : " --") + name;
    for (const auto& name : option->get_snames()) words += (words.empty() ? "-" : " -") + name;
  }
  return words;
}

std::string names_of(std::span<const Described> subcommands) {
  std::string names;
  for (const auto& subcommand : subcommands)
    names += (names.empty() ? "" : " ") + std::string(subcommand.name);
  return names;
}

// After the subcommand's own options comes a program: files complete.
std::string bash(std::span<const Described> subcommands) {
  std::string cases;
  for (const auto& subcommand : subcommands) {
    cases += fmt::format("    {}) words='{}' parts='{}' ;;\n", subcommand.name,
                         words_of(*subcommand.app), part_names(*subcommand.app));
  }
  return fmt::format(
      "_paceline() {{\n"
      "  local current=\"${{COMP_WORDS[COMP_CWORD]}}\" words='' parts=''\n"
      "  if [[ $COMP_CWORD == 1 ]]; then\n"
      "    mapfile -t COMPREPLY < <(compgen -W '{} --help --version' -- \"$current\")\n"
      "    return\n"
      "  fi\n"
      "  case \"${{COMP_WORDS[1]}}\" in\n{}  esac\n"
      "  if [[ $current == -* ]]; then mapfile -t COMPREPLY < <(compgen -W \"$words\" -- "
      "\"$current\")\n"
      "  elif [[ $COMP_CWORD == 2 && $parts ]]; then mapfile -t COMPREPLY < <(compgen -W "
      "\"$parts\" -- \"$current\")\n"
      "  else mapfile -t COMPREPLY < <(compgen -f -- \"$current\"); fi\n"
      "}}\n"
      "complete -o filenames -F _paceline paceline\n",
      names_of(subcommands), cases);
}

// Quotes for use inside '...' of zsh's _arguments and fish's complete.
std::string quoted(std::string_view text, std::string_view also) {
  std::string result;
  for (const char c : text) {
    if (c == '\n') result += ' ';
    else if (c == '\'') result += "’";
    else if (also.find(c) != std::string_view::npos) result += {'\\', c};
    else result += c;
  }
  return result;
}

std::string zsh(std::span<const Described> subcommands) {
  std::string names, cases;
  for (const auto& subcommand : subcommands) {
    names += fmt::format(" '{}:{}'", subcommand.name, quoted(subcommand.summary, ":"));
    cases += fmt::format("    {}) _arguments", subcommand.name);
    for (const CLI::Option* option : shown_options(*subcommand.app)) {
      const std::string value =
          takes_value(*option) ? ":" + quoted(option->get_type_name(), "[]:") + ":_files" : "";
      for (const auto& name : option->get_lnames()) {
        cases +=
            fmt::format(" '--{}[{}]{}'", name, quoted(option->get_description(), "[]:"), value);
      }
    }
    const std::string parts = part_names(*subcommand.app);
    if (!parts.empty()) cases += fmt::format(" '1:subcommand:({})'", parts);
    cases += " '*:file:_files' ;;\n";
  }
  return fmt::format(
      "#compdef paceline\n"
      "_paceline() {{\n"
      "  local -a subcommands=({})\n"
      "  if (( CURRENT == 2 )); then _describe subcommand subcommands; return; fi\n"
      "  shift words; (( CURRENT-- ))\n"
      "  case $words[1] in\n{}  esac\n"
      "}}\n"
      "_paceline \"$@\"\n",
      names, cases);
}

std::string fish(std::span<const Described> subcommands) {
  std::string text;
  for (const auto& subcommand : subcommands) {
    text += fmt::format("complete -c paceline -n __fish_use_subcommand -a {} -d '{}'\n",
                        subcommand.name, quoted(subcommand.summary, "\\"));
    if (const std::string parts = part_names(*subcommand.app); !parts.empty()) {
      text += fmt::format("complete -c paceline -n '__fish_seen_subcommand_from {}' -a '{}'\n",
                          subcommand.name, parts);
    }
    for (const CLI::Option* option : shown_options(*subcommand.app)) {
      for (const auto& name : option->get_lnames()) {
        text += fmt::format(
            "complete -c paceline -n '__fish_seen_subcommand_from {}' -l {}{} -d '{}'\n",
            subcommand.name, name, takes_value(*option) ? " -r" : "",
            quoted(option->get_description(), "\\"));
      }
    }
  }
  return text;
}

}  // namespace

std::string man_page(const Described& subcommand, std::string_view version, std::string_view date) {
  const CLI::App& app = *subcommand.app;
  std::string usage = app.help();
  usage = usage.substr(usage.find("Usage: ") + 7);
  usage = usage.substr(0, usage.find('\n'));
  std::string parts;
  for (const CLI::App* part : parts_of(app)) {
    parts +=
        fmt::format(".SH {}\n{}\n{}.PP\n.nf\n{}\n.fi\n", upper(part_name(*part)),
                    roff(part->get_description()), options_of(*part), roff(part->get_footer()));
  }
  return title(fmt::format("paceline-{}", subcommand.name), version, date) +
         fmt::format(".SH NAME\npaceline\\-{} \\- {}\n", roff(subcommand.name),
                     roff(subcommand.summary)) +
         fmt::format(".SH SYNOPSIS\n.B {}\n", roff(usage)) +
         fmt::format(".SH DESCRIPTION\n{}\n", roff(app.get_description())) + ".SH OPTIONS\n" +
         options_of(app) + parts +
         fmt::format(".SH MORE\n.nf\n{}\n.fi\n.SH SEE ALSO\n.BR paceline (1)\n",
                     roff(app.get_footer()));
}

std::string man_page(std::span<const Described> subcommands, std::string_view version,
                     std::string_view date) {
  std::string text = title("paceline", version, date) +
                     ".SH NAME\npaceline \\- trains one network on many processes\n"
                     ".SH SYNOPSIS\n.B paceline\n.I SUBCOMMAND\n[options]\n.SH SUBCOMMANDS\n";
  for (const auto& subcommand : subcommands) {
    text += fmt::format(".TP\n.BR paceline\\-{} (1)\n{}\n", roff(subcommand.name),
                        roff(subcommand.summary));
  }
  return text +
         ".SH OPTIONS\n.TP\n.B \\-\\-completion SHELL\nprint a completion script for bash, zsh or "
         "fish\n"
         ".TP\n.B \\-\\-man [SUBCOMMAND]\nprint this page or a subcommand's, for man(1)\n"
         ".TP\n.B \\-\\-version\nprint the version of Paceline\n";
}

const std::vector<std::string>& shells() {
  static const std::vector<std::string> names = {"bash", "zsh", "fish"};
  return names;
}

std::string completion(std::string_view shell, std::span<const Described> subcommands) {
  if (shell == "bash") return bash(subcommands);
  return shell == "zsh" ? zsh(subcommands) : fish(subcommands);
}

}  // namespace paceline::cli
