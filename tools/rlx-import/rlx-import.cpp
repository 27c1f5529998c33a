//===- rlx-import.cpp - an ONNX file into an .mlir file -------------------===//
//
// Flags and printing only.
//
//===----------------------------------------------------------------------===//
#include "rlx/Import/ModuleIO.h"
#include "rlx/Import/Onnx.h"
#include "rlx/Tools/CommandLine.h"

#include "mlir/IR/MLIRContext.h"

#include <cstdio>
#include <filesystem>

using namespace rlx;
using namespace rlx::tools;

int main(int argc, char **argv) {
  CLI::App app("Reads an ONNX model and writes it in the rlx dialect: a .mlir file of text, and the weights beside it\n"
               "as .safetensors. Sizes that the model leaves open become named dims, shape arithmetic becomes\n"
               "expressions of them. Nothing is written when anything in the model is not supported; the error lists\n"
               "all of it.\n\n"
               "  rlx-import model.onnx -o model.mlir      writes model.mlir and model.safetensors\n"
               "  rlx-import --list-ops                    lists the operators it knows, with their opsets",
               "rlx-import");
  std::string input, output, weights;
  bool dynamic = false, listOps = false;
  app.add_option("MODEL", input, "The model, opset 7 or later. External data is read from its folder.");
  app.add_option("-o,--output", output, "The .mlir file to write.");
  app.add_option("--weights", weights, "Where the weights go (default: beside the output, as .safetensors).");
  app.add_flag("--dynamic", dynamic, "Give every dim of every input a name, also those with a fixed size.");
  app.add_flag("--list-ops", listOps, "List the operators that can be imported, and leave.");
  if (std::optional<int> code = parseFlags(app, argc, argv))
    return *code;

  if (listOps) {
    for (const std::string &line : listOnnxOps())
      std::printf("%s\n", line.c_str());
    return 0;
  }
  if (input.empty())
    return fail(app, "no model is given (see --help)");
  if (output.empty())
    return fail(app, "no output file is given: -o FILE (see --help)");
  // Keeps the model itself, and whatever else is there, from being replaced by mistake.
  if (!output.ends_with(".mlir"))
    return fail(app, "-o " + output + ": the output's name ends in .mlir");
  if (std::error_code failure; !weights.empty() && std::filesystem::equivalent(input, weights, failure))
    return fail(app, "--weights " + weights + ": this is the model");

  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  ImportOptions options;
  options.dynamicInputs = dynamic;
  Result<ImportedModel> model = importOnnx(context, input, options);
  if (!model)
    return fail(app, model.error());
  for (const std::string &warning : model->warnings)
    std::fprintf(stderr, "rlx-import: warning: %s\n", warning.c_str());
  if (Status status = writeModule(*model->module, *model->weights, output, weights); !status)
    return fail(app, status.error());
  return 0;
}
