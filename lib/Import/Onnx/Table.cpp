//===- Table.cpp - every operator the importer knows ----------------------===//
#include "Node.h"

#include "rlx/Import/Onnx.h"

#include "llvm/ADT/STLExtras.h"

using namespace rlx;
using namespace rlx::onnx_import;

static ArrayRef<ArrayRef<OpEntry>> groups() {
  static const ArrayRef<OpEntry> all[] = {elementwiseOps(), activationOps(),  shapeOps(),         movementOps(),
                                          contractionOps(), reductionOps(),   normalisationOps(), attentionOps(),
                                          randomOps(),      quantizationOps()};
  return all;
}

const OpEntry *rlx::onnx_import::findOp(StringRef type, int opset, bool &known) {
  known = false;
  for (ArrayRef<OpEntry> group : groups())
    for (const OpEntry &entry : group) {
      if (type != entry.type)
        continue;
      known = true;
      if (opset >= entry.since && (entry.until == 0 || opset <= entry.until))
        return &entry;
    }
  return nullptr;
}

std::vector<std::string> rlx::listOnnxOps() {
  std::vector<std::string> lines;
  for (ArrayRef<OpEntry> group : groups())
    for (const OpEntry &entry : group)
      lines.push_back(std::string(entry.type) + " " + std::to_string(entry.since) +
                      (entry.until ? "-" + std::to_string(entry.until) : "+"));
  llvm::sort(lines);
  return lines;
}
