//===- Statistics.cpp - what a cache of bindings did ----------------------===//
#include "rlx/Runtime/Statistics.h"

using namespace rlx;

void rlx::addTime(PhaseTimes &times, const std::string &phase, double ms) {
  for (auto &[name, total] : times) {
    if (name == phase) {
      total += ms;
      return;
    }
  }
  times.emplace_back(phase, ms);
}

const char *rlx::originName(Origin origin) {
  switch (origin) {
  case Origin::Hit:
    return "hit";
  case Origin::Instantiated:
    return "instantiated";
  case Origin::NewTemplate:
    return "new";
  }
  return "?";
}

const char *rlx::bindingStateName(BindingState state) {
  switch (state) {
  case BindingState::Ready:
    return "ready";
  case BindingState::Making:
    return "making";
  case BindingState::Queued:
    return "queued";
  }
  return "?";
}

std::string rlx::bindingString(const Binding &binding) {
  std::string text = "{";
  for (const auto &[name, size] : binding)
    text += (text.size() > 1 ? ", " : "") + name + "=" + std::to_string(size);
  return text + "}";
}

std::string MissReport::text() const {
  std::string text = bindingString(binding) + ": ";
  if (first) {
    text += "the first run";
  } else {
    for (size_t i = 0; i != changes.size(); ++i)
      text += (i ? ", " : "") + ("dim '" + changes[i].dim + "' changed from " + std::to_string(changes[i].from)) +
              " to " + std::to_string(changes[i].to);
    if (changes.empty())
      text += "the same sizes as the run before";
  }
  if (evicted)
    text += "; it had been evicted";
  if (!error.empty())
    return text + "; error: " + error;
  if (!made)
    return text + "; it is not made yet";
  text += origin == Origin::Instantiated ? "; instantiated from a template it had" : "; a new template was made";
  for (const std::string &guard : guardsFailed)
    text += "\n  does not hold here: " + guard;
  return text;
}

std::string Forecast::text() const {
  std::string text = bindingString(binding) + ": ";
  switch (kind) {
  case Kind::Hit:
    return text + "is there";
  case Kind::Making:
    return text + "is being made";
  case Kind::Instantiate:
    return text + "would be instantiated from a template there is";
  case Kind::Error:
    return text + "error: " + error;
  case Kind::NewTemplate:
    break;
  }
  text += "needs a new template";
  for (const std::string &guard : guardsFailed)
    text += "\n  does not hold here: " + guard;
  return text;
}
