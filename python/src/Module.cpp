//===- Module.cpp - rlx._rlx ----------------------------------------------===//
#include "Objects.h"

using namespace rlxpy;

NB_MODULE(_rlx, module) {
  // Objects that outlive the interpreter are no news for the user.
  nb::set_leak_warnings(false);
  importNumpy();
  defineModel(module);
  defineExecutable(module);
  module.def("version", rlx_version);
  module.def("forked", [] { forked(); });
  module.def("end", [] { end(); });
}
