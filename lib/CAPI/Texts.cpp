//===- Texts.cpp - what infos point to ------------------------------------===//
#include "Texts.h"

using namespace rlx;
using namespace rlx::capi;

const char *Texts::text(std::string_view text) { return strings.emplace_back(text).c_str(); }

const char *const *Texts::texts(const std::vector<std::string> &texts) {
  std::vector<const char *> pointers;
  for (const std::string &one : texts)
    pointers.push_back(text(one));
  return array(std::move(pointers));
}

const rlx_phase *Texts::phases(const PhaseTimes &times) {
  std::vector<rlx_phase> phases;
  for (const auto &[name, ms] : times)
    phases.push_back({text(name), ms});
  return array(std::move(phases));
}

rlx_binding Texts::binding(const Binding &binding) {
  std::vector<rlx_size> sizes;
  for (const auto &[name, size] : binding)
    sizes.push_back({text(name), size});
  return {array(std::move(sizes)), binding.size()};
}
